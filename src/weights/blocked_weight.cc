#include "weights/blocked_weight.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>
#include <set>
#include <utility>

namespace hooked::weights {
namespace {

/// A sum over blocks, added up in one order whichever thread has which block.
class GroupSums {
 public:
  void add(const TensorBlock& block, const at::Tensor& part) {
    at::Tensor& sum = sums_[static_cast<std::size_t>(block.group)];
    sum = sum.defined() ? sum.add_(part) : part;
    if (!block.ends_group) return;
    // Groups end nearly in order, so that few sums wait for earlier ones.
    const std::lock_guard lock(mutex_);
    ended_.insert(block.group);
    for (; ended_.contains(next_); ++next_) {
      at::Tensor& ready = sums_[static_cast<std::size_t>(next_)];
      total_ = total_.defined() ? total_.add_(ready) : ready;
      ready.reset();
    }
  }
  at::Tensor total() const { return total_; }

 private:
  std::array<at::Tensor, kBlockGroups> sums_;
  std::mutex mutex_;
  std::set<std::int64_t> ended_;
  std::int64_t next_ = 0;
  at::Tensor total_;  ///< of the groups before `next_`
};

}  // namespace

StoredTensor transposed(StoredTensor matrix) {
  assert(matrix.shape.size() == 2);
  std::swap(matrix.shape[0], matrix.shape[1]);
  matrix.dimension = 1 - matrix.dimension;
  matrix.read = [read = std::move(matrix.read)](std::int64_t first, std::int64_t count) {
    return read(first, count).t();
  };
  return matrix;
}

BlockedWeight::BlockedWeight(StoredTensor stored, AxisList axes) : stored_(std::move(stored)), axes_(axes) {
  assert(stored_.shape.size() == axes_.size());
}

std::int64_t BlockedWeight::dimension_of(Axis axis) const {
  const auto found = axes_.find(axis);
  assert(found && "the table of weights gives this weight no such axis");
  return *found;
}

// `coefficients` reshaped to the weight's rank: axes that are not in `over` have size one.
at::Tensor BlockedWeight::shaped(const AxisList& over, const at::Tensor& coefficients) const {
  std::vector<std::int64_t> sizes(axes_.size(), 1);
  for (const Axis axis : over) {
    const auto dimension = static_cast<std::size_t>(dimension_of(axis));
    sizes[dimension] = stored_.shape[dimension];
  }
  return coefficients.reshape(sizes);
}

at::Tensor BlockedWeight::here(const at::Tensor& operand, std::int64_t first, std::int64_t count) const {
  const bool varies =
      operand.size(stored_.dimension) == stored_.shape[static_cast<std::size_t>(stored_.dimension)];
  return varies ? operand.narrow(stored_.dimension, first, count) : operand;
}

void BlockedWeight::for_each_changed(const std::function<void(const TensorBlock&)>& use) const {
  for_each_block(stored_, [&](const TensorBlock& stored) {
    const std::int64_t first = stored.first;
    const at::Tensor block = stored.values.to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    for (const Change& change : changes_) {
      switch (change.kind) {
        case Change::Kind::multiply:
          block.mul_(here(change.operand, first, block.size(stored_.dimension)));
          break;
        case Change::Kind::subtract:
          block.sub_(here(change.operand, first, block.size(stored_.dimension)));
          break;
        case Change::Kind::center:
          block.sub_(block.mean(change.dimension, /*keepdim=*/true));
          break;
      }
    }
    use({stored.group, stored.ends_group, first, block});
  });
}

void BlockedWeight::scale(Axis along, const at::Tensor& factors) {
  changes_.push_back({Change::Kind::multiply, shaped({along}, factors)});
}

void BlockedWeight::center(Axis over) {
  const std::int64_t dimension = dimension_of(over);
  if (dimension != stored_.dimension) {
    changes_.push_back({Change::Kind::center, {}, dimension});
    return;
  }
  take_mean(over);
}

at::Tensor BlockedWeight::take_mean(Axis over) {
  at::Tensor taken = mean(over);
  changes_.push_back({Change::Kind::subtract, taken.unsqueeze(dimension_of(over))});
  return taken;
}

at::Tensor BlockedWeight::weighted_sum(const AxisList& over, const at::Tensor& coefficients) const {
  const at::Tensor factors = shaped(over, coefficients);
  std::vector<std::int64_t> summed, sizes;
  for (const Axis axis : over) summed.push_back(dimension_of(axis));
  const auto gone = [&](std::int64_t d) { return std::ranges::find(summed, d) != summed.end(); };
  const bool across = gone(stored_.dimension);
  std::int64_t kept = 0;  // the dimension of the result that blocks are cut along, unless it is summed over
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(axes_.size()); ++d) {
    if (gone(d)) continue;
    sizes.push_back(stored_.shape[static_cast<std::size_t>(d)]);
    if (d < stored_.dimension) ++kept;
  }
  const auto product = [&](const TensorBlock& block) {
    const std::int64_t count = block.values.size(stored_.dimension);
    return block.values.mul_(here(factors, block.first, count)).sum(summed);
  };
  if (across) {
    GroupSums sums;
    for_each_changed([&](const TensorBlock& block) { sums.add(block, product(block)); });
    return sums.total();
  }
  // Allocated at once: small parts that stay among large blocks that are freed would fragment the heap.
  at::Tensor sum = at::empty(sizes, at::TensorOptions(at::kDouble).device(stored_.device));
  for_each_changed([&](const TensorBlock& block) {
    const at::Tensor part = product(block);
    sum.narrow(kept, block.first, block.values.size(stored_.dimension)).copy_(part);
  });
  return sum;
}

at::Tensor BlockedWeight::mean(Axis over) const {
  const auto count = stored_.shape[static_cast<std::size_t>(dimension_of(over))];
  const auto options = at::TensorOptions(at::kDouble).device(stored_.device);
  return weighted_sum({over}, at::ones({count}, options)).div_(count);
}

BlockedWeight BlockedWeight::with_axes(const AxisList& axes) const {
  assert(axes.size() == axes_.size());
  BlockedWeight other = *this;
  other.axes_ = axes;
  return other;
}

BlockedWeight BlockedWeight::transposed() const {
  assert(axes_.size() == 2);
  BlockedWeight other = *this;
  other.stored_ = weights::transposed(std::move(other.stored_));
  other.axes_ = {axes_[1], axes_[0]};
  for (Change& change : other.changes_) {
    if (change.operand.defined()) change.operand = change.operand.t();
    change.dimension = 1 - change.dimension;
  }
  return other;
}

at::Tensor BlockedWeight::values() const {
  at::Tensor all = at::empty(stored_.shape, at::TensorOptions(at::kDouble).device(stored_.device));
  write(writer_of(all), at::kDouble);
  return all;
}

void BlockedWeight::write(const WriteStretch& write, at::ScalarType dtype) const {
  // Rounded in place: a copy that rounds and transposes at once is slow.
  for_each_changed(
      [&](const TensorBlock& block) { write(stored_.dimension, block.first, block.values.to(dtype)); });
}

}  // namespace hooked::weights
