#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <vector>

#include "hooked/engine/generate_options.h"
#include "loading/config/token_rules.h"

namespace hooked {

/// Throws ConfigError naming the option for meaningless values.
void require_sampling_options(const SamplingOptions& options);

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

/// The next token of each row, on the logits' device and on the host.
struct PickedTokens {
  at::Tensor there;                ///< int64 [batch]
  std::vector<std::int64_t> here;  ///< the same
  at::Tensor log_probs;            ///< their log probabilities by the logits, whatever picked them, [batch]
};

/// Whether what is picked changes if a constant is added to all logits.
bool reads_logit_sizes(const SamplingOptions& options);

/// Picks the next token of each row.
class Sampler {
 public:
  /// `tokens` [batch, pos] are those that occurred so far, `real` their mask or undefined.
  Sampler(const SamplingOptions& options, const at::Tensor& tokens, const at::Tensor& real,
          std::int64_t d_vocab);

  /// One token for each row of `logits` [batch, vocab], among those that `rules` leave. The host waits for
  /// the device once.
  PickedTokens pick(const at::Tensor& logits, const RuledTokens& rules);

 private:
  /// From `logits` and from what the sampling options turn them into, `changed`. In one pass over each row,
  /// for float32 on the CPU.
  PickedTokens picked_by_rows(const at::Tensor& logits, const at::Tensor& changed);
  PickedTokens picked_by_operators(const at::Tensor& logits, const at::Tensor& changed);  ///< the same
  at::Tensor drawn(const at::Tensor& logits);
  /// A number in [0, 1) for each row.
  std::vector<double> draws();

  const SamplingOptions& options_;
  at::Tensor occurred_;                   // [batch, vocab] how often; undefined without penalties
  std::vector<std::mt19937_64> streams_;  // one per row, so that a row does not depend on its neighbours
};

}  // namespace hooked
