#include "models/storage/matrix_parts.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "core/overloaded.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"

namespace hooked {
void MatrixParts::put(std::int64_t first, CodedStrips strips) {
  const auto at = std::ranges::upper_bound(parts_, first, {}, &Part::first);
  const std::int64_t count = strips.out();
  // One part of neighbours that allow it: a product is then one share of work.
  if (at != parts_.begin() && std::prev(at)->first + std::prev(at)->count == first) {
    Part& before = *std::prev(at);
    const auto* const own = std::get_if<CodedStrips>(&before.matrix);
    if (auto both = own == nullptr ? std::nullopt : own->followed_by(strips, memory())) {
      before.matrix = *std::move(both);
      before.count += count;
      return;
    }
  }
  parts_.insert(at, {first, count, std::move(strips)});
}

Matrix MatrixParts::put_numbers(std::int64_t first, std::int64_t count) {
  // The rows of an embedding are looked up.
  const Matrix matrix = groups_.out == 1 ? Matrix(empty_in(memory(), {count, in_}, options_))
                                         : Matrix(count, in_, groups_, options_, Storage::fastest, memory());
  parts_.insert(std::ranges::upper_bound(parts_, first, {}, &Part::first), {first, count, matrix});
  return matrix;
}

bool MatrixParts::coded(std::int64_t first, std::int64_t count) const {
  bool all = true;
  each(first, count, [&](const Stretch& stretch) {
    all = all && std::holds_alternative<CodedStrips>(stretch.part.matrix);
  });
  return all;
}

template <class Stored>
const Stored* MatrixParts::part_of(std::int64_t first, std::int64_t count) const {
  const auto part = std::ranges::find(parts_, first, &Part::first);
  return part == parts_.end() || part->count != count ? nullptr : std::get_if<Stored>(&part->matrix);
}

const Matrix* MatrixParts::numbers(std::int64_t first, std::int64_t count) const {
  return part_of<Matrix>(first, count);
}

void MatrixParts::each(std::int64_t first, std::int64_t count,
                       c10::function_ref<void(const Stretch&)> use) const {
  [[maybe_unused]] std::int64_t covered = 0;
  for (const Part& part : parts_) {
    const std::int64_t begin = std::max(first, part.first),
                       end = std::min(first + count, part.first + part.count);
    if (begin >= end) continue;
    use({part, begin - part.first, begin - first, end - begin});
    covered += end - begin;
  }
  assert(covered == count);
}

at::Tensor MatrixParts::plain(std::int64_t first, std::int64_t count) const {
  std::vector<at::Tensor> all;
  each(first, count, [&](const Stretch& stretch) {
    all.push_back(std::visit(Overloaded{[&](const CodedStrips& strips) {
                                          return strips.rows(stretch.in_part, stretch.count,
                                                             options_.dtype().toScalarType());
                                        },
                                        [&](const Matrix& matrix) {
                                          return matrix.plain().narrow(0, stretch.in_part, stretch.count);
                                        }},
                             stretch.part.matrix));
  });
  return all.size() == 1 ? all.front() : at::cat(all);
}

at::Tensor MatrixParts::rows_at(std::int64_t first, std::int64_t count, const at::Tensor& outputs) const {
  const auto* const strips = part_of<CodedStrips>(first, count);
  if (strips == nullptr) return at::embedding(plain(first, count), outputs);
  std::vector<std::int64_t> sizes = outputs.sizes().vec();
  sizes.push_back(in_);
  return strips->rows_at(outputs.flatten(), options_.dtype().toScalarType()).view(sizes);
}

std::shared_ptr<MatrixParts> MatrixParts::of_outputs(std::int64_t first, std::int64_t count,
                                                     const at::Tensor& outputs) const {
  auto some = std::make_shared<MatrixParts>(outputs.size(0), in_, Matrix::Groups{.out = 1, .in = in_},
                                            options_, nullptr);
  const auto* const strips = part_of<CodedStrips>(first, count);
  if (strips != nullptr) {
    some->put(0, strips->of_outputs(outputs));
  } else {
    some->put_numbers(0, outputs.size(0)).as_out_in().write(rows_at(first, count, outputs));
  }
  return some;
}

void MatrixParts::multiply_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias,
                                std::int64_t first) const {
  each(first, out.size(1), [&](const Stretch& stretch) {
    const bool all = stretch.count == out.size(1);
    const at::Tensor own = all ? out : out.narrow(1, stretch.asked, stretch.count);
    const at::Tensor own_bias = all || !bias.defined() ? bias : bias.narrow(0, stretch.asked, stretch.count);
    if (const auto* strips = std::get_if<CodedStrips>(&stretch.part.matrix))
      return strips->multiply_into(own, rows, own_bias, stretch.in_part);
    const Matrix& matrix = std::get<Matrix>(stretch.part.matrix);
    const bool whole = stretch.count == stretch.part.count;
    at::Tensor product = own.is_contiguous() ? own : at::empty(own.sizes(), own.options());
    if (whole && own.scalar_type() == rows.scalar_type()) {
      matrix.multiply_into(product, rows, own_bias);
    } else {
      sums_into(product, rows, matrix.plain().narrow(0, stretch.in_part, stretch.count).contiguous(),
                own_bias);
    }
    if (!product.is_same(own)) own.copy_(product);
  });
}

