#include "text/text_stream.h"

#include <algorithm>
#include <span>
#include <utility>

namespace hooked::text {
namespace {

constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";
// Enough for a decoder that strips blanks at the beginning of a text not to see one.
constexpr std::size_t kContextTokens = 4;

}  // namespace

TextStream::TextStream(Tokenizer tokenizer, std::vector<std::int64_t> context)
    : tokenizer_(std::move(tokenizer)), ids_(std::move(context)), emitted_(ids_.size()) {
  context_ = ids_.size() - std::min(ids_.size(), kContextTokens);
  // A prompt may end inside a character, whose first part then comes with the rest.
  while (emitted_ > context_ && decoded(context_, emitted_).ends_with(kUnfinished)) --emitted_;
  if (emitted_ == context_ && context_ > 0) emitted_ = ids_.size();  // too many bytes for one character
}

std::string TextStream::decoded(std::size_t begin, std::size_t end) const {
  return tokenizer_.decode(std::span(ids_).subspan(begin, end - begin), {.skip_special_tokens = true});
}

std::string TextStream::add(std::int64_t id) {
  ids_.push_back(id);
  const std::string before = decoded(context_, emitted_);
  const std::string after = decoded(context_, ids_.size());
  if (after.size() <= before.size() || after.ends_with(kUnfinished)) return {};
  context_ = emitted_ - std::min(emitted_, kContextTokens);
  emitted_ = ids_.size();
  return after.substr(before.size());
}

std::string TextStream::finish() {
  const std::string before = decoded(context_, emitted_);
  const std::string after = decoded(context_, ids_.size());
  emitted_ = ids_.size();
  return after.size() <= before.size() ? std::string() : after.substr(before.size());
}

}  // namespace hooked::text
