#include "models/storage/product.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/parallel.h"
#include "hooked/core/error.h"
#include "models/kernels/kernels.h"
#include "models/storage/matrix.h"

namespace hooked {
namespace {

// Note [Which float32 product]
// Matrices stored by rows are multiplied by our own kernels, as packed ones are. A library multiplies those
// stored by columns (plain matrices of layers that no block fits), small products of several rows, and
// everything if we have no kernels for the processor. LibTorch's library is MKL, which on processors not made
// by Intel reaches 0.6 to 0.85 of oneDNN's speed (a Zen core at 128 rows), so there oneDNN is used instead.
// The choice depends only on processor, dtype, strides and sizes: equal runs give equal bits.

// oneDNN's operator allocates its result; pieces of this many bytes are copied out while they are in the
// cache, and come from memory that the C library keeps mapped.
constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

// Weights that many rows use in turn, some at a time: a part of the second-level cache.
constexpr std::int64_t kCachedBytes = std::int64_t{128} << 10;
// Columns of weights that are widened at once.
constexpr std::int64_t kWidenedColumns = 4096;

// Whether oneDNN is used instead of LibTorch's library. The processor's maker decides, or the environment
// variable HOOKED_PRODUCT_LIBRARY, with which tests choose either on any machine.
bool takes_one_dnn() {
  static const bool kTakes = [] {
    constexpr const char* kVariable = "HOOKED_PRODUCT_LIBRARY";
    const char* const variable = std::getenv(kVariable);
    const std::string_view named = variable == nullptr ? "" : variable;
    if (named == "onednn" || named == "mkl") return named == "onednn";
    if (!named.empty()) {
      throw ConfigError(kVariable, fmt::format("there is no such library; expected mkl or onednn, got {}; "
                                               "without the variable the processor's maker decides",
                                               named));
    }
#if defined(__x86_64__)
    return __builtin_cpu_is("intel") == 0;
#else
    return false;  // no MKL there: LibTorch's own choice is kept
#endif
  }();
  return kTakes;
}

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                   c10::string_view, c10::List<std::optional<at::Scalar>>,
                                   std::optional<c10::string_view>);

// Null if this LibTorch was built without oneDNN.
const c10::TypedOperatorHandle<LinearPointwise>* one_dnn_linear() {
  static const auto kOperator = []() -> std::optional<c10::TypedOperatorHandle<LinearPointwise>> {
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found) return std::nullopt;
    return found->typed<LinearPointwise>();
  }();
  return kOperator ? &*kOperator : nullptr;
}

bool small(const at::Tensor& rows, const at::Tensor& weight) {
  return rows.device().is_cpu() && 2 * rows.size(0) * weight.numel() < kSerialOperations;
}

bool by_columns(const at::Tensor& weight) { return weight.t().is_contiguous(); }

// Strides other than these two take a path in oneDNN that is a thousand times slower.
bool suits_one_dnn(const at::Tensor& rows, const at::Tensor& weight) {
  return (weight.is_contiguous() || by_columns(weight)) && rows.device().is_cpu() &&
         rows.scalar_type() == at::kFloat && takes_one_dnn() && one_dnn_linear() != nullptr;
}

bool suits_dots(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  return kernels::own_kernels() != nullptr && rows.device().is_cpu() && weight.is_contiguous() &&
         (!bias.defined() || bias.is_contiguous());
}

// Few rows are read as dot products with the weight's rows: one stream of memory.
kernels::DotKernel dots_for(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  if (!suits_dots(rows, weight, bias)) return nullptr;
  const bool floats = rows.scalar_type() == at::kFloat;
  if (rows.size(0) > kernels::kMostDotRows) return nullptr;
  if (floats) return kernels::own_kernels()->float_dots;
  if (rows.scalar_type() == at::kBFloat16) return kernels::own_kernels()->bfloat16_dots;
  return nullptr;
}

