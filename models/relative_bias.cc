#include "models/relative_bias.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <cmath>

namespace hooked {

at::Tensor relative_buckets(const at::Tensor& distances, const RelativePositions& config,
                            bool bidirectional) {
  const std::int64_t buckets = bidirectional ? config.buckets / 2 : config.buckets;  // of one direction
  const std::int64_t exact = buckets / 2;
  const at::Tensor away = bidirectional ? distances.abs() : (-distances).clamp_min(0);
  // In float32, whose rounding decides at the edges of buckets: what models were trained with.
  const double reach = std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact));
  const at::Tensor beyond = (away.to(at::kFloat) / exact).log() / reach * (buckets - exact);
  // Distance 0 has no logarithm, and a bucket of its own.
  const at::Tensor wide = (beyond.clamp(0, buckets).to(at::kLong) + exact).clamp_max(buckets - 1);
  const at::Tensor bucket = at::where(away < exact, away, wide);
  return bidirectional ? bucket + (distances > 0).to(at::kLong) * buckets : bucket;
}

RelativeBias::RelativeBias(torch::nn::Module& owner, const GraphContext& context)
    : config_(context.config), stack_(context.stack) {
  weight_ = owner.register_parameter(
      "rel_pos_bias", at::empty({config_.relative()->buckets, config_.n_heads}, context.options),
      /*requires_grad=*/false);
  hook_ = add_point(owner, Site::relative_bias, context);
}

at::Tensor RelativeBias::forward(const Sequence& sequence, Watch& watch) const {
  const at::Tensor distances =
      sequence.key_positions().unsqueeze(1) - sequence.positions().unsqueeze(2);  // [1 or batch, query, key]
  const bool bidirectional = config_.bidirectional(stack_);
  at::Tensor bias = at::embedding(weight_, relative_buckets(distances, *config_.relative(), bidirectional));
  if (!bidirectional) bias = bias.masked_fill((distances > 0).unsqueeze(-1), 0.0);
  bias = bias.permute({0, 3, 1, 2});
  if (!hook_->watched(watch)) return bias;
  // One row stands for the batch while nobody looks.
  return hook_->forward(bias.expand({sequence.batch(), -1, -1, -1}).contiguous(), watch);
}

WeightSlots RelativeBias::slots(const std::string& path) const {
  return {{path + ".rel_pos_bias.weight", weight_}};
}

}  // namespace hooked
