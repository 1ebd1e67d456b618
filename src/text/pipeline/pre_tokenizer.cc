#include "text/pipeline/pre_tokenizer.h"

#include <iterator>
#include <string>
#include <utility>

#include "core/utf8.h"
#include "text/strings/pattern.h"
#include "text/unicode/byte_characters.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

template <class Step, class... Arguments>
PreTokenizers one_step(const Arguments&... arguments) {
  PreTokenizers steps;
  steps.push_back(std::make_unique<Step>(arguments...));
  return steps;
}

DelimiterBehavior read_behavior(const ConfigReader& json) {
  static constexpr Named<DelimiterBehavior> kBehaviors[] = {
      {"Removed", DelimiterBehavior::removed},
      {"Isolated", DelimiterBehavior::isolated},
      {"MergedWithPrevious", DelimiterBehavior::merged_with_previous},
      {"MergedWithNext", DelimiterBehavior::merged_with_next},
      {"Contiguous", DelimiterBehavior::contiguous},
  };
  return json.one_of("behavior", kBehaviors);
}

// Puts a blank before every piece that does not begin with one.
class PrefixBlank : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override {
    bool needed = false;
    for (const auto& piece : text.pieces()) needed |= piece.id < 0 && text.text_of(piece).front() != ' ';
    if (!needed) return;
    text.rewrite([](const NormalizedString& from, TextSpan piece, NormalizedString& into) {
      if (from.text()[piece.begin] != ' ') {
        const auto first = first_char(from.text().substr(piece.begin))->bytes;
        into.append(" ", from.origin({piece.begin, piece.begin + first}));
      }
      into.append(from, piece);
    });
  }
};

// Spells each byte as one character (`byte_characters.h`).
class ByteSpelling : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override {
    text.rewrite([](const NormalizedString& from, TextSpan piece, NormalizedString& into) {
      const auto bytes = from.text();
      std::string spelled;
      for (auto at = piece.begin; at < piece.end; ++at) {
        spelled.clear();
        append_utf8(spelled, byte_character(static_cast<unsigned char>(bytes[at])));
        into.append(spelled, from.origin({at, at + 1}));
      }
    });
  }

  bool only_spells_bytes() const noexcept override { return true; }
};

// Cuts at the matches of a pattern, or (inverted) at the text between them.
class SplitAtPattern : public PreTokenizer {
 public:
  // Isolates the matches.
  explicit SplitAtPattern(Pattern pattern) : pattern_(std::move(pattern)) {}
  explicit SplitAtPattern(const ConfigReader& json)
      : pattern_(read_pattern(json.object("pattern"))),
        behavior_(read_behavior(json)),
        invert_(json.boolean("invert")) {}

  void apply(PreTokenized& text) const override {
    text.split_at(behavior_, [&](std::string_view piece) {
      auto matches = pattern_.cut(piece);
      if (invert_) {
        for (auto& match : matches) match.matches = !match.matches;
      }
      return matches;
    });
  }

 private:
  Pattern pattern_;
  DelimiterBehavior behavior_ = DelimiterBehavior::isolated;
  bool invert_ = false;
};

// Cuts at the characters of a class: digits, punctuation, white space.
class SplitAtCharacters : public PreTokenizer {
 public:
  using Predicate = bool (*)(char32_t) noexcept;
  SplitAtCharacters(Predicate is_delimiter, DelimiterBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}

  void apply(PreTokenized& text) const override {
    text.split_at(behavior_, [&](std::string_view piece) { return match_characters(piece, is_delimiter_); });
  }

 private:
  Predicate is_delimiter_;
  DelimiterBehavior behavior_;
};

// Cuts at one character, which is removed.
class SplitAtCharacter : public PreTokenizer {
 public:
  explicit SplitAtCharacter(const ConfigReader& json) : delimiter_(read_character(json, "delimiter")) {}

  void apply(PreTokenized& text) const override {
    text.split_at(DelimiterBehavior::removed, [&](std::string_view piece) {
      return match_characters(piece, [&](char32_t c) { return c == delimiter_; });
    });
  }

 private:
  char32_t delimiter_;
};

// Keeps words and runs of punctuation: `\w+|[^\w\s]+`.
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  void apply(PreTokenized& text) const override {
    text.split([](std::string_view piece, auto&& emit) {
      std::size_t begin = 0;
      std::size_t at = 0;
      auto previous = CharClass::space;
      for_each_character(piece, [&](char32_t c, std::string_view bytes) {
        const auto current = char_class(c);
        if (current != previous) {
          if (previous != CharClass::space) emit(TextSpan{begin, at});
          begin = at;
        }
        previous = current;
        at += bytes.size();
      });
      if (previous != CharClass::space) emit(TextSpan{begin, at});
    });
  }
};

