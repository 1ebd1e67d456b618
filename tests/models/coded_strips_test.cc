// Matrices in codes: their numbers, and their products by every set of kernels, to the bits of packed
// matrices.
#include "models/storage/coded_strips.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <fmt/format.h>

#include <limits>

#include "io/gguf/ggml_types.h"
#include "models/storage/matrix_parts.h"
#include "models/storage/workspace.h"
#include "tests/models/kernels_in_cpp/tables.h"
#include "tests/support/coded_rows.h"
#include "tests/support/test.h"

namespace hooked::coded_strips_test {
namespace {

using kernels::kPackedColumns;

/// Strips of random codes, and their numbers.
struct Coded {
  CodedStrips strips;
  at::Tensor numbers;  ///< [out, in]
};

Coded coded(const CodedForm& form, std::int64_t out, std::int64_t in, const std::vector<CodedBlock>& blocks) {
  const std::size_t of_row = static_cast<std::size_t>(in / form.block);
  const CodedStrips strips(form, out, in);
  for (std::int64_t row = 0; row < out; ++row)
    strips.put(row, std::span(blocks).subspan(static_cast<std::size_t>(row) * of_row, of_row));
  return {strips, numbers_of(form, blocks, out)};
}

Coded coded(const CodedForm& form, std::int64_t out, std::int64_t in, std::uint32_t seed = 3) {
  std::mt19937 random(seed);
  return coded(form, out, in, random_blocks(form, out, in, random));
}

class CodedTable : public testing::TestWithParam<kernels::NamedKernels> {};

TEST_P(CodedTable, DecodesAndMultiplies) {
  const kernels::Kernels& table = GetParam().kernels;
  constexpr std::int64_t kStrips = 6, kOut = kStrips * kPackedColumns, kIn = 512;
  for (const auto& [name, form] : coded_forms()) {
    SCOPED_TRACE(name);
    const auto [strips, numbers] = coded(form, kOut, kIn);
    const auto kind = static_cast<std::size_t>(kernels::code_kind(form));
    const at::Tensor panel = at::zeros({kIn, kOut}, at::kFloat);
    table.coded_panel[kind](strips.columns(0, kStrips, 0, kIn), panel.mutable_data_ptr<float>());
    ASSERT_TRUE(at::equal(panel, numbers.t()));
    const at::Tensor x = at::randn({9, kIn}), bias = at::randn({kOut});
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 9}) {
      const at::Tensor out = at::full({rows, kOut + 3}, -7.5, at::kFloat);
      table.coded[kind]({.strips = strips.columns(0, kStrips, 0, kIn),
                         .x = x.const_data_ptr<float>(),
                         .x_stride = kIn,
                         .bias = bias.const_data_ptr<float>(),
                         .out = out.mutable_data_ptr<float>(),
                         .out_stride = kOut + 3,
                         .rows = rows});
      ASSERT_TRUE((out.narrow(1, kOut, 3) == -7.5).all().item<bool>());
      // The kernel of packed matrices adds up in the same order.
      const at::Tensor same = at::empty({rows, kOut}, at::kFloat);
      table.float_blocks[kStrips - 1]({.x = x.const_data_ptr(),
                                       .x_stride = kIn,
                                       .block = panel.const_data_ptr(),
                                       .in = kIn,
                                       .bias = bias.const_data_ptr(),
                                       .out = same.mutable_data_ptr(),
                                       .out_stride = kOut,
                                       .rows = rows});
      ASSERT_TRUE(at::equal(out.narrow(1, 0, kOut), same)) << rows;
      const at::Tensor exact =
          at::linear(x.narrow(0, 0, rows).to(at::kDouble), numbers.to(at::kDouble), bias.to(at::kDouble));
      ASSERT_LT((same.to(at::kDouble) - exact).abs().max().item<double>(), 1e-3) << rows;
    }
  }
}

// Numbers that are subnormal or infinite after rounding.
TEST_P(CodedTable, RoundsTheSmallestAndTheLargest) {
  constexpr std::int64_t kIn = 256;
  for (const auto& [name, form] : coded_forms()) {
    if (form.rounding == CodeRounding::none) continue;
    SCOPED_TRACE(name);
    std::vector<float> factors = {0x1p-24F, -0x1.8p-20F, 0x1p-14F, 0x1.f8p15F, -0x1p13F, 0.0F};
    if (form.factors != CodeFactors::half) factors.insert(factors.end(), {0x1p-130F, 0x1p100F, -0x1.8p99F});
    std::mt19937 random(5);
    std::vector<CodedBlock> blocks = random_blocks(form, kPackedColumns, kIn, random);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].factor = factors[i % factors.size()];
    const auto [strips, numbers] = coded(form, kPackedColumns, kIn, blocks);
    const at::Tensor panel = at::zeros({kIn, kPackedColumns}, at::kFloat);
    GetParam().kernels.coded_panel[kernels::code_kind(form)](strips.columns(0, 1, 0, kIn),
                                                             panel.mutable_data_ptr<float>());
    ASSERT_TRUE(at::equal(panel, numbers.t()));
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CodedTable, testing::ValuesIn(kernels::all_tables()),
                         [](const auto& table) { return table.param.name; });

