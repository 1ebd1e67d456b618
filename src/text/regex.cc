#include "text/regex.h"

#include <fmt/format.h>
#include <oniguruma.h>

#include <stdexcept>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/unicode.h"

namespace hooked {
namespace {

const OnigUChar* bytes_of(std::string_view text) { return reinterpret_cast<const OnigUChar*>(text.data()); }

std::string reason(int code, OnigErrorInfo* info) {
  OnigUChar buffer[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length = onig_error_code_to_str(buffer, code, info);
  return printable({reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(length)});
}

// Frees what one search over a text needs.
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
  const auto* begin = bytes_of(expression_);
  const int code = onig_new(&compiled->regex, begin, begin + expression_.size(), ONIG_OPTION_NONE,
                            ONIG_ENCODING_UTF8, OnigDefaultSyntax, &info);
  if (code != ONIG_NORMAL) throw std::invalid_argument(reason(code, &info));
  compiled_ = std::move(compiled);
}

Regex::~Regex() = default;

void Regex::for_each_match(std::string_view text, const std::function<void(TextSpan)>& visit) const {
  const Search search(text.size());
  const auto* begin = bytes_of(text);
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
              "the regular expression failed behind byte {} of a text of {} bytes: {}; expected one that "
              "finds its matches within {} steps; use another tokenizer or a shorter text",
              from, text.size(), reason(found, nullptr), kMatchSteps));
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

}  // namespace hooked
