#include "models/run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace hooked {

Run::Run(const ModelConfig& config, Watch watch, const Input& input)
    : Watch(std::move(watch)), config_(config), input_(input) {
  if (input.attention_mask.defined()) {
    real_ = input.attention_mask.to(input.device, at::kBool);
    // Positions count real tokens, so that a padded row equals the row alone.
    positions_ = (at::cumsum(real_, 1, at::kLong) - 1).clamp_min(0);
    const at::Tensor columns = at::arange(input.length, positions_.options());
    set_last_positions((columns * real_).amax(1));
  } else {
    positions_ = at::arange(input.length, at::TensorOptions(at::kLong).device(input.device)).unsqueeze(0);
  }
}

at::Tensor Run::token_types() const {
  if (input_.token_types.defined()) return input_.token_types;
  return at::zeros({1, input_.length}, at::TensorOptions(at::kLong).device(input_.device));
}

const Run::LayerKind& Run::layer_kind(std::int64_t l, const LayerFrequencies& frequencies) {
  const bool windowed = config_.windowed(l);
  std::optional<LayerKind>& kind = kinds_[windowed ? 1 : 0];
  if (!kind) kind = make_layer_kind(windowed, frequencies);
  return *kind;
}

at::Tensor Run::alibi_bias() const {
  const at::Tensor slopes = at::tensor(config_.alibi_slopes, at::kDouble).to(input_.device).view({1, -1, 1});
  at::Tensor bias;  // [1 or batch, head, query, key]
  if (config_.alibi_in_bfloat16) {
    // Rounding does not commute with the difference of positions, so each end is rounded by itself.
    const at::Tensor ramp = (slopes.to(at::kBFloat16) * positions_.unsqueeze(1)).to(config_.dtype);
    bias = ramp.unsqueeze(2) - ramp.unsqueeze(3);
  } else {
    const at::Tensor behind = (positions_.unsqueeze(2) - positions_.unsqueeze(1)).clamp_min(0).unsqueeze(1);
    bias = -(slopes.to(config_.dtype).unsqueeze(-1) * behind.to(config_.dtype));
  }
  return config_.alibi_scaled ? bias / config_.attn_scale : bias;
}

Run::LayerKind Run::make_layer_kind(bool windowed, const LayerFrequencies& frequencies) const {
  LayerKind kind;
  const bool causal = config_.direction == AttentionDirection::causal;
  const at::Tensor columns = at::arange(input_.length, at::TensorOptions(at::kLong).device(input_.device));
  if (causal) {
    const at::Tensor behind =
        columns.unsqueeze(1) - columns.unsqueeze(0);  // [query, key]: how far back the key is
    kind.blocked = behind < 0;
    if (windowed && config_.window < input_.length) {
      kind.blocked = kind.blocked.logical_or(behind >= config_.window);
    } else {
      kind.plain_causal = true;
    }
    kind.blocked = kind.blocked.unsqueeze(0).unsqueeze(0);
  }
  if (real_.defined()) {
    const at::Tensor padding = real_.logical_not().unsqueeze(1).unsqueeze(1);  // [batch, 1, 1, key]
    kind.blocked = kind.blocked.defined() ? kind.blocked.logical_or(padding)
                                          : padding.expand({-1, -1, input_.length, -1});
    kind.plain_causal = false;
  }
  if (config_.positions == PositionKind::alibi) {
    // Press et al. 2022, from the positions themselves, so that it does not depend on earlier runs.
    kind.bias = alibi_bias();
    kind.plain_causal = false;
  }
  if (config_.positions == PositionKind::rotary) {
    kind.angles =
        rotary_angles(windowed ? frequencies.windowed : frequencies.full, positions_, config_.dtype);
  }
  return kind;
}

}  // namespace hooked
