#include "text/decoder.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "core/utf8.h"
#include "text/byte_characters.h"
#include "text/pattern.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace hooked::text {
namespace {

using Texts = std::vector<std::string>;
using DecoderPtr = std::unique_ptr<const Decoder>;

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

std::string replace_each(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  if (from.empty()) {
    // The empty string is found between all characters.
    result += to;
    for_each_character(text, [&](char32_t, std::string_view bytes) { result.append(bytes).append(to); });
    return result;
  }
  std::size_t begin = 0;
  for (auto at = text.find(from); at != std::string_view::npos; at = text.find(from, begin)) {
    result.append(text.substr(begin, at - begin)).append(to);
    begin = at + from.size();
  }
  return result.append(text.substr(begin));
}

// Removes the blanks that cutting at punctuation puts into English.
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

// The byte that a piece `<0xEF>` spells. A plus sign in the place of the first digit counts as 0, as in the
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

// Bytes spelled as characters become text again; what is not UTF-8 then becomes U+FFFD.
class ByteLevelDecoder : public Decoder {
 public:
  Texts apply(Texts texts) const override {
    std::string bytes;
    for (const auto& text : texts) bytes += spelled_bytes(text).value_or(text);
    return {with_replacement_characters(bytes)};
  }

  std::string bytes_of(std::string text) const override { return spelled_bytes(text).value_or(text); }
};

// Runs of pieces `<0xEF>` become the bytes they spell. Of a run that is not UTF-8, each byte becomes U+FFFD.
class ByteFallbackDecoder : public Decoder {
 public:
  Texts apply(Texts texts) const override {
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
    for (auto& text : texts) {
      if (const auto byte = fallback_byte(text)) {
        run += *byte;
        continue;
      }
      end_run();
      result.push_back(std::move(text));
    }
    end_run();
    return result;
  }

  std::string bytes_of(std::string text) const override {
    const auto byte = fallback_byte(text);
    return byte ? std::string(1, *byte) : text;
  }
};

// Puts a blank before all tokens but the first and those with the continuing prefix, which is removed.
class WordPieceDecoder : public Decoder {
 public:
  struct Options {
    std::string prefix;
    bool cleanup;  // remove blanks before punctuation and in English contractions
  };
  explicit WordPieceDecoder(Options options) : options_(std::move(options)) {}

  static DecoderPtr read(const ConfigReader& json) {
    return std::make_unique<WordPieceDecoder>(
        Options{.prefix = json.text("prefix"), .cleanup = json.boolean("cleanup")});
  }

  Texts apply(Texts texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      auto& text = texts[i];
      if (i > 0) {
        if (text.starts_with(options_.prefix)) {
          text.erase(0, options_.prefix.size());
        } else {
          text.insert(text.begin(), ' ');
        }
      }
      if (options_.cleanup) text = remove_blanks_of_english(std::move(text));
    }
    return texts;
  }

  std::string bytes_of(std::string text) const override { return apply({"", std::move(text)}).back(); }

 private:
  Options options_;
};

// Blanks for the visible character; none at the beginning where the pre-tokenizer put one.
class MetaspaceDecoder : public Decoder {
 public:
  struct Options {
    char32_t replacement;
    bool prepended;
  };
  explicit MetaspaceDecoder(Options options) : options_(options) {}

  static DecoderPtr read(const ConfigReader& json) {
    const bool never =
        json.has("prepend_scheme") && json.one_of("prepend_scheme", kPrependSchemes) == PrependScheme::never;
    return std::make_unique<MetaspaceDecoder>(
        Options{.replacement = read_character(json, "replacement"),
                .prepended = !never && json.boolean_or("add_prefix_space", true)});
  }

  Texts apply(Texts texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::string text;
      for_each_character(texts[i], [&](char32_t c, std::string_view bytes) {
        if (c != options_.replacement) {
          text += bytes;
        } else if (i > 0 || !options_.prepended) {
          text += ' ';
        }
      });
      texts[i] = std::move(text);
    }
    return texts;
  }

  std::string bytes_of(std::string text) const override { return apply({"", std::move(text)}).back(); }

 private:
  Options options_;
};

// Joins all texts.
class FuseDecoder : public Decoder {
 public:
  Texts apply(Texts texts) const override {
    std::string all;
    for (const auto& text : texts) all += text;
    return {std::move(all)};
  }
};

// Removes a character from the ends of each text, up to a number of times.
class StripDecoder : public Decoder {
 public:
  struct Options {
    char32_t content;
    std::int64_t start;
    std::int64_t stop;
  };
  explicit StripDecoder(Options options) : options_(options) {}

