#include "weights/working_weights.h"

#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <stdexcept>
#include <utility>
#include <vector>

#include "hooked/core/error.h"

namespace hooked::weights {
namespace {

struct WeightRow {
  std::string_view name;
  AxisList axes;
};

/// Every weight that a step reads or writes, and what its dimensions are.
constexpr std::array kWeightRows = {
    WeightRow{"embed.W_E", {Axis::vocab_in, Axis::d_model}},
    WeightRow{"pos_embed.W_pos", {Axis::n_ctx, Axis::d_model}},
    WeightRow{"ln1.w", {Axis::d_model}},
    WeightRow{"ln1.b", {Axis::d_model}},
    WeightRow{"ln2.w", {Axis::d_model}},
    WeightRow{"ln2.b", {Axis::d_model}},
    WeightRow{"attn.W_Q", {Axis::head, Axis::d_model, Axis::d_head}},
    WeightRow{"attn.b_Q", {Axis::head, Axis::d_head}},
    WeightRow{"attn.W_K", {Axis::kv_head, Axis::d_model, Axis::d_head}},
    WeightRow{"attn.b_K", {Axis::kv_head, Axis::d_head}},
    WeightRow{"attn.W_V", {Axis::kv_head, Axis::d_model, Axis::d_head}},
    WeightRow{"attn.b_V", {Axis::kv_head, Axis::d_head}},
    WeightRow{"attn.W_DQ", {Axis::d_model, Axis::q_latent}},
    WeightRow{"attn.b_DQ", {Axis::q_latent}},
    WeightRow{"attn.W_DKV", {Axis::d_model, Axis::kv_latent}},
    WeightRow{"attn.b_DKV", {Axis::kv_latent}},
    WeightRow{"attn.W_KR", {Axis::d_model, Axis::d_shared_key}},
    WeightRow{"attn.b_KR", {Axis::d_shared_key}},
    WeightRow{"attn.W_O", {Axis::head, Axis::d_value, Axis::d_model}},
    WeightRow{"attn.b_O", {Axis::d_model}},
    WeightRow{"mlp.W_in", {Axis::d_model, Axis::d_mlp}},
    WeightRow{"mlp.b_in", {Axis::d_mlp}},
    WeightRow{"mlp.W_gate", {Axis::d_model, Axis::d_mlp}},
    WeightRow{"mlp.b_gate", {Axis::d_mlp}},
    WeightRow{"mlp.ln.w", {Axis::d_mlp}},
    WeightRow{"mlp.ln.b", {Axis::d_mlp}},
    WeightRow{"mlp.W_out", {Axis::d_mlp, Axis::d_model}},
    WeightRow{"mlp.b_out", {Axis::d_model}},
    WeightRow{"mlp.W_gate.weight", {Axis::expert, Axis::d_model}},
    WeightRow{"mlp.W_gate.bias", {Axis::expert}},
    WeightRow{"mlp.experts.{}.W_in.weight", {Axis::d_expert, Axis::d_model}},
    WeightRow{"mlp.experts.{}.W_in.bias", {Axis::d_expert}},
    WeightRow{"mlp.experts.{}.W_gate.weight", {Axis::d_expert, Axis::d_model}},
    WeightRow{"mlp.experts.{}.W_gate.bias", {Axis::d_expert}},
    WeightRow{"mlp.experts.{}.W_out.weight", {Axis::d_model, Axis::d_expert}},
    WeightRow{"mlp.experts.{}.W_out.bias", {Axis::d_model}},
    WeightRow{"mlp.shared_expert.W_in", {Axis::d_model, Axis::d_shared}},
    WeightRow{"mlp.shared_expert.b_in", {Axis::d_shared}},
    WeightRow{"mlp.shared_expert.W_gate", {Axis::d_model, Axis::d_shared}},
    WeightRow{"mlp.shared_expert.b_gate", {Axis::d_shared}},
    WeightRow{"mlp.shared_expert.W_out", {Axis::d_shared, Axis::d_model}},
    WeightRow{"mlp.shared_expert.b_out", {Axis::d_model}},
    WeightRow{"mlp.shared_expert_gate.weight", {Axis::one, Axis::d_model}},
    WeightRow{"mlp.shared_expert_gate.bias", {Axis::one}},
    WeightRow{"ln_final.w", {Axis::d_model}},
    WeightRow{"ln_final.b", {Axis::d_model}},
    WeightRow{"mlm_head.W", {Axis::d_model, Axis::d_model}},
    WeightRow{"mlm_head.b", {Axis::d_model}},
    WeightRow{"unembed.W_U", {Axis::d_model, Axis::vocab_out}},
    WeightRow{"unembed.b_U", {Axis::vocab_out}},
};

// `mlp.experts.12.W_in.weight` as the table has it: one row for all experts.
std::string pattern_of(std::string_view name) {
  constexpr std::string_view kExperts = "mlp.experts.";
  if (!name.starts_with(kExperts)) return std::string(name);
  return fmt::format("{}{{}}{}", kExperts, name.substr(name.find('.', kExperts.size())));
}

const WeightRow& row_of(std::string_view name) {
  const auto row = std::ranges::find(kWeightRows, pattern_of(name), &WeightRow::name);
  if (row == kWeightRows.end()) throw std::logic_error(fmt::format("no row for the weight {}", name));
  return *row;
}

std::vector<std::int64_t> shape_of(const WeightRow& row, const ModelConfig& config) {
  std::vector<std::int64_t> shape;
  for (const Axis axis : row.axes) shape.push_back(size_of(axis, config));
  return shape;
}

std::string describe(const WeightRow& row, const ModelConfig& config) {
  std::string text;
  for (const Axis axis : row.axes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis_name(axis), size_of(axis, config));
  }
  return "[" + text + "]";
}

}  // namespace

