#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pipeline/charsmap.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

// Applies the rules (the longest that matches), escapes blanks, removes extra ones, and adds the dummy
// prefix: `Normalizer::Normalize` of SentencePiece, character by character.
class SentencePieceNormalizer : public Normalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceModel& model)
      : user_defined_(user_defined_pieces(model)),
        space_(model.escape_whitespaces ? kSpaceSymbol : " "),
        dummy_prefix_(model.add_dummy_prefix),
        as_suffix_(model.treat_whitespace_as_suffix),
        remove_extra_(model.remove_extra_whitespaces) {
    if (!model.precompiled_charsmap.empty()) rules_.emplace(model.precompiled_charsmap);
  }

  void apply(NormalizedString& text) const override;

 private:
  // The replacement of the beginning of a text.
  struct Chunk {
    std::string_view spelled;
    std::size_t length;  // bytes of the text
  };
  Chunk first_chunk(std::string_view text) const {
    std::size_t length = 0;
    user_defined_.for_each_prefix(text, [&](std::size_t bytes, std::int32_t) { length = bytes; });
    if (length > 0) return {text.substr(0, length), length};
    if (rules_) {
      if (const auto rule = rules_->longest(text)) return {rule->replacement, rule->length};
    }
    const auto character = first_char(text)->bytes;
    return {text.substr(0, character), character};
  }

  PieceTrie user_defined_;
  std::optional<Charsmap> rules_;
  std::string_view space_;
  bool dummy_prefix_;
  bool as_suffix_;
  bool remove_extra_;
};

// The text so far. Blanks at its end are withheld until it is known whether something follows them.
class Written {
 public:
  Written(NormalizedString into, std::string_view space, bool trimmed)
      : into_(std::move(into)), space_(space), trimmed_(trimmed) {}

  void add(std::string_view character, TextSpan origin) {
    if (trimmed_ && character == space_) {
      blanks_.push_back(origin);
      return;
    }
    flush();
    into_.append(character, origin);
  }
  void add_space(TextSpan origin) { add(space_, origin); }

  // Appends a run of bytes of `from` unchanged. Not for text whose blanks are trimmed.
  void copy(const NormalizedString& from, TextSpan run) { into_.append(from, run); }

  // Without the blanks at the end.
  NormalizedString& trimmed() {
    blanks_.clear();
    return into_;
  }

 private:
  void flush() {
    for (const auto& origin : blanks_) into_.append(space_, origin);
    blanks_.clear();
  }

  NormalizedString into_;
  std::string_view space_;
  bool trimmed_;
  std::vector<TextSpan> blanks_;
};

void SentencePieceNormalizer::apply(NormalizedString& text) const {
  const auto whole = text.text();
  std::size_t at = 0;
  while (remove_extra_ && at < whole.size()) {
    const auto chunk = first_chunk(whole.substr(at));
    if (chunk.spelled != " ") break;
    at += chunk.length;
  }
  if (at == whole.size()) {  // empty, or only blanks
    if (!whole.empty()) text = NormalizedString::empty(text.original(), 0);
    return;
  }
  const bool plain = !rules_ && !remove_extra_ && user_defined_.empty();
  Written written(NormalizedString::empty(text.original(), whole.size() + whole.size() / 2), space_,
                  remove_extra_);
  TextSpan origin = text.origin({at, at + first_chunk(whole.substr(at)).length});
  if (dummy_prefix_ && !as_suffix_) written.add_space(origin);
  bool after_space = remove_extra_;
  while (at < whole.size()) {
    if (plain && whole[at] != ' ') {
      const auto end = std::min(whole.find(' ', at), whole.size());
      written.copy(text, {at, end});
      at = end;
      continue;
    }
    auto [spelled, length] = first_chunk(whole.substr(at));
    origin = text.origin({at, at + length});
    while (after_space && spelled.starts_with(' ')) spelled.remove_prefix(1);
    for_each_character(spelled, [&](char32_t c, std::string_view bytes) {
      if (c == ' ') {
        written.add_space(origin);
      } else {
        written.add(bytes, origin);
      }
    });
    if (!spelled.empty()) after_space = remove_extra_ && spelled.ends_with(' ');
    at += length;
  }
  auto& result = written.trimmed();
  if (dummy_prefix_ && as_suffix_) result.append(space_, origin);
  text = std::move(result);
}

}  // namespace

std::unique_ptr<const Normalizer> make_sentencepiece_normalizer(const SentencePieceModel& model) {
  return std::make_unique<SentencePieceNormalizer>(model);
}

}  // namespace hooked::text
