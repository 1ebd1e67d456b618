#include "models/storage/matrix.h"

#include <ATen/Parallel.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/embedding.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "core/parallel.h"
#include "hooked/core/kernel_set.h"
#include "models/kernels/kernels.h"
#include "models/storage/matrix_parts.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"

// Note [Packed matrices]
// A packed matrix is stored in blocks of columns (outputs): [block, in, column] in float32, and in bfloat16
// [block, in / 2, column, 2], where the two inputs that one instruction takes are adjacent. A product reads a
// block from its first byte to its last with all sums in registers, so memory is read as one stream;
// LibTorch's products read plain matrices in many streams and reach a third to two thirds of that speed with
// few rows. The figures are in docs/decisions/0036. The width of a block depends on how the layer divides its
// outputs, so that heads are whole blocks. A matrix that cannot be divided like that is plain.
//
// A gradient passes back through the product with the matrix itself. Its blocks would be those of the
// transpose. So some inputs at a time are transposed with all outputs into a panel, which has the form of a
// block and stays in the processor's cache, and the same kernels multiply it.

namespace hooked {
namespace {

// In the order of Storage.
constexpr std::string_view kStorageNames[] = {"fastest", "plain", "narrow_blocks", "wide_blocks", "codes"};

constexpr std::int64_t kPairOfBfloat16 = 2;

// Number of inputs that a gradient passes back to at a time.
constexpr std::int64_t kPanel = 64;

// A share of rows is large enough for full tiles.
constexpr std::int64_t kRowsOfAShare = 48;
constexpr std::int64_t kMostStretches = 64;

// Inputs of many rows that are multiplied at a time.
constexpr std::int64_t kInputsAtOnce = 768;

// Columns of a block, in sixteens, chosen for the kernels' speed (Note [Packed matrices]); 0: not packed.
std::int64_t sixteens_of(std::int64_t group, KernelSet set) {
  if (set == KernelSet::plain) return 0;
  if (set == KernelSet::avx2) return group % kernels::kPackedColumns == 0 ? 1 : 0;
  for (const std::int64_t sixteens : {4, 6, 5, 3, 2, 1}) {
    if (group % (sixteens * kernels::kPackedColumns) == 0) return sixteens;
  }
  return 0;
}

// Columns a multiple of this many bytes apart compete for the same cache lines.
constexpr std::int64_t kAliasBytes = 4096;

// In float32 by columns, which saves oneDNN a transposition (a tenth of a product). In bfloat16 by rows, as
// our dot kernels read them.
at::Tensor plain_matrix(std::int64_t out, std::int64_t in, const at::TensorOptions& options,
                        const Workspace* memory) {
  const auto column_bytes = out * static_cast<std::int64_t>(options.dtype().itemsize());
  const bool by_rows = options.dtype() == at::kBFloat16 || column_bytes % kAliasBytes == 0;
  return by_rows ? empty_in(memory, {out, in}, options) : empty_in(memory, {in, out}, options).t();
}

// The set that reads such blocks: the one in use if it does.
KernelSet set_for(Storage storage) {
  using enum KernelSet;
  switch (storage) {
    case Storage::fastest:  // resolved to one of the others
    case Storage::plain:
    case Storage::codes:  // its parts have their own
      return plain;
    case Storage::narrow_blocks:
      return avx2;
    case Storage::wide_blocks:
      return std::max(kernel_set(), avx512);
  }
  return plain;
}

// [block, in / depth, column, depth] as [out, in].
at::Tensor unpacked(const at::Tensor& packed) {
  return packed.permute({0, 2, 1, 3}).reshape({packed.size(0) * packed.size(2), -1});
}

kernels::BlockKernel block_kernel(const at::Tensor& like, KernelSet set, std::int64_t sixteens) {
  const kernels::Kernels& of_set = kernels::kernels_of(set);
  return (like.scalar_type() == at::kFloat ? of_set.float_blocks : of_set.bfloat16_blocks)[sixteens - 1];
}

}  // namespace

Storage fastest_storage(const at::TensorOptions& options) {
  const KernelSet set = kernel_set();
  const auto dtype = options.dtype().toScalarType();
  if (set == KernelSet::plain || !options.device().is_cpu() ||
      !(dtype == at::kBFloat16 || dtype == at::kFloat))
    return Storage::plain;
  return set == KernelSet::avx2 ? Storage::narrow_blocks : Storage::wide_blocks;
}

std::string_view storage_name(Storage storage) noexcept {
  return kStorageNames[static_cast<std::size_t>(storage)];
}

std::optional<Storage> parse_storage(std::string_view name) noexcept {
  for (const Storage storage : {Storage::plain, Storage::narrow_blocks, Storage::wide_blocks}) {
    if (storage_name(storage) == name) return storage;
  }
  return std::nullopt;
}

Matrix::Matrix(std::int64_t out, std::int64_t in, Groups groups, const at::TensorOptions& options,
               Storage storage, KernelSet set, const Workspace* memory) {
  if (storage == Storage::codes) {
    parts_ = std::make_shared<MatrixParts>(out, in, groups, options, memory);
    count_ = out;
    return;
  }
  const auto dtype = options.dtype().toScalarType();
  const bool is_float = dtype == at::kFloat;
  const std::int64_t depth = is_float ? 1 : kPairOfBfloat16;
  const std::int64_t sixteens = sixteens_of(groups.out, set);
  packed_ = storage != Storage::plain && options.device().is_cpu() && (is_float || dtype == at::kBFloat16) &&
            sixteens > 0 && out > 0 && in > 0 && groups.in % depth == 0;
  if (!packed_) {
    stored_ = plain_matrix(out, in, options, memory);
    return;
  }
  assert(out % groups.out == 0 && in % groups.in == 0);
  const std::int64_t columns = sixteens * kernels::kPackedColumns;
  stored_ = empty_in(memory, {out / columns, in / depth, columns, depth}, options);
  set_ = set;
}

Matrix::Matrix(std::int64_t out, std::int64_t in, Groups groups, const at::TensorOptions& options,
               Storage storage, const Workspace* memory)
    : Matrix(out, in, groups, options, storage,
             set_for(storage == Storage::fastest ? fastest_storage(options) : storage), memory) {}

Matrix::Matrix(at::Tensor plain) : stored_(std::move(plain)) {}

std::int64_t Matrix::out() const {
  if (parts_) return count_;
  return packed_ ? stored_.size(0) * stored_.size(2) : stored_.size(0);
}
std::int64_t Matrix::in() const {
  if (parts_) return parts_->in();
  return packed_ ? stored_.size(1) * stored_.size(3) : stored_.size(1);
}
at::ScalarType Matrix::dtype() const {
  return parts_ ? parts_->options().dtype().toScalarType() : stored_.scalar_type();
}
c10::Device Matrix::device() const { return parts_ ? parts_->options().device() : stored_.device(); }

Matrix Matrix::narrow(std::int64_t first, std::int64_t count) const {
  Matrix part = *this;
  if (parts_) {
    part.first_ += first;
    part.count_ = count;
    return part;
  }
  const std::int64_t columns = packed_ ? stored_.size(2) : 1;
  assert(first % columns == 0 && count % columns == 0);
  part.stored_ = stored_.narrow(0, first / columns, count / columns);
  return part;
}

at::Tensor Matrix::plain() const {
  if (parts_) return parts_->plain(first_, count_);
  return packed_ ? unpacked(stored_) : stored_;
}

at::Tensor Matrix::rows_at(const at::Tensor& outputs) const {
  return parts_ ? parts_->rows_at(first_, count_, outputs) : at::embedding(plain(), outputs);
}

Matrix Matrix::of_outputs(const at::Tensor& outputs) const {
  if (!parts_) return Matrix(rows_at(outputs));
  Matrix some = *this;
  some.parts_ = parts_->of_outputs(first_, count_, outputs);
  some.first_ = 0;
  some.count_ = outputs.size(0);
  return some;
}

SlotView Matrix::view(MatrixAxes axes, std::int64_t heads) const {
  if (parts_) {
    if (const Matrix* numbers = parts_->numbers(first_, count_)) return numbers->view(axes, heads);
    return std::make_shared<const CodedSlot>(*this, axes, heads);
  }
  switch (axes) {
    case MatrixAxes::out_in:
      break;
    case MatrixAxes::in_out:
      if (!packed_) return stored_.t();
      return {stored_.permute({1, 3, 0, 2}), {2, 2}};
    case MatrixAxes::output_heads: {
      if (!packed_) return stored_.view({heads, out() / heads, in()}).transpose(1, 2);
      const at::Tensor by_head =
          stored_.unflatten(0, {heads, -1});  // [head, block, in / depth, column, depth]
      return {by_head.permute({0, 2, 4, 1, 3}), {1, 2, 2}};
    }
    case MatrixAxes::input_heads: {
      if (!packed_) return stored_.t().view({heads, in() / heads, out()});
      const at::Tensor by_head =
          stored_.unflatten(1, {heads, -1});  // [block, head, in / depth, column, depth]
      return {by_head.permute({1, 2, 4, 0, 3}), {1, 2, 2}};
    }
  }
  if (!packed_) return stored_;
  return {stored_.permute({0, 2, 1, 3}), {2, 2}};
}

void Matrix::multiply_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias) const {
  if (parts_) return parts_->multiply_into(out, rows, bias, first_);
  packed_ ? multiply_packed(out, rows, bias) : sums_into(out, rows, stored_, bias);
}

