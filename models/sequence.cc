#include "models/sequence.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <utility>

namespace hooked {

namespace {

// Which columns are no padding, of all that a run sees, [batch, key]; undefined: all.
at::Tensor joined_mask(const Sequence::Input& input) {
  std::vector<at::Tensor> parts;
  bool padded = input.attention_mask.defined();
  const auto add = [&](std::int64_t columns, const at::Tensor& real) {
    padded |= real.defined();
    parts.push_back(
        real.defined() ? real.to(input.device, at::kBool).expand({input.batch, columns})
                       : at::ones({input.batch, columns}, at::TensorOptions(at::kBool).device(input.device)));
  };
  if (input.prefix) add(input.prefix->length(), input.prefix->real());
  if (input.extends != nullptr) add(input.extends->length(), input.extends->real());
  add(input.length, input.attention_mask);
  return padded ? at::cat(parts, 1) : at::Tensor();
}

}  // namespace

Sequence::Sequence(const ModelConfig& config, Stack stack, Input input)
    : config_(config),
      bidirectional_(config.bidirectional(stack)),
      input_(std::move(input)),
      past_((input_.prefix ? input_.prefix->length() : 0) +
            (input_.extends != nullptr ? input_.extends->length() : 0)),
      real_keys_(joined_mask(input_)) {
  const std::int64_t end = past_ + input_.length;
  if (real_keys_.defined()) {
    // Positions count real tokens, so that a padded row equals the row alone.
    key_positions_ = (at::cumsum(real_keys_, 1, at::kLong) - 1).clamp_min(0);
    real_ = real_keys_.narrow(1, past_, input_.length);
  } else {
    key_positions_ = at::arange(end, at::TensorOptions(at::kLong).device(input_.device)).unsqueeze(0);
  }
  positions_ = key_positions_.narrow(1, past_, input_.length);
}

at::Tensor Sequence::last_columns() const {
  if (!real_.defined()) return {};
  const at::Tensor columns = at::arange(past_, past_ + input_.length, positions_.options());
  return (columns * real_).amax(1).clamp_min(past_);
}

std::vector<KeysAndValues> Sequence::remember(std::int64_t l, const at::Tensor& keys,
                                              const at::Tensor& values) const {
  std::vector<KeysAndValues> stretches;
  if (input_.prefix) stretches.push_back(input_.prefix->first(l, input_.prefix->length()));
  if (input_.extends != nullptr) {
    input_.extends->put(l, keys, values);
    stretches.push_back(input_.extends->first(l, input_.extends->length() + input_.length));
  } else {
    stretches.push_back({keys.transpose(1, 2), values.transpose(1, 2)});
  }
  return stretches;
}

const LayerKind& Sequence::layer_kind(std::int64_t l, const LayerFrequencies& frequencies) {
  const bool windowed = config_.windowed(l);
  std::optional<LayerKind>& kind = kinds_[windowed ? 1 : 0];
  if (!kind) kind = make_layer_kind(windowed, frequencies);
  return *kind;
}

at::Tensor Sequence::alibi_bias() const {
  const at::Tensor slopes = at::tensor(config_.alibi_slopes, at::kDouble).to(input_.device).view({1, -1, 1});
  at::Tensor bias;  // [1 or batch, head, query, key]
  if (config_.alibi_in_bfloat16) {
    // Rounding does not commute with the difference of positions, so each end is rounded by itself.
    const auto ramp = [&](const at::Tensor& positions) {  // [1 or batch, head, pos]
      return (slopes.to(at::kBFloat16) * positions.unsqueeze(1)).to(config_.dtype);
    };
    bias = ramp(key_positions_).unsqueeze(2) - ramp(positions_).unsqueeze(3);
  } else {
    const at::Tensor behind =
        (positions_.unsqueeze(2) - key_positions_.unsqueeze(1)).clamp_min(0).unsqueeze(1);
    bias = -(slopes.to(config_.dtype).unsqueeze(-1) * behind.to(config_.dtype));
  }
  return config_.alibi_scaled ? bias / config_.attn_scale : bias;
}

at::Tensor Sequence::blocked_padding(std::int64_t queries) const {
  if (!real_keys_.defined()) return {};
  return real_keys_.logical_not().unsqueeze(1).unsqueeze(1).expand({-1, -1, queries, -1});
}

LayerKind Sequence::seen_from(std::int64_t length) const {
  return {.blocked = blocked_padding(length), .bias = {}, .angles = {}};
}

LayerKind Sequence::make_layer_kind(bool windowed, const LayerFrequencies& frequencies) const {
  LayerKind kind;
  const std::int64_t end = past_ + input_.length;
  const bool windows = windowed && config_.window < end;
  const bool newest_alone = input_.length == 1 && past_ > 0;  // it may see everything before it
  if (windows || (!bidirectional_ && !newest_alone)) {
    const at::Tensor columns = at::arange(end, at::TensorOptions(at::kLong).device(input_.device));
    const at::Tensor behind = columns.narrow(0, past_, input_.length).unsqueeze(1) -
                              columns.unsqueeze(0);  // [query, key]: how far back the key is
    if (!bidirectional_) kind.blocked = (behind < 0).unsqueeze(0).unsqueeze(0);
    if (windows) {
      // In tokens, not columns: padding between two tokens does not move them apart.
      at::Tensor apart = behind.unsqueeze(0);  // [1 or batch, query, key]
      if (real_.defined()) {
        const at::Tensor tokens = positions_.unsqueeze(2) - key_positions_.unsqueeze(1);
        apart = at::where(real_.unsqueeze(2), tokens, apart);
      }
      const at::Tensor outside = ((bidirectional_ ? apart.abs() : apart) >= config_.window).unsqueeze(1);
      kind.blocked = bidirectional_ ? outside : kind.blocked.logical_or(outside);
    }
    kind.plain_causal = !windows && past_ == 0;
  }
  if (const at::Tensor padding = blocked_padding(input_.length); padding.defined()) {
    kind.blocked = kind.blocked.defined() ? kind.blocked.logical_or(padding) : padding;
    kind.plain_causal = false;
  }
  if (config_.positions == PositionKind::alibi) {
    // Press et al. 2022, from the positions themselves, so that it does not depend on earlier runs.
    kind.bias = alibi_bias();
    kind.plain_causal = false;
  }
  if (relative_bias.defined()) {
    kind.bias = relative_bias;
    kind.plain_causal = false;
  }
  if (config_.positions == PositionKind::rotary) {
    kind.angles = rotary_angles(windowed ? frequencies.windowed : frequencies.full,
                                {positions_, input_.row_lengths}, config_.dtype);
  }
  return kind;
}

}  // namespace hooked
