#include "text/model/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "text/unicode/unicode.h"

namespace hooked::text {
namespace {

bool ends_with_word(std::string_view text) {
  return char_class(first_char(text.substr(last_character(text)))->code_point) == CharClass::word;
}

bool begins_with_word(std::string_view text) {
  return char_class(first_char(text)->code_point) == CharClass::word;
}

// Where the white space at the end of `text` begins.
std::size_t trailing_space(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    const auto at = last_character(text.substr(0, begin));
    if (!is_space(first_char(text.substr(at))->code_point)) break;
    begin = at;
  }
  return begin;
}

// Where the white space at the beginning of `text` ends.
std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto c = first_char(text.substr(at));
    if (!is_space(c->code_point)) break;
    at += c->bytes;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalize& normalize)
    : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const auto& token = tokens_[i];
    by_id_[token.id] = i;
    by_content_[token.content] = token.id;
    size_ = std::max(size_, token.id + 1);
    if (token.special) special_.insert(token.content);
    auto spelled = token.normalized || token.was_normalized ? normalize(token.content) : token.content;
    if (!token.normalized) {
      original_trie_.add(token.content, static_cast<std::int32_t>(i));
    } else if (spelled.empty()) {
      never_found_.push_back(token.content);
    } else {
      normalized_trie_.add(spelled, static_cast<std::int32_t>(i));
    }
    if (spelled != token.content) normalized_[token.id] = std::move(spelled);
  }
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, Stage stage,
                                                  AddedTokensInText choice) const {
  const auto& trie = stage == Stage::original ? original_trie_ : normalized_trie_;
  std::vector<Part> parts;
  std::size_t end = 0;  // of the last part
  for (std::size_t at = 0; at < text.size() && choice != AddedTokensInText::as_text;) {
    std::size_t length = 0;
    const AddedToken* token = nullptr;
    trie.for_each_prefix(text.substr(at), [&](std::size_t bytes, std::int32_t place) {
      length = bytes;
      token = &tokens_[static_cast<std::size_t>(place)];
    });
    if (!token) {
      ++at;
      continue;
    }
    TextSpan span{at, at + length};
    at = span.end;  // also when the match is rejected below
    if (token->special && choice == AddedTokensInText::special_as_text) continue;
    if (token->single_word) {
      const bool inside_left = span.begin > 0 && ends_with_word(text.substr(0, span.begin));
      const bool inside_right = span.end < text.size() && begins_with_word(text.substr(span.end));
      if (inside_left || inside_right) continue;
    }
    // White space that the previous token took is not taken again.
    if (token->lstrip) span.begin = std::max(trailing_space(text.substr(0, span.begin)), end);
    if (token->rstrip) span.end += leading_space(text.substr(span.end));
    if (span.begin >= span.end) continue;  // that white space was all of it
    if (end < span.begin) parts.push_back({{end, span.begin}, -1});
    parts.push_back({span, token->id});
    end = span.end;
  }
  if (end != text.size()) parts.push_back({{end, text.size()}, -1});
  return parts;
}

std::optional<std::int64_t> AddedTokens::find(std::string_view content) const noexcept {
  const auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

const AddedToken* AddedTokens::token(std::int64_t id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const std::string& AddedTokens::decoded(std::int64_t id) const {
  const auto found = normalized_.find(id);
  return found == normalized_.end() ? token(id)->content : found->second;
}

std::vector<AddedToken> read_added_tokens(const ConfigReader& json) {
  std::vector<AddedToken> tokens;
  if (!json.has("added_tokens")) return tokens;
  for (const auto& entry : json.objects("added_tokens")) {
    const bool special = entry.boolean_or("special", false);
    tokens.push_back({.id = entry.integer("id"),
                      .content = entry.text("content"),
                      .single_word = entry.boolean_or("single_word", false),
                      .lstrip = entry.boolean_or("lstrip", false),
                      .rstrip = entry.boolean_or("rstrip", false),
                      .normalized = entry.boolean_or("normalized", !special),
                      .special = special,
                      .was_normalized = entry.boolean_or(kWasNormalized, false)});
  }
  return tokens;
}

}  // namespace hooked::text
