#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A singular value decomposition: U diag(S) V^T, with the singular values in descending order.
struct SingularValues {
  at::Tensor U;  ///< [.., m, k]
  at::Tensor S;  ///< [.., k]
  at::Tensor V;  ///< [.., n, k]: right singular vectors as columns
};

/// A low-rank matrix M = A B, kept as its factors A [.., m, r] and B [.., r, n]: everything except AB() is
/// computed without forming the m x n matrix. A head's circuits are of this kind. A value. Leading axes hold
/// many matrices at once.
///
/// Computes in the dtype of its factors; decompositions of bfloat16 and float16 are in float32. Functions
/// throw ShapeError for sizes that do not fit.
class FactoredMatrix {
 public:
  /// Leading axes are broadcast against each other. Throws ShapeError unless A has as many columns as B has
  /// rows, and for factors that differ in dtype or device.
  FactoredMatrix(at::Tensor A, at::Tensor B);

  const at::Tensor A() const;                          ///< [.., m, r]
  const at::Tensor B() const;                          ///< [.., r, n]
  std::vector<std::int64_t> sizes() const;             ///< of the product, [.., m, n]
  std::int64_t inner() const { return A().size(-1); }  ///< r

  at::Tensor AB() const;  ///< the product itself, [.., m, n]
  /// The product the other way round, [.., r, r]; it has the same eigenvalues except for zeros. Throws
  /// ShapeError unless m = n.
  at::Tensor BA() const;

  FactoredMatrix t() const;  ///< the transpose, [.., n, m]

  /// k is the smallest of m, r and n. Uses QR of both factors and the decomposition of an r x r matrix.
  SingularValues svd() const;
  /// Of BA, complex [.., r], always on the CPU. Throws ShapeError unless m = n.
  at::Tensor eigenvalues() const;
  at::Tensor norm() const;  ///< Frobenius norm, [..]

  /// The same matrix as U sqrt(S) and sqrt(S) V^T: the singular values are split evenly between the factors,
  /// which have orthogonal columns (rows).
  FactoredMatrix make_even() const;
  /// The matrix without the orthogonal factor on the left, S V^T [.., k, n]: its products with something on
  /// the right have the same norms as those of the matrix.
  at::Tensor collapse_l() const;
  at::Tensor collapse_r() const;  ///< the same without the factor on the right, U S [.., m, k]

  /// One place of the first leading axis. Negative indices count from the end. Throws ShapeError if out of
  /// range.
  FactoredMatrix operator[](std::int64_t index) const;
  /// With one more leading axis of size 1 at that place, 0 to the number of leading axes.
  FactoredMatrix unsqueeze(std::int64_t axis) const;
  FactoredMatrix rows(std::int64_t begin, std::int64_t end) const;     ///< [.., end - begin, n]
  FactoredMatrix columns(std::int64_t begin, std::int64_t end) const;  ///< [.., m, end - begin]
  at::Tensor row(std::int64_t index) const;                            ///< [.., n]
  at::Tensor column(std::int64_t index) const;                         ///< [.., m]
  at::Tensor at(std::int64_t row, std::int64_t column) const;          ///< one number of each matrix, [..]

  /// M v, [.., m], of a vector [.., n].
  at::Tensor mv(const at::Tensor& vector) const;
  /// v M, [.., n], of a vector [.., m].
  at::Tensor vm(const at::Tensor& vector) const;

 private:
  std::int64_t leading() const { return A().dim() - 2; }

  at::Tensor A_, B_;
};

/// Products, factored: what is multiplied is merged into the factor on its side or, if that makes the inner
/// size smaller, replaces that factor. Throw ShapeError for sizes that do not fit and for tensors of less
/// than two axes.
FactoredMatrix matmul(const FactoredMatrix& left, const at::Tensor& right);
FactoredMatrix matmul(const at::Tensor& left, const FactoredMatrix& right);      ///< the same
FactoredMatrix matmul(const FactoredMatrix& left, const FactoredMatrix& right);  ///< the same
FactoredMatrix operator*(const FactoredMatrix& matrix, double factor);  ///< each number times a factor
inline FactoredMatrix operator*(double factor, const FactoredMatrix& matrix) {  ///< the same
  return matrix * factor;
}

}  // namespace hooked
