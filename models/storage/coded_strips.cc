#include "models/storage/coded_strips.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "models/kernels/kernels.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"

// Note [Coded strips]
// Sixteen outputs are a strip, so that a vector of a processor has the same input of all of them, as in a
// packed matrix (models/storage/matrix.cc). A strip is a block of its inputs after another:
//
//   factors   [column] in half precision, bfloat16 or float32
//   offsets   [column], if the form has them
//   scales    [group, column], a byte each, if the form has them
//   minimums  [group, column], a byte each, if they do not share the scales' bytes
//   codes     [unit of 32 inputs, word, column], a word for each bit of a code
//
// Of codes of b bits a word holds the next 32 / b of its column, from the lowest bit on. Words of 3, 5 and 6
// bits have two bits left at their upper end; together they are the last two codes of the unit. Outputs after
// the last are 0.
//
// A product decodes numbers in registers, rounded as they are when a model is loaded expanded, and adds up
// its products in the order of the inputs, as a packed matrix does: both give the same bits in float32. Many
// rows are multiplied by a panel of decoded numbers, which stays in the cache, with the same bits again.

namespace hooked {
namespace {

constexpr std::int64_t kStripColumns = kernels::kPackedColumns;
constexpr std::int64_t kCodesOfAUnit = 32;
// More rows are multiplied by a panel. Kernels round numbers again for each row.
constexpr std::int64_t most_rows_in_registers(const CodedForm& form) {
  return form.rounding == CodeRounding::none ? 8 : 1;
}
constexpr std::int64_t kStripsOfAPanel = 4;
constexpr std::int64_t kInputsOfAPanel = 768;
// Outputs that are decoded at a time where no kernel multiplies by codes.
constexpr std::int64_t kRowsAtOnce = 1024;

using BlockParts = kernels::CodedLayout;

std::int64_t factor_bytes(CodeFactors factors) { return factors == CodeFactors::single ? 4 : 2; }

BlockParts parts_of(const CodedForm& form) {
  const std::int64_t bytes_of_groups = form.block / form.group * kStripColumns,
                     factors = factor_bytes(form.factors) * kStripColumns;
  BlockParts parts{};
  parts.offsets = factors;
  parts.scales = parts.offsets + (form.has_offset() ? factors : 0);
  parts.minimums = parts.scales + (form.scales == CodeScales::none ? 0 : bytes_of_groups);
  parts.codes = parts.minimums + (form.has_minimums() ? bytes_of_groups : 0);
  parts.end = parts.codes + form.block / kCodesOfAUnit * form.bits * 4 * kStripColumns;
  return parts;
}

std::int64_t parts_for(std::int64_t count, std::int64_t of) { return (count + of - 1) / of; }

/// Where bits of a code are: `count` of them from bit `bit` of word `word` of a unit on.
struct CodeBits {
  std::int64_t word;
  int bit, count;
};

// Calls `use(place, shift)` for each stretch of the bits of input `i` of a unit; `shift` is the stretch's
// first bit in the code.
template <class Use>
void each_stretch(int bits, std::int64_t i, const Use& use) {
  const std::int64_t in_a_word = 32 / bits;
  if (i < in_a_word * bits)
    return use(CodeBits{i / in_a_word, static_cast<int>(i % in_a_word) * bits, bits}, 0);
  const int first = static_cast<int>(i - in_a_word * bits) * bits;  // among the bits that are left
  for (int done = 0; done < bits;) {
    const int bit = first + done, count = std::min(2 - bit % 2, bits - done);
    use(CodeBits{bit / 2, 30 + bit % 2, count}, done);
    done += count;
  }
}

/// One block of one column of a strip.
struct BlockPlace {
  std::byte* block;
  std::int64_t column;

  std::byte* byte(std::int64_t part, std::size_t group) const {
    return block + part + static_cast<std::int64_t>(group) * kStripColumns + column;
  }
  std::byte* word(std::int64_t codes, std::int64_t number) const {
    return block + codes + (number * kStripColumns + column) * 4;
  }
};

template <class Number>
Number number_at(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof(number));
  return number;
}

template <class Number>
void write_number(std::byte* to, Number number) {
  std::memcpy(to, &number, sizeof(number));
}

// The factor of a column, or its offset, in the part of its block that begins at `part`.
void write_factor(CodeFactors factors, const BlockPlace& place, std::int64_t part, float factor) {
  std::byte* const to = place.block + part + factor_bytes(factors) * place.column;
  if (factors == CodeFactors::single) return write_number(to, factor);
  write_number(to, factors == CodeFactors::half
                       ? c10::Half(factor).x
                       : static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(factor) >> 16U));
}

