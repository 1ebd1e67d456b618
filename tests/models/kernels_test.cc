// Every kernel of every set, on rows that begin anywhere and lie any distance apart, against float64.
#include "models/kernels/kernels.h"

#include <array>
#include <random>

#include "tests/models/kernels_in_cpp/tables.h"
#include "tests/support/test.h"

namespace hooked::kernels_test {
namespace {

using kernels::BlockProduct;
using kernels::kMostDotRows;
using kernels::kMostSixteens;
using kernels::kPackedColumns;

constexpr float kUntouched = -7.5f;  // in every dtype

// The number of a dtype's bits, and the bits of a number.
template <class Number>
float number_of(Number bits);
template <>
float number_of(float x) {
  return x;
}
template <>
float number_of(std::uint16_t brain_float) {
  return std::bit_cast<float>(std::uint32_t{brain_float} << 16);
}
template <class Number>
Number bits_of(float x) {
  if constexpr (std::is_same_v<Number, float>) return x;
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);  // cut off: still a number
}

// Random numbers at an address that is aligned to `aligned` bytes, or to no more than a
// number.
template <class Number>
class Numbers {
 public:
  explicit Numbers(std::int64_t count, std::size_t aligned = 0)
      : values_(static_cast<std::size_t>(count) + 129) {
    for (Number& value : values_) value = bits_of<Number>(draw());
    const auto wanted = std::max<std::size_t>(aligned, 64);
    const auto place = reinterpret_cast<std::uintptr_t>(values_.data());
    first_ = values_.data() + ((wanted - place % wanted) % wanted) / sizeof(Number);
    if (aligned == 0) ++first_;
  }
  Number* data() { return first_; }
  float operator[](std::int64_t i) const { return number_of(first_[i]); }
  void fill(float x) { std::fill(values_.begin(), values_.end(), bits_of<Number>(x)); }

  static float draw() {
    static std::mt19937 generator(7);
    return static_cast<float>(static_cast<std::int32_t>(generator())) * 0x1p-31f;
  }

 private:
  std::vector<Number> values_;
  Number* first_;
};

class EveryTable : public testing::TestWithParam<kernels::NamedKernels> {
 protected:
  const kernels::Kernels& kernels() const { return GetParam().kernels; }
};

// The largest error that rounding sums of such numbers to float32, or results to bfloat16, may leave.
template <class Result>
double allowed(double sum_of_magnitudes) {
  return (sizeof(Result) == 4 ? 1.5e-6 : 5e-3) * (sum_of_magnitudes + 1e-2);
}

// A sum of products, and the sum of their magnitudes, relative to which rounding is measured.
struct Sum {
  double value = 0.0, magnitude = 0.0;
  void add(double product) {
    value += product;
    magnitude += std::abs(product);
  }
};

// ---- products of blocks: float32 [in, columns], bfloat16 [in / 2, columns, 2] ----

template <class Number>
void check_block(kernels::BlockKernel kernel, std::int64_t sixteens, std::int64_t in, std::int64_t rows) {
  constexpr std::int64_t kDepth = sizeof(Number) == 4 ? 1 : 2;
  const std::int64_t columns = sixteens * kPackedColumns, x_stride = in + 3, out_stride = columns + 5;
  Numbers<Number> x(rows * x_stride), block(in * columns, 64), bias(columns), out(rows * out_stride);
  for (const bool biased : {true, false}) {
    for (const bool more : {false, true}) {
      if (more && kDepth == 2) continue;
      out.fill(kUntouched);
      kernel({.x = x.data(),
              .x_stride = x_stride,
              .block = block.data(),
              .in = in,
              .bias = biased ? bias.data() : nullptr,
              .out = out.data(),
              .out_stride = out_stride,
              .rows = rows,
              .next = block.data(),
              .next_bytes = in * columns,
              .more = more});
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < out_stride && r * out_stride + c < rows * out_stride; ++c) {
          const float got = out[r * out_stride + c];
          if (c >= columns) {
            ASSERT_EQ(got, kUntouched) << "written outside of the product, row " << r << ", column " << c;
            continue;
          }
          Sum sum;
          for (std::int64_t i = 0; i < in; ++i)
            sum.add(x[r * x_stride + i] * double{block[(i / kDepth * columns + c) * kDepth + i % kDepth]});
          if (biased) sum.add(bias[c]);
          if (more) sum.add(kUntouched);
          ASSERT_NEAR(got, sum.value, allowed<Number>(sum.magnitude))
              << sixteens << " x 16 columns, " << in << " inputs, row " << r << " of " << rows << ", column "
              << c;
        }
      }
    }
  }
}

