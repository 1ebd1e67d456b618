#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/coded_form.h"
#include "models/kernels/kernels.h"

namespace hooked {

class Workspace;

/// A matrix [out, in] whose numbers are codes (Note [Coded strips], models/storage/coded_strips.cc).
/// A handle: copies share the storage.
class CodedStrips {
 public:
  /// Whether a matrix of that width can be stored so.
  static bool fits(const CodedForm& form, std::int64_t in) { return in > 0 && in % form.block == 0; }

  /// The bytes that a matrix takes.
  static std::uint64_t nbytes_of(const CodedForm& form, std::int64_t out, std::int64_t in);

  /// All numbers are 0 until rows are put. Memory as for Matrix.
  CodedStrips(const CodedForm& form, std::int64_t out, std::int64_t in, const Workspace* memory = nullptr);

  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  std::uint64_t nbytes() const { return bytes_.nbytes(); }
  const CodedForm& form() const { return form_; }

  /// Stores output `row`, which has not been put yet, from its blocks in order. Rows of one strip of 16 must
  /// be put by one thread at a time.
  void put(std::int64_t row, std::span<const CodedBlock> blocks) const;
  /// Whether the form holds that block: with a factor that is not finite all of its numbers would be NaN,
  /// with a huge one products that are added could be, and no code may be NaN.
  static bool holds(const CodedForm& form, const CodedBlock& block);

  /// Strips `strip` to `strip + count` with inputs `input` to `end`, whole blocks, as kernels take them.
  /// Refers to this object.
  kernels::CodedColumns columns(std::int64_t strip, std::int64_t count, std::int64_t input,
                                std::int64_t end) const;

  /// These outputs followed by those of `next`, in fresh memory. Nothing if these strips are not whole, or
  /// the forms differ.
  std::optional<CodedStrips> followed_by(const CodedStrips& next, const Workspace* memory) const;

  /// Outputs `first` to `first + count` as numbers [count, in] of that dtype.
  at::Tensor rows(std::int64_t first, std::int64_t count, at::ScalarType dtype) const;
  /// The same for these outputs [n] int64.
  at::Tensor rows_at(const at::Tensor& outputs, at::ScalarType dtype) const;

  /// The strips of these outputs alone, int64 [n].
  CodedStrips of_outputs(const at::Tensor& outputs) const;

  /// out := rows matrix^T (+ bias) for its outputs `first` to `first + out.size(1)`: contiguous rows [row,
  /// in], bias [out] or undefined, and out [row, out], whose rows are contiguous each. No gradients.
  void multiply_into(const at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias,
                     std::int64_t first) const;
  /// out := out + rows matrix, for these outputs: rows [row, out], out [row, in].
  void add_back_into(const at::Tensor& out, const at::Tensor& rows, std::int64_t first) const;

 private:
  std::byte* block_at(std::int64_t strip, std::int64_t block) const;
  /// The reverse of `put`, for one block.
  void take(std::int64_t row, std::int64_t block, CodedBlock& into) const;
  /// The numbers of the outputs `row_of(0)` to `row_of(count - 1)`.
  template <class RowOf>
  at::Tensor numbers(std::int64_t count, at::ScalarType dtype, const RowOf& row_of) const;

  CodedForm form_;
  std::int64_t out_, in_;
  kernels::CodedLayout layout_;
  at::Tensor bytes_;  ///< [strip, byte]
};

}  // namespace hooked
