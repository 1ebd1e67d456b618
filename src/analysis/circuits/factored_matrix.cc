#include "hooked/analysis/factored_matrix.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "analysis/circuits/decompositions.h"
#include "analysis/values/float32_at_least.h"
#include "hooked/core/error.h"
#include "hooked/core/shared.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr std::string_view kFactored = "FactoredMatrix";

[[noreturn]] void refuse_sizes(std::string_view what, at::IntArrayRef left, at::IntArrayRef right) {
  throw ShapeError(
      kFactored, fmt::format("{} do not fit; expected as many columns on the left as rows on the right, and "
                             "leading axes that broadcast; got {} and {}",
                             what, shape_text(left), shape_text(right)));
}

void require_matrix(const at::Tensor& x, std::string_view what) {
  if (x.defined() && x.dim() >= 2) return;
  throw ShapeError(
      kFactored,
      fmt::format(
          "{} is not a matrix; expected two axes or more, got {}; vectors are multiplied by mv and vm", what,
          x.defined() ? shape_text(x.sizes()) : "an undefined tensor"));
}

/// The leading axes of both, broadcast.
std::vector<std::int64_t> leading_of(const at::Tensor& left, const at::Tensor& right) {
  const auto a = left.sizes().slice(0, static_cast<std::size_t>(left.dim() - 2));
  const auto b = right.sizes().slice(0, static_cast<std::size_t>(right.dim() - 2));
  std::vector<std::int64_t> sizes(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {  // from the last axis
    const auto x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) refuse_sizes("the factors", left.sizes(), right.sizes());
    sizes[sizes.size() - 1 - i] = x == 1 ? y : x;
  }
  return sizes;
}

at::Tensor broadcast(const at::Tensor& x, std::vector<std::int64_t> leading) {
  leading.push_back(x.size(-2));
  leading.push_back(x.size(-1));
  return x.expand(leading);
}

/// The factors as orthogonal columns times a small matrix: M = Q_l (R_l R_r^T) Q_r^T.
struct Thin {
  at::Tensor left, right;  ///< Q_l [.., m, i], Q_r [.., n, j]
  at::Tensor middle;       ///< R_l R_r^T [.., i, j]
};

Thin thin(const at::Tensor& A, const at::Tensor& B) {
  auto [left, of_left] = at::linalg_qr(float32_at_least(A));
  auto [right, of_right] = at::linalg_qr(float32_at_least(B).mT());
  return {std::move(left), std::move(right), at::matmul(of_left, of_right.mT())};
}

/// An index among `size` places, counted from the beginning. Throws ShapeError.
std::int64_t place_of(std::int64_t index, std::int64_t size, const char* what) {
  if (index >= -size && index < size) return index < 0 ? index + size : index;
  throw ShapeError(kFactored,
                   fmt::format("there is no {} {}; expected -{} to {}", what, index, size, size - 1));
}

}  // namespace

FactoredMatrix::FactoredMatrix(at::Tensor A, at::Tensor B) {
  require_matrix(A, "A");
  require_matrix(B, "B");
  if (A.size(-1) != B.size(-2)) refuse_sizes("the factors", A.sizes(), B.sizes());
  if (A.scalar_type() != B.scalar_type() || A.device() != B.device()) {
    throw ShapeError(kFactored,
                     fmt::format("the factors are of two kinds; expected one dtype and device, got {} on {} "
                                 "and {} on {}",
                                 dtype_text(A.scalar_type()), A.device().str(), dtype_text(B.scalar_type()),
                                 B.device().str()));
  }
  const auto leading = leading_of(A, B);
  A_ = broadcast(A, leading);
  B_ = broadcast(B, leading);
}

const at::Tensor FactoredMatrix::A() const {
  if (!A_.defined()) refuse_moved_from("matrix");
  return A_;
}

const at::Tensor FactoredMatrix::B() const {
  if (!B_.defined()) refuse_moved_from("matrix");
  return B_;
}

std::vector<std::int64_t> FactoredMatrix::sizes() const {
  auto sizes = A().sizes().vec();
  sizes.back() = B().size(-1);
  return sizes;
}

at::Tensor FactoredMatrix::AB() const { return at::matmul(A(), B()); }

at::Tensor FactoredMatrix::BA() const {
  if (A().size(-2) != B().size(-1)) {
    throw ShapeError(kFactored,
                     fmt::format("the matrix is not square, so it has no BA and no eigenvalues; expected as "
                                 "many rows as columns, got {}",
                                 shape_text(sizes())));
  }
  return at::matmul(B(), A());
}

FactoredMatrix FactoredMatrix::t() const { return {B().mT(), A().mT()}; }