void Matrix::multiply_heads_into(at::Tensor& out, const at::Tensor& rows) const {
  const std::int64_t heads = rows.size(0);
  if (parts_) {
    for (std::int64_t head = 0; head < heads; ++head) {
      at::Tensor of_head = out.select(0, head);
      narrow(head * (count_ / heads), count_ / heads).multiply_into(of_head, rows.select(0, head), {});
    }
    return;
  }
  if (packed_) return multiply_packed(out, rows, {}, heads);
  at::bmm_out(out, rows, stored_.view({heads, -1, in()}).transpose(1, 2));
}

void Matrix::multiply_packed(at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias,
                             std::int64_t heads) const {
  assert(rows.is_contiguous() && out.is_contiguous() && (!bias.defined() || bias.is_contiguous()));
  const std::int64_t blocks = stored_.size(0), columns = stored_.size(2), element = stored_.element_size();
  const std::int64_t row_count = rows.size(-2), row_in = in(), row_out = this->out() / heads;
  const std::int64_t of_head = blocks / heads;  // blocks
  assert(of_head * heads == blocks);
  // Few blocks among many threads: each block's rows are shared as well.
  const std::int64_t wanted = 4 * at::get_num_threads();
  const std::int64_t stretches = std::clamp<std::int64_t>(
      std::min((wanted + blocks - 1) / blocks, row_count / kRowsOfAShare), 1, kMostStretches);
  const std::int64_t stretch = (row_count + stretches - 1) / stretches;

  const auto* x = static_cast<const std::byte*>(rows.const_data_ptr());
  const auto* w = static_cast<const std::byte*>(stored_.const_data_ptr());
  const auto* b = bias.defined() ? static_cast<const std::byte*>(bias.const_data_ptr()) : nullptr;
  auto* y = static_cast<std::byte*>(out.mutable_data_ptr());
  const std::int64_t block_bytes = columns * row_in * element;
  const kernels::BlockKernel kernel = block_kernel(stored_, set_, columns / kernels::kPackedColumns);
  // For long rows the caches hold only part of a tile's and a block's inputs; float32 sums wait in `out`.
  const bool in_stretches = stored_.scalar_type() == at::kFloat && row_count >= kRowsOfAShare;
  const auto one = [&](std::int64_t share) {
    const std::int64_t block = share / stretches, first = share % stretches * stretch;
    const std::int64_t count = std::min(stretch, row_count - first);
    if (count <= 0) return;
    const std::int64_t head = block / of_head, row = head * row_count + first;
    const std::int64_t at_once = in_stretches ? kInputsAtOnce : row_in;
    for (std::int64_t input = 0; input < row_in; input += at_once) {
      const std::int64_t end = std::min(input + at_once, row_in), bytes_of_input = columns * element;
      const bool last = end == row_in;
      kernel({.x = x + (row * row_in + input) * element,
              .x_stride = row_in,
              .block = w + block * block_bytes + input * bytes_of_input,
              .in = end - input,
              .bias = b == nullptr || !last ? nullptr : b + block * columns * element,
              .out = y + (row * row_out + block % of_head * columns) * element,
              .out_stride = row_out,
              .rows = count,
              .next = w + block * block_bytes + end * bytes_of_input,
              .next_bytes = last && block + 1 == blocks
                                ? 0
                                : std::min(at_once, last ? row_in : row_in - end) * bytes_of_input,
              .more = input > 0});
    }
  };
  share_operations(blocks * stretches, 2 * row_count * stored_.numel(),
                   [&](std::int64_t first, std::int64_t end) {
                     for (std::int64_t share = first; share < end; ++share) one(share);
                   });
}

