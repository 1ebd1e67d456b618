#include "models/sequence/sequence.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "core/to_device.h"

namespace hooked {

namespace {

// Columns before the run's own.
std::int64_t past_of(const Sequence::Input& input) {
  if (input.column.defined()) return input.cache->capacity() - 1;
  const std::int64_t prefix = input.prefix ? input.prefix->length() : 0;
  return prefix + (input.cache != nullptr ? input.cache->length() : 0);
}

// Which columns are real, of all that a run sees, [batch, key]; undefined: all.
at::Tensor joined_mask(const Sequence::Input& input) {
  if (input.column.defined()) return input.cache->real_room();
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

}  // namespace

Sequence::Sequence(const ModelConfig& config, Stack stack, Input input)
    : config_(config),
      bidirectional_(config.bidirectional(stack)),
      input_(std::move(input)),
      past_(past_of(input_)),
      real_keys_(input_.ragged ? at::Tensor() : joined_mask(input_)) {
  if (input_.ragged) {
    std::vector<at::Tensor> positions;
    for (const RaggedRows::Group& group : input_.ragged->groups()) {
      const auto before = std::make_shared<const KvCache>(input_.prefix->first(group.first_column));
      parts_.push_back(Sequence(config_, stack,
                                {.batch = group.rows,
                                 .length = group.columns,
                                 .attention_mask = {},
                                 .device = input_.device,
                                 .prefix = before}));
      positions.push_back(parts_.back().positions_.expand({group.rows, -1}).flatten());
    }
    positions_ = at::cat(positions).unsqueeze(0);
    return;
  }
  const auto own = [&](const at::Tensor& of_keys) {
    return input_.column.defined() ? of_keys.index_select(1, input_.column)
                                   : of_keys.narrow(1, past_, input_.length);
  };
  if (real_keys_.defined()) {
    // Positions count real tokens, so that a padded row equals the row alone.
    key_positions_ = (at::cumsum(real_keys_, 1, at::kLong) - 1).clamp_min(0);
    real_ = own(real_keys_);
  } else {
    const std::int64_t end = past_ + input_.length;
    key_positions_ = at::arange(end, at::TensorOptions(at::kLong).device(input_.device)).unsqueeze(0);
  }
  positions_ = own(key_positions_);
}

at::Tensor Sequence::part_of(const at::Tensor& x, std::size_t part) const {
  return input_.ragged && x.defined() ? RaggedRows::part(x, input_.ragged->groups()[part]) : x;
}

at::Tensor Sequence::of_parts(const std::function<at::Tensor(std::size_t part)>& of_part) const {
  if (!input_.ragged) return of_part(0);
  std::vector<at::Tensor> tokens;  // [token, ...] each
  for (std::size_t part = 0; part < parts_.size(); ++part) tokens.push_back(of_part(part).flatten(0, 1));
  return at::cat(tokens).unsqueeze(0);
}

at::Tensor Sequence::own_columns() const {
  if (input_.column.defined()) return input_.column.unsqueeze(0);
  return at::arange(past_, past_ + input_.length, at::TensorOptions(at::kLong).device(input_.device))
      .unsqueeze(0);
}

std::vector<KeysAndValues> Sequence::past(std::int64_t l) const {
  std::vector<KeysAndValues> segments;
  // (The prefix of an encoder-decoder may hold what the encoder read, and no columns.)
  if (input_.prefix && input_.prefix->length() > 0)
    segments.push_back(input_.prefix->layer(l, input_.prefix->length()));
  if (input_.cache != nullptr && input_.cache->length() > 0) {
    segments.push_back(input_.cache->layer(l, input_.cache->length()));
  }
  return segments;
}

std::vector<KeysAndValues> Sequence::append(std::int64_t l, const KeysAndValues& own) const {
  if (input_.column.defined()) {
    input_.cache->append_at(l, input_.column, own);
    return {input_.cache->layer(l, input_.cache->capacity())};
  }
  std::vector<KeysAndValues> segments;
  if (input_.prefix && input_.prefix->length() > 0)
    segments.push_back(input_.prefix->layer(l, input_.prefix->length()));
  if (input_.cache != nullptr) {
    input_.cache->append(l, own);
    segments.push_back(input_.cache->layer(l, input_.cache->length() + input_.length));
  } else {
    segments.push_back(own);
  }
  return segments;
}

const EncoderKeys* Sequence::encoder_keys() const noexcept {
  if (input_.cache != nullptr && !input_.cache->encoder().empty()) return &input_.cache->encoder();
  if (input_.prefix && !input_.prefix->encoder().empty()) return &input_.prefix->encoder();
  return nullptr;
}

at::Tensor Sequence::columns_by_distance() const {
  if (!real_keys_.defined()) return positions_;
  if (!input_.device.is_cpu()) return {};  // the host would have to wait for the result
  const at::Tensor first = real_keys_.to(at::kByte).argmax(1, /*keepdim=*/true);
  const at::Tensor columns = at::arange(real_keys_.size(1), at::TensorOptions(at::kLong));
  const bool together =
      (key_positions_ + first == columns).logical_or_(real_keys_.logical_not()).all().item<bool>();
  return together ? positions_ + first : at::Tensor();
}

ScoreBias Sequence::bias_by_distance(const BiasOfDistances& of, bool whole) const {
  const std::int64_t keys = past_ + input_.length;
  const at::Tensor columns = whole ? at::Tensor() : columns_by_distance();
  if (columns.defined()) {
    const at::Tensor distances =
        at::arange(1 - keys, keys, at::TensorOptions(at::kLong).device(input_.device)).unsqueeze(0);
    return {.values = of(distances).contiguous(), .starts = (keys - 1) - columns, .whole = {}};
  }
  const at::Tensor distances = key_positions_.unsqueeze(1) - positions_.unsqueeze(2);
  return ScoreBias::of(of(distances.flatten(1)).unflatten(2, {input_.length, keys}));
}

ScoreBias Sequence::alibi_bias() const {
  const AlibiPositions& alibi = *config_.alibi();
  const at::Tensor slopes = to_device(at::tensor(alibi.slopes, at::kDouble), input_.device).view({1, -1, 1});
  const auto scaled = [&](const at::Tensor& bias) { return alibi.scaled ? bias / config_.attn_scale : bias; };
  if (alibi.in_bfloat16) {
    // Rounding does not commute with the difference of positions, so each end is rounded alone.
    const auto ramp = [&](const at::Tensor& positions) {  // [1 or batch, head, pos]
      return (slopes.to(at::kBFloat16) * positions.unsqueeze(1)).to(config_.dtype);
    };
    return ScoreBias::of(scaled(ramp(key_positions_).unsqueeze(2) - ramp(positions_).unsqueeze(3)));
  }
  // Press et al. 2022, from the positions themselves, so that it does not depend on earlier runs.
  return bias_by_distance([&](const at::Tensor& distances) {
    const at::Tensor behind = (-distances).clamp_min(0).unsqueeze(1).to(config_.dtype);
    return scaled(-(slopes.to(config_.dtype) * behind));
  });
}

VisibleKeys Sequence::visible_by_place(bool windows) const {
  const std::int64_t keys = past_ + input_.length;
  const at::Tensor own = own_columns();
  VisibleKeys visible;
  visible.first = at::zeros_like(own);
  visible.end = bidirectional_ ? at::full_like(own, keys) : own + 1;
  if (!windows) return visible;
  // In tokens, not columns: padding between two tokens does not move them apart. Padding itself has no
  // position.
  const std::int64_t size = config_.window->size;
  const auto column_of = [&](const auto& tokens_on) {  // a number, or one per query [1 or batch, query]
    const at::Tensor column = (own + tokens_on).clamp(0, keys);
    if (!real_.defined()) return column;
    const at::Tensor by_token =
        at::searchsorted(key_positions_.contiguous(), (positions_ + tokens_on).contiguous());
    return at::where(real_, by_token, column);
  };
  if (config_.window->kind == Window::chunks) {
    const at::Tensor in_chunk = positions_.remainder(size);
    visible.first = column_of(-in_chunk);
    if (bidirectional_) visible.end = column_of(size - in_chunk);
  } else {
    visible.first = column_of(1 - size);
    if (bidirectional_) visible.end = column_of(size);
  }
  visible.end = visible.end.expand_as(visible.first).contiguous();
  return visible;
}

LayerKind LayerKind::of_queries(const at::Tensor& queries) const {
  return {.mask = mask.of_queries(queries), .windowed = windowed, .has_empty_rows = has_empty_rows};
}

EarlierTokens Sequence::earlier(std::int64_t taps) const {
  if (!real_keys_.defined() && !in_room()) return {};
  const auto options = at::TensorOptions(at::kLong).device(input_.device);
  const at::Tensor back = at::arange(taps - 1, -1, -1, options);  // [tap]
  if (!real_keys_.defined()) {
    const at::Tensor columns = own_columns().unsqueeze(-1) - back;
    return {columns.clamp_min(0), columns < 0};
  }
  // For padding, the tokens before it.
  const at::Tensor counts = at::cumsum(real_keys_, 1, at::kLong);  // [batch, key]
  const at::Tensor own =
      in_room() ? counts.index_select(1, input_.column) : counts.narrow(1, past_, input_.length);
  const at::Tensor numbers = own.unsqueeze(-1) - back;  // of tokens, from 1 on
  const at::Tensor columns = at::searchsorted(counts, numbers.flatten(1)).view_as(numbers);
  return {columns.clamp_max(counts.size(1) - 1), numbers < 1};
}

RunTokens Sequence::run_tokens(std::int64_t taps) const {
  if (!real_.defined()) return {};
  const auto options = at::TensorOptions(at::kLong).device(input_.device);
  const at::Tensor counts = at::cumsum(real_, 1, at::kLong);  // [batch, pos]
  // Numbers of tokens from 1 on belong to this run; those up to 0 are earlier.
  const auto places = [&](const at::Tensor& numbers) {
    const at::Tensor own = at::searchsorted(counts, numbers.flatten(1)).view_as(numbers);
    return at::where(numbers >= 1, own.clamp_max(counts.size(1) - 1) + (taps - 1),
                     (numbers + (taps - 2)).clamp_min(0));
  };
  const at::Tensor columns = places(counts.unsqueeze(-1) - at::arange(taps - 1, -1, -1, options));
  return {real_,
          {columns, at::zeros_like(columns, columns.options().dtype(at::kBool))},
          places(counts.narrow(1, counts.size(1) - 1, 1) - at::arange(taps - 2, -1, -1, options))};
}

RecurrentState Sequence::state(std::int64_t l) const {
  if (input_.cache != nullptr && input_.cache->state(l).defined()) return input_.cache->state(l);
  return input_.prefix ? input_.prefix->state(l) : RecurrentState();
}

void Sequence::keep_state(std::int64_t l, const RecurrentState& next) const {
  if (input_.cache != nullptr) input_.cache->set_state(l, next);
}

RotaryAngles Sequence::angles(const RotaryFrequencies& frequencies) const {
  return rotary_angles(frequencies, {positions_, input_.row_lengths}, config_.dtype);
}

at::Tensor Sequence::query_growth() const {
  const QueryGrowth& growth = *config_.query_growth;
  const at::Tensor wide = positions_.to(config_.dtype == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor factors = ((wide + growth.offset) / growth.tokens).floor().log1p() * growth.growth + 1.0;
  return factors.to(config_.dtype).unsqueeze(-1).unsqueeze(-1);
}

LayerKind Sequence::layer_kind(bool windowed, const ScoreBias& relative_bias) const {
  const bool windows = windowed && config_.window->size < past_ + input_.length;
  // It may see everything before it; in a room also what is not filled yet.
  const bool newest_alone = input_.length == 1 && past_ > 0 && !input_.column.defined();
  const bool by_place = windows || (!bidirectional_ && !newest_alone);
  VisibleKeys visible;
  if (by_place) visible = visible_by_place(windows);
  visible.real = real_keys_;
  const ScoreBias bias = config_.alibi() != nullptr ? alibi_bias() : relative_bias;
  LayerKind kind;
  kind.plain_causal = by_place && !windows && past_ == 0 && !real_keys_.defined() && !bias.defined();
  kind.windowed = windows;
  kind.has_empty_rows = real_.defined();
  kind.mask = AttentionMask({.queries = input_.length, .keys = past_ + input_.length}, visible, bias);
  return kind;
}

LayerKind cross_attention_kind(const at::Tensor& real, std::int64_t queries) {
  LayerKind kind;
  if (real.defined()) {
    kind.mask = AttentionMask({.queries = queries, .keys = real.size(1)},
                              {.first = {}, .end = {}, .real = real.contiguous()}, {});
  }
  return kind;
}

}  // namespace hooked
