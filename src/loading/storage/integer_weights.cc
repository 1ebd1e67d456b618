#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/parallel.h"
#include "hooked/core/tensor_text.h"
#include "loading/storage/code_matrix.h"
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

/// Numbers in groups of `row_step` x `column_step` that share a factor and a zero point.
struct ScaledIntegers {
  CodeMatrix codes;
  NamedTensor factors;
  std::int64_t factor_columns;  ///< of the matrix of factors
  std::int64_t row_step, column_step;
  std::optional<CodeMatrix> zeros = std::nullopt;  ///< a matrix like the factors'
  std::int32_t zero = 0;                           ///< if there are none
  // The row or column of factors for each row or column of numbers, if groups are not neighbours.
  std::optional<NamedTensor> row_groups = std::nullopt, column_groups = std::nullopt;
  float times = 1.0F;  ///< a second factor for all
};

/// The needed rows of factors and of zero points.
struct FactorRows {
  std::vector<std::int64_t> rows;  ///< which ones, in order
  std::vector<float> factors;
  std::vector<std::int32_t> zeros;

  std::size_t index_of(std::int64_t row) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(rows, row) - rows.begin());
  }
};

std::vector<std::int64_t> neighbours(std::int64_t first, std::int64_t count, std::int64_t step) {
  std::vector<std::int64_t> groups(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) groups[static_cast<std::size_t>(i)] = (first + i) / step;
  return groups;
}

// Numbers `first` to `first + count` of an I32 tensor.
std::vector<std::int64_t> stored_groups(const NamedTensor& stored, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> groups;
  for (const std::uint32_t word : part_words(stored.tensor, first, count))
    groups.push_back(static_cast<std::int32_t>(word));
  return groups;
}

// Checks the groups of the numbers from `first` on, which `stored` gives.
std::vector<std::int64_t> existing_groups(std::vector<std::int64_t> groups, const NamedTensor& stored,
                                          std::int64_t first, std::int64_t n_groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] >= 0 && groups[i] < n_groups) continue;
    refuse_part(stored, fmt::format("names a group that does not exist at {}; expected 0 to {}, got {}",
                                    first + static_cast<std::int64_t>(i), n_groups - 1, groups[i]));
  }
  return groups;
}

std::vector<std::int64_t> row_groups_of(const ScaledIntegers& weight, std::int64_t first,
                                        std::int64_t count) {
  if (!weight.row_groups) return neighbours(first, count, weight.row_step);
  const NamedTensor& stored = *weight.row_groups;
  return existing_groups(stored_groups(stored, first, count), stored, first, weight.factors.tensor.shape[0]);
}

std::vector<std::int64_t> column_groups_of(const ScaledIntegers& weight) {
  const std::int64_t width = weight.codes.columns;
  if (!weight.column_groups) return neighbours(0, width, weight.column_step);
  const NamedTensor& stored = *weight.column_groups;
  std::vector<std::int64_t> groups = stored_groups(stored, 0, width);
  // compressed-tensors writes this if the order has not been set.
  if (std::ranges::all_of(groups, [](std::int64_t group) { return group == -1; }))
    return neighbours(0, width, weight.column_step);
  return existing_groups(std::move(groups), stored, 0, weight.factor_columns);
}

// The needed rows of factors, each once, read in runs of neighbours.
FactorRows read_factor_rows(const ScaledIntegers& weight, std::vector<std::int64_t> rows) {
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  FactorRows read;
  const std::int64_t width = weight.factor_columns;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    const std::int64_t first = rows[begin], count = static_cast<std::int64_t>(end - begin);
    const auto factors = part_factors(weight.factors.tensor, first * width, count * width);
    read.factors.insert(read.factors.end(), factors.begin(), factors.end());
    if (weight.zeros) {
      const auto zeros = weight.zeros->rows_of(first, count);
      read.zeros.insert(read.zeros.end(), zeros.begin(), zeros.end());
    }
    begin = end;
  }
  if (!weight.zeros) read.zeros.assign(read.factors.size(), weight.zero);
  read.rows = std::move(rows);
  return read;
}

