#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A singular value decomposition: U diag(S) V^T, with the singular values in falling order.
struct SingularValues {
  at::Tensor U;  ///< [.., m, k]
  at::Tensor S;  ///< [.., k]
  at::Tensor V;  ///< [.., n, k]: right singular vectors as columns
};

/// A matrix M = A B of low rank, kept as its factors A [.., m, r] and B [.., r, n]: everything but AB() is
/// computed without the m x n numbers. A head's circuits are of this kind. A value; leading axes are many
/// matrices at once.
///
/// Computes in the dtype of its factors; decompositions of bfloat16 and float16 in float32. Functions throw
/// ShapeError for sizes that do not fit.
class FactoredMatrix {
 public:
  /// Leading axes are broadcast against each other. Throws ShapeError unless A's columns are as many as B's
  /// rows, and for factors of another dtype or device.
  FactoredMatrix(at::Tensor A, at::Tensor B);

  const at::Tensor A() const;                          ///< [.., m, r]
  const at::Tensor B() const;                          ///< [.., r, n]
  std::vector<std::int64_t> sizes() const;             ///< of the product, [.., m, n]
  std::int64_t inner() const { return A().size(-1); }  ///< r

  at::Tensor AB() const;  ///< the product itself, [.., m, n]
  /// The product the other way round, [.., r, r]; it has the same eigenvalues but for zeros. Throws
  /// ShapeError unless m = n.
  at::Tensor BA() const;

  FactoredMatrix t() const;  ///< the transpose, [.., n, m]

  /// k is the smallest of m, r and n. By QR of both factors and the decomposition of an r x r matrix.
  SingularValues svd() const;
  /// Of BA, complex [.., r], on the CPU wherever the factors lie. Throws ShapeError unless m = n.
  at::Tensor eigenvalues() const;
  at::Tensor norm() const;  ///< Frobenius norm, [..]

  /// The same matrix as U sqrt(S) and sqrt(S) V^T: each half has half of the singular values, and orthogonal
  /// columns (rows).
  FactoredMatrix make_even() const;
  /// What is left without the orthogonal factor on the left, S V^T [.., k, n]: norms of products with
  /// something on the right are those of the matrix.
  at::Tensor collapse_l() const;
  at::Tensor collapse_r() const;  ///< the same without that on the right, U S [.., m, k]

  /// One place of the first leading axis. Negative indices count from the end. Throws ShapeError where there
  /// is none.
  FactoredMatrix operator[](std::int64_t index) const;
  /// With a leading axis of size 1 more at that place, 0 to the number of leading axes.
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

/// Products, factored: what is multiplied goes into the factor on its side, or, where that makes the inner
/// size smaller, takes the place of that factor. Throw ShapeError for sizes that do not fit and for tensors
/// of less than two axes.
FactoredMatrix matmul(const FactoredMatrix& left, const at::Tensor& right);
FactoredMatrix matmul(const at::Tensor& left, const FactoredMatrix& right);      ///< the same
FactoredMatrix matmul(const FactoredMatrix& left, const FactoredMatrix& right);  ///< the same
FactoredMatrix operator*(const FactoredMatrix& matrix, double factor);  ///< each number times a factor
inline FactoredMatrix operator*(double factor, const FactoredMatrix& matrix) {  ///< the same
  return matrix * factor;
}

}  // namespace hooked
