#include "models/attention/heads.h"

#include <ATen/TensorOperators.h>

#include <vector>

#include "core/weight_table.h"
#include "models/ops/ops.h"
#include "models/ops/recorded.h"
#include "models/storage/workspace.h"

namespace hooked {
namespace {

at::Tensor rotated(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                   const Workspace* workspace) {
  if (workspace == nullptr) return rotate(x, angles, rotary);
  if (!x.device().is_cpu()) return rotate_in_few(x, angles, rotary);
  if (!can_rotate_rows(x, angles)) return rotate(x, angles, rotary);
  const at::Tensor out = workspace->empty(x.sizes(), x.options());
  rotate_into(out, x, angles, rotary);
  return out;
}

// Queries and keys that are adjacent, as one product leaves them, as one tensor [batch, pos, heads of both,
// d_head]; undefined if they are not adjacent.
at::Tensor side_by_side(const Heads& heads) {
  const at::Tensor &q = heads.q, &k = heads.k;
  const bool neighbours = q.is_alias_of(k) && q.strides() == k.strides() && q.size(1) == k.size(1) &&
                          k.storage_offset() == q.storage_offset() + q.size(2) * q.stride(2);
  if (!neighbours) return {};
  return q.as_strided({q.size(0), q.size(1), q.size(2) + k.size(2), q.size(3)}, q.strides());
}

}  // namespace

StreamProjection::StreamProjection(torch::nn::Module& attention, const GraphContext& context)
    : config_(context.config),
      kv_heads_(config_.shares_keys(context.layer) ? 0 : config_.kv_heads(context.layer)),
      d_head_(config_.head_width(context.layer)) {
  const ModelConfig& c = config_;
  const std::int64_t width = (c.n_heads + 2 * kv_heads_) * d_head_;
  W_QKV_ = add_matrix(attention, "W_QKV", width, c.d_model, {.out = d_head_, .in = c.d_model}, context);
  if (c.qkv_bias) b_QKV_ = add_parameter(attention, "b_QKV", {width}, context);
}

Heads StreamProjection::project(const AttentionInput& input, Run& run) const {
  const std::int64_t h = config_.n_heads, kv = kv_heads_, d = d_head_;
  const auto side_by_side = [&](const at::Tensor& x, std::int64_t first_head, std::int64_t count) {
    const Matrix weight = W_QKV_.narrow(first_head * d, count * d);
    const at::Tensor bias = b_QKV_.defined() ? b_QKV_.narrow(0, first_head * d, count * d) : b_QKV_;
    return ops::linear(x, weight, bias, run).unflatten(-1, {count, d});  // [batch, pos, count, d_head]
  };

  Heads heads;
  if (kv == 0) {
    heads.q = input.query ? branch(*input.query, 0, h, run) : side_by_side(input.shared, 0, h);
    return heads;
  }
  if (input.encoder_output) {
    heads.q = side_by_side(input.shared, 0, h);
    if (!input.encoder_output->defined()) return heads;
    const at::Tensor both = side_by_side(*input.encoder_output, h, 2 * kv);
    const auto parts = ops::split(both, {kv, kv}, 2, run);
    heads.k = parts[0];
    heads.v = parts[1];
    return heads;
  }
  if (input.query_key_positions.defined()) {
    const at::Tensor both = side_by_side(input.shared + input.query_key_positions, 0, h + kv);
    const auto parts = ops::split(both, {h, kv}, 2, run);
    heads = {parts[0], parts[1], side_by_side(input.shared, h + kv, kv)};
  } else {
    const at::Tensor all = side_by_side(input.shared, 0, h + 2 * kv);
    const auto parts = ops::split(all, {h, kv, kv}, 2, run);
    heads = {parts[0], parts[1], parts[2]};
  }
  const auto placed = [&](const at::Tensor& x) {
    return input.query_key_positions.defined() ? x + input.query_key_positions.unsqueeze(2) : x;
  };
  if (input.query) heads.q = branch(placed(*input.query), 0, h, run);
  if (input.key) heads.k = branch(placed(*input.key), h, kv, run);
  if (input.value) heads.v = branch(*input.value, h + kv, kv, run);
  return heads;
}

at::Tensor StreamProjection::branch(const at::Tensor& input, std::int64_t first_head, std::int64_t heads,
                                    const Run& run) const {
  const std::int64_t d = d_head_;
  const at::Tensor weight =
      W_QKV_.narrow(first_head * d, heads * d).by_output_heads(heads).read();  // [head, d_model, d_head]
  const at::Tensor x = ops::by_head_product(input, weight, run);
  if (!b_QKV_.defined()) return x;
  return x + b_QKV_.narrow(0, first_head * d, heads * d).view({heads, d});
}

WeightSlots StreamProjection::slots(const std::string& path) const {
  const std::int64_t h = config_.n_heads, kv = kv_heads_, d = d_head_;
  WeightSlots slots;
  const auto name = [&](const char* plain) {
    const std::string full = path + plain;
    return config_.grouped_query() ? grouped_spelling(full) : full;
  };
  const auto rows = [&](const at::Tensor& packed, std::int64_t first_head, std::int64_t heads) {
    return packed.narrow(0, first_head * d, heads * d);
  };
  const auto heads_of = [&](std::int64_t first_head, std::int64_t heads) {
    return W_QKV_.narrow(first_head * d, heads * d).by_output_heads(heads);
  };
  add_slot(slots, name(".W_Q"), heads_of(0, h));
  if (b_QKV_.defined()) add_slot(slots, name(".b_Q"), rows(b_QKV_, 0, h).view({h, d}));
  if (kv == 0) return slots;
  add_slot(slots, name(".W_K"), heads_of(h, kv));
  add_slot(slots, name(".W_V"), heads_of(h + kv, kv));
  if (!b_QKV_.defined()) return slots;
  add_slot(slots, name(".b_K"), rows(b_QKV_, h, kv).view({kv, d}));
  add_slot(slots, name(".b_V"), rows(b_QKV_, h + kv, kv).view({kv, d}));
  return slots;
}

at::Tensor turned(const at::Tensor& x, const RotaryAngles& angles, const RotaryPositions& rotary,
                  const Run& run) {
  if (run.workspace == nullptr || !records(x)) return rotated(x, angles, rotary, run.workspace);
  const RotaryAngles back{angles.cosine, -angles.sine};
  return recorded(rotated(x.detach(), angles, rotary, run.workspace), {x},
                  [back, rotary, memory = *run.workspace](const at::Tensor& gradient) {
                    return std::vector{rotated(gradient, back, rotary, &memory)};
                  });
}

void turn(Heads& heads, const RotaryAngles& angles, const RotaryPositions& rotary, const Run& run) {
  if (heads.k.defined() && run.workspace != nullptr && !heads.q.device().is_cpu() && !records(heads.q) &&
      !records(heads.k)) {
    if (const at::Tensor both = side_by_side(heads); both.defined()) {
      const std::int64_t h = heads.q.size(2), kv = heads.k.size(2);
      const at::Tensor turned_both = rotate_in_few(both, angles, rotary);
      heads.q = turned_both.narrow(2, 0, h);
      heads.k = turned_both.narrow(2, h, kv);
      return;
    }
  }
  heads.q = turned(heads.q, angles, rotary, run);
  if (heads.k.defined()) heads.k = turned(heads.k, angles, rotary, run);
}

}  // namespace hooked
