#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "hooked/core/tensor_text.h"
#include "loading/storage/code_matrix.h"
#include "loading/storage/scaled_integers.h"
#include "loading/storage/stored_parts.h"

// Note [Whole numbers of a few bits]
// A weight is (number - zero point) * factor. Formats differ in the layout of the numbers, and in which of
// them share a zero point and a factor.
//
// GPTQ  The matrix of a linear layer [out, in] is transposed: numbers [in, out] packed down the columns,
//       zero points [group, out] along the rows, factors [group, out]. `g_idx` [in] gives the group of each
//       row; without it, groups are consecutive rows. In the first version of the format, zero points are
//       stored minus one and wrap around:
//       in four bits, 15 is 0.
// AWQ   Likewise, both packed along the rows, in AWQ's own order; groups are consecutive rows.
// compressed-tensors  Numbers [out, in], packed along the rows or a byte each; factors [out, group], for
//       rows or for the whole; zero points likewise, packed down the columns. Packed numbers have half their
//       range added, and so do the zero points. `g_idx` [in] gives the group of each column; without it,
//       groups are consecutive columns.
// bitsandbytes  Numbers [out, in], a byte each, and for each row the value of 127.
//
// The product is rounded as the format's own package does: once, to the dtype of the factors.

namespace hooked {
namespace {

constexpr float kPartOf127 = 7.874015718698502e-3F;  // as bitsandbytes writes 1/127

void require_matrix(const NamedTensor& numbers) {
  if (numbers.tensor.shape.size() == 2) return;
  refuse_part(numbers,
              fmt::format("is not a matrix; expected two axes, got {}", shape_text(numbers.tensor.shape)));
}

void require_factors(const NamedTensor& factors) {
  const at::ScalarType dtype = factors.tensor.dtype;
  if (dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat) return;
  refuse_part(factors,
              fmt::format("holds factors; expected F16, BF16 or F32, got {}", factors.tensor.dtype_name));
}

std::int64_t parts_for(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

// The weight whose numbers are stored as [in, out] (`lies_in_out`) or as [out, in].
SourceTensor weight_of(ScaledIntegers weight, bool lies_in_out, bool turned) {
  const std::int64_t rows = weight.codes.rows, columns = weight.codes.columns;
  std::vector<std::int64_t> shape{rows, columns}, strides;
  if (lies_in_out != turned) {  // the model wants the other axis first
    shape = {columns, rows};
    strides = {1, columns};
  }
  const NamedTensor numbers = weight.codes.stored;
  SourceTensor made = made_weight(
      numbers, numbers.tensor.dtype_name, std::move(shape), std::move(strides),
      [weight](std::int64_t first, const at::Tensor& into) { read_numbers(weight, first, into); });
  made.codes = codes_of(std::move(weight), lies_in_out, turned);
  return made;
}

// The common part of GPTQ and AWQ: zero points and factors [group, out] of numbers [in, out].
ScaledIntegers grouped_rows(const StoredParts& parts, const QuantisedStorage& storage,
                            const CodeMatrix& codes, CodeLayout zeros_layout) {
  const std::int64_t size = storage.group.value_or(std::max<std::int64_t>(1, codes.rows));
  const std::int64_t groups = parts_for(codes.rows, size);
  require_factors(parts.factors);
  const std::string said =
      fmt::format("for each group and column, by bits and group_size of {}", storage.where);
  require_part(parts.factors, parts.numbers, "a factor " + said, parts.factors.tensor.dtype_name,
               {groups, codes.columns});
  CodeMatrix zeros{.stored = parts.at(".qzeros"),
                   .rows = groups,
                   .columns = codes.columns,
                   .bits = codes.bits,
                   .layout = zeros_layout,
                   .added = storage.zeros_less_one ? 1 : 0};
  require_part(zeros.stored, parts.numbers, "zero points " + said, "I32", zeros.stored_shape());
  if (storage.middle_zeros) {
    zeros.added = 0;
    zeros.added = stored_less(zeros, parts, storage);
  }
  return {.codes = codes,
          .factors = parts.factors,
          .factor_columns = codes.columns,
          .row_step = size,
          .column_step = 1,
          .zeros = std::move(zeros)};
}

// Factors of numbers [out, in]: for the whole, for each row, or for each group of a row.
struct RowFactors {
  std::int64_t rows, columns;
  std::int64_t row_step, column_step;
};

RowFactors row_factors_of(const StoredParts& parts, const QuantisedStorage& storage,
                          const CodeMatrix& codes) {
  const std::vector<std::int64_t>& shape = parts.factors.tensor.shape;
  const std::int64_t all_rows = std::max<std::int64_t>(1, codes.rows),
                     all_columns = std::max<std::int64_t>(1, codes.columns);
  std::vector<std::string> wanted;
  require_factors(parts.factors);
  if (storage.by_tensor) {
    if (number_count(shape) == 1) return {1, 1, all_rows, all_columns};
    wanted.emplace_back("one for all");
  }
  if (storage.by_row) {
    const bool flat = shape.size() == 1 && shape[0] == codes.rows;
    if (flat || shape == std::vector<std::int64_t>{codes.rows, 1}) return {codes.rows, 1, 1, all_columns};
    wanted.emplace_back("one for each row");
  }
  if (storage.group) {
    const std::int64_t groups = parts_for(codes.columns, *storage.group);
    if (codes.columns % *storage.group == 0 && shape == std::vector<std::int64_t>{codes.rows, groups})
      return {codes.rows, groups, 1, *storage.group};
    wanted.push_back(
        fmt::format("one for each {} numbers of a row, which has whole groups of them", *storage.group));
  }
  refuse_part(parts.factors, fmt::format("does not fit '{}'; expected factors, {} of {} (see {}), got {}",
                                         parts.numbers.name, fmt::join(wanted, " or "),
                                         shape_text(std::vector<std::int64_t>{codes.rows, codes.columns}),
                                         storage.where, shape_text(shape)));
}

// `weight_shape` of compressed-tensors: two numbers.
std::vector<std::int64_t> stated_shape(const NamedTensor& stored) {
  const bool wide = stored.tensor.dtype_name == "I64";
  if ((!wide && stored.tensor.dtype_name != "I32") || stored.tensor.shape != std::vector<std::int64_t>{2}) {
    refuse_part(stored, fmt::format("is not the shape of a matrix; expected I64 [2], got {} {}",
                                    stored.tensor.dtype_name, shape_text(stored.tensor.shape)));
  }
  std::vector<std::int64_t> shape;
  const std::vector<std::uint32_t> words = part_words(stored.tensor, 0, wide ? 4 : 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::uint64_t upper = wide ? words[2 * i + 1] : 0;
    const auto size = static_cast<std::int64_t>(upper << 32U | words[wide ? 2 * i : i]);
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (size < 0 || size > kMost)
      refuse_part(stored, fmt::format("is not the shape of a matrix; expected sizes from 0 to {}, got {}",
                                      kMost, size));
    shape.push_back(size);
  }
  return shape;
}

SourceTensor compressed_weight(const StoredParts& parts, const QuantisedStorage& storage, CodeMatrix codes,
                               CodeLayout zeros_layout) {
  const RowFactors factors = row_factors_of(parts, storage, codes);
  ScaledIntegers weight{.codes = std::move(codes),
                        .factors = parts.factors,
                        .factor_columns = factors.columns,
                        .row_step = factors.row_step,
                        .column_step = factors.column_step};
  const bool words = weight.codes.layout != CodeLayout::bytes;
  if (words) weight.zero = 1 << (weight.codes.bits - 1);
  if (storage.zero_points) {
    // A whole matrix's zero point is not packed.
    const bool packed = words && factors.row_step == 1;
    CodeMatrix zeros{.stored = parts.at("_zero_point"),
                     .rows = factors.rows,
                     .columns = factors.columns,
                     .bits = weight.codes.bits,
                     .layout = packed ? zeros_layout : CodeLayout::bytes};
    if (words && !packed)
      refuse_part(zeros.stored, "is one for all of a packed matrix; expected one for each row or group");
    std::vector<std::int64_t> wanted = zeros.stored_shape();
    if (!packed) wanted = parts.factors.tensor.shape;  // the same axes
    require_part(zeros.stored, parts.numbers, "zero points like the factors", zeros.stored_dtype(), wanted);
    weight.zeros = std::move(zeros);
  }
  if (!storage.zero_points) refuse_zero_points(parts, storage);
  if (const NamedTensor* order = parts.find("_g_idx"); order != nullptr && storage.group) {
    require_part(*order, parts.numbers, "the group of each column", "I32", {weight.codes.columns});
    weight.column_groups = *order;
  }
  return weight_of(std::move(weight), false, parts.turned);
}

}  // namespace

SourceTensor gptq_weight(StoredParts parts, const QuantisedStorage& storage) {
  require_matrix(parts.numbers);
  const std::int64_t words = parts.numbers.tensor.shape[0], bits = *storage.bits;
  if (words * 32 % bits != 0) {
    refuse_part(parts.numbers,
                fmt::format("holds no whole columns of {} bits; expected a multiple of {} rows, got {}", bits,
                            bits, words));
  }
  const CodeMatrix codes{.stored = parts.numbers,
                         .rows = words * 32 / bits,
                         .columns = parts.numbers.tensor.shape[1],
                         .bits = static_cast<int>(bits),
                         .layout = CodeLayout::down};
  ScaledIntegers weight = grouped_rows(parts, storage, codes, CodeLayout::along);
  if (storage.any_order) parts.at(".g_idx");  // required
  if (const NamedTensor* order = parts.find(".g_idx")) {
    require_part(*order, parts.numbers, "the group of each row", "I32", {codes.rows});
    weight.row_groups = *order;
    if (!storage.any_order && parts.notes != nullptr &&
        row_groups_of(weight, 0, codes.rows) != neighbours(0, codes.rows, weight.row_step)) {
      parts.notes->insert(
          fmt::format("[{}] \"desc_act\" is not true, and tensors g_idx give rows an order of groups: "
                      "the tensors are followed",
                      storage.where));
    }
  }
  return weight_of(std::move(weight), true, parts.turned);
}

SourceTensor awq_weight(StoredParts parts, const QuantisedStorage& storage) {
  require_matrix(parts.numbers);
  const std::vector<std::int64_t>& shape = parts.numbers.tensor.shape;
  const CodeMatrix codes{.stored = parts.numbers,
                         .rows = shape[0],
                         .columns = shape[1] * 8,
                         .bits = *storage.bits,
                         .layout = CodeLayout::along_awq};
  return weight_of(grouped_rows(parts, storage, codes, CodeLayout::along_awq), true, parts.turned);
}

SourceTensor packed_weight(StoredParts parts, const QuantisedStorage& storage) {
  require_matrix(parts.numbers);
  const std::vector<std::int64_t> shape = stated_shape(parts.at("_shape"));
  CodeMatrix codes{.stored = parts.numbers,
                   .rows = shape[0],
                   .columns = shape[1],
                   .bits = *storage.bits,
                   .layout = CodeLayout::along};
  require_part(parts.numbers, parts.at("_shape"),
               fmt::format("{} bits for each number of {}", codes.bits, shape_text(shape)), "I32",
               codes.stored_shape());
  return compressed_weight(parts, storage, std::move(codes), CodeLayout::down);
}

SourceTensor integer_weight(StoredParts parts, const QuantisedStorage& storage) {
  require_matrix(parts.numbers);
  const std::vector<std::int64_t>& shape = parts.numbers.tensor.shape;
  CodeMatrix codes{
      .stored = parts.numbers, .rows = shape[0], .columns = shape[1], .bits = 8, .layout = CodeLayout::bytes};
  return compressed_weight(parts, storage, std::move(codes), CodeLayout::bytes);
}

SourceTensor parts_of_127_weight(StoredParts parts, const QuantisedStorage&) {
  require_matrix(parts.numbers);
  const std::vector<std::int64_t>& shape = parts.numbers.tensor.shape;
  require_part(parts.factors, parts.numbers, "what 127 means in each row", "F32", {shape[0]});
  if (const NamedTensor* order = parts.find(".weight_format")) {
    const bool rows = order->tensor.dtype_name == "U8" && number_count(order->tensor.shape) == 1 &&
                      part_bytes(order->tensor, 0, 1).front() == std::byte{0};
    if (!rows) refuse_part(*order, "says that the matrix is stored in tiles; expected U8 0, row after row");
  }
  CodeMatrix codes{
      .stored = parts.numbers, .rows = shape[0], .columns = shape[1], .bits = 8, .layout = CodeLayout::bytes};
  const std::int64_t width = std::max<std::int64_t>(1, codes.columns);
  return weight_of({.codes = std::move(codes),
                    .factors = parts.factors,
                    .factor_columns = 1,
                    .row_step = 1,
                    .column_step = width,
                    .times = kPartOf127},
                   false, parts.turned);
}

}  // namespace hooked