// Any number of rows: some at a time over weights that stay in the cache.
void dots_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
               kernels::DotKernel dots) {
  const std::int64_t in = weight.size(1), element = weight.element_size(), result = out.element_size();
  const std::int64_t row_count = rows.size(0);
  const std::int64_t cached =  // kernels take three columns at a time
      std::max<std::int64_t>(kCachedBytes / std::max<std::int64_t>(in * element, 1) / 3 * 3, 3);
  const auto* x = static_cast<const std::byte*>(rows.const_data_ptr());
  const auto* w = static_cast<const std::byte*>(weight.const_data_ptr());
  const auto* b = bias.defined() ? static_cast<const std::byte*>(bias.const_data_ptr()) : nullptr;
  auto* y = static_cast<std::byte*>(out.mutable_data_ptr());
  const auto multiply = [&](std::int64_t row, std::int64_t first, std::int64_t columns) {
    dots({.x = x + row * in * element,
          .x_stride = in,
          .block = w + first * in * element,
          .in = in,
          .bias = b == nullptr ? nullptr : b + first * element,
          .out = y + (row * weight.size(0) + first) * result,
          .out_stride = weight.size(0),
          .rows = std::min(kernels::kMostDotRows, row_count - row)},
         columns);
  };
  const auto work = [&](std::int64_t first, std::int64_t end) {
    const std::int64_t piece = row_count > kernels::kMostDotRows ? cached : end - first;
    for (; first < end; first += piece) {
      for (std::int64_t row = 0; row < row_count; row += kernels::kMostDotRows) {
        multiply(row, first, std::min(piece, end - first));
      }
    }
  };
  share_operations(weight.size(0), 2 * row_count * weight.numel(), work);
}

// Rows as the columns of a packed matrix; the last block is padded.
Matrix as_columns(const at::Tensor& rows) {
  constexpr std::int64_t kMostColumns = 4 * kernels::kPackedColumns;
  const auto whole = [](std::int64_t count, std::int64_t of) { return (count + of - 1) / of * of; };
  const std::int64_t count = rows.size(0), in = rows.size(1);
  const std::int64_t columns = std::min(whole(count, kernels::kPackedColumns), kMostColumns);
  const std::int64_t filled_up = whole(count, columns);
  const Matrix packed(filled_up, in, {.out = columns, .in = in}, rows.options(), Storage::fastest);
  packed.as_out_in().write(
      filled_up == count ? rows : at::cat({rows, at::zeros({filled_up - count, in}, rows.options())}));
  return packed;
}

kernels::ColumnKernel columns_for(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  if (!suits_dots(rows, weight, bias) || rows.size(0) <= kernels::kMostDotRows || weight.size(1) == 0)
    return nullptr;
  if (rows.scalar_type() == at::kFloat) return kernels::own_kernels()->float_columns;
  if (rows.scalar_type() == at::kBFloat16 && weight.size(1) % 2 == 0) {
    return kernels::own_kernels()->unrounded_columns;
  }
  return nullptr;
}

// Many rows by a matrix that is stored by rows: the roles are exchanged, so that the matrix is read in place,
// in one stream, and only the few numbers of the rows are packed for the product.
void columns_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias,
                  kernels::ColumnKernel kernel) {
  constexpr std::int64_t kWeightRows = 48;  // at a time, in the second-level cache
  const Matrix packed = as_columns(rows);
  const std::int64_t blocks = packed.stored().size(0), columns = packed.stored().size(2);
  const std::int64_t row_count = rows.size(0), in = weight.size(1), outs = weight.size(0);
  const std::int64_t row_bytes = in * weight.element_size();
  const auto* x = static_cast<const std::byte*>(packed.stored().const_data_ptr());
  const auto* w = static_cast<const std::byte*>(weight.const_data_ptr());
  const auto* b = bias.defined() ? static_cast<const std::byte*>(bias.const_data_ptr()) : nullptr;
  auto* y = out.mutable_data_ptr<float>();
  const auto multiply = [&](std::int64_t first, std::int64_t count, std::int64_t block) {
    const std::int64_t next = std::min(kWeightRows, outs - first - count);
    kernel({.x = w + first * row_bytes,
            .x_stride = in,
            .block = x + block * columns * row_bytes,
            .in = in,
            .bias = b == nullptr ? nullptr : b + first * weight.element_size(),
            .out = y + block * columns * outs + first,
            .out_stride = outs,
            .rows = count,
            .next = w + (first + count) * row_bytes,
            .next_bytes = block == 0 ? next * row_bytes : 0},
           columns / kernels::kPackedColumns, std::min(columns, row_count - block * columns));
  };
  share_operations((outs + kWeightRows - 1) / kWeightRows, 2 * row_count * weight.numel(),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t first = begin * kWeightRows; first < std::min(end * kWeightRows, outs);
                          first += kWeightRows) {
                       for (std::int64_t block = 0; block < blocks; ++block) {
                         multiply(first, std::min(kWeightRows, outs - first), block);
                       }
                     }
                   });
}

}  // namespace