SingularValues FactoredMatrix::svd() const {
  const auto [left, right, middle] = thin(A(), B());
  // LAPACK does not accept NaN. The orthogonal factors of such a matrix are NaN as well.
  const auto missing = without_numbers(middle);
  const auto [U, S, Vh] = at::linalg_svd(middle.masked_fill(missing.unsqueeze(-1).unsqueeze(-1), 0.0), false);
  return {at::matmul(left, U), S.masked_fill(missing.unsqueeze(-1), std::numeric_limits<double>::quiet_NaN()),
          at::matmul(right, Vh.mT())};
}

at::Tensor FactoredMatrix::eigenvalues() const { return eigenvalues_of(BA()); }

at::Tensor FactoredMatrix::norm() const {
  const auto middle = thin(A(), B()).middle;
  return middle.square().sum(at::IntArrayRef{-2, -1}).sqrt();
}

FactoredMatrix FactoredMatrix::make_even() const {
  const auto [U, S, V] = svd();
  const auto root = S.sqrt();
  return {U * root.unsqueeze(-2), root.unsqueeze(-1) * V.mT()};
}

at::Tensor FactoredMatrix::collapse_l() const {
  const auto [U, S, V] = svd();
  return S.unsqueeze(-1) * V.mT();
}

at::Tensor FactoredMatrix::collapse_r() const {
  const auto [U, S, V] = svd();
  return U * S.unsqueeze(-2);
}

FactoredMatrix FactoredMatrix::operator[](std::int64_t index) const {
  const auto size = leading() > 0 ? A().size(0) : 0;
  if (index < -size || index >= size) {
    throw ShapeError(kFactored,
                     fmt::format("there is no matrix {}; expected -{} to {} of a leading axis, the sizes are "
                                 "{}",
                                 index, size, size - 1, shape_text(sizes())));
  }
  return {A().select(0, index), B().select(0, index)};
}

FactoredMatrix FactoredMatrix::unsqueeze(std::int64_t axis) const {
  if (axis < 0 || axis > leading()) {
    throw ShapeError(kFactored, fmt::format("there is no place {} among {} leading axes; expected 0 to {}",
                                            axis, leading(), leading()));
  }
  return {A().unsqueeze(axis), B().unsqueeze(axis)};
}

FactoredMatrix FactoredMatrix::rows(std::int64_t begin, std::int64_t end) const {
  return {A().slice(-2, begin, end), B()};
}

FactoredMatrix FactoredMatrix::columns(std::int64_t begin, std::int64_t end) const {
  return {A(), B().slice(-1, begin, end)};
}

at::Tensor FactoredMatrix::row(std::int64_t index) const {
  return at::matmul(A().select(-2, place_of(index, A().size(-2), "row")).unsqueeze(-2), B()).squeeze(-2);
}

at::Tensor FactoredMatrix::column(std::int64_t index) const {
  return at::matmul(A(), B().select(-1, place_of(index, B().size(-1), "column")).unsqueeze(-1)).squeeze(-1);
}

at::Tensor FactoredMatrix::at(std::int64_t row, std::int64_t column) const {
  return (A().select(-2, place_of(row, A().size(-2), "row")) *
          B().select(-1, place_of(column, B().size(-1), "column")))
      .sum(-1);
}

at::Tensor FactoredMatrix::mv(const at::Tensor& vector) const {
  if (!vector.defined() || vector.dim() < 1 || vector.size(-1) != B().size(-1))
    refuse_sizes("matrix and vector", sizes(), vector.defined() ? vector.sizes() : at::IntArrayRef());
  return at::matmul(A(), at::matmul(B(), vector.unsqueeze(-1))).squeeze(-1);
}

at::Tensor FactoredMatrix::vm(const at::Tensor& vector) const {
  if (!vector.defined() || vector.dim() < 1 || vector.size(-1) != A().size(-2))
    refuse_sizes("vector and matrix", vector.defined() ? vector.sizes() : at::IntArrayRef(), sizes());
  return at::matmul(at::matmul(vector.unsqueeze(-2), A()), B()).squeeze(-2);
}

FactoredMatrix matmul(const FactoredMatrix& left, const at::Tensor& right) {
  require_matrix(right, "what is multiplied");
  if (left.B().size(-1) != right.size(-2)) refuse_sizes("the matrices", left.sizes(), right.sizes());
  if (left.B().size(-1) > left.inner()) return {left.A(), at::matmul(left.B(), right)};
  return {left.AB(), right};
}

FactoredMatrix matmul(const at::Tensor& left, const FactoredMatrix& right) {
  require_matrix(left, "what is multiplied");
  if (left.size(-1) != right.A().size(-2)) refuse_sizes("the matrices", left.sizes(), right.sizes());
  if (right.A().size(-2) > right.inner()) return {at::matmul(left, right.A()), right.B()};
  return {left, right.AB()};
}

FactoredMatrix matmul(const FactoredMatrix& left, const FactoredMatrix& right) {
  return matmul(matmul(left, right.A()), right.B());
}

FactoredMatrix operator*(const FactoredMatrix& matrix, double factor) {
  return {matrix.A() * factor, matrix.B()};
}

}  // namespace hooked
