#include "text/pipeline/decoder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/utf8.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/strings/pattern.h"
#include "text/unicode/byte_characters.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

using Texts = std::vector<std::string>;
using DecoderPtr = std::unique_ptr<const Decoder>;

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// The byte that a piece `<0xEF>` spells. A plus sign instead of the first digit counts as 0, as in the
// package `tokenizers`.
std::optional<char> fallback_byte(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  const int high = piece[3] == '+' ? 0 : digit(piece[3]);
  const int low = digit(piece[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// Removes the blanks that cutting at punctuation puts into English text.
std::string remove_blanks_of_english(std::string text) {
  static constexpr std::array<std::array<std::string_view, 2>, 11> kRules = {{{" .", "."},
                                                                              {" ?", "?"},
                                                                              {" !", "!"},
                                                                              {" ,", ","},
                                                                              {" ' ", "'"},
                                                                              {" n't", "n't"},
                                                                              {" 'm", "'m"},
                                                                              {" do not", " don't"},
                                                                              {" 's", "'s"},
                                                                              {" 've", "'ve"},
                                                                              {" 're", "'re"}}};
  for (const auto& [from, to] : kRules) text = replace_each(text, from, to);
  return text;
}

// The texts that cannot change any more, for steps that need a text whole.
TokenTexts whole_texts(TokenTexts in) {
  if (in.end != End::growing) return in;
  if (!in.texts.empty()) in.texts.pop_back();
  in.end = End::more;
  return in;
}

End end_of_one_text(End end) { return end == End::closed ? End::closed : End::growing; }

// Bytes spelled as characters become text again; what is not UTF-8 then becomes U+FFFD.
class ByteLevelDecoder : public Decoder {
 public:
  TokenTexts apply(TokenTexts in) const override {
    in = whole_texts(std::move(in));
    std::string bytes;
    for (const auto& text : in.texts) bytes += spelled_bytes(text).value_or(text);
    if (in.end != End::closed) bytes.resize(bytes.size() - unfinished_bytes(bytes));
    return {{with_replacement_characters(bytes)}, end_of_one_text(in.end)};
  }

  std::string bytes_of(std::string text) const override { return spelled_bytes(text).value_or(text); }
};

// Runs of pieces `<0xEF>` become the bytes that they spell. If a run is not UTF-8, each byte becomes U+FFFD.
class ByteFallbackDecoder : public Decoder {
 public:
  TokenTexts apply(TokenTexts in) const override {
    in = whole_texts(std::move(in));
    Texts result;
    std::string run;
    const auto end_run = [&] {
      if (run.empty()) return;
      if (first_invalid_byte(run)) {
        result.insert(result.end(), run.size(), std::string(kReplacementCharacter));
      } else {
        result.push_back(run);
      }
      run.clear();
    };
    for (auto& text : in.texts) {
      if (const auto byte = fallback_byte(text)) {
        run += *byte;
        continue;
      }
      end_run();
      result.push_back(std::move(text));
    }
    // The next byte decides how the rest of its run is decoded.
    if (in.end == End::closed) end_run();
    return {std::move(result), in.end};
  }

  std::string bytes_of(std::string text) const override {
    const auto byte = fallback_byte(text);
    return byte ? std::string(1, *byte) : text;
  }
};

// Puts a blank before all tokens but the first and those with the continuing prefix, which is removed.
class WordPieceDecoder : public Decoder {
 public:
  explicit WordPieceDecoder(const ConfigReader& json)
      : prefix_(json.text("prefix")), cleanup_(json.boolean("cleanup")) {}

  TokenTexts apply(TokenTexts in) const override {
    in = whole_texts(std::move(in));
    for (std::size_t i = 0; i < in.texts.size(); ++i) {
      auto& text = in.texts[i];
      if (i > 0) {
        if (text.starts_with(prefix_)) {
          text.erase(0, prefix_.size());
        } else {
          text.insert(text.begin(), ' ');
        }
      }
      if (cleanup_) text = remove_blanks_of_english(std::move(text));
    }
    return in;
  }

  std::string bytes_of(std::string text) const override {
    return apply({{"", std::move(text)}}).texts.back();
  }

 private:
  std::string prefix_;
  bool cleanup_;  // remove blanks before punctuation and in English contractions
};

// Blanks replace the visible character; none at the beginning if the pre-tokenizer put one there.
class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(const ConfigReader& json) {
    const bool never =
        json.has("prepend_scheme") && json.one_of("prepend_scheme", kPrependSchemes) == PrependScheme::never;
    replacement_ = read_character(json, "replacement");
    prepended_ = !never && json.boolean_or("add_prefix_space", true);
  }

  TokenTexts apply(TokenTexts in) const override {
    for (std::size_t i = 0; i < in.texts.size(); ++i) {
      std::string text;
      for_each_character(in.texts[i], [&](char32_t c, std::string_view bytes) {
        if (c != replacement_) {
          text += bytes;
        } else if (i > 0 || !prepended_) {
          text += ' ';
        }
      });
      in.texts[i] = std::move(text);
    }
    return in;
  }

  std::string bytes_of(std::string text) const override {
    return apply({{"", std::move(text)}}).texts.back();
  }

 private:
  char32_t replacement_;
  bool prepended_;
};

// Joins all texts.
class FuseDecoder : public Decoder {
 public:
  TokenTexts apply(TokenTexts in) const override {
    std::string all;
    for (const auto& text : in.texts) all += text;
    return {{std::move(all)}, end_of_one_text(in.end)};
  }
};

// Removes a character from the ends of each text, up to a number of times.
class StripDecoder : public Decoder {
 public:
  explicit StripDecoder(const ConfigReader& json) {
    constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
    append_utf8(content_, read_character(json, "content"));
    start_ = json.count("start", kMost);
    stop_ = json.count("stop", kMost);
  }

  TokenTexts apply(TokenTexts in) const override {
    for (auto& text : in.texts) {
      std::string_view rest = text;
      for (std::int64_t i = 0; i < start_ && rest.starts_with(content_); ++i)
        rest.remove_prefix(content_.size());
      for (std::int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i)
        rest.remove_suffix(content_.size());
      text = std::string(rest);
    }
    return in;
  }

 private:
  std::string content_;
  std::int64_t start_;
  std::int64_t stop_;
};

// Replaces every match by a string, in each text.
class ReplaceDecoder : public Decoder {
 public:
  explicit ReplaceDecoder(const ConfigReader& json)
      : pattern_(read_pattern(json.object("pattern"))), content_(json.text("content")) {}

  TokenTexts apply(TokenTexts in) const override {
    if (in.end == End::growing && !in.texts.empty()) {
      std::string& last = in.texts.back();
      last.resize(last.size() - pattern_.undecided_bytes(last));
    }
    for (auto& text : in.texts) {
      std::string result;
      for (const auto& match : pattern_.cut(text)) {
        result += match.matches
                      ? std::string_view(content_)
                      : std::string_view(text).substr(match.span.begin, match.span.end - match.span.begin);
      }
      text = std::move(result);
    }
    return in;
  }

  std::string bytes_of(std::string text) const override {
    return first_invalid_byte(text) ? text : apply({{std::move(text)}}).texts.front();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Replaces the suffix at the end of words by a blank; removes it at the end of the text.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(const ConfigReader& json) : suffix_(json.text("suffix")) {}

  TokenTexts apply(TokenTexts in) const override {
    const bool last_is_whole = in.end != End::growing;
    in = whole_texts(std::move(in));
    if (in.texts.empty()) return in;
    std::string& last = in.texts.back();
    for (std::string& text : in.texts) {
      if (&text != &last || !last_is_whole) text = replace_each(text, suffix_, " ");
    }
    if (last_is_whole && in.end == End::closed) last = replace_each(last, suffix_, "");
    if (last_is_whole && in.end == End::more) {
      // Whether the suffix becomes a blank depends on whether a text follows.
      last.resize(std::min(last.size(), last.find(suffix_)));
      in.end = End::growing;
    }
    return in;
  }

  std::string bytes_of(std::string text) const override {
    return apply({{std::move(text), ""}}).texts.front();
  }

 private:
  std::string suffix_;
};

// Speech models: equal neighbours are merged, padding is removed, the token between words becomes a blank.
class CtcDecoder : public Decoder {
 public:
  explicit CtcDecoder(const ConfigReader& json)
      : pad_token_(json.text("pad_token")),
        word_delimiter_token_(json.text("word_delimiter_token")),
        cleanup_(json.boolean("cleanup")) {}

  TokenTexts apply(TokenTexts in) const override {
    in = whole_texts(std::move(in));
    in.texts.erase(std::unique(in.texts.begin(), in.texts.end()), in.texts.end());
    Texts result;
    for (const auto& text : in.texts) {
      auto kept = replace_each(text, pad_token_, "");
      if (cleanup_)
        kept = replace_each(remove_blanks_of_english(std::move(kept)), word_delimiter_token_, " ");
      if (!kept.empty()) result.push_back(std::move(kept));
    }
    return {std::move(result), in.end};
  }

 private:
  std::string pad_token_;
  std::string word_delimiter_token_;
  bool cleanup_;
};

// Several steps in sequence.
class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(const ConfigReader& json) {
    for (const auto& step : json.objects("decoders")) steps_.push_back(read_decoder(step));
  }

  TokenTexts apply(TokenTexts in) const override {
    for (const auto& step : steps_) in = step->apply(std::move(in));
    return in;
  }

  std::string bytes_of(std::string text) const override {
    for (const auto& step : steps_) text = step->bytes_of(std::move(text));
    return text;
  }

 private:
  std::vector<DecoderPtr> steps_;
};

// A decoder of a class, which reads its options if it has any.
template <class Kind>
DecoderPtr decoder_of(const ConfigReader& json) {
  if constexpr (std::is_constructible_v<Kind, const ConfigReader&>) {
    return std::make_unique<Kind>(json);
  } else {
    return std::make_unique<Kind>();
  }
}

constexpr Named<DecoderPtr (*)(const ConfigReader&)> kDecoders[] = {
    {"ByteLevel", decoder_of<ByteLevelDecoder>},
    {"WordPiece", decoder_of<WordPieceDecoder>},
    {"Metaspace", decoder_of<MetaspaceDecoder>},
    {"Fuse", decoder_of<FuseDecoder>},
    {"Strip", decoder_of<StripDecoder>},
    {"Replace", decoder_of<ReplaceDecoder>},
    {"ByteFallback", decoder_of<ByteFallbackDecoder>},
    {"BPEDecoder", decoder_of<BpeDecoder>},
    {"CTC", decoder_of<CtcDecoder>},
    {"Sequence", decoder_of<DecoderSequence>},
};

}  // namespace

std::unique_ptr<const Decoder> read_decoder(const ConfigReader& json) {
  return json.one_of("type", kDecoders)(json);
}

}  // namespace hooked::text