void read_numbers(const ScaledIntegers& weight, std::int64_t first, const at::Tensor& into) {
  const std::int64_t count = into.numel(), width = weight.codes.columns;
  if (count == 0) return;
  const std::int64_t first_row = first / width, rows = (first + count - 1) / width + 1 - first_row;
  const std::vector<std::int64_t> row_groups = row_groups_of(weight, first_row, rows);
  const std::vector<std::int64_t> column_groups = column_groups_of(weight);
  const FactorRows factors = read_factor_rows(weight, row_groups);
  const std::vector<std::int32_t> codes = weight.codes.rows_of(first_row, rows);
  auto* const out = static_cast<float*>(into.data_ptr());
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t begin = (first_row + row) * width;  // position of the row's first number among all
    const std::int64_t from = std::max(begin, first), to = std::min(begin + width, first + count);
    const std::size_t at = factors.index_of(row_groups[static_cast<std::size_t>(row)]) *
                           static_cast<std::size_t>(weight.factor_columns);
    for (std::int64_t i = from; i < to; ++i) {
      const std::size_t group =
          at + static_cast<std::size_t>(column_groups[static_cast<std::size_t>(i - begin)]);
      const std::int32_t code = codes[static_cast<std::size_t>(i - first_row * width)] - factors.zeros[group];
      out[i - first] = static_cast<float>(code) * factors.factors[group];
    }
  }
  round_to_dtype(weight.factors.tensor.dtype, into);
  if (weight.times == 1.0F) return;
  std::transform(out, out + count, out, [&](float number) { return number * weight.times; });
}

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

// What is added to a number so that it has no sign.
int lift_of(const ScaledIntegers& weight) {
  return weight.codes.layout == CodeLayout::bytes ? 1 << (weight.codes.bits - 1) : 0;
}

// Whether groups are neighbours, whatever the tensor of their order holds.
bool in_order(const std::optional<NamedTensor>& order, std::int64_t count, std::int64_t step) {
  if (!order) return true;
  const std::vector<std::int64_t> groups = stored_groups(*order, 0, count);
  return groups == neighbours(0, count, step) ||
         std::ranges::all_of(groups, [](std::int64_t group) { return group == -1; });
}

// How products decode the numbers. Nothing if they cannot: other numbers of bits, rows or groups without
// whole blocks, groups in another order, or products that are rounded to float32.
std::optional<CodedForm> form_of(const ScaledIntegers& weight, std::int64_t in, std::int64_t step) {
  const at::ScalarType dtype = weight.factors.tensor.dtype;
  const int block = block_size(std::gcd(in, std::min(in, step)));
  if (code_rounding(dtype) == CodeRounding::none || weight.times != 1.0F || block == 0) return std::nullopt;
  if (weight.codes.bits != 4 && weight.codes.bits != 8) return std::nullopt;
  if (!in_order(weight.row_groups, weight.codes.rows, weight.row_step) ||
      !in_order(weight.column_groups, weight.codes.columns, weight.column_step))
    return std::nullopt;
  return CodedForm{.bits = weight.codes.bits,
                   .middle = weight.zeros ? 0 : weight.zero + lift_of(weight),
                   .group = block,
                   .block = block,
                   .factors = code_factors(dtype),
                   .offsets = weight.zeros ? CodeOffsets::zeros : CodeOffsets::none,
                   .rounding = code_rounding(dtype)};
}

/// Some outputs of a weight: their codes [out, in], without a sign, and what they share.
struct OutputCodes {
  std::int64_t first;
  std::vector<std::uint8_t> codes;
  FactorRows factors;
};

// Reads the codes of outputs in blocks. Those of a weight [in, out] are everywhere in its tensor, so it is
// read whole, and kept as long as somebody holds it.
class IntegerBlocks {
 public:
  IntegerBlocks(ScaledIntegers weight, const CodedForm& form, bool lies_in_out)
      : weight_(std::move(weight)),
        form_(form),
        lies_in_out_(lies_in_out),
        in_(lies_in_out ? weight_.codes.rows : weight_.codes.columns) {}