void Matrix::multiply_back_into(at::Tensor& out, const at::Tensor& rows, const Workspace& memory) const {
  if (parts_) return parts_->multiply_back_into(out, rows, memory, first_);
  packed_ ? multiply_packed_back(out, rows, memory) : linear_into(out, rows, stored_.t(), {});
}

void Matrix::multiply_heads_back_into(at::Tensor& out, const at::Tensor& rows,
                                      const Workspace& memory) const {
  const std::int64_t heads = rows.size(0);
  if (parts_) {
    for (std::int64_t head = 0; head < heads; ++head) {
      at::Tensor of_head = out.select(0, head);
      narrow(head * (count_ / heads), count_ / heads)
          .multiply_back_into(of_head, rows.select(0, head), memory);
    }
    return;
  }
  if (packed_) return multiply_packed_back(out, rows, memory, heads);
  at::bmm_out(out, rows, stored_.view({heads, -1, in()}));
}

void Matrix::multiply_packed_back(at::Tensor& out, const at::Tensor& rows, const Workspace& memory,
                                  std::int64_t heads) const {
  assert(rows.is_contiguous() && out.is_contiguous());
  const std::int64_t row_count = rows.size(-2), row_in = in(), row_out = this->out() / heads;
  const std::int64_t of_head = stored_.size(0) / heads;  // blocks
  assert(of_head * heads == stored_.size(0));
  const std::int64_t columns = stored_.size(2), element = stored_.element_size();
  const std::int64_t sixteens = sixteens_of(kPanel, set_);
  const std::int64_t width = sixteens * kernels::kPackedColumns, panels = (row_in + width - 1) / width;
  const bool is_float = stored_.scalar_type() == at::kFloat;
  // In stretches as in the forward product, of whole blocks.
  const std::int64_t at_once =
      is_float && row_count >= kRowsOfAShare ? std::max<std::int64_t>(kInputsAtOnce / columns, 1) : of_head;
  const kernels::PanelKernel fill =
      is_float ? kernels::kernels_of(set_).float_panel : kernels::kernels_of(set_).bfloat16_panel;
  const kernels::BlockKernel kernel = block_kernel(stored_, set_, sixteens);
  const auto* x = static_cast<const std::byte*>(rows.const_data_ptr());
  const auto* w = static_cast<const std::byte*>(stored_.const_data_ptr());
  auto* y = static_cast<std::byte*>(out.mutable_data_ptr());
  const auto work = [&](std::int64_t first_panel, std::int64_t end_panel) {
    const at::Tensor panel = memory.empty({std::min(at_once, of_head) * columns, width}, stored_.options());
    at::Tensor last;  // a panel may be wider than the remaining inputs
    for (std::int64_t p = first_panel; p < end_panel; ++p) {
      const std::int64_t head = p / panels, first = p % panels * width,
                         count = std::min(width, row_in - first);
      std::byte* const of_rows = y + head * row_count * row_in * element;
      if (count < width) last = memory.empty({row_count, width}, out.options());
      for (std::int64_t block = 0; block < of_head; block += at_once) {
        const std::int64_t blocks = std::min(at_once, of_head - block);
        fill({.packed = w + (head * of_head + block) * columns * row_in * element,
              .blocks = blocks,
              .sixteens = columns / kernels::kPackedColumns,
              .in = row_in,
              .first = first,
              .width = width,
              .panel = panel.mutable_data_ptr()});
        kernel({.x = x + (head * row_count * row_out + block * columns) * element,
                .x_stride = row_out,
                .block = panel.const_data_ptr(),
                .in = blocks * columns,
                .bias = nullptr,
                .out = count < width ? static_cast<std::byte*>(last.mutable_data_ptr())
                                     : of_rows + first * element,
                .out_stride = count < width ? width : row_in,
                .rows = row_count,
                .more = block > 0});
      }
      if (count == width) continue;
      (heads == 1 ? out : out.select(0, head)).narrow(-1, first, count).copy_(last.narrow(1, 0, count));
    }
  };
  share_operations(heads * panels, 2 * row_count * stored_.numel(), work);
}

}  // namespace hooked