TEST(CodedStrips, GiveTheirNumbersBack) {
  for (const auto& [name, form] : coded_forms()) {
    SCOPED_TRACE(name);
    const auto [strips, numbers] = coded(form, 53, 512);
    ASSERT_TRUE(at::equal(strips.rows(0, 53, at::kFloat), numbers));
    ASSERT_TRUE(at::equal(strips.rows(17, 20, at::kFloat), numbers.narrow(0, 17, 20)));
    ASSERT_TRUE(at::equal(strips.rows(5, 2, at::kBFloat16), numbers.narrow(0, 5, 2).to(at::kBFloat16)));
    const at::Tensor some = at::tensor({52, 0, 16, 0}, at::kLong);
    ASSERT_TRUE(at::equal(strips.rows_at(some, at::kFloat), numbers.index_select(0, some)));
  }
}

TEST(CodedStrips, TakeTheBytesOfTheFile) {
  const std::map<std::string, double> most = {
      {"Q3_K", 1.04}, {"Q4_K", 1.03}, {"Q5_K", 1.03}, {"MXFP4", 1.06}};
  for (const auto& [name, form] : forms_of_gguf()) {
    const auto type = std::ranges::find(ggml_types(), name, &GgmlType::name);
    const double stored =
        static_cast<double>(type->bytes) * 16 * (512.0 / static_cast<double>(type->elements));
    const double ratio = static_cast<double>(CodedStrips(form, 16, 512).nbytes()) / stored;
    const auto found = most.find(name);
    EXPECT_LE(ratio, found == most.end() ? 1.0 : found->second) << name;
  }
}

// Windows that begin and end inside a strip, and every dtype.
TEST(CodedStrips, MultiplyAsInFloat64) {
  for (const auto& [name, form] : coded_forms()) {
    const auto [strips, numbers] = coded(form, 53, 1280);
    for (const auto& [first, count] : {std::pair{0, 53}, {0, 48}, {16, 32}, {3, 9}, {20, 33}}) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
        for (const std::int64_t rows : {1, 5, 8, 9, 40}) {
          SCOPED_TRACE(fmt::format("{} {} {} {} {}", name, first, count, toString(dtype), rows));
          const at::Tensor x = at::randn({rows, 1280}).to(dtype), bias = at::randn({count}).to(dtype);
          const at::Tensor out = at::empty({rows, count}, dtype == at::kDouble ? dtype : at::kFloat);
          strips.multiply_into(out, x, bias, first);
          const at::Tensor w = numbers.narrow(0, first, count).to(at::kDouble);
          const at::Tensor exact = at::linear(x.to(at::kDouble), w, bias.to(at::kDouble));
          const at::Tensor scale = at::linear(x.to(at::kDouble).abs(), w.abs(), bias.to(at::kDouble).abs());
          const double allowed = dtype == at::kDouble ? 1e-14 : 2e-6;
          ASSERT_LT(((out.to(at::kDouble) - exact).abs() / scale).max().item<double>(), allowed);
          at::Tensor back = at::zeros({rows, 1280}, dtype);
          const at::Tensor gradient = at::randn({rows, count}).to(dtype);
          strips.add_back_into(back, gradient, first);
          const at::Tensor exact_back = gradient.to(at::kDouble).matmul(w);
          const at::Tensor scale_back = gradient.to(at::kDouble).abs().matmul(w.abs()) + 1e-3;
          const double rough = dtype == at::kDouble ? 1e-14 : dtype == at::kFloat ? 2e-6 : 2e-2;
          ASSERT_LT(((back.to(at::kDouble) - exact_back).abs() / scale_back).max().item<double>(), rough);
        }
      }
    }
  }
}

/// A matrix of the graph: codes, numbers, and codes of another form, as queries, keys and values may be.
struct Mixed {
  Matrix matrix;
  at::Tensor numbers;
};

Mixed mixed(at::ScalarType dtype) {
  constexpr std::int64_t kIn = 256;
  const Matrix matrix(80, kIn, {.out = 8, .in = kIn}, at::TensorOptions(dtype), Storage::codes);
  const auto forms = coded_forms();
  const auto [first, first_numbers] = coded(forms.front().form, 32, kIn, 1);
  const auto [last, last_numbers] = coded(forms.back().form, 24, kIn, 2);
  const at::Tensor plain = at::randn({24, kIn}).to(dtype);
  matrix.parts()->put(56, last);
  matrix.parts()->put(0, first);
  matrix.parts()->put_numbers(32, 24).as_out_in().write(plain);
  return {matrix, at::cat({first_numbers, plain.to(at::kFloat), last_numbers})};
}