  static DecoderPtr read(const ConfigReader& json) {
    constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
    return std::make_unique<StripDecoder>(Options{.content = read_character(json, "content"),
                                                  .start = json.count("start", kMost),
                                                  .stop = json.count("stop", kMost)});
  }

  Texts apply(Texts texts) const override {
    std::string content;
    append_utf8(content, options_.content);
    for (auto& text : texts) {
      std::string_view rest = text;
      for (std::int64_t i = 0; i < options_.start && rest.starts_with(content); ++i)
        rest.remove_prefix(content.size());
      for (std::int64_t i = 0; i < options_.stop && rest.ends_with(content); ++i)
        rest.remove_suffix(content.size());
      text = std::string(rest);
    }
    return texts;
  }

 private:
  Options options_;
};

// Replaces every match by a string, in each text.
class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  static DecoderPtr read(const ConfigReader& json) {
    return std::make_unique<ReplaceDecoder>(read_pattern(json.object("pattern")), json.text("content"));
  }

  Texts apply(Texts texts) const override {
    for (auto& text : texts) {
      std::string result;
      for (const auto& match : pattern_.cut(text)) {
        result += match.matches
                      ? std::string_view(content_)
                      : std::string_view(text).substr(match.span.begin, match.span.end - match.span.begin);
      }
      text = std::move(result);
    }
    return texts;
  }

  std::string bytes_of(std::string text) const override {
    return first_invalid_byte(text) ? text : apply({std::move(text)}).front();
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Replaces the suffix that ends words by a blank; removes it at the end of the text.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}

  static DecoderPtr read(const ConfigReader& json) {
    return std::make_unique<BpeDecoder>(json.text("suffix"));
  }

  Texts apply(Texts texts) const override {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      texts[i] = replace_each(texts[i], suffix_, i + 1 == texts.size() ? "" : " ");
    }
    return texts;
  }

  std::string bytes_of(std::string text) const override { return apply({std::move(text), ""}).front(); }

 private:
  std::string suffix_;
};

// Speech models: equal neighbours become one, padding is removed, the token between words becomes a blank.
class CtcDecoder : public Decoder {
 public:
  struct Options {
    std::string pad_token;
    std::string word_delimiter_token;
    bool cleanup;
  };
  explicit CtcDecoder(Options options) : options_(std::move(options)) {}

  static DecoderPtr read(const ConfigReader& json) {
    return std::make_unique<CtcDecoder>(Options{.pad_token = json.text("pad_token"),
                                                .word_delimiter_token = json.text("word_delimiter_token"),
                                                .cleanup = json.boolean("cleanup")});
  }

  Texts apply(Texts texts) const override {
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    Texts result;
    for (const auto& text : texts) {
      auto kept = replace_each(text, options_.pad_token, "");
      if (options_.cleanup)
        kept = replace_each(remove_blanks_of_english(std::move(kept)), options_.word_delimiter_token, " ");
      if (!kept.empty()) result.push_back(std::move(kept));
    }
    return result;
  }

 private:
  Options options_;
};

// Several steps, one after the other.
class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(std::vector<DecoderPtr> steps) : steps_(std::move(steps)) {}

  static DecoderPtr read(const ConfigReader& json) {
    std::vector<DecoderPtr> steps;
    for (const auto& step : json.objects("decoders")) steps.push_back(read_decoder(step));
    return std::make_unique<DecoderSequence>(std::move(steps));
  }

  Texts apply(Texts texts) const override {
    for (const auto& step : steps_) texts = step->apply(std::move(texts));
    return texts;
  }

  std::string bytes_of(std::string text) const override {
    for (const auto& step : steps_) text = step->bytes_of(std::move(text));
    return text;
  }

 private:
  std::vector<DecoderPtr> steps_;
};

// A decoder without options.
template <class Plain>
DecoderPtr read_plain_decoder(const ConfigReader&) {
  return std::make_unique<Plain>();
}

constexpr Named<DecoderPtr (*)(const ConfigReader&)> kDecoders[] = {
    {"ByteLevel", read_plain_decoder<ByteLevelDecoder>},
    {"WordPiece", WordPieceDecoder::read},
    {"Metaspace", MetaspaceDecoder::read},
    {"Fuse", read_plain_decoder<FuseDecoder>},
    {"Strip", StripDecoder::read},
    {"Replace", ReplaceDecoder::read},
    {"ByteFallback", read_plain_decoder<ByteFallbackDecoder>},
    {"BPEDecoder", BpeDecoder::read},
    {"CTC", CtcDecoder::read},
    {"Sequence", DecoderSequence::read},
};

}  // namespace

std::unique_ptr<const Decoder> read_decoder(const ConfigReader& json) {
  return json.one_of("type", kDecoders)(json);
}

}  // namespace hooked::text
