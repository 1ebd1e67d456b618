#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "hooked/core/kernel_set.h"
#include "models/storage/weight_slot.h"

namespace hooked {

/// How the matrices of a graph are stored (Note [Packed matrices], models/storage/matrix.cc).
enum class Storage : std::uint8_t {
  fastest,        ///< as products on this processor read them fastest: one of the others
  plain,          ///< as [out, in] tensors, for training too
  narrow_blocks,  ///< in blocks of 16 columns, as AVX2 kernels read them
  wide_blocks,    ///< in blocks of up to 96 columns, as AVX-512 kernels read them
  codes  ///< in parts, those of quantised files as the codes that are stored (models/storage/matrix_parts.h)
};

/// The storage that Storage::fastest means for tensors of that dtype and device.
Storage fastest_storage(const at::TensorOptions& options);

/// Its name in files: `wide_blocks`.
std::string_view storage_name(Storage storage) noexcept;
/// The storage of that name, or nothing.
std::optional<Storage> parse_storage(std::string_view name) noexcept;

class MatrixParts;
class Workspace;

/// The axes of a matrix in the state dict.
enum class MatrixAxes : std::uint8_t {
  out_in,        ///< [out, in]
  in_out,        ///< [in, out]
  output_heads,  ///< [head, in, out / head]
  input_heads    ///< [head, in / head, out]
};

/// A matrix [out, in] of a linear layer, stored in the form that suits its products (Note [Packed matrices]).
/// A handle: copies share the storage.
class Matrix {
 public:
  /// How the matrix is divided: outputs come in groups of `out` (heads, gate and up), inputs in groups of
  /// `in`.
  struct Groups {
    std::int64_t out = 1, in = 1;
  };

  /// Undefined: the layer has no such matrix.
  Matrix() = default;
  /// An uninitialised matrix in the blocks that this set of kernels reads, unless the storage is plain, in
  /// memory of that workspace or, without one, LibTorch's.
  Matrix(std::int64_t out, std::int64_t in, Groups groups, const at::TensorOptions& options, Storage storage,
         KernelSet set, const Workspace* memory = nullptr);
  /// With a storage that this processor need not be able to multiply by: it is then only read and written.
  Matrix(std::int64_t out, std::int64_t in, Groups groups, const at::TensorOptions& options, Storage storage,
         const Workspace* memory = nullptr);

  /// A plain matrix [out, in], used in place.
  explicit Matrix(at::Tensor plain);

  bool defined() const { return stored_.defined() || parts_; }
  bool packed() const { return packed_; }
  std::int64_t out() const;
  std::int64_t in() const;
  at::ScalarType dtype() const;
  c10::Device device() const;
  /// What the graph registers as its parameter; undefined for a matrix in parts.
  const at::Tensor& stored() const { return stored_; }
  /// The parts of Storage::codes, or null, and this matrix's first output among theirs.
  const std::shared_ptr<MatrixParts>& parts() const { return parts_; }
  std::int64_t first_of_parts() const { return first_; }

  /// Outputs `first` to `first + count`, a stretch of whole groups. Shares the storage.
  Matrix narrow(std::int64_t first, std::int64_t count) const;
  /// The matrix [out, in]: a view unless it is packed or in parts.
  at::Tensor plain() const;
  /// The rows of these outputs, [..., in] for int64 [...]. With gradients, if it is plain.
  at::Tensor rows_at(const at::Tensor& outputs) const;
  /// A matrix of these outputs' rows alone, int64 [out], with the numbers that products use.
  Matrix of_outputs(const at::Tensor& outputs) const;

  /// It as in the state dict.
  SlotView view(MatrixAxes axes, std::int64_t heads = 1) const;
  SlotView as_out_in() const { return view(MatrixAxes::out_in); }
  SlotView as_in_out() const { return view(MatrixAxes::in_out); }
  SlotView by_output_heads(std::int64_t heads) const { return view(MatrixAxes::output_heads, heads); }
  SlotView by_input_heads(std::int64_t heads) const { return view(MatrixAxes::input_heads, heads); }

  /// out := rows matrix^T (+ bias), for contiguous rows [row, in], bias [out] or undefined, and contiguous
  /// out [row, out]. No gradients. A matrix in parts, or a plain one, may have an `out` of the sums' dtype
  /// (models/storage/product.h), which are not rounded then.
  void multiply_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias) const;
  /// out := rows matrix, for contiguous rows [row, out] and contiguous out [row, in]: the backward of
  /// `multiply_into` for rows. Rows of zeros give zeros. No gradients.
  void multiply_back_into(at::Tensor& out, const at::Tensor& rows, const Workspace& memory) const;
  /// The same per head, each with its part of the outputs: out [head, row, out / head] := rows [head, row,
  /// in] times it, and the backward. Contiguous, without bias.
  void multiply_heads_into(at::Tensor& out, const at::Tensor& rows) const;
  void multiply_heads_back_into(at::Tensor& out, const at::Tensor& rows,
                                const Workspace& memory) const;  ///< as multiply_heads_into

 private:
  // Rows and outputs are those of `heads`, head by head.
  void multiply_packed(at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias,
                       std::int64_t heads = 1) const;
  void multiply_packed_back(at::Tensor& out, const at::Tensor& rows, const Workspace& memory,
                            std::int64_t heads = 1) const;

  at::Tensor stored_;  ///< [out, in], or packed [block, in / depth, column, depth]
  bool packed_ = false;
  KernelSet set_ = KernelSet::plain;  ///< whose blocks they are, if it is packed
  std::shared_ptr<MatrixParts>
      parts_;  ///< instead of `stored_`: outputs `first_` to `first_ + count_` of them
  std::int64_t first_ = 0, count_ = 0;
};

}  // namespace hooked