TEST_P(EveryTable, MultipliesByBlocks) {
  for (std::int64_t sixteens = 1; sixteens <= kMostSixteens; ++sixteens) {
    for (const std::int64_t in : {2, 6, 31, 34, 66}) {
      for (const std::int64_t rows : {1, 2, 3, 5, 7, 12, 13, 16, 17, 25, 33}) {
        check_block<float>(kernels().float_blocks[sixteens - 1], sixteens, in, rows);
        if (in % 2 == 0)
          check_block<std::uint16_t>(kernels().bfloat16_blocks[sixteens - 1], sixteens, in, rows);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// ---- products of columns in one piece, [columns, in] ----

template <class Number, class Result>
void check_dots(kernels::DotKernel kernel, std::int64_t columns, std::int64_t in, std::int64_t rows,
                float (*number)(Number) = number_of<Number>) {
  const std::int64_t x_stride = in + 1, out_stride = columns + 3;
  Numbers<Number> x(rows * x_stride), w(columns * in), bias(columns);
  Numbers<Result> out(rows * out_stride);
  for (const bool biased : {true, false}) {
    out.fill(kUntouched);
    kernel({.x = x.data(),
            .x_stride = x_stride,
            .block = w.data(),
            .in = in,
            .bias = biased ? bias.data() : nullptr,
            .out = out.data(),
            .out_stride = out_stride,
            .rows = rows},
           columns);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        Sum sum;
        for (std::int64_t i = 0; i < in; ++i)
          sum.add(number(x.data()[r * x_stride + i]) * double{number(w.data()[c * in + i])});
        if (biased) sum.add(number(bias.data()[c]));
        ASSERT_NEAR(out[r * out_stride + c], sum.value, allowed<Result>(sum.magnitude))
            << columns << " columns, " << in << " inputs, " << rows << " rows";
      }
      for (std::int64_t c = columns; c < out_stride; ++c) ASSERT_EQ(out[r * out_stride + c], kUntouched);
    }
  }
}

float number_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                        : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}

TEST_P(EveryTable, MultipliesByColumnsInOnePiece) {
  for (const std::int64_t columns : {1, 2, 3, 4, 7}) {
    for (const std::int64_t in : {1, 2, 7, 8, 16, 17, 33, 64, 71}) {
      for (std::int64_t rows = 1; rows <= kMostDotRows; ++rows) {
        check_dots<float, float>(kernels().float_dots, columns, in, rows);
        check_dots<std::uint16_t, std::uint16_t>(kernels().bfloat16_dots, columns, in, rows);
        check_dots<std::uint16_t, float>(kernels().unrounded_dots, columns, in, rows);
        // The bits of bfloat16 numbers below 1 are float16 numbers below 2.
        check_dots<std::uint16_t, float>(kernels().half_dots, columns, in, rows, number_of_half);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// ---- transposition ----

template <class Number>
void check_columns(kernels::ColumnKernel kernel, std::int64_t sixteens, std::int64_t columns, std::int64_t in,
                   std::int64_t rows) {
  constexpr std::int64_t kDepth = sizeof(Number) == 4 ? 1 : 2;
  const std::int64_t of_block = sixteens * kPackedColumns, x_stride = in + 1, out_stride = rows + 3;
  Numbers<Number> x(rows * x_stride), block(in * of_block, 64), bias(rows);
  Numbers<float> out(columns * out_stride);
  out.fill(kUntouched);
  kernel({.x = x.data(),
          .x_stride = x_stride,
          .block = block.data(),
          .in = in,
          .bias = bias.data(),
          .out = out.data(),
          .out_stride = out_stride,
          .rows = rows},
         sixteens, columns);
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) {
      Sum sum;
      for (std::int64_t i = 0; i < in; ++i)
        sum.add(x[r * x_stride + i] * double{block[(i / kDepth * of_block + c) * kDepth + i % kDepth]});
      sum.add(bias[r]);
      ASSERT_NEAR(out[c * out_stride + r], sum.value, allowed<float>(sum.magnitude))
          << columns << " columns of " << of_block << ", " << in << " inputs, " << rows << " rows";
    }
    for (std::int64_t r = rows; r < out_stride; ++r) ASSERT_EQ(out[c * out_stride + r], kUntouched);
  }
}

TEST_P(EveryTable, MultipliesWithRowsAndColumnsExchanged) {
  for (std::int64_t sixteens = 1; sixteens <= kMostSixteens; ++sixteens) {
    for (const std::int64_t missing : {0, 1, 15}) {
      for (const std::int64_t in : {2, 9, 34}) {
        for (const std::int64_t rows : {1, 9, 16, 47, 49}) {
          const std::int64_t columns = sixteens * kPackedColumns - missing;
          check_columns<float>(kernels().float_columns, sixteens, columns, in, rows);
          if (in % 2 == 0) {
            check_columns<std::uint16_t>(kernels().unrounded_columns, sixteens, columns, in, rows);
          }
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// ---- panels: a block of inputs with all outputs, bit by bit ----

template <class Number>
void check_panel(kernels::PanelKernel kernel, std::int64_t sixteens, std::int64_t blocks, std::int64_t in) {
  constexpr std::int64_t kDepth = sizeof(Number) == 4 ? 1 : 2;
  const std::int64_t columns = sixteens * kPackedColumns, width = 32;
  Numbers<Number> packed(blocks * in * columns, 64), panel(blocks * columns * width, 64);
  for (std::int64_t first = 0; first < in; first += width) {
    panel.fill(kUntouched);
    kernel({.packed = packed.data(),
            .blocks = blocks,
            .sixteens = sixteens,
            .in = in,
            .first = first,
            .width = width,
            .panel = panel.data()});
    for (std::int64_t output = 0; output < blocks * columns; ++output) {
      for (std::int64_t input = first; input < first + width; ++input) {
        const std::int64_t block = output / columns, c = output % columns;
        const float expected =
            input < in
                ? packed[block * in * columns + (input / kDepth * columns + c) * kDepth + input % kDepth]
                : 0.0f;
        ASSERT_EQ(panel[(output / kDepth * width + input - first) * kDepth + output % kDepth], expected)
            << columns << " columns, output " << output << ", input " << input << " of " << in;
      }
    }
  }
}

TEST_P(EveryTable, ExchangesInputsAndOutputs) {
  for (std::int64_t sixteens = 1; sixteens <= kMostSixteens; ++sixteens) {
    for (const std::int64_t in : {2, 10, 15, 34, 70}) {
      check_panel<float>(kernels().float_panel, sixteens, 2, in);
      if (in % 2 == 0) check_panel<std::uint16_t>(kernels().bfloat16_panel, sixteens, 2, in);
      if (HasFatalFailure()) return;
    }
  }
}

// ---- loops over rows ----

template <class Number>
void check_rows(const kernels::RowKernels<Number>& of, std::int64_t size) {
  const double rounding = sizeof(Number) == 4 ? 2e-6 : 8e-3;
  Numbers<Number> in(size), weight(size), bias(size), gradient(size), out(size), normalized(size);
  const auto check = [&](const Numbers<Number>& got, const auto& expected, const char* what) {
    for (std::int64_t i = 0; i < size; ++i) {
      ASSERT_NEAR(got[i], expected(i), rounding * (1.0 + std::abs(expected(i))))
          << what << " " << i << " of " << size;
    }
  };
  of.gelu_tanh(out.data(), in.data(), size);
  check(
      out,
      [&](std::int64_t i) {
        const double x = in[i];
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
      },
      "gelu");

  constexpr double kEps = 1e-3;
  for (const bool centred : {true, false}) {
    const kernels::NormRow how{.size = size, .eps = 1e-3f, .centred = centred, .weight_offset = 1.0f};
    double mean = 0.0, square = 0.0;
    for (std::int64_t i = 0; i < size; ++i) mean += centred ? in[i] / static_cast<double>(size) : 0.0;
    for (std::int64_t i = 0; i < size; ++i) square += std::pow(in[i] - mean, 2) / static_cast<double>(size);
    const double scale = std::sqrt(square + kEps);
    float got_scale = 0.0f;
    of.norm(how, {in.data(), weight.data(), bias.data(), out.data(), normalized.data(), &got_scale});
    ASSERT_NEAR(got_scale, scale, 1e-5);
    const auto y = [&](std::int64_t i) { return (in[i] - mean) / scale; };
    check(normalized, y, "normalized");
    check(
        out, [&](std::int64_t i) { return y(i) * (1.0 + weight[i]) + bias[i]; }, "normed");
    of.norm_back(how, {in.data(), weight.data(), gradient.data(), out.data()});
    double sum = 0.0, along = 0.0;
    const auto g = [&](std::int64_t i) { return gradient[i] * (1.0 + weight[i]); };
    for (std::int64_t i = 0; i < size; ++i) {
      sum += centred ? g(i) / static_cast<double>(size) : 0.0;
      along += g(i) * y(i) / static_cast<double>(size);
    }
    check(
        out, [&](std::int64_t i) { return (g(i) - sum - y(i) * along) / scale; }, "norm's gradient");
  }

  const std::int64_t half = (size - 1) / 2;
  for (const bool at_end : {true, false}) {
    for (const bool adjacent : {true, false}) {
      const kernels::RotaryRow how{.size = size, .half = half, .at_end = at_end, .adjacent_pairs = adjacent};
      of.rotary(how, out.data(), in.data(), weight.data(), bias.data());
      const std::int64_t first = at_end ? size - 2 * half : 0;
      check(
          out,
          [&](std::int64_t i) -> double {
            if (i < first || i >= first + 2 * half) return in[i];
            const std::int64_t k = i - first, pair = adjacent ? k / 2 : k % half;
            const bool second = adjacent ? k % 2 == 1 : k >= half;
            const std::int64_t other = first + (adjacent ? k ^ 1 : second ? k - half : k + half);
            return in[i] * double{weight[pair]} + (second ? 1.0 : -1.0) * in[other] * double{bias[pair]};
          },
          "turned");
    }
  }

  const std::array<const Number*, 3> rows = {in.data(), nullptr, gradient.data()};
  of.weighted(out.data(), rows.data(), weight.data(), 3, size);
  if (size >= 3) {
    check(
        out, [&](std::int64_t i) { return double{weight[0]} * in[i] + double{weight[2]} * gradient[i]; },
        "weighted");
  }
}

TEST_P(EveryTable, LoopsOverRows) {
  for (const std::int64_t size : {3, 5, 8, 15, 16, 17, 33, 64, 127, 131, 260}) {
    check_rows(kernels().of_floats, size);
    check_rows(kernels().of_bfloat16, size);
    if (HasFatalFailure()) return;
    Numbers<float> in(size), gradient(size), out(size);
    kernels().gelu_tanh_back(out.data(), gradient.data(), in.data(), size);
    for (std::int64_t i = 0; i < size; ++i) {
      const double x = in[i], u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x), t = std::tanh(u);
      const double slope =
          0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * std::sqrt(2.0 / M_PI) * (1.0 + 3 * 0.044715 * x * x);
      ASSERT_NEAR(out[i], gradient[i] * slope, 2e-6) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryTable, testing::ValuesIn(kernels::all_tables()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hooked::kernels_test
