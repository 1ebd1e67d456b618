#include "hooked/analysis/factored_matrix.h"

#include <ATen/ops/complex.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/linalg_eigvals.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/real.h>

#include "tests/analysis/analysis_goldens.h"
#include "tests/support/compare.h"
#include "tests/support/test.h"

namespace hooked::factored_matrix_test {
namespace {

constexpr double kTolerance = 1e-11;  // float64, numbers of size 10
constexpr double kGoldenTolerance = 1e-9;

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)).to(dtype);
}

void expect_near(const at::Tensor& ours, const at::Tensor& theirs, double tolerance, const char* what) {
  ASSERT_EQ(ours.sizes(), theirs.sizes()) << what;
  EXPECT_LE((ours - theirs).abs().max().item<double>(), tolerance) << what;
}

/// Each of `theirs` [.., n] (complex) is among `ours`, and vice versa.
void expect_same_set(const at::Tensor& ours, const at::Tensor& theirs, double tolerance) {
  const auto distance = (ours.unsqueeze(-1) - theirs.unsqueeze(-2)).abs();
  EXPECT_LE(std::get<0>(distance.min(-1)).max().item<double>(), tolerance);
  EXPECT_LE(std::get<0>(distance.min(-2)).max().item<double>(), tolerance);
}

TEST(FactoredMatrix, SaysWhatTheWholeMatrixSays) {
  for (const auto& [m, r, n] : {std::tuple{9, 3, 7}, {3, 6, 4}, {6, 6, 6}, {5, 1, 5}, {2, 5, 9}}) {
    const FactoredMatrix matrix(drawn({2, m, r}, 1), drawn({2, r, n}, 2));
    const auto whole = at::matmul(matrix.A(), matrix.B());
    EXPECT_EQ(matrix.sizes(), whole.sizes().vec());
    const auto [U, S, V] = matrix.svd();
    const auto k = std::min({m, r, n});
    expect_near(at::matmul(U * S.unsqueeze(-2), V.mT()), whole, kTolerance, "U S V^T");
    expect_near(at::matmul(U.mT(), U), at::eye(k, at::kDouble).expand({2, k, k}), kTolerance, "U^T U");
    expect_near(at::matmul(V.mT(), V), at::eye(k, at::kDouble).expand({2, k, k}), kTolerance, "V^T V");
    expect_near(S, std::get<1>(at::linalg_svd(whole, false)).narrow(-1, 0, k), kTolerance, "singular values");
    expect_near(matrix.norm(), whole.square().sum(at::IntArrayRef{1, 2}).sqrt(), kTolerance, "norm");
    expect_near(matrix.make_even().AB(), whole, kTolerance, "make_even");
    expect_near(matrix.t().AB(), whole.mT(), kTolerance, "transpose");
    expect_near((2.5 * matrix).AB(), whole * 2.5, kTolerance, "scaled");
    expect_near(matrix.rows(1, 2).AB(), whole.slice(1, 1, 2), kTolerance, "rows");
    expect_near(matrix.columns(0, 2).AB(), whole.slice(2, 0, 2), kTolerance, "columns");
    expect_near(matrix.row(-1), whole.select(1, -1), kTolerance, "row");
    expect_near(matrix.column(1), whole.select(2, 1), kTolerance, "column");
    expect_near(matrix.at(1, -2), whole.select(1, 1).select(1, -2), kTolerance, "element");
    expect_near(matrix[-1].AB(), whole[1], kTolerance, "leading axis");
    expect_near(matrix.unsqueeze(1).AB(), whole.unsqueeze(1), kTolerance, "unsqueeze");
    const auto after = drawn({n, 8}, 3), before = drawn({4, m}, 4);
    expect_near(matmul(matrix, after).AB(), at::matmul(whole, after), 10 * kTolerance, "after");
    expect_near(matmul(before, matrix).AB(), at::matmul(before, whole), 10 * kTolerance, "before");
    const FactoredMatrix other(drawn({n, 2}, 5), drawn({2, 6}, 6));
    const auto both = matmul(matrix, other);
    expect_near(both.AB(), at::matmul(whole, other.AB()), 10 * kTolerance, "other");
    EXPECT_LE(both.inner(), std::max<std::int64_t>(r, 2));
    if (m == n && r == n) expect_same_set(matrix.eigenvalues(), at::linalg_eigvals(whole), 1e-9);
  }
}

// Eigenvalues of the product are those of BA and zeros.
TEST(FactoredMatrix, EigenvaluesAreThoseOfTheSmallMatrix) {
  const FactoredMatrix matrix(drawn({8, 3}, 1), drawn({3, 8}, 2));
  ASSERT_EQ(matrix.eigenvalues().sizes(), at::IntArrayRef({3}));
  const auto whole = at::linalg_eigvals(matrix.AB());
  const auto order = std::get<1>(whole.abs().sort(0, true));
  expect_same_set(matrix.eigenvalues(), whole.index_select(0, order.narrow(0, 0, 3)), 1e-9);
  EXPECT_LT(whole.index_select(0, order.narrow(0, 3, 5)).abs().max().item<double>(), 1e-6);
}

// A product that is tiny compared with its factors: Gram matrices would lose it, QR does not.
TEST(FactoredMatrix, SmallSingularValuesKeepTheirDigits) {
  const auto A = drawn({40, 2}, 1);
  auto almost = A.clone();
  almost.select(1, 1).copy_(A.select(1, 0) + 1e-9 * A.select(1, 1));
  const FactoredMatrix matrix(almost, drawn({2, 40}, 2));
  const auto exact = std::get<1>(at::linalg_svd(matrix.AB(), false));
  const auto ours = matrix.svd().S;
  EXPECT_NEAR(ours[1].item<double>() / exact[1].item<double>(), 1, 1e-6);
}