// Replaces blanks by a visible character, which PrependScheme also puts before pieces, and cuts before each.
class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const ConfigReader& json)
      : character_(read_character(json, "replacement")), split_(json.boolean_or("split", true)) {
    append_utf8(replacement_, character_);
    const bool named = json.has("prepend_scheme");
    if (named) prepend_ = json.one_of("prepend_scheme", kPrependSchemes);
    // Files from before prepend_scheme say only whether there is a prefix.
    if (json.boolean_or("add_prefix_space", true)) return;
    if (named && prepend_ != PrependScheme::never)
      json.refuse("prepend_scheme", "contradicts add_prefix_space, which is false; expected never");
    prepend_ = PrependScheme::never;
  }

  void apply(PreTokenized& text) const override {
    text.rewrite([&](const NormalizedString& from, TextSpan piece, NormalizedString& into) {
      const auto whole = from.text();
      const auto first = first_char(whole.substr(piece.begin));
      const auto origin = from.origin({piece.begin, piece.begin + first->bytes});
      const bool prepend =
          prepend_ == PrependScheme::always || (prepend_ == PrependScheme::first && origin.begin == 0);
      if (prepend && first->code_point != ' ' && first->code_point != character_) {
        into.append(replacement_, origin);
      }
      for (auto at = piece.begin; at < piece.end;) {
        if (whole[at] == ' ') {
          into.append(replacement_, from.origin({at, at + 1}));
          ++at;
          continue;
        }
        auto end = whole.find(' ', at);
        if (end > piece.end) end = piece.end;  // npos too
        into.append(from, {at, end});
        at = end;
      }
    });
    if (!split_) return;
    text.split_at(DelimiterBehavior::merged_with_next, [&](std::string_view piece) {
      return match_characters(piece, [&](char32_t c) { return c == character_; });
    });
  }

 private:
  char32_t character_;
  bool split_;
  std::string replacement_;  // the character as UTF-8
  PrependScheme prepend_ = PrependScheme::always;
};

// Cuts into parts of a fixed number of characters.
class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(const ConfigReader& json) {
    constexpr std::int64_t kMost = std::int64_t{1} << 30;
    if (json.has("length")) length_ = json.count("length", kMost);
    if (length_ == 0) json.refuse("length", "is not a length; expected a number of characters");
  }

  void apply(PreTokenized& text) const override {
    text.split([&](std::string_view piece, auto&& emit) {
      std::size_t begin = 0;
      std::size_t at = 0;
      std::int64_t characters = 0;
      for_each_character(piece, [&](char32_t, std::string_view bytes) {
        at += bytes.size();
        if (++characters == length_) {
          emit(TextSpan{begin, at});
          begin = at;
          characters = 0;
        }
      });
      emit(TextSpan{begin, at});
    });
  }

 private:
  std::int64_t length_ = 5;
};

// GPT-2's own expression.
constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PreTokenizers read_byte_level_steps(const ConfigReader& json) {
  PreTokenizers steps;
  if (json.boolean("add_prefix_space")) steps.push_back(std::make_unique<PrefixBlank>());
  if (json.boolean_or("use_regex", true)) {
    steps.push_back(std::make_unique<SplitAtPattern>(Pattern::regex(kByteLevelWords)));
  }
  steps.push_back(std::make_unique<ByteSpelling>());
  return steps;
}

PreTokenizers read_digits(const ConfigReader& json) {
  return one_step<SplitAtCharacters>(is_number, json.boolean("individual_digits")
                                                    ? DelimiterBehavior::isolated
                                                    : DelimiterBehavior::contiguous);
}

PreTokenizers read_whitespace(const ConfigReader&) { return one_step<WhitespacePreTokenizer>(); }

PreTokenizers read_whitespace_split(const ConfigReader&) {
  return one_step<SplitAtCharacters>(is_space, DelimiterBehavior::removed);
}

PreTokenizers read_punctuation(const ConfigReader& json) {
  return one_step<SplitAtCharacters>(
      is_punctuation, json.has("behavior") ? read_behavior(json) : DelimiterBehavior::isolated);
}

PreTokenizers read_bert_steps(const ConfigReader&) {
  auto steps = one_step<SplitAtCharacters>(is_space, DelimiterBehavior::removed);
  steps.push_back(std::make_unique<SplitAtCharacters>(is_punctuation, DelimiterBehavior::isolated));
  return steps;
}

PreTokenizers read_sequence_of_steps(const ConfigReader& json) {
  PreTokenizers steps;
  for (const auto& step : json.objects("pretokenizers")) {
    auto more = read_pre_tokenizer(step);
    steps.insert(steps.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return steps;
}

constexpr Named<PreTokenizers (*)(const ConfigReader&)> kPreTokenizers[] = {
    {"ByteLevel", read_byte_level_steps},
    {"Split", one_step<SplitAtPattern, ConfigReader>},
    {"Digits", read_digits},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"Punctuation", read_punctuation},
    {"Metaspace", one_step<Metaspace, ConfigReader>},
    {"BertPreTokenizer", read_bert_steps},
    {"FixedLength", one_step<FixedLength, ConfigReader>},
    {"CharDelimiterSplit", one_step<SplitAtCharacter, ConfigReader>},
    {"Sequence", read_sequence_of_steps},
};

}  // namespace

PreTokenizers read_pre_tokenizer(const ConfigReader& json) {
  return json.one_of("type", kPreTokenizers)(json);
}

}  // namespace hooked::text
