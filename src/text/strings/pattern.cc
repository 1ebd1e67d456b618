#include "text/strings/pattern.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

const OnigUChar* oniguruma_bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string oniguruma_reason(int code, OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(buffer, code, info);
  return printable({reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(length)});
}

// Frees the memory of one search over a text.
struct Search {
  explicit Search(std::size_t bytes) : region(onig_region_new()), limits(onig_new_match_param()) {
    onig_initialize_match_param(limits);
    onig_set_retry_limit_in_match_of_match_param(limits, Regex::kMatchSteps);
    onig_set_retry_limit_in_search_of_match_param(limits, Regex::kMatchSteps + Regex::kStepsPerByte * bytes);
    onig_set_match_stack_limit_size_of_match_param(limits, Regex::kStackEntries);
  }
  ~Search() {
    onig_region_free(region, 1);
    onig_free_match_param(limits);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  OnigRegion* region;
  OnigMatchParam* limits;
};

}  // namespace

struct Regex::Compiled {
  ~Compiled() { onig_free(regex); }
  OnigRegex regex = nullptr;
};

Regex::Regex(std::string_view expression) : expression_(expression) {
  auto compiled = std::make_unique<Compiled>();
  OnigErrorInfo info;
  const auto* begin = oniguruma_bytes(expression_);
  const int code = onig_new(&compiled->regex, begin, begin + expression_.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, OnigDefaultSyntax, &info);
  if (code != ONIG_NORMAL) throw std::invalid_argument(oniguruma_reason(code, &info));
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;

void Regex::for_each_match(std::string_view text, const std::function<void(TextSpan)>& visit) const {
  const Search search(text.size());
  const auto* begin = oniguruma_bytes(text);
  const auto* end = begin + text.size();
  constexpr auto kNone = static_cast<std::size_t>(-1);
  std::size_t previous_end = kNone;
  for (std::size_t from = 0; from <= text.size();) {
    const int found = onig_search_with_param(compiled_->regex, begin, end, begin + from, end, search.region,
                                             ONIG_OPTION_NONE, search.limits);
    if (found == ONIG_MISMATCH) return;
    if (found < 0) {
      throw TokenizerError(
          printable(expression_),
          fmt::format(
              "the regular expression failed after byte {} of a text of {} bytes: {}; expected one that "
              "finds its matches within {} steps; use another tokenizer or a shorter text",
              from, text.size(), oniguruma_reason(found, nullptr), kMatchSteps));
    }
    const TextSpan match{static_cast<std::size_t>(search.region->beg[0]),
                         static_cast<std::size_t>(search.region->end[0])};
    if (match.begin == match.end && match.end == previous_end) {
      from += from < text.size() ? first_char(text.substr(from))->bytes : 1;
      continue;
    }
    from = previous_end = match.end;
    visit(match);
  }
}

Pattern Pattern::literal(std::string_view text) {
  // By the rules of regular expressions, an empty string is found between all characters.
  if (text.empty()) return regex("");
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

Pattern Pattern::regex(std::string_view expression) {
  Pattern pattern;
  pattern.regex_ = std::make_shared<const Regex>(expression);
  return pattern;
}

std::vector<Match> Pattern::cut(std::string_view text) const {
  std::vector<Match> parts;
  std::size_t end = 0;
  const auto add = [&](TextSpan span) {
    if (end != span.begin) parts.push_back({{end, span.begin}, false});
    parts.push_back({span, true});
    end = span.end;
  };
  if (text.empty()) return parts;
  if (regex_) {
    regex_->for_each_match(text, add);
  } else {
    for (auto at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, end)) {
      add({at, at + literal_.size()});
    }
  }
  if (end != text.size()) parts.push_back({{end, text.size()}, false});
  return parts;
}

std::size_t Pattern::undecided_bytes(std::string_view text) const {
  if (regex_) return text.size();
  const auto parts = cut(text);
  if (parts.empty() || parts.back().matches) return 0;
  const auto rest = text.substr(parts.back().span.begin);
  auto bytes = std::min(rest.size(), literal_.size() - 1);
  while (!rest.ends_with(std::string_view(literal_).substr(0, bytes))) --bytes;
  return bytes;
}

Pattern read_pattern(const ConfigReader& json) {
  if (json.has("String")) return Pattern::literal(json.text("String"));
  if (!json.has("Regex"))
    throw TokenizerError(json.where(), "has neither String nor Regex; expected one of them");
  try {
    return Pattern::regex(json.text("Regex"));
  } catch (const std::invalid_argument& reason) {
    json.refuse("Regex",
                fmt::format("cannot be compiled: {}; expected a regular expression in Oniguruma's default "
                            "syntax",
                            reason.what()));
  }
}

char32_t read_character(const ConfigReader& json, std::string_view key) {
  const auto text = json.text(key);
  if (count_characters(text) != 1) json.refuse(key, "is not one character; expected one character");
  return first_char(text)->code_point;
}

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

}  // namespace hooked::text
