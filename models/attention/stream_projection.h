#pragma once

#include <string>

#include "models/graph/graph.h"
#include "models/graph/token_mixer.h"

namespace hooked {

/// Heads straight from the stream: one product with packed weights.
class StreamProjection : public HeadProjection {
 public:
  StreamProjection(torch::nn::Module& attention, const GraphContext& context);

  Heads project(const AttentionInput& input, Run& run) const override;
  WeightSlots slots(const std::string& path) const override;

 private:
  at::Tensor branch(const at::Tensor& input, std::int64_t first_head, std::int64_t heads,
                    const Run& run) const;

  const ModelConfig& config_;
  std::int64_t kv_heads_;  // of its layer; 0 if it shares the keys and values of another
  std::int64_t d_head_;    // of its layer
  Matrix W_QKV_;           // [(head + 2 kv_head) * d_head, d_model]
  at::Tensor b_QKV_;       // [(head + 2 kv_head) * d_head]; undefined without one
};

}  // namespace hooked