float factor_at(CodeFactors factors, const BlockPlace& place, std::int64_t part) {
  const std::byte* const from = place.block + part + factor_bytes(factors) * place.column;
  if (factors == CodeFactors::single) return number_at<float>(from);
  const auto bits = number_at<std::uint16_t>(from);
  if (factors == CodeFactors::half) return static_cast<float>(c10::Half(bits, c10::Half::from_bits()));
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

void pack(const CodedForm& form, const BlockParts& parts, const BlockPlace& place, const CodedBlock& block) {
  write_factor(form.factors, place, 0, block.factor);
  if (form.has_offset()) write_factor(form.factors, place, parts.offsets, block.offset);
  const auto groups = static_cast<std::size_t>(form.block / form.group);
  for (std::size_t group = 0; group < groups; ++group) {
    const auto scale = static_cast<std::uint8_t>(block.scales[group]);
    if (form.scales != CodeScales::none) {
      *place.byte(parts.scales, group) = static_cast<std::byte>(
          form.scales == CodeScales::pairs ? scale | block.minimums[group] << 4 : scale);
    }
    if (form.has_minimums())
      *place.byte(parts.minimums, group) = static_cast<std::byte>(block.minimums[group]);
  }
  for (std::int64_t unit = 0; unit < form.block / kCodesOfAUnit; ++unit) {
    std::array<std::uint32_t, 8> words{};
    for (std::int64_t i = 0; i < kCodesOfAUnit; ++i) {
      const std::uint32_t code = block.codes[static_cast<std::size_t>(unit * kCodesOfAUnit + i)];
      each_stretch(form.bits, i, [&](const CodeBits& at, int shift) {
        words[static_cast<std::size_t>(at.word)] |= (code >> shift & ((1U << at.count) - 1U)) << at.bit;
      });
    }
    for (std::int64_t w = 0; w < form.bits; ++w)
      write_number(place.word(parts.codes, unit * form.bits + w), words[static_cast<std::size_t>(w)]);
  }
}

void unpack(const CodedForm& form, const BlockParts& parts, const BlockPlace& place, CodedBlock& block) {
  block.factor = factor_at(form.factors, place, 0);
  if (form.has_offset()) block.offset = factor_at(form.factors, place, parts.offsets);
  const auto groups = static_cast<std::size_t>(form.block / form.group);
  for (std::size_t group = 0; group < groups; ++group) {
    if (form.scales != CodeScales::none) {
      const auto scale = std::to_integer<std::uint8_t>(*place.byte(parts.scales, group));
      const bool pairs = form.scales == CodeScales::pairs;
      block.scales[group] = static_cast<std::int8_t>(pairs ? scale & 15U : scale);
      if (pairs) block.minimums[group] = scale >> 4U;
    }
    if (form.has_minimums())
      block.minimums[group] = std::to_integer<std::uint8_t>(*place.byte(parts.minimums, group));
  }
  for (std::int64_t unit = 0; unit < form.block / kCodesOfAUnit; ++unit) {
    for (std::int64_t i = 0; i < kCodesOfAUnit; ++i) {
      std::uint32_t code = 0;
      each_stretch(form.bits, i, [&](const CodeBits& at, int shift) {
        const auto word = number_at<std::uint32_t>(place.word(parts.codes, unit * form.bits + at.word));
        code |= (word >> at.bit & ((1U << at.count) - 1U)) << shift;
      });
      block.codes[static_cast<std::size_t>(unit * kCodesOfAUnit + i)] = static_cast<std::uint8_t>(code);
    }
  }
}

// `x.to(at::kFloat)` without asking LibTorch where nothing is to be done.
at::Tensor as_floats(const at::Tensor& x) { return x.scalar_type() == at::kFloat ? x : x.to(at::kFloat); }

kernels::CodedKernel kernel_for(const CodedForm& form, at::ScalarType dtype) {
  const kernels::Kernels* const own = kernels::own_kernels();
  if (own == nullptr || (dtype != at::kFloat && dtype != at::kBFloat16 && dtype != at::kHalf)) return nullptr;
  return own->coded[kernels::code_kind(form)];
}

}  // namespace

