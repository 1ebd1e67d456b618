#include "models/storage/matrix.h"

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>

#include "hooked/core/kernel_set.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"
#include "tests/support/test.h"

namespace hooked::matrix_test {
namespace {

struct Case {
  at::ScalarType dtype;
  std::int64_t group;  ///< of outputs
  std::int64_t groups;
  std::int64_t in;
};

std::string text(const Case& c, KernelSet set, std::int64_t rows) {
  return std::string(toString(c.dtype)) + " " + std::to_string(c.groups) + " x " + std::to_string(c.group) +
         " of " + std::to_string(c.in) + ", kernels " + std::string(to_string(set)) + ", rows " +
         std::to_string(rows);
}

// Every width of blocks that exists, and groups that fit no block.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t group : {1, 3, 16, 32, 48, 64, 65, 80, 96, 128}) {
      for (const std::int64_t in : {2, 6, 65, 130}) all.push_back({dtype, group, 3, in});
    }
  }
  return all;
}

Matrix filled(const Case& c, KernelSet set, const at::Tensor& numbers) {
  const Matrix matrix(c.group * c.groups, c.in, {.out = c.group, .in = c.in}, at::TensorOptions(c.dtype),
                      Storage::fastest, set);
  matrix.as_out_in().write(numbers);
  return matrix;
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType dtype) { return at::randn(sizes).to(dtype); }

// The largest error, relative to the sum of the terms' absolute values.
double error_of(const at::Tensor& got, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  const at::Tensor wide = bias.defined() ? bias.to(at::kDouble) : at::Tensor();
  const at::Tensor exact = at::linear(x.to(at::kDouble), w.to(at::kDouble), wide);
  const at::Tensor scale = at::linear(x.to(at::kDouble).abs(), w.to(at::kDouble).abs(),
                                      bias.defined() ? wide.abs() : at::Tensor());
  return ((got.to(at::kDouble) - exact).abs() / (scale + 1e-3)).max().item<double>();
}

// The rounding of a float32 sum of up to 2,048 products, which grows as the root of their number where errors
// have either sign; a wrong product is off by far more. LibTorch rounds bfloat16 before it adds the bias.
double tolerance(at::ScalarType dtype) { return dtype == at::kBFloat16 ? 8e-3 : 1.5e-6; }

TEST(Matrix, MultipliesAsInFloat64) {
  for (const Case& c : cases()) {
    const at::Tensor numbers = random({c.group * c.groups, c.in}, c.dtype);
    const at::Tensor bias = random({c.group * c.groups}, c.dtype);
    for (const KernelSet set : kernel_sets()) {
      const Matrix matrix = filled(c, set, numbers);
      for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 13, 33}) {
        const at::Tensor x = random({rows, c.in}, c.dtype);
        for (const at::Tensor& summand : {bias, at::Tensor()}) {
          at::Tensor out = at::empty({rows, matrix.out()}, c.dtype);
          matrix.multiply_into(out, x, summand);
          ASSERT_LT(error_of(out, x, numbers, summand), tolerance(c.dtype)) << text(c, set, rows);
        }
      }
      at::Tensor none = at::empty({0, matrix.out()}, c.dtype);
      matrix.multiply_into(none, random({0, c.in}, c.dtype), bias);
    }
  }
}

// Heads are groups of outputs here; some cases have several blocks in a head.
TEST(Matrix, MultipliesHeadsByTheirOwnOutputs) {
  const Workspace memory;
  for (const Case& c : cases()) {
    const at::Tensor numbers = random({c.group * c.groups, c.in}, c.dtype);
    const auto of_head = [&](std::int64_t head) { return numbers.narrow(0, head * c.group, c.group); };
    for (const KernelSet set : kernel_sets()) {
      const Matrix matrix = filled(c, set, numbers);
      for (const std::int64_t rows : {1, 3, 33}) {
        const at::Tensor x = random({c.groups, rows, c.in}, c.dtype);
        at::Tensor out = at::empty({c.groups, rows, c.group}, c.dtype);
        matrix.multiply_heads_into(out, x);
        const at::Tensor y = random({c.groups, rows, c.group}, c.dtype);
        at::Tensor back = at::empty({c.groups, rows, c.in}, c.dtype);
        matrix.multiply_heads_back_into(back, y, memory);
        for (std::int64_t head = 0; head < c.groups; ++head) {
          ASSERT_LT(error_of(out[head], x[head], of_head(head), {}), tolerance(c.dtype))
              << text(c, set, rows);
          ASSERT_LT(error_of(back[head], y[head], of_head(head).t(), {}), tolerance(c.dtype))
              << text(c, set, rows);
        }
      }
    }
  }
}

