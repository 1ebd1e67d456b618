#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/repeat_interleave.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hooked/core/tensor_text.h"
#include "weights/steps.h"

namespace hooked::weights {
namespace {

void fold_values(WorkingWeights& part, const ModelConfig& before) {
  for (const std::string& attention : attentions_of(part.part(), before)) {
    move_value_biases(part, attention, before);
  }
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
  return obstacle_behind_values(config);
}

/// Why value biases cannot move: they are not finite, or so large that the values lose their digits.
std::optional<std::string> value_biases_risk(const StoredNumbers& numbers, const WeightPart& part,
                                             const ModelConfig& before) {
  for (const std::string& attention : attentions_of(part, before)) {
    const std::string name = attention + ".b_V";
    const at::Tensor bias = numbers.values(part, name);
    if (!bias.defined()) continue;
    const std::string full = numbers.name_of(part, name);
    if (const std::string where = not_finite(bias); !where.empty())
      return fmt::format("{} holds {}", full, where);
    const auto matrix = numbers.sample(part, attention + ".W_V", Axis::d_model);
    if (!matrix) continue;
    // A value, if the normed input has a length of about sqrt(d_model).
    const double value =
        std::sqrt(static_cast<double>(before.d_model) * matrix->values.square().mean().item<double>());
    const double shift = bias.abs().max().item<double>();
    const at::ScalarType kept = numbers.kept_dtype(matrix->stored);
    if (shift > std::max(value, 1.0) * largest_shift(kept)) {
      return fmt::format("{} reaches {:.2g}, next to which {} does not hold values of about {:.2g}", full,
                         shift, dtype_text(kept), value);
    }
  }
  return std::nullopt;
}

void add_output_bias(ModelConfig& config) { config.attn_out_bias = true; }

}  // namespace

std::optional<Obstacle> obstacle_behind_values(const ModelConfig& config) {
  using enum Obstacle::Kind;
  if (config.attention_sinks && config.qkv_bias) {
    return Obstacle{
        would_change,
        "attention sinks take their share of each pattern, so the values' biases are not all written"};
  }
  if (config.gated_heads)
    return Obstacle{would_change, "heads are gated between their values and the output"};
  if (config.value_norm)
    return Obstacle{would_change, "norms of values are between the bias and the pattern"};
  if (config.shared_keys)
    return Obstacle{would_change, "several layers attend with the keys and values of one"};
  return std::nullopt;
}

std::vector<std::string> attentions_of(const WeightPart& part, const ModelConfig& config) {
  if (!part || !config.attends(part->layer)) return {};
  if (config.has_encoder() && part->stack == Stack::decoder) return {"attn", "cross_attn"};
  return {"attn"};
}

void move_value_biases(WorkingWeights& block, const std::string& attention, const ModelConfig& before) {
  const std::string b_V = attention + ".b_V", b_O = attention + ".b_O";
  // [head, d_value]; a key/value head serves n_heads / n_kv_heads heads in a row.
  const at::Tensor values =
      block.get(b_V).repeat_interleave(before.heads_per_kv(block.part()->layer), /*dim=*/0);
  const at::Tensor bias = before.attn_out_bias ? block.get(b_O) : block.zeros(b_O);
  block.set(b_O, bias + block.now(attention + ".W_O").weighted_sum({Axis::head, Axis::d_value}, values));
  block.set(b_V, block.zeros(b_V));
}

StepDefinition fold_value_biases_step() {
  return {.step = ProcessingStep::fold_value_biases,
          .obstacle = value_biases_obstacle,
          .risk = value_biases_risk,
          .apply = fold_values,
          .update = add_output_bias};
}

}  // namespace hooked::weights