  /// All outputs if they are kept, else null.
  std::shared_ptr<const OutputCodes> hold() {
    if (!lies_in_out_) return nullptr;
    const std::lock_guard lock(mutex_);
    auto all = held_.lock();
    if (all == nullptr) {
      all = std::make_shared<const OutputCodes>(read_all());
      held_ = all;
    }
    return all;
  }

  void read(std::int64_t first, std::span<CodedBlock> into) {
    std::shared_ptr<const OutputCodes> codes = hold();
    for (CodedBlock& block : into) {
      const std::int64_t out = first * form_.block / in_, input = first * form_.block % in_;
      if (!lies_in_out_ && (codes == nullptr || codes->first != out))
        codes = std::make_shared<const OutputCodes>(read_output(out));
      fill(*codes, out, input, block);
      ++first;
    }
  }

 private:
  OutputCodes read_all() const {
    constexpr std::int64_t kRowsAtOnce = 64;
    const std::int64_t outputs = weight_.codes.columns;
    OutputCodes all{.first = 0,
                    .codes = std::vector<std::uint8_t>(static_cast<std::size_t>(outputs * in_)),
                    .factors = read_factor_rows(weight_, neighbours(0, in_, weight_.row_step))};
    share_among_threads(parts_for(in_, kRowsAtOnce), [&](std::int64_t part) {
      const std::int64_t begin = part * kRowsAtOnce, count = std::min(kRowsAtOnce, in_ - begin);
      const std::vector<std::int32_t> rows = weight_.codes.rows_of(begin, count);
      for (std::int64_t out = 0; out < outputs; ++out) {
        std::uint8_t* const to = all.codes.data() + out * in_ + begin;
        for (std::int64_t i = 0; i < count; ++i)
          to[i] = static_cast<std::uint8_t>(rows[static_cast<std::size_t>(i * outputs + out)]);
      }
    });
    return all;
  }

  OutputCodes read_output(std::int64_t out) const {
    OutputCodes one{
        .first = out, .codes = {}, .factors = read_factor_rows(weight_, {out / weight_.row_step})};
    for (const std::int32_t number : weight_.codes.rows_of(out, 1))
      one.codes.push_back(static_cast<std::uint8_t>(number + lift_of(weight_)));
    return one;
  }

  void fill(const OutputCodes& codes, std::int64_t out, std::int64_t input, CodedBlock& block) const {
    std::copy_n(codes.codes.data() + (out - codes.first) * in_ + input, form_.block, block.codes.data());
    const std::int64_t row = lies_in_out_ ? input : out, column = lies_in_out_ ? out : input;
    const std::size_t group =
        codes.factors.index_of(row / weight_.row_step) * static_cast<std::size_t>(weight_.factor_columns) +
        static_cast<std::size_t>(column / weight_.column_step);
    block.factor = codes.factors.factors[group];
    block.minimums[0] = static_cast<std::uint8_t>(codes.factors.zeros[group] + lift_of(weight_));
  }

  ScaledIntegers weight_;
  CodedForm form_;
  bool lies_in_out_;
  std::int64_t in_;
  std::mutex mutex_;
  std::weak_ptr<const OutputCodes> held_;
};

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
  const std::int64_t in = lies_in_out ? rows : columns,
                     step = lies_in_out ? weight.row_step : weight.column_step;
  if (const auto form = form_of(weight, in, step)) {
    const auto blocks = std::make_shared<IntegerBlocks>(std::move(weight), *form, lies_in_out);
    made.codes = SourceCodes{
        .form = *form,
        .read = [blocks](std::int64_t first, std::span<CodedBlock> into) { blocks->read(first, into); },
        .strides = turned ? std::vector<std::int64_t>{1, in} : std::vector<std::int64_t>{in, 1},
        .hold = [blocks] { return blocks->hold(); }};
  }
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