CodedStrips::CodedStrips(const CodedForm& form, std::int64_t out, std::int64_t in, const Workspace* memory)
    : form_(form),
      out_(out),
      in_(in),
      layout_(parts_of(form)),
      bytes_(empty_in(memory, {parts_for(out, kStripColumns), in / form.block * layout_.end}, at::kByte)
                 .zero_()) {
  assert(fits(form, in));
}

std::uint64_t CodedStrips::nbytes_of(const CodedForm& form, std::int64_t out, std::int64_t in) {
  return static_cast<std::uint64_t>(parts_for(out, kStripColumns) * (in / form.block) * parts_of(form).end);
}

bool CodedStrips::holds(const CodedForm& form, const CodedBlock& block) {
  constexpr float kMostFactor = 0x1p100F;
  const auto codes = std::span(block.codes).first(static_cast<std::size_t>(form.block));
  return std::abs(block.factor) <= kMostFactor &&
         (form.values != CodeValues::e4m3 ||
          std::ranges::none_of(codes, [](std::uint8_t code) { return (code & 0x7FU) == 0x7FU; }));
}

std::byte* CodedStrips::block_at(std::int64_t strip, std::int64_t block) const {
  auto* const bytes = reinterpret_cast<std::byte*>(bytes_.data_ptr<std::uint8_t>());
  return bytes + strip * bytes_.size(1) + block * layout_.end;
}

void CodedStrips::put(std::int64_t row, std::span<const CodedBlock> blocks) const {
  assert(static_cast<std::int64_t>(blocks.size()) * form_.block == in_);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::byte* const block = block_at(row / kStripColumns, static_cast<std::int64_t>(b));
    pack(form_, layout_, {block, row % kStripColumns}, blocks[b]);
  }
}

void CodedStrips::take(std::int64_t row, std::int64_t block, CodedBlock& into) const {
  unpack(form_, layout_, {block_at(row / kStripColumns, block), row % kStripColumns}, into);
}

std::optional<CodedStrips> CodedStrips::followed_by(const CodedStrips& next, const Workspace* memory) const {
  if (form_ != next.form_ || in_ != next.in_ || out_ % kStripColumns != 0) return std::nullopt;
  CodedStrips both = *this;
  both.out_ += next.out_;
  both.bytes_ = empty_in(memory, {bytes_.size(0) + next.bytes_.size(0), bytes_.size(1)}, bytes_.options());
  at::cat_out(both.bytes_, {bytes_, next.bytes_});
  return both;
}

kernels::CodedColumns CodedStrips::columns(std::int64_t strip, std::int64_t count, std::int64_t input,
                                           std::int64_t end) const {
  return {.form = &form_,
          .layout = &layout_,
          .first = block_at(strip, input / form_.block),
          .strip_bytes = bytes_.size(1),
          .count = count,
          .in = end - input};
}

template <class RowOf>
at::Tensor CodedStrips::numbers(std::int64_t count, at::ScalarType dtype, const RowOf& row_of) const {
  const at::Tensor all = at::empty({count, in_}, at::kFloat);
  auto* const into = all.data_ptr<float>();
  share_stretches(count, 16, [&](std::int64_t begin, std::int64_t end) {
    CodedBlock block;
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t b = 0; b < in_ / form_.block; ++b) {
        take(row_of(i), b, block);
        decode(form_, block, into + i * in_ + b * form_.block);
      }
    }
  });
  return all.to(dtype);
}

at::Tensor CodedStrips::rows(std::int64_t first, std::int64_t count, at::ScalarType dtype) const {
  return numbers(count, dtype, [&](std::int64_t i) { return first + i; });
}

at::Tensor CodedStrips::rows_at(const at::Tensor& outputs, at::ScalarType dtype) const {
  const at::Tensor ids = outputs.contiguous();
  return numbers(ids.numel(), dtype,
                 [row = ids.const_data_ptr<std::int64_t>()](std::int64_t i) { return row[i]; });
}

