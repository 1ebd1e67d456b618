#include "models/attention/relative_bias.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/where.h>

#include <cmath>

#include "core/to_device.h"

namespace hooked {

at::Tensor relative_buckets(const at::Tensor& distances, const RelativePositions& config,
                            bool bidirectional) {
  const std::int64_t buckets = bidirectional ? config.buckets / 2 : config.buckets;  // in one direction
  const std::int64_t exact = buckets / 2;
  const at::Tensor away = bidirectional ? distances.abs() : (-distances).clamp_min(0);
  // In float32, whose rounding decides at the edges of buckets, as when the models were trained.
  const double reach = std::log(static_cast<double>(config.max_distance) / static_cast<double>(exact));
  const at::Tensor beyond = (away.to(at::kFloat) / exact).log() / reach * (buckets - exact);
  // Distance 0 has no logarithm, and a bucket of its own.
  const at::Tensor wide = (beyond.clamp(0, buckets).to(at::kLong) + exact).clamp_max(buckets - 1);
  const at::Tensor bucket = at::where(away < exact, away, wide);
  return bidirectional ? bucket + (distances > 0).to(at::kLong) * buckets : bucket;
}

RelativeBias::RelativeBias(torch::nn::Module& owner, const GraphContext& context)
    : config_(context.config), stack_(context.stack) {
  weight_ = add_parameter(owner, "rel_pos_bias", {config_.relative()->buckets, config_.n_heads}, context);
  hook_ = add_point(owner, Site::relative_bias, context);
}

ScoreBias RelativeBias::forward(const Sequence& sequence, Watch& watch) const {
  const bool bidirectional = config_.bidirectional(stack_);
  const bool watched = hook_->watched(watch);
  const ScoreBias bias = sequence.bias_by_distance(
      [&](const at::Tensor& distances) {
        const at::Tensor here = to_device(distances, weight_.device());  // a later block may be elsewhere
        const at::Tensor buckets = relative_buckets(here, *config_.relative(), bidirectional);
        const at::Tensor numbers = at::embedding(weight_, buckets);  // [row, number, head]
        return (bidirectional ? numbers : numbers.masked_fill((here > 0).unsqueeze(-1), 0.0)).transpose(1, 2);
      },
      /*whole=*/watched);
  if (!watched) return bias;
  // One row is enough for the batch while nobody looks.
  return ScoreBias::of(hook_->forward(bias.whole.expand({sequence.batch(), -1, -1, -1}).contiguous(), watch));
}

WeightSlots RelativeBias::slots(const std::string& path) const {
  return {{path + ".rel_pos_bias.weight", weight_}};
}

}  // namespace hooked