TEST(Matrix, IsPackedWhereGroupsAreWholeBlocks) {
  for (const KernelSet set : kernel_sets()) {
    const auto packed = [&](std::int64_t group, std::int64_t in, at::ScalarType dtype, Storage storage) {
      return Matrix(group * 2, in, {.out = group, .in = in}, at::TensorOptions(dtype), storage, set).packed();
    };
    const bool any = set != KernelSet::plain;
    EXPECT_EQ(packed(64, 7, at::kFloat, Storage::fastest), any);
    EXPECT_EQ(packed(80, 8, at::kBFloat16, Storage::fastest), any);
    EXPECT_FALSE(packed(64, 7, at::kBFloat16, Storage::fastest)) << "inputs go in pairs";
    EXPECT_FALSE(packed(65, 8, at::kFloat, Storage::fastest));
    EXPECT_FALSE(packed(64, 8, at::kDouble, Storage::fastest));
    EXPECT_FALSE(packed(64, 8, at::kFloat, Storage::plain));
  }
}

// Reading in any way, and writing in parts that cut blocks anywhere, gives the numbers back bit by bit.
TEST(Matrix, GivesItsNumbersBack) {
  constexpr std::int64_t kHeads = 3;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t group : {5, 48, 64, 128}) {
      for (const KernelSet set : kernel_sets()) {
        const std::int64_t out = kHeads * group, in = kHeads * 10;
        const at::Tensor numbers = random({out, in}, dtype);
        const Matrix matrix(out, in, {.out = group, .in = 10}, at::TensorOptions(dtype), Storage::fastest,
                            set);
        const auto holds_the_numbers = [&] {
          EXPECT_TRUE(at::equal(matrix.plain(), numbers));
          EXPECT_TRUE(at::equal(matrix.as_out_in().read(), numbers));
          EXPECT_TRUE(at::equal(matrix.as_in_out().read(), numbers.t()));
          EXPECT_TRUE(at::equal(matrix.by_output_heads(kHeads).read(),
                                numbers.view({kHeads, group, in}).transpose(1, 2)));
          EXPECT_TRUE(at::equal(matrix.by_input_heads(kHeads).read(), numbers.t().view({kHeads, 10, out})));
          EXPECT_TRUE(at::equal(matrix.narrow(group, group).plain(), numbers.narrow(0, group, group)));
        };
        for (const SlotView& slot : {matrix.as_out_in(), matrix.as_in_out(), matrix.by_output_heads(kHeads),
                                     matrix.by_input_heads(kHeads)}) {
          matrix.as_out_in().write(numbers);
          const at::Tensor expected = slot.read().clone();
          ASSERT_EQ(expected.sizes().vec(), slot.sizes());
          holds_the_numbers();
          slot.pieces().zero_();
          slot.write(expected);
          holds_the_numbers();
          for (std::int64_t dimension = 0; dimension < expected.dim(); ++dimension) {
            slot.pieces().zero_();
            for (std::int64_t first = 0; first < expected.size(dimension); first += 7) {
              const std::int64_t count = std::min<std::int64_t>(7, expected.size(dimension) - first);
              slot.write(dimension, first, expected.narrow(dimension, first, count));
            }
            holds_the_numbers();
          }
        }
      }
    }
  }
}

TEST(Matrix, ARowsResultDoesNotDependOnOtherRows) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const Case c{dtype, 64, 3, 130};
    const at::Tensor bias = random({192}, dtype), x = random({200, 130}, dtype);
    const Matrix matrix = filled(c, kernel_set(), random({192, 130}, dtype));
    if (!matrix.packed()) continue;  // LibTorch's products choose by the number of rows
    at::Tensor all = at::empty({200, 192}, dtype);
    matrix.multiply_into(all, x, bias);
    for (const std::int64_t rows : {1, 2, 5, 6, 7, 100}) {
      at::Tensor few = at::empty({rows, 192}, dtype);
      matrix.multiply_into(few, x.narrow(0, 50, rows).contiguous(), bias);
      EXPECT_TRUE(at::equal(few, all.narrow(0, 50, rows))) << rows;
    }
  }
}

TEST(Matrix, SharesItsWorkAmongThreads) {
  const int before = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t rows : {1, 8, 500}) {  // many rows of few blocks are shared as well
      const Case c{dtype, 64, 3, 2048};
      const at::Tensor numbers = random({192, 2048}, dtype), x = random({rows, 2048}, dtype);
      const Matrix matrix = filled(c, kernel_set(), numbers);
      // LibTorch's libraries share in their own way, which changes their bits.
      const bool ours = kernel_set() != KernelSet::plain && (dtype == at::kFloat || rows <= 8);
      for (const bool packed : {true, false}) {
        std::vector<at::Tensor> all;
        for (const int threads : {1, 2, 5}) {
          at::set_num_threads(threads);
          at::Tensor got = at::full({rows, 192}, -1.0, dtype);
          packed ? matrix.multiply_into(got, x, {}) : linear_into(got, x, numbers, {});
          EXPECT_LT(error_of(got, x, numbers, {}), tolerance(dtype)) << rows << " " << threads << packed;
          all.push_back(got);
        }
        if (!(packed ? matrix.packed() : ours)) continue;
        EXPECT_TRUE(at::equal(all[0], all[1])) << rows << packed;
        EXPECT_TRUE(at::equal(all[0], all[2])) << rows << packed;
      }
    }
  }
  at::set_num_threads(before);
}

