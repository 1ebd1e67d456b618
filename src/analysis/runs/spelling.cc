#include "hooked/analysis/spelling.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/token_ranks.h"
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

/// An answer that was given as a text and has another spelling.
struct Spelled {
  std::string text;
  OtherSpelling spelling;
  Position position;  ///< after which it is asked for
  std::int64_t row;   ///< for which it was given first
};

std::vector<Spelled> spelled_twice(const HookedTransformer& model, const Metrics& metrics) {
  constexpr std::size_t kMost = 4;  // of a file with many answers, these suffice
  std::vector<Spelled> all;
  std::set<std::string> seen;
  for (const Metric& metric : metrics) {
    const auto& definition = metric.definition();
    for (const Answers& answers : definition.answers) {
      for (const auto& [text, row] : answers.texts()) {
        if (all.size() == kMost || !seen.insert(text).second) continue;
        auto spelling = other_spelling(model, text);
        if (!spelling || std::max(spelling->token, spelling->other_token) >= model.config().d_vocab_out())
          continue;
        all.push_back({text, std::move(*spelling),
                       definition.positions.empty() ? Position::last() : definition.positions.front(), row});
      }
    }
  }
  return all;
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
                                        const Metrics& metrics, const RunOptions& options) {
  if (!model.config().has_unembedding() || !model.has_tokenizer()) return {};
  const std::vector<Spelled> all = spelled_twice(model, metrics);
  if (all.empty()) return {};
  std::vector<Position> positions;
  for (const Spelled& answer : all) positions.push_back(answer.position);
  const at::Tensor logits = logits_at(model, input, positions, options);  // [row, answer, vocab]
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [text, spelling, position, row] = all[i];
    const at::Tensor here = logits[row][static_cast<std::int64_t>(i)];
    const auto rank_of = [&here = here](std::int64_t token) {
      return token_ranks(here[token].unsqueeze(0), here).item<double>();  // NaN next to a NaN
    };
    const double own = rank_of(spelling.token), other = rank_of(spelling.other_token);
    if (text.starts_with(' ') && own <= other) continue;
    notes.push_back(fmt::format("the answer '{}' is token {}, of rank {}; '{}' is token {}, of rank {}: {}",
                                text, spelling.token, own, spelling.other, spelling.other_token, other,
                                text.starts_with(' ')
                                    ? "the one without a blank in front is likelier here"
                                    : "a word that follows another one has a blank in front"));
  }
  return notes;
}

}  // namespace hooked