TEST(MatrixParts, AreOneMatrix) {
  const auto [matrix, numbers] = mixed(at::kFloat);
  const Workspace memory;
  ASSERT_TRUE(at::equal(matrix.plain(), numbers));
  ASSERT_TRUE(at::equal(matrix.as_in_out().read(), numbers.t()));
  ASSERT_TRUE(at::equal(matrix.by_output_heads(5).read(), numbers.view({5, 16, 256}).transpose(1, 2)));
  ASSERT_TRUE(at::equal(matrix.by_input_heads(4).read(), numbers.t().view({4, 64, 80})));
  for (const MatrixAxes axes :
       {MatrixAxes::out_in, MatrixAxes::in_out, MatrixAxes::output_heads, MatrixAxes::input_heads}) {
    const SlotView view = matrix.view(axes, 4);
    const at::Tensor whole = view.read();
    ASSERT_EQ(whole.sizes().vec(), view.sizes());
    for (const std::int64_t place : {0, 1, 79, 80, 257, 6000, 20479})
      ASSERT_EQ(view.number(place).item<float>(), whole.flatten()[place].item<float>()) << place;
  }
  const at::Tensor ids = at::tensor({79, 0, 33, 33}, at::kLong).view({2, 2});
  ASSERT_TRUE(at::equal(matrix.rows_at(ids), numbers.index_select(0, ids.flatten()).view({2, 2, 256})));
  const at::Tensor bias = at::randn({80});
  for (const auto& [first, count] : {std::pair{0, 80}, {0, 32}, {16, 48}, {40, 40}, {60, 3}}) {
    for (const std::int64_t rows : {1, 6, 20}) {
      const at::Tensor x = at::randn({rows, 256}), w = numbers.narrow(0, first, count),
                       b = bias.narrow(0, first, count);
      at::Tensor out = at::empty({rows, count});
      matrix.narrow(first, count).multiply_into(out, x, b);
      ASSERT_TRUE(at::allclose(out, at::linear(x, w, b), 1e-4, 1e-3));
      at::Tensor back = at::empty({rows, 256});
      matrix.narrow(first, count).multiply_back_into(back, out, memory);
      ASSERT_TRUE(at::allclose(back, out.matmul(w), 1e-4, 1e-2));
    }
  }
  const at::Tensor by_head = at::randn({5, 3, 256});
  at::Tensor of_heads = at::empty({5, 3, 16}), back_of_heads = at::empty({5, 3, 256});
  matrix.multiply_heads_into(of_heads, by_head);
  ASSERT_TRUE(at::allclose(of_heads, by_head.bmm(numbers.view({5, 16, 256}).transpose(1, 2)), 1e-4, 1e-3));
  matrix.multiply_heads_back_into(back_of_heads, of_heads, memory);
  ASSERT_TRUE(at::allclose(back_of_heads, of_heads.bmm(numbers.view({5, 16, 256})), 1e-4, 1e-2));
}

// Neighbours of the same form, as queries, keys and values mostly are.
TEST(MatrixParts, JoinNeighboursOfOneForm) {
  const auto forms = coded_forms();
  const Workspace memory;
  MatrixParts parts(80, 256, {.out = 8, .in = 256}, at::kFloat, &memory);
  std::vector<at::Tensor> all;
  std::int64_t first = 0;
  // Only whole strips can be followed by others.
  for (const auto& [count, form] : {std::pair{32, 0}, {16, 0}, {8, 0}, {16, 0}, {8, 1}}) {
    const auto [strips, numbers] =
        coded(forms[static_cast<std::size_t>(form)].form, count, 256, static_cast<std::uint32_t>(first));
    parts.put(first, strips);
    all.push_back(numbers);
    first += count;
  }
  EXPECT_TRUE(at::equal(parts.plain(0, 80), at::cat(all)));
  EXPECT_TRUE(parts.coded(0, 80));
  const at::Tensor x = at::randn({2, 256});
  at::Tensor out = at::empty({2, 80});
  parts.multiply_into(out, x, {}, 0);
  EXPECT_TRUE(at::allclose(out, at::linear(x, at::cat(all)), 1e-4, 1e-3));
}

// Sums of bfloat16 products that are not rounded, as an unembedding asks for them.
TEST(MatrixParts, GiveUnroundedSums) {
  const auto [matrix, numbers] = mixed(at::kBFloat16);
  const at::Tensor x = at::randn({3, 256}).to(at::kBFloat16);
  at::Tensor out = at::empty({3, 80}, at::kFloat);
  matrix.multiply_into(out, x, {});
  ASSERT_TRUE(at::allclose(out, at::linear(x.to(at::kFloat), numbers), 1e-4, 1e-3));
}

TEST(CodedStrips, DoNotHoldWhatIsNotFinite) {
  const CodedForm integers, floats{.bits = 8, .values = CodeValues::e4m3};
  CodedBlock block{};
  EXPECT_TRUE(CodedStrips::holds(integers, block));
  EXPECT_TRUE(CodedStrips::holds(floats, block));
  for (const std::uint8_t code : {0x7F, 0xFF}) {
    block.codes[31] = code;
    EXPECT_FALSE(CodedStrips::holds(floats, block));
    EXPECT_TRUE(CodedStrips::holds(integers, block));
  }
  block.codes[31] = 0;
  for (const float factor :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), -0x1p101F}) {
    block.factor = factor;
    EXPECT_FALSE(CodedStrips::holds(integers, block));
  }
}

}  // namespace
}  // namespace hooked::coded_strips_test
