#include "hooked/analysis/spelling.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <utility>

#include "hooked/analysis/metric.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

std::optional<std::int64_t> single_token(const HookedTransformer& model, std::string_view text) {
  if (text.empty()) return std::nullopt;
  try {
    return model.to_token(text);
  } catch (const TokenizerError&) {  // several tokens, or text outside the vocabulary
    return std::nullopt;
  }
}

}  // namespace

std::optional<OtherSpelling> other_spelling(const HookedTransformer& model, std::string_view text) {
  model.tokenizer();  // throws the reason if there is none
  std::string other(text.starts_with(' ') ? text.substr(1) : text);
  if (!text.starts_with(' ')) other.insert(0, " ");
  const auto own = single_token(model, text), with_other = single_token(model, other);
  if (!own || !with_other || *own == *with_other) return std::nullopt;
  return OtherSpelling{.token = *own, .other = std::move(other), .other_token = *with_other};
}

std::vector<std::string> spelling_notes(const HookedTransformer& model, const Input& input,
                                        const SpellingOptions& options) {
  std::vector<std::string> notes;
  if (options.answers.empty() || !model.config().has_unembedding()) return notes;
  const auto rank_of = [&](std::int64_t token, std::int64_t row) {
    const at::Tensor ranks = rank(token, options.position).score(model, input, {.edits = options.edits});
    return ranks[row].item<double>();
  };
  for (const auto& [text, row] : options.answers) {
    const auto found = other_spelling(model, text);
    if (!found) continue;
    const double own = rank_of(found->token, row), other = rank_of(found->other_token, row);
    if (text.starts_with(' ') && own <= other) continue;
    notes.push_back(fmt::format("the answer '{}' is token {}, of rank {}; '{}' is token {}, of rank {}: {}",
                                text, found->token, own, found->other, found->other_token, other,
                                text.starts_with(' ')
                                    ? "the one without a blank in front is likelier here"
                                    : "a word that follows another one has a blank in front"));
  }
  return notes;
}

}  // namespace hooked
