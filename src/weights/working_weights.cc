#include "weights/working_weights.h"

#include <ATen/ops/zeros.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cassert>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/weight_table.h"
#include "hooked/core/error.h"

namespace hooked::weights {
namespace {

const WeightRow& row_of(std::string_view name) {
  const WeightRow* row = find_weight_row(name);
  if (row == nullptr) throw std::logic_error(fmt::format("no row for the weight {}", name));
  return *row;
}

std::string describe(const WeightRow& row, const ModelConfig& config, const WeightPart& part) {
  std::string text;
  for (const Axis axis : row.axes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", axis_name(axis),
                        size_of(axis, config, part ? part->layer : 0));
  }
  return "[" + text + "]";
}

}  // namespace

WorkingWeights::WorkingWeights(const StoredWeights& stored, const ModelConfig& config, const WeightPart& part)
    : stored_(stored), config_(config), part_(part), dtype_(config.dtype) {}

std::string WorkingWeights::key(std::string_view name) const {
  return weight_name(row_of(name).in_block() ? part_ : std::nullopt, name, config_);
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
                                      describe(row, config_, part_)));
  }
  if (found->shape != weight_shape(row, config_, part_)) {
    throw CheckpointError(stored,
                          fmt::format("the shape does not fit the config; expected {}, got [{}]; check that "
                                      "the config and the weights belong together",
                                      describe(row, config_, part_), fmt::join(found->shape, ", ")));
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

at::Tensor WorkingWeights::take_mean(std::string_view name, Axis over) {
  const at::Tensor mean = changing(name).take_mean(over);
  return mean.dim() == 0 ? mean.unsqueeze(0) : mean;
}

void WorkingWeights::set_transposed(std::string_view name, std::string_view other) {
  // The input vocabulary becomes the output vocabulary.
  changed_.insert_or_assign(key(name), now(other).transposed().with_axes(row_of(name).axes));
}

at::Tensor WorkingWeights::zeros(std::string_view name) const {
  return at::zeros(weight_shape(row_of(name), config_, part_),
                   at::TensorOptions().dtype(at::kDouble).device(device_));
}

bool WorkingWeights::has(std::string_view name) const {
  const std::string stored = key(name);
  const auto mine = changed_.find(stored);
  return mine != changed_.end() ? mine->second.has_value() : stored_(stored).has_value();
}

void WorkingWeights::set(std::string_view name, at::Tensor values) {
  const WeightRow& row = row_of(name);
  assert(values.sizes() == at::IntArrayRef(weight_shape(row, config_, part_)));
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
  const at::ScalarType kept = weight_dtype(row_of(key), config_);
  return before ? c10::promoteTypes(before->dtype, kept) : c10::promoteTypes(dtype_, kept);
}

}  // namespace hooked::weights
