#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "loading/config/token_rules.h"

namespace hooked {

/// The logit of a token that cannot be picked.
inline constexpr double kRuledOut = -std::numeric_limits<double>::infinity();

/// The tokens that a model's rules allow next, like transformers' logits processors, applied in the same
/// order.
class RuledTokens {
 public:
  /// The end of each row's continuation.
  struct End {
    std::vector<std::int64_t> stop_tokens;
    std::int64_t max_new_tokens;
  };

  /// `rows` are each row's tokens before the continuation, without padding; not read without rules. `rules`
  /// must outlive this.
  RuledTokens(const TokenRules& rules, std::vector<std::vector<std::int64_t>> rows, End end);

  /// `logits` [batch, vocab] in float32 or better, -inf where a rule forbids a token. If a token is forced,
  /// it gets 0 and all others -inf.
  at::Tensor allowed(const at::Tensor& logits) const;

  /// Each row's next token.
  void add(const std::vector<std::int64_t>& tokens);

 private:
  void rule_row(const at::Tensor& logits, const std::vector<std::int64_t>& tokens) const;

  const TokenRules& rules_;
  const End end_;
  const bool none_;
  std::vector<std::vector<std::int64_t>> rows_;
  std::int64_t made_ = 0;
};

}  // namespace hooked