CodedStrips CodedStrips::of_outputs(const at::Tensor& outputs) const {
  const at::Tensor ids = outputs.contiguous();
  CodedStrips some(form_, ids.numel(), in_);
  std::vector<CodedBlock> blocks(static_cast<std::size_t>(in_ / form_.block));
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    for (std::size_t b = 0; b < blocks.size(); ++b)
      take(ids.const_data_ptr<std::int64_t>()[i], static_cast<std::int64_t>(b), blocks[b]);
    some.put(i, blocks);
  }
  return some;
}

void CodedStrips::multiply_into(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias,
                                std::int64_t first) const {
  const std::int64_t row_count = rows.size(0), count = out.size(1);
  if (row_count == 0 || count == 0) return;
  const kernels::CodedKernel kernel = kernel_for(form_, rows.scalar_type());
  if (kernel == nullptr) {
    const at::ScalarType dtype = sum_dtype(rows.scalar_type());
    const at::Tensor x = rows.to(dtype), added = bias.defined() ? bias.to(dtype) : bias;
    for (std::int64_t done = 0; done < count; done += kRowsAtOnce) {
      const std::int64_t some = std::min(kRowsAtOnce, count - done);
      at::Tensor part = at::empty({row_count, some}, x.options());
      linear_into(part, x, this->rows(first + done, some, dtype),
                  bias.defined() ? added.narrow(0, done, some) : added);
      out.narrow(1, done, some).copy_(part);
    }
    return;
  }
  // Kernels write whole strips of float32.
  const std::int64_t strip = first / kStripColumns, strips = parts_for(first + count, kStripColumns) - strip;
  const bool in_place =
      out.scalar_type() == at::kFloat && first % kStripColumns == 0 && count % kStripColumns == 0;
  const at::Tensor sums = in_place ? out : at::empty({row_count, strips * kStripColumns}, at::kFloat);
  const at::Tensor x = as_floats(rows),
                   added = in_place && bias.defined() ? as_floats(bias).contiguous() : at::Tensor();
  const float* const b = added.defined() ? added.const_data_ptr<float>() : nullptr;
  auto* const y = sums.mutable_data_ptr<float>();
  const auto few_rows = [&](std::int64_t begin, std::int64_t end) {
    kernel({.strips = columns(strip + begin, end - begin, 0, in_),
            .x = x.const_data_ptr<float>(),
            .x_stride = in_,
            .bias = b == nullptr ? nullptr : b + begin * kStripColumns,
            .out = y + begin * kStripColumns,
            .out_stride = sums.stride(0),
            .rows = row_count});
  };
  const auto many_rows = [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor panel = at::empty({kInputsOfAPanel, kStripsOfAPanel * kStripColumns}, at::kFloat);
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t from = group * kStripsOfAPanel, some = std::min(kStripsOfAPanel, strips - from);
      for (std::int64_t input = 0; input < in_; input += kInputsOfAPanel) {
        const std::int64_t stop = std::min(input + kInputsOfAPanel, in_);
        kernels::own_kernels()->coded_panel[kernels::code_kind(form_)](
            columns(strip + from, some, input, stop), panel.mutable_data_ptr<float>());
        kernels::own_kernels()->float_blocks[some - 1](
            {.x = x.const_data_ptr<float>() + input,
             .x_stride = in_,
             .block = panel.const_data_ptr(),
             .in = stop - input,
             .bias = b == nullptr || stop < in_ ? nullptr : b + from * kStripColumns,
             .out = y + from * kStripColumns,
             .out_stride = sums.stride(0),
             .rows = row_count,
             .more = input > 0});
      }
    }
  };
  const std::int64_t operations = 2 * row_count * strips * kStripColumns * in_;
  if (row_count <= most_rows_in_registers(form_)) {
    share_operations(strips, operations, few_rows);
  } else {
    share_operations(parts_for(strips, kStripsOfAPanel), operations, many_rows);
  }
  if (in_place) return;
  const at::Tensor wanted = sums.narrow(1, first % kStripColumns, count);
  out.copy_(bias.defined() ? wanted + as_floats(bias) : wanted);
}

void CodedStrips::add_back_into(const at::Tensor& out, const at::Tensor& rows, std::int64_t first) const {
  for (std::int64_t done = 0; done < rows.size(1); done += kRowsAtOnce) {
    const std::int64_t some = std::min(kRowsAtOnce, rows.size(1) - done);
    at::Tensor sum = out;
    at::addmm_out(sum, sum, rows.narrow(1, done, some), this->rows(first + done, some, out.scalar_type()));
  }
}

}  // namespace hooked