TEST(FactoredMatrix, LeadingAxesBroadcastAndDtypesStay) {
  const FactoredMatrix matrix(drawn({3, 1, 5, 2}, 1), drawn({4, 2, 6}, 2));
  EXPECT_EQ(matrix.sizes(), (std::vector<std::int64_t>{3, 4, 5, 6}));
  EXPECT_EQ(matrix.svd().S.sizes(), at::IntArrayRef({3, 4, 2}));
  EXPECT_EQ(matrix[2][3].sizes(), (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(matrix.norm().scalar_type(), at::kDouble);
  const FactoredMatrix single(drawn({5, 2}, 1, at::kFloat), drawn({2, 5}, 2, at::kFloat));
  EXPECT_EQ(single.svd().U.scalar_type(), at::kFloat);
  const FactoredMatrix half(drawn({5, 2}, 1, at::kBFloat16), drawn({2, 5}, 2, at::kBFloat16));
  EXPECT_EQ(half.AB().scalar_type(), at::kBFloat16);
  EXPECT_EQ(half.norm().scalar_type(), at::kFloat);
  EXPECT_EQ(half.eigenvalues().sizes(), at::IntArrayRef({2}));
}

TEST(FactoredMatrix, RefusesWhatDoesNotFit) {
  const FactoredMatrix matrix(drawn({5, 2}, 1), drawn({2, 6}, 2));
  EXPECT_THAT(text_thrown_by<ShapeError>([] {
                FactoredMatrix(drawn({5, 2}, 1), drawn({3, 6}, 2));
              }),
              AllOf(HasSubstr("[5, 2]"), HasSubstr("[3, 6]")));
  EXPECT_THROW(FactoredMatrix(drawn({2, 5, 2}, 1), drawn({3, 2, 6}, 2)), ShapeError);
  EXPECT_THROW(FactoredMatrix(drawn({5, 2}, 1), drawn({2, 6}, 2, at::kFloat)), ShapeError);
  EXPECT_THROW(FactoredMatrix(drawn({5}, 1), drawn({5, 6}, 2)), ShapeError);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { matrix.eigenvalues(); }), HasSubstr("not square"));
  EXPECT_THROW(matrix[0], ShapeError);
  EXPECT_THROW(matrix.unsqueeze(1), ShapeError);
  EXPECT_THROW(matrix.row(5), ShapeError);
  EXPECT_THROW(matrix.mv(drawn({5}, 1)), ShapeError);
  EXPECT_THROW(matrix.vm(drawn({6}, 1)), ShapeError);
  EXPECT_THROW(matmul(matrix, drawn({5, 5}, 1)), ShapeError);
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { matmul(matrix, drawn({6}, 1)); }), HasSubstr("mv"));
}

TEST(FactoredMatrix, EqualsTransformerLenss) {
  const auto tensors = read_recorded(analysis_folder("circuits") / "matrices.safetensors");
  const auto index = analysis_index("circuits");
  for (const std::string name : index.at("matrices")) {
    SCOPED_TRACE(name);
    const auto theirs = [&](const std::string& key) { return tensors.at(name + "." + key).tensor(); };
    const FactoredMatrix matrix(theirs("A"), theirs("B"));
    const FactoredMatrix other(theirs("other.A"), theirs("other.B"));
    const auto near = [&](const at::Tensor& ours, const char* key) {
      expect_near(ours, theirs(key), kGoldenTolerance, key);
    };
    near(matrix.AB(), "AB");
    near(matrix.t().AB(), "T");
    near(matrix.svd().S, "S");
    near(matrix.norm(), "norm");
    const auto [U, S, V] = matrix.svd();
    near(at::matmul(U * S.unsqueeze(-2), V.mT()), "usv");
    const auto even = matrix.make_even();
    near(at::matmul(even.A(), even.A().mT()), "even.left");
    near(at::matmul(even.B().mT(), even.B()), "even.right");
    near(at::matmul(matrix.collapse_l().mT(), matrix.collapse_l()), "collapse_l");
    near(at::matmul(matrix.collapse_r(), matrix.collapse_r().mT()), "collapse_r");
    near(matmul(matrix, theirs("after")).AB(), "matmul.after");
    near(matmul(theirs("before"), matrix).AB(), "matmul.before");
    near(matmul(matrix, other).AB(), "matmul.other");
    const auto inner = theirs("matmul.inner");
    EXPECT_EQ(matmul(matrix, theirs("after")).inner(), inner[0].item<std::int64_t>());
    EXPECT_EQ(matmul(theirs("before"), matrix).inner(), inner[1].item<std::int64_t>());
    EXPECT_EQ(matmul(matrix, other).inner(), inner[2].item<std::int64_t>());
    near(matrix.mv(theirs("vector")), "mv");
    near(matrix.vm(theirs("left_vector")), "vm");
    near((matrix * 2.5).AB(), "scaled");
    near(matrix.rows(1, 3).AB(), "rows");
    near(matrix.at(2, -1), "element");
    if (tensors.contains(name + ".second")) near(matrix[1].AB(), "second");
    if (!tensors.contains(name + ".BA")) continue;
    near(matrix.BA(), "BA");
    const auto eigenvalues = theirs("eigenvalues");
    expect_same_set(matrix.eigenvalues(), at::complex(eigenvalues.select(-1, 0), eigenvalues.select(-1, 1)),
                    kGoldenTolerance);
  }
}

}  // namespace
}  // namespace hooked::factored_matrix_test