void linear_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  if (out.numel() == 0) return;
  if (const kernels::DotKernel dots = dots_for(rows, weight, bias)) {
    return dots_into(out, rows, weight, bias, dots);
  }
  if (rows.scalar_type() == at::kFloat && !small(rows, weight)) {
    if (const kernels::ColumnKernel columns = columns_for(rows, weight, bias)) {
      return columns_into(out, rows, weight, bias, columns);
    }
  }
  const ThreadLimit limit(small(rows, weight) ? std::optional(1) : std::nullopt);
  if (suits_one_dnn(rows, weight)) {
    const std::int64_t row_bytes = rows.size(0) * static_cast<std::int64_t>(sizeof(float));
    const std::int64_t piece = by_columns(weight)
                                   ? weight.size(0)  // its rows cannot be cut off
                                   : std::max<std::int64_t>(kPieceBytes / row_bytes / 64 * 64, 64);
    for (std::int64_t first = 0; first < weight.size(0); first += piece) {
      const std::int64_t count = std::min(piece, weight.size(0) - first);
      const std::optional<at::Tensor> part_bias =
          bias.defined() ? std::optional(bias.narrow(0, first, count)) : std::nullopt;
      out.narrow(1, first, count)
          .copy_(one_dnn_linear()->call(rows, weight.narrow(0, first, count), part_bias, "none",
                                        c10::List<std::optional<at::Scalar>>(), ""));
    }
  } else if (bias.defined()) {
    at::addmm_out(out, bias, rows, weight.t());
  } else {
    at::mm_out(out, rows, weight.t());
  }
}

at::ScalarType sum_dtype(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

void sums_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  if (out.numel() == 0) return;
  if (out.scalar_type() == rows.scalar_type()) return linear_into(out, rows, weight, bias);
  if (const kernels::ColumnKernel columns = columns_for(rows, weight, bias)) {
    return columns_into(out, rows, weight, bias, columns);
  }
  if (suits_dots(rows, weight, bias)) {
    const kernels::DotKernel dots = rows.scalar_type() == at::kBFloat16
                                        ? kernels::own_kernels()->unrounded_dots
                                        : kernels::own_kernels()->half_dots;
    if (dots != nullptr) return dots_into(out, rows, weight, bias, dots);
  }
  if (rows.is_cuda()) {  // the only device whose product has another dtype than its operands
    at::mm_out(out, rows, weight.t(), out.scalar_type());
    if (bias.defined()) out.add_(bias);
    return;
  }
  const at::Tensor wide_rows = rows.to(out.scalar_type());
  for (std::int64_t first = 0; first < weight.size(0); first += kWidenedColumns) {
    const std::int64_t count = std::min(kWidenedColumns, weight.size(0) - first);
    at::Tensor part = at::empty({rows.size(0), count}, out.options());
    linear_into(part, wide_rows, weight.narrow(0, first, count).to(out.scalar_type()),
                bias.defined() ? bias.narrow(0, first, count).to(out.scalar_type()) : bias);
    out.narrow(1, first, count).copy_(part);
  }
}

}  // namespace hooked
