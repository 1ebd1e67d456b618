#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/coded_form.h"
#include "hooked/core/state_dict.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/tensors/stored_tensor.h"

namespace hooked {

/// The codes in which a tensor's elements are stored, a block of them after another.
struct SourceCodes {
  CodedForm form;
  /// Fills `into` with the blocks from number `first` on.
  std::function<void(std::int64_t first, std::span<CodedBlock> into)> read;
  /// Strides of the elements in the order of the blocks; empty: as `SourceTensor::read_elements` numbers
  /// them.
  std::vector<std::int64_t> strides = {};
  /// Keeps in memory what reading single blocks needs until the result is gone; null if that is nothing.
  std::function<std::shared_ptr<const void>()> hold = nullptr;
};

/// One tensor of a checkpoint or a state dict, under its name there. Its shape is known; its numbers are read
/// on demand.
struct SourceTensor {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;    ///< Undefined: of a dtype that cannot be read, or no tensor at all
  std::string dtype_name;  ///< as the file spells it; empty for no tensor at all
  std::string where;       ///< the file it is in, for errors
  /// All of it. Throws CheckpointError for a dtype that cannot be read, IoError if the file was changed.
  std::function<at::Tensor()> read;
  /// Fills a contiguous tensor on the CPU with the elements from number `first` on; null where the tensor
  /// must be read whole.
  std::function<void(std::int64_t first, const at::Tensor& into)> read_elements;
  /// Fills `into` with the bytes of its elements, from byte `first` on, also for a dtype that cannot be read;
  /// null if they are not in order.
  std::function<void(std::uint64_t first, std::span<std::byte> into)> read_bytes = nullptr;
  /// Strides of the elements in the order in which `read_elements` numbers them; empty: as in a contiguous
  /// tensor.
  std::vector<std::int64_t> strides = {};
  /// If it is stored in codes.
  std::optional<SourceCodes> codes = std::nullopt;

  /// Its shape and dtype without memory (meta device).
  at::Tensor meta() const;
};

/// The tensors of a checkpoint or a state dict by name.
using SourceTensors = std::map<std::string, SourceTensor>;

/// Those of a checkpoint. `reader` must outlive them.
SourceTensors source_tensors(const CheckpointReader& reader);

/// Those of a state dict. Erasing one releases its memory.
SourceTensors source_tensors(StateDict weights);

/// The tensor as it is, in blocks if possible.
StoredTensor stored_tensor(const SourceTensor& source);

/// Note [Blocks from the file]
/// A recipe's result is often a view of one tensor of the file, whole or a run of its rows, with its axes in
/// another order. Run on a meta tensor, the recipe says so by strides and offset. Then any block of our
/// tensor is one run of the file, and nothing of the tensor need be kept in memory. If two tensors alternate
/// (gate and up in neighbouring rows), each is read by a run that contains the other's numbers as well.
///
/// `made` is such a view of `meta`, both on the meta device. Returns nothing if its blocks are not runs of
/// the file, or are less than half of those runs.
std::optional<StoredTensor> view_in_file(const SourceTensor& source, const at::Tensor& meta,
                                         const at::Tensor& made);

/// A matrix [out, in] in codes: fills `into` with the blocks of output `out`.
struct CodedRows {
  CodedForm form;
  std::int64_t out, in;
  std::function<void(std::int64_t out, std::span<CodedBlock> into)> read;
  std::function<std::shared_ptr<const void>()> hold = nullptr;  ///< of SourceCodes
};

/// Makes our tensor as [outer out, inner out, outer in, inner in] from one of the source's shape.
using RecipeOfRows = std::function<at::Tensor(const at::Tensor& theirs)>;

/// The same for a recipe that only moves elements: also heads that are picked out of groups, which are not a
/// view. Returns nothing if the source is not stored in codes, or if an output's inputs are not whole blocks
/// of one row of the source, in order.
std::optional<CodedRows> coded_rows(const SourceTensor& source, const RecipeOfRows& recipe);

}  // namespace hooked
