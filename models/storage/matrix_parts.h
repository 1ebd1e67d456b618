#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/FunctionRef.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "models/storage/coded_strips.h"
#include "models/storage/matrix.h"
#include "models/storage/weight_slot.h"
#include "models/storage/workspace.h"

namespace hooked {

/// A matrix [out, in] of the graph whose outputs are stored in parts, each of them as the file has them: in
/// codes, or as numbers. A file may have queries in one form and values in another, and the graph has one
/// matrix of both. It has no parts until it is filled.
class MatrixParts {
 public:
  /// Numbers are of the dtype of `options`, on the CPU. Memory as for Matrix.
  MatrixParts(std::int64_t out, std::int64_t in, Matrix::Groups groups, const at::TensorOptions& options,
              const Workspace* memory)
      : out_(out), in_(in), groups_(groups), options_(options) {
    if (memory != nullptr) memory_ = *memory;
  }

  std::int64_t out() const { return out_; }
  std::int64_t in() const { return in_; }
  const at::TensorOptions& options() const { return options_; }
  /// Where parts are allocated; null: by LibTorch.
  const Workspace* memory() const { return memory_ ? &*memory_ : nullptr; }

  /// Outputs from `first` on are these strips.
  void put(std::int64_t first, CodedStrips strips);
  /// Outputs `first` to `first + count` are numbers: uninitialised, in the storage that is fastest.
  Matrix put_numbers(std::int64_t first, std::int64_t count);

  /// Whether these outputs are all stored in codes.
  bool coded(std::int64_t first, std::int64_t count) const;

  /// The part that consists of these outputs exactly and is stored as numbers, or null.
  const Matrix* numbers(std::int64_t first, std::int64_t count) const;

  // Of outputs `first` to `first + count`, as Matrix has them.

  at::Tensor plain(std::int64_t first, std::int64_t count) const;
  at::Tensor rows_at(std::int64_t first, std::int64_t count, const at::Tensor& outputs) const;
  std::shared_ptr<MatrixParts> of_outputs(std::int64_t first, std::int64_t count,
                                          const at::Tensor& outputs) const;
  void multiply_into(at::Tensor& out, const at::Tensor& rows, const at::Tensor& bias,
                     std::int64_t first) const;
  void multiply_back_into(at::Tensor& out, const at::Tensor& rows, const Workspace& memory,
                          std::int64_t first) const;

 private:
  struct Part {
    std::int64_t first, count;
    std::variant<CodedStrips, Matrix> matrix;
  };
  /// A part, and its outputs that are among those asked for.
  struct Stretch {
    const Part& part;
    std::int64_t in_part, asked, count;  ///< the first one's place in the part, and among those asked for
  };
  /// The part that consists of these outputs exactly and is stored as that, or null.
  template <class Stored>
  const Stored* part_of(std::int64_t first, std::int64_t count) const;
  void each(std::int64_t first, std::int64_t count, c10::function_ref<void(const Stretch&)> use) const;

  std::int64_t out_, in_;
  Matrix::Groups groups_;
  at::TensorOptions options_;
  std::optional<Workspace> memory_;
  std::vector<Part> parts_;  ///< by their outputs
};

/// A weight of the state dict that is in the parts of a matrix: decoded when it is read.
class CodedSlot {
 public:
  CodedSlot(Matrix matrix, MatrixAxes axes, std::int64_t heads)
      : matrix_(std::move(matrix)), axes_(axes), heads_(heads) {}

  const Matrix& matrix() const { return matrix_; }
  std::vector<std::int64_t> sizes() const;

  at::Tensor read() const;
  at::Tensor number(std::int64_t place) const;

  /// A tensor of these sizes as [outer out, inner out, outer in, inner in]: outputs, and inputs in the order
  /// in which they are multiplied.
  at::Tensor outputs_first(const at::Tensor& tensor) const;

  /// Stores the weight in codes.
  void fill(CodedStrips strips) const;
  /// Stores it as numbers, which the view returned writes.
  SlotView fill_with_numbers() const;

 private:
  /// The weight's numbers as [outer out, inner out, outer in, inner in], and which of these its own axes are.
  struct Layout {
    std::array<std::int64_t, 4> sizes;
    std::vector<std::size_t> order;
  };
  Layout layout() const;

  Matrix matrix_;
  MatrixAxes axes_;
  std::int64_t heads_;
};

}  // namespace hooked
