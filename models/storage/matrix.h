#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
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
  wide_blocks     ///< in blocks of up to 96 columns, as AVX-512 kernels read them
};

/// The storage that Storage::fastest means for tensors of that dtype and device.
Storage fastest_storage(const at::TensorOptions& options);

/// Its name in files: `wide_blocks`.
std::string_view storage_name(Storage storage) noexcept;
/// The storage of that name, or nothing.
std::optional<Storage> parse_storage(std::string_view name) noexcept;

class Workspace;

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
  /// An uninitialised matrix in the blocks that this set of kernels reads, unless the storage is plain.
  Matrix(std::int64_t out, std::int64_t in, Groups groups, const at::TensorOptions& options, Storage storage,
         KernelSet set);
  /// With a storage that this processor need not be able to multiply by: it is then only read and written.
  Matrix(std::int64_t out, std::int64_t in, Groups groups, const at::TensorOptions& options, Storage storage);

  /// A plain matrix [out, in], used in place.
  explicit Matrix(at::Tensor plain);

  bool defined() const { return stored_.defined(); }
  bool packed() const { return packed_; }
  std::int64_t out() const;
  std::int64_t in() const;
  at::ScalarType dtype() const { return stored_.scalar_type(); }
  /// What the graph registers as its parameter.
  const at::Tensor& stored() const { return stored_; }

  /// Outputs `first` to `first + count`, a stretch of whole groups. Shares the storage.
  Matrix narrow(std::int64_t first, std::int64_t count) const;
  /// The matrix [out, in]: a view unless it is packed.
  at::Tensor plain() const;

  /// Its views as in the state dict: [out, in], [in, out], [head, in, out / head] and [head, in / head, out].
  SlotView as_out_in() const;
  SlotView as_in_out() const;                          ///< as as_out_in
  SlotView by_output_heads(std::int64_t heads) const;  ///< as as_out_in
  SlotView by_input_heads(std::int64_t heads) const;   ///< as as_out_in

  /// out := rows matrix^T (+ bias), for contiguous rows [row, in], bias [out] or undefined, and contiguous
  /// out [row, out]. No gradients.
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
};

}  // namespace hooked
