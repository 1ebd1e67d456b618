#include "models/storage/weight_slot.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "core/weight_sample.h"
#include "models/storage/matrix_parts.h"

namespace hooked {
namespace {

// Writes `values` to a stretch of a dimension, which is `parts` dimensions of `pieces` from dimension `at`
// on. `write` takes what has no cut dimension left: pieces, and their values, in any shape.
void write_stretch(const at::Tensor& pieces, std::int64_t at, std::int64_t parts, std::int64_t first,
                   std::int64_t dimension, const at::Tensor& values) {
  const std::int64_t count = values.size(dimension);
  if (parts == 1) {
    const at::Tensor target = pieces.narrow(at, first, count);
    target.copy_(values.reshape(target.sizes()));
    return;
  }
  std::int64_t width = 1;  // number of places in one index of the first part
  for (std::int64_t d = at + 1; d < at + parts; ++d) width *= pieces.size(d);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t place = first + done, left = count - done;
    if (place % width == 0 && left >= width) {
      const std::int64_t whole = left / width;
      const at::Tensor target = pieces.narrow(at, place / width, whole);
      target.copy_(values.narrow(dimension, done, whole * width).reshape(target.sizes()));
      done += whole * width;
    } else {
      const std::int64_t n = std::min(width - place % width, left);
      write_stretch(pieces.select(at, place / width), at, parts - 1, place % width, dimension,
                    values.narrow(dimension, done, n));
      done += n;
    }
  }
}

}  // namespace

SlotView::SlotView(at::Tensor whole) : pieces_(std::move(whole)) {
  if (!pieces_.defined()) return;
  parts_.assign(static_cast<std::size_t>(pieces_.dim()), 1);
  sizes_ = pieces_.sizes().vec();
}

SlotView::SlotView(at::Tensor pieces, std::vector<std::int64_t> parts)
    : pieces_(std::move(pieces)), parts_(std::move(parts)) {
  assert(std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0}) == pieces_.dim());
  std::int64_t at = 0;
  for (const std::int64_t count : parts_) {
    std::int64_t size = 1;
    for (const std::int64_t end = at + count; at < end; ++at) size *= pieces_.size(at);
    sizes_.push_back(size);
  }
}

SlotView::SlotView(std::shared_ptr<const CodedSlot> coded)
    : coded_(std::move(coded)), sizes_(coded_->sizes()) {}

std::uint64_t SlotView::nbytes() const {
  if (!coded_) return pieces_.nbytes();
  return static_cast<std::uint64_t>(coded_->matrix().out() * coded_->matrix().in()) *
         c10::elementSize(dtype());
}

at::ScalarType SlotView::dtype() const { return coded_ ? coded_->matrix().dtype() : pieces_.scalar_type(); }

c10::Device SlotView::device() const { return coded_ ? coded_->matrix().device() : pieces_.device(); }

at::Tensor SlotView::number(std::int64_t place) const {
  if (coded_) return coded_->number(place);
  // Each dimension's pieces number its places in row-major order, as all dimensions do the tensor's.
  return element_of(pieces_, place);
}

at::Tensor SlotView::read() const { return coded_ ? coded_->read() : pieces_.reshape(sizes_); }

void SlotView::write(const at::Tensor& values) const { pieces_.copy_(values.reshape(pieces_.sizes())); }

void SlotView::write(std::int64_t dimension, std::int64_t first, const at::Tensor& values) const {
  if (values.dim() == 0) return write(values);
  const auto end = parts_.begin() + dimension;
  const std::int64_t at = std::accumulate(parts_.begin(), end, std::int64_t{0});
  // Rounded in place: a copy that rounds and transposes at once is slow.
  write_stretch(pieces_, at, *end, first, dimension, values.to(dtype()));
}

}  // namespace hooked
