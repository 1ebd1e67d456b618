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

// Which columns are not padding, of all that a run sees, [batch, key]; undefined: all.
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
  if (input.cache != nullptr) add(input.cache->length(), input.cache->real());
  add(input.length, input.attention_mask);
  return padded ? at::cat(parts, 1) : at::Tensor();
}

// Which keys are padding, [batch, 1, query, key], of the mask `real` [batch, key]; undefined where none is.
at::Tensor blocked_padding(const at::Tensor& real, std::int64_t queries) {
  if (!real.defined()) return {};
  return real.logical_not().unsqueeze(1).unsqueeze(1).expand({-1, -1, queries, -1});
}

}  // namespace

Sequence::Sequence(const ModelConfig& config, Stack stack, Input input)
    : config_(config),
      bidirectional_(config.bidirectional(stack)),
      input_(std::move(input)),
      past_((input_.prefix ? input_.prefix->length() : 0) +
            (input_.cache != nullptr ? input_.cache->length() : 0)),
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

std::vector<KeysAndValues> Sequence::append(std::int64_t l, const at::Tensor& keys,
                                            const at::Tensor& values) const {
  std::vector<KeysAndValues> segments;
  if (input_.prefix) segments.push_back(input_.prefix->first(l, input_.prefix->length()));
  if (input_.cache != nullptr) {
    input_.cache->append(l, keys, values);
    segments.push_back(input_.cache->first(l, input_.cache->length() + input_.length));
  } else {
    segments.push_back({keys.transpose(1, 2), values.transpose(1, 2)});
  }
  return segments;
}

const EncoderKeys* Sequence::encoder_keys() const noexcept {
  if (input_.cache != nullptr && !input_.cache->encoder().empty()) return &input_.cache->encoder();
  if (input_.prefix && !input_.prefix->encoder().empty()) return &input_.prefix->encoder();
  return nullptr;
}

at::Tensor Sequence::alibi_bias() const {
  const at::Tensor slopes =
      at::tensor(config_.alibi()->slopes, at::kDouble).to(input_.device).view({1, -1, 1});
  at::Tensor bias;  // [1 or batch, head, query, key]
  if (config_.alibi()->in_bfloat16) {
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
  return config_.alibi()->scaled ? bias / config_.attn_scale : bias;
}

at::Tensor Sequence::blocked_by_place(bool windows) const {
  const at::Tensor columns =
      at::arange(past_ + input_.length, at::TensorOptions(at::kLong).device(input_.device));
  const at::Tensor behind = columns.narrow(0, past_, input_.length).unsqueeze(1) -
                            columns.unsqueeze(0);  // [query, key]: how far back the key is
  const at::Tensor later = (behind < 0).unsqueeze(0).unsqueeze(0);
  if (!windows) return later;
  // In tokens, not columns: padding between two tokens does not move them apart.
  at::Tensor apart = behind.unsqueeze(0);  // [1 or batch, query, key]
  if (real_.defined()) {
    const at::Tensor tokens = positions_.unsqueeze(2) - key_positions_.unsqueeze(1);
    apart = at::where(real_.unsqueeze(2), tokens, apart);
  }
  const at::Tensor outside = ((bidirectional_ ? apart.abs() : apart) >= config_.window->size).unsqueeze(1);
  return bidirectional_ ? outside : later.logical_or(outside);
}

LayerKind Sequence::layer_kind(bool windowed, const LayerFrequencies& frequencies,
                               const at::Tensor& relative_bias) const {
  const bool windows = windowed && config_.window->size < past_ + input_.length;
  const bool newest_alone = input_.length == 1 && past_ > 0;  // it may see everything before it
  const bool by_place = windows || (!bidirectional_ && !newest_alone);
  const bool padded = real_keys_.defined();

  AttentionMask::Make blocked, bias;
  if (by_place || padded) {
    blocked = [this, windows, by_place, padded] {
      const at::Tensor padding = blocked_padding(real_keys_, input_.length);
      if (!by_place) return padding;
      const at::Tensor place = blocked_by_place(windows);
      return padded ? place.logical_or(padding) : place;
    };
  }
  if (relative_bias.defined()) {
    bias = [relative_bias] { return relative_bias; };
  } else if (config_.alibi() != nullptr) {
    // Press et al. 2022, from the positions themselves, so that it does not depend on earlier runs.
    bias = [this] { return alibi_bias(); };
  }
  LayerKind kind;
  kind.plain_causal = by_place && !windows && past_ == 0 && !padded && !bias;
  kind.has_empty_rows = real_.defined();
  kind.mask = AttentionMask(std::move(blocked), std::move(bias));
  if (config_.rotary() != nullptr) {
    kind.angles = rotary_angles(windowed ? frequencies.windowed : frequencies.full,
                                {positions_, input_.row_lengths}, config_.dtype);
  }
  return kind;
}

LayerKind cross_attention_kind(const at::Tensor& real, std::int64_t queries) {
  LayerKind kind;
  if (real.defined()) kind.mask = AttentionMask([=] { return blocked_padding(real, queries); }, nullptr);
  return kind;
}

}  // namespace hooked
