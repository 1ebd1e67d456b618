#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/repeat_interleave.h>

#include "weights/steps.h"

namespace hooked::weights {
namespace {

void move_value_biases(WorkingWeights& block, const ModelConfig& before) {
  block.set("attn.b_O", output_bias_with_values(block, before));
  block.set("attn.b_V", block.zeros("attn.b_V"));
}

std::optional<Obstacle> value_biases_obstacle(const ModelConfig& config) {
  if (!config.qkv_bias) return Obstacle{Obstacle::Kind::nothing_to_do, "the model has no value biases"};
  if (config.latent_attention()) {
    return Obstacle{Obstacle::Kind::nothing_to_do,
                    "values are made from a latent and have no biases of their own"};
  }
  if (config.qkv_clip > 0) {
    return Obstacle{Obstacle::Kind::would_change, "values are clamped between the bias and the pattern"};
  }
  if (config.attention_sinks) return sinks_obstacle();
  return std::nullopt;
}

void add_output_bias(ModelConfig& config) { config.attn_out_bias = true; }

}  // namespace

Obstacle sinks_obstacle() {
  return {Obstacle::Kind::would_change,
          "attention sinks take their share of each pattern, so the values' biases are not all written"};
}

at::Tensor output_bias_with_values(WorkingWeights& block, const ModelConfig& before) {
  // [head, d_head]; a key/value head serves n_heads / n_kv_heads heads in a row.
  const at::Tensor b_V =
      block.get("attn.b_V").repeat_interleave(before.n_heads / before.n_kv_heads, /*dim=*/0);
  const at::Tensor b_O = before.attn_out_bias ? block.get("attn.b_O") : block.zeros("attn.b_O");
  return b_O + block.weighted_sum("attn.W_O", {Axis::head, Axis::d_value}, b_V);
}

StepDefinition fold_value_biases_step() {
  return {.step = ProcessingStep::fold_value_biases,
          .name = "fold_value_biases",
          .obstacle = value_biases_obstacle,
          .apply_to_block = move_value_biases,
          .apply_to_ends = leave_unchanged,
          .update = add_output_bias};
}

}  // namespace hooked::weights