WorkingWeights::WorkingWeights(const StoredWeights& stored, const ModelConfig& config,
                               const std::optional<BlockPlace>& block)
    : stored_(stored),
      config_(config),
      layer_(block ? block->layer : -1),
      scope_(block ? block->path() + "." : ""),
      dtype_(config.dtype) {}

std::string WorkingWeights::key(std::string_view name) const {
  if (config_.grouped_query()) {
    for (const std::string_view shared : {"W_K", "W_V", "b_K", "b_V"}) {
      if (name == fmt::format("attn.{}", shared)) return fmt::format("{}attn._{}", scope_, shared);
    }
  }
  return scope_ + std::string(name);
}

BlockedWeight WorkingWeights::now(std::string_view name) {
  const WeightRow& row = row_of(name);
  const std::string stored = key(name);
  if (const auto mine = changed_.find(stored); mine != changed_.end() && mine->second) {
    return *mine->second;
  }
  std::optional<StoredTensor> found = stored_(stored);
  if (!found) {
    throw CheckpointError(stored,
                          fmt::format("the tensor is missing; expected shape {}, got nothing; check that the "
                                      "config and the weights belong together",
                                      describe(row, config_)));
  }
  if (found->shape != shape_of(row, config_)) {
    throw CheckpointError(stored,
                          fmt::format("the shape does not fit the config; expected {}, got [{}]; check that "
                                      "the config and the weights belong together",
                                      describe(row, config_), fmt::join(found->shape, ", ")));
  }
  if (!at::isFloatingType(found->dtype)) {
    throw CheckpointError(stored,
                          fmt::format("weight processing needs floating-point weights; expected a float "
                                      "dtype, got {}; load a model that is not quantised",
                                      c10::toString(found->dtype)));
  }
  device_ = found->device;
  dtype_ = c10::promoteTypes(dtype_, found->dtype);
  return {std::move(*found), row.axes};
}

BlockedWeight& WorkingWeights::changing(std::string_view name) {
  std::optional<BlockedWeight>& mine = changed_[key(name)];
  if (!mine) mine = now(name);
  return *mine;
}

at::Tensor WorkingWeights::get(std::string_view name) { return now(name).values(); }

at::Tensor WorkingWeights::weighted_sum(std::string_view name, const AxisList& over,
                                        const at::Tensor& coefficients) {
  return now(name).weighted_sum(over, coefficients);
}

void WorkingWeights::scale(std::string_view name, Axis along, const at::Tensor& factors) {
  changing(name).scale(along, factors);
}

void WorkingWeights::center(std::string_view name, Axis over) { changing(name).center(over); }

void WorkingWeights::set_transposed(std::string_view name, std::string_view other) {
  // The vocabulary that is read becomes the one that is predicted.
  changed_.insert_or_assign(key(name), now(other).transposed().with_axes(row_of(name).axes));
}

at::Tensor WorkingWeights::zeros(std::string_view name) const {
  return at::zeros(shape_of(row_of(name), config_), at::TensorOptions().dtype(at::kDouble).device(device_));
}

bool WorkingWeights::has(std::string_view name) const {
  const std::string stored = key(name);
  const auto mine = changed_.find(stored);
  return mine != changed_.end() ? mine->second.has_value() : stored_(stored).has_value();
}

void WorkingWeights::set(std::string_view name, at::Tensor values) {
  const WeightRow& row = row_of(name);
  assert(values.sizes() == at::IntArrayRef(shape_of(row, config_)));
  changed_.insert_or_assign(key(name), BlockedWeight(in_memory(std::move(values)), row.axes));
}

void WorkingWeights::erase(std::string_view name) { changed_.insert_or_assign(key(name), std::nullopt); }

Changes WorkingWeights::changes() const {
  Changes all;
  for (const auto& [stored, weight] : changed_) {
    all.emplace(stored,
                weight ? std::optional(ChangedWeight{*weight, committed_dtype(stored)}) : std::nullopt);
  }
  return all;
}

at::ScalarType WorkingWeights::committed_dtype(const std::string& key) const {
  const auto before = stored_(key);
  return before ? c10::promoteTypes(before->dtype, config_.dtype) : dtype_;
}

}  // namespace hooked::weights
