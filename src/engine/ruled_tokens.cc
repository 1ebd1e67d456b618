#include "engine/ruled_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <utility>

#include "core/to_device.h"

namespace hooked {
namespace {

using Tokens = std::vector<std::int64_t>;

// Sets the logits [vocab] of these tokens.
void set(const at::Tensor& logits, const Tokens& tokens, double value) {
  if (tokens.empty()) return;
  logits.index_fill_(0, to_device(at::tensor(tokens, at::kLong), logits.device()), value);
}

void force(const at::Tensor& logits, const Tokens& tokens) {
  logits.fill_(kRuledOut);
  set(logits, tokens, 0.0);
}

bool ends_with(const Tokens& tokens, Tokens::const_iterator first, Tokens::const_iterator end) {
  const auto count = end - first;
  return static_cast<std::ptrdiff_t>(tokens.size()) >= count && std::equal(first, end, tokens.end() - count);
}

// The tokens that would make the last ones a second copy of `size` earlier ones.
Tokens repeating(const Tokens& tokens, std::int64_t size) {
  Tokens found;
  for (auto at = tokens.begin(); tokens.end() - at >= size; ++at) {
    if (ends_with(tokens, at, at + (size - 1))) found.push_back(*(at + (size - 1)));
  }
  return found;
}

// The last tokens of forbidden sequences whose other tokens the row ends with. A stop token cannot be
// forbidden, as in transformers.
Tokens completing(const Tokens& tokens, const TokenRules& rules, const Tokens& stop_tokens) {
  Tokens found;
  for (const Tokens& sequence : rules.banned) {
    const bool stop =
        sequence.size() == 1 && std::ranges::find(stop_tokens, sequence.front()) != stop_tokens.end();
    if (!stop && ends_with(tokens, sequence.begin(), sequence.end() - 1)) found.push_back(sequence.back());
  }
  return found;
}

}  // namespace

RuledTokens::RuledTokens(const TokenRules& rules, std::vector<Tokens> rows, End end)
    : rules_(rules), end_(std::move(end)), none_(rules == TokenRules()), rows_(std::move(rows)) {}

at::Tensor RuledTokens::allowed(const at::Tensor& logits) const {
  if (none_) return logits;
  const at::Tensor changed = logits.clone(at::MemoryFormat::Contiguous);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    rule_row(changed.select(0, static_cast<std::int64_t>(row)), rows_[row]);
  }
  return changed;
}

void RuledTokens::rule_row(const at::Tensor& logits, const Tokens& tokens) const {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const bool starts_forced = rules_.forced_second && length - made_ == 1;
  if (rules_.no_repeat_ngram_size > 0) set(logits, repeating(tokens, rules_.no_repeat_ngram_size), kRuledOut);
  set(logits, completing(tokens, rules_, end_.stop_tokens), kRuledOut);
  if (length < rules_.min_length || made_ < rules_.min_new_tokens) set(logits, end_.stop_tokens, kRuledOut);
  if (rules_.forced_second && length == 1) force(logits, {*rules_.forced_second});
  if (!rules_.forced_last.empty() && made_ == end_.max_new_tokens - 1) force(logits, rules_.forced_last);
  set(logits, rules_.suppressed, kRuledOut);
  if (made_ == (starts_forced ? 1 : 0)) set(logits, rules_.suppressed_first, kRuledOut);
}

void RuledTokens::add(const Tokens& tokens) {
  if (none_) return;
  for (std::size_t row = 0; row < rows_.size(); ++row) rows_[row].push_back(tokens[row]);
  ++made_;
}

}  // namespace hooked