// As for a gradient: rows times the matrix itself.
TEST(Matrix, MultipliesBackAsInFloat64) {
  const Workspace memory;
  for (Case c : cases()) {
    for (const std::int64_t in : {c.in, c.in + 128}) {  // less than a panel, and some with a rest
      c.in = in;
      const at::Tensor numbers = random({c.group * c.groups, c.in}, c.dtype);
      for (const KernelSet set : kernel_sets()) {
        const Matrix matrix = filled(c, set, numbers);
        for (const std::int64_t rows : {1, 5, 13}) {
          const at::Tensor gradient = random({rows, matrix.out()}, c.dtype);
          at::Tensor out = at::full({rows, c.in}, std::numeric_limits<double>::quiet_NaN(), c.dtype);
          matrix.multiply_back_into(out, gradient, memory);
          ASSERT_LT(error_of(out, gradient, numbers.t(), {}), tolerance(c.dtype)) << text(c, set, rows);
        }
      }
    }
  }
}

// Long rows of gradients; a panel holds some outputs at a time. The last stretch is shorter, and so
// is the last panel.
TEST(Matrix, MultipliesLongRowsBack) {
  const Workspace memory;
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t group : {64, 80, 96}) {
      const at::Tensor numbers = random({19 * group, 130}, dtype);
      for (const KernelSet set : kernel_sets()) {
        const Matrix matrix = filled({dtype, group, 19, 130}, set, numbers);
        const at::Tensor gradient = random({50, matrix.out()}, dtype);
        at::Tensor out = at::full({50, 130}, std::numeric_limits<double>::quiet_NaN(), dtype);
        matrix.multiply_back_into(out, gradient, memory);
        ASSERT_LT(error_of(out, gradient, numbers.t(), {}), tolerance(dtype)) << group;
        at::Tensor few = at::empty({5, 130}, dtype);
        matrix.multiply_back_into(few, gradient.narrow(0, 20, 5).contiguous(), memory);
        if (matrix.packed()) {
          EXPECT_TRUE(at::equal(few, out.narrow(0, 20, 5))) << group;
        }
      }
    }
  }
}

TEST(Matrix, MultipliesBackPartsAndAmongThreads) {
  const Workspace memory;
  const int before = at::get_num_threads();
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const at::Tensor numbers = random({256, 300}, dtype), gradient = random({50, 128}, dtype);
    const Matrix part = filled({dtype, 64, 4, 300}, kernel_set(), numbers).narrow(64, 128);
    at::Tensor out[2];
    for (const int threads : {1, 5}) {
      at::set_num_threads(threads);
      at::Tensor got = at::empty({50, 300}, dtype);
      part.multiply_back_into(got, gradient, memory);
      EXPECT_LT(error_of(got, gradient, numbers.narrow(0, 64, 128).t(), {}), tolerance(dtype));
      (threads == 1 ? out[0] : out[1]) = got;
    }
    if (part.packed()) {
      EXPECT_TRUE(at::equal(out[0], out[1]));
    }
  }
  at::set_num_threads(before);
}

TEST(Matrix, NumbersThatAreNotFiniteStayVisible) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const KernelSet set : kernel_sets()) {
      const Matrix matrix = filled({dtype, 64, 1, 4}, set, at::ones({64, 4}).to(dtype));
      const at::Tensor x = at::zeros({3, 4}, dtype);
      x.select(0, 0).select(0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
      x.select(0, 1).select(0, 2).fill_(-std::numeric_limits<double>::infinity());
      at::Tensor out = at::empty({3, 64}, dtype);
      matrix.multiply_into(out, x, {});
      EXPECT_TRUE(out.select(0, 0).isnan().all().item<bool>());
      EXPECT_TRUE(
          at::equal(out.select(0, 1), at::full({64}, -std::numeric_limits<double>::infinity(), dtype)));
      EXPECT_TRUE(at::equal(out.select(0, 2), at::zeros({64}, dtype)));
    }
  }
}

// Plain weights by rows, like embeddings that are read as unembeddings.
TEST(Product, OfPlainWeightsIsAsInFloat64) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const std::int64_t out : {1, 3, 65, 257}) {
      for (const std::int64_t in : {1, 17, 64, 100}) {
        for (const std::int64_t rows : {0, 1, 2, 5, 8, 9}) {
          const at::Tensor x = random({rows, in}, dtype), w = random({out, in}, dtype);
          for (const at::Tensor& bias : {random({out}, dtype), at::Tensor()}) {
            for (const at::Tensor& weight : {w, w.t().contiguous().t()}) {
              at::Tensor got = at::empty({rows, out}, dtype);
              linear_into(got, x, weight, bias);
              if (rows > 0) {
                ASSERT_LT(error_of(got, x, w, bias), tolerance(dtype)) << out << " " << in << " " << rows;
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace hooked::matrix_test