void MatrixParts::multiply_back_into(at::Tensor& out, const at::Tensor& rows, const Workspace& memory,
                                     std::int64_t first) const {
  out.zero_();
  each(first, rows.size(1), [&](const Stretch& stretch) {
    const at::Tensor own = rows.narrow(1, stretch.asked, stretch.count);
    if (const auto* strips = std::get_if<CodedStrips>(&stretch.part.matrix))
      return strips->add_back_into(out, own, stretch.in_part);
    at::Tensor product = memory.empty(out.sizes(), out.options());
    const Matrix& matrix = std::get<Matrix>(stretch.part.matrix);
    if (stretch.count == stretch.part.count) {
      matrix.multiply_back_into(product, own.contiguous(), memory);
    } else {
      linear_into(product, own.contiguous(), matrix.plain().narrow(0, stretch.in_part, stretch.count).t(),
                  {});
    }
    out.add_(product);
  });
}

CodedSlot::Layout CodedSlot::layout() const {
  const std::int64_t out = matrix_.out(), in = matrix_.in();
  switch (axes_) {
    case MatrixAxes::out_in:
      break;
    case MatrixAxes::in_out:
      return {{1, out, 1, in}, {3, 1}};
    case MatrixAxes::output_heads:
      return {{heads_, out / heads_, 1, in}, {0, 3, 1}};
    case MatrixAxes::input_heads:
      return {{1, out, heads_, in / heads_}, {2, 3, 1}};
  }
  return {{1, out, 1, in}, {1, 3}};
}

std::vector<std::int64_t> CodedSlot::sizes() const {
  const Layout all = layout();
  std::vector<std::int64_t> sizes;
  for (const std::size_t axis : all.order) sizes.push_back(all.sizes[axis]);
  return sizes;
}

at::Tensor CodedSlot::read() const { return Matrix(matrix_.plain()).view(axes_, heads_).read(); }

at::Tensor CodedSlot::number(std::int64_t place) const {
  const Layout all = layout();
  std::array<std::int64_t, 4> index{};
  for (auto axis = all.order.rbegin(); axis != all.order.rend(); ++axis) {
    index[*axis] = place % all.sizes[*axis];
    place /= all.sizes[*axis];
  }
  const std::int64_t out = index[0] * all.sizes[1] + index[1], in = index[2] * all.sizes[3] + index[3];
  return matrix_.narrow(out, 1).plain().select(0, 0).select(0, in);
}

at::Tensor CodedSlot::outputs_first(const at::Tensor& tensor) const {
  const std::vector<std::size_t> order = layout().order;
  std::vector<std::int64_t> from, absent;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const auto found = std::find(order.begin(), order.end(), axis);
    if (found == order.end()) {
      absent.push_back(static_cast<std::int64_t>(axis));
    } else {
      from.push_back(found - order.begin());
    }
  }
  at::Tensor ordered = tensor.permute(from);
  for (const std::int64_t axis : absent) ordered = ordered.unsqueeze(axis);
  return ordered;
}

void CodedSlot::fill(CodedStrips strips) const {
  matrix_.parts()->put(matrix_.first_of_parts(), std::move(strips));
}

SlotView CodedSlot::fill_with_numbers() const {
  return matrix_.parts()->put_numbers(matrix_.first_of_parts(), matrix_.out()).view(axes_, heads_);
}

}  // namespace hooked
