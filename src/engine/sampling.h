#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <vector>

#include "engine/ruled_tokens.h"
#include "hooked/engine/generate_options.h"

namespace hooked {

/// Throws ConfigError naming the option for values that mean nothing.
void require_sampling_options(const SamplingOptions& options);

/// The next token of each row, on the device of the logits and on the host.
struct PickedTokens {
  at::Tensor there;                ///< int64 [batch]
  std::vector<std::int64_t> here;  ///< the same
  at::Tensor log_probs;            ///< what the logits say of them, whatever they were picked by, [batch]
};

/// Whether what is picked depends on where the logits' 0 is.
bool reads_logit_sizes(const SamplingOptions& options);

/// Picks the next token of each row.
class Sampler {
 public:
  /// `tokens` [batch, pos] are those that occurred so far, `real` their mask or undefined.
  Sampler(const SamplingOptions& options, const at::Tensor& tokens, const at::Tensor& real,
          std::int64_t d_vocab);

  /// One token for each row of `logits` [batch, vocab], of those that `rules` leave. The host waits once for
  /// the device.
  PickedTokens pick(const at::Tensor& logits, const RuledTokens& rules);

 private:
  /// From `logits` as sampling options leave them: `changed`. In one pass over each row, for float32 on the
  /// CPU.
  PickedTokens picked_by_rows(const at::Tensor& logits, const at::Tensor& changed);
  PickedTokens picked_by_operators(const at::Tensor& logits, const at::Tensor& changed);  ///< the same
  at::Tensor drawn(const at::Tensor& logits);
  /// A number from 0 to less than 1 for each row.
  std::vector<double> draws();

  const SamplingOptions& options_;
  at::Tensor occurred_;                   // [batch, vocab] how often; undefined without penalties
  std::vector<std::mt19937_64> streams_;  // one per row, so that a row does not depend on its neighbours
};

}  // namespace hooked
