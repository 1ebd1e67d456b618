#include "text/decoders.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "text/byte_characters.h"
#include "text/unicode.h"

namespace hooked {
namespace {

using Texts = std::vector<std::string>;

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  if (from.empty()) {
    // Between all characters, as the empty string is found there.
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

// Takes back what cutting at punctuation does to English.
std::string clean_up(std::string text) {
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
  for (const auto& [from, to] : kRules) text = replace_all(text, from, to);
  return text;
}

// The byte that a piece `<0xEF>` spells. A sign in the place of the first digit is taken as the package takes
// it.
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

}  // namespace

Texts ByteLevelDecoder::apply(Texts texts) const {
  std::string bytes;
  for (const auto& text : texts) bytes += spelled_bytes(text).value_or(text);
  return {with_replacement_characters(bytes)};
}

std::string ByteLevelDecoder::bytes_of(std::string text) const { return spelled_bytes(text).value_or(text); }

Texts ByteFallbackDecoder::apply(Texts texts) const {
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

std::string ByteFallbackDecoder::bytes_of(std::string text) const {
  const auto byte = fallback_byte(text);
  return byte ? std::string(1, *byte) : text;
}

Texts WordPieceDecoder::apply(Texts texts) const {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto& text = texts[i];
    if (i > 0) {
      if (text.starts_with(options_.prefix)) {
        text.erase(0, options_.prefix.size());
      } else {
        text.insert(text.begin(), ' ');
      }
    }
    if (options_.cleanup) text = clean_up(std::move(text));
  }
  return texts;
}

std::string WordPieceDecoder::bytes_of(std::string text) const { return apply({"", std::move(text)}).back(); }

Texts MetaspaceDecoder::apply(Texts texts) const {
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

std::string MetaspaceDecoder::bytes_of(std::string text) const { return apply({"", std::move(text)}).back(); }

Texts FuseDecoder::apply(Texts texts) const {
  std::string all;
  for (const auto& text : texts) all += text;
  return {std::move(all)};
}

Texts StripDecoder::apply(Texts texts) const {
  std::string content;
  append_utf8(content, options_.content);
  for (auto& text : texts) {
    std::string_view rest = text;
    for (std::size_t i = 0; i < options_.start && rest.starts_with(content); ++i)
      rest.remove_prefix(content.size());
    for (std::size_t i = 0; i < options_.stop && rest.ends_with(content); ++i)
      rest.remove_suffix(content.size());
    text = std::string(rest);
  }
  return texts;
}

Texts ReplaceDecoder::apply(Texts texts) const {
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

std::string ReplaceDecoder::bytes_of(std::string text) const {
  return first_invalid_byte(text) ? text : apply({std::move(text)}).front();
}

Texts BpeDecoder::apply(Texts texts) const {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    texts[i] = replace_all(texts[i], suffix_, i + 1 == texts.size() ? "" : " ");
  }
  return texts;
}

std::string BpeDecoder::bytes_of(std::string text) const { return apply({std::move(text), ""}).front(); }

Texts CtcDecoder::apply(Texts texts) const {
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  Texts result;
  for (const auto& text : texts) {
    auto kept = replace_all(text, options_.pad_token, "");
    if (options_.cleanup) kept = replace_all(clean_up(std::move(kept)), options_.word_delimiter_token, " ");
    if (!kept.empty()) result.push_back(std::move(kept));
  }
  return result;
}

Texts DecoderSequence::apply(Texts texts) const {
  for (const auto& step : steps_) texts = step->apply(std::move(texts));
  return texts;
}

std::string DecoderSequence::bytes_of(std::string text) const {
  for (const auto& step : steps_) text = step->bytes_of(std::move(text));
  return text;
}

}  // namespace hooked
