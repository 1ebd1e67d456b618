// Notes on texts of the command line: what stands around them, how they end, how an answer is spelled.
#include "cli/text_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/interrupt.h"
#include "cli/output.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/spelling.h"
#include "hooked/core/error.h"

namespace hooked::cli {
namespace {

// In a vocabulary of characters, a blank is always a token, and words come after it.
bool words_have_their_blank(const Tokenizer& tokenizer) {
  try {
    const auto ids = tokenizer.encode("a a").ids;
    return !ids.empty() && tokenizer.decoded_piece(ids.back()) == " a";
  } catch (const TokenizerError&) {  // a vocabulary without this letter
    return false;
  }
}

// The last token of a text, if it is only blanks.
std::optional<std::int64_t> blank_at_end(const Tokenizer& tokenizer, const std::string& text) {
  if (!text.ends_with(' ')) return std::nullopt;
  const auto ids = tokenizer.encode(text).ids;
  if (ids.empty()) return std::nullopt;
  const std::string piece = tokenizer.decoded_piece(ids.back());
  const bool blank = !piece.empty() && piece.find_first_not_of(' ') == std::string::npos;
  return blank ? std::optional(ids.back()) : std::nullopt;
}

}  // namespace

void note_around(const HookedTransformer& model, PrependBos choice) {
  if (choice != PrependBos::by_default || model.tokenizer().around()) return;
  const TokensAround around = model.tokens_around();
  if (around.before.empty()) return;
  print_notes({fmt::format("a text gets {} in front: {}; --prepend-bos file leaves it out",
                           model.tokenizer().printable_piece(around.before.front()), around.why)});
}

void note_blank_at_end(const HookedTransformer& model, const std::vector<std::string>& texts) {
  if (!model.has_tokenizer()) return;  // reading the texts says why
  const Tokenizer tokenizer = model.tokenizer();
  std::size_t count = 0;
  std::int64_t token = 0;
  for (const std::string& text : texts) {
    const auto blank = blank_at_end(tokenizer, text);
    if (!blank) continue;
    if (count == 0 && !words_have_their_blank(tokenizer)) return;
    token = *blank;
    ++count;
  }
  if (count == 0) return;
  print_notes(
      {fmt::format("{} in a blank that is a token of its own ({}): a word that follows has its blank "
                   "in front, so leave this one out",
                   texts.size() == 1 ? "the text ends"
                   : count == 1      ? fmt::format("1 of {} texts ends", texts.size())
                                     : fmt::format("{} of {} texts end", count, texts.size()),
                   token)});
}

std::vector<std::string> answer_notes(const std::vector<const TokenChoice*>& choices,
                                      const HookedTransformer& model, const Input& input,
                                      const Position& position, const Edits& edits) {
  std::vector<Metric> asked;
  for (const TokenChoice* choice : choices) {
    for (const std::string& text : choice->texts) asked.push_back(logit(Answers(text), position));
  }
  return spelling_notes(model, input, asked, {.hooks = interrupt_hook(), .edits = edits});
}

}  // namespace hooked::cli
