#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooked/core/state_dict.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/tensors/stored_tensor.h"

namespace hooked {

/// One tensor of a checkpoint or a state dict, under the name that it has there. Its shape is known; its
/// numbers are read when they are asked for.
struct SourceTensor {
  std::vector<std::int64_t> shape;
  at::ScalarType dtype;    ///< Undefined: of a dtype that cannot be read, or no tensor at all
  std::string dtype_name;  ///< as the file spells it; empty for no tensor at all
  std::string where;       ///< the file it is in, for errors
  /// All of it. Throws CheckpointError for a dtype that cannot be read, IoError when the file was changed.
  std::function<at::Tensor()> read;
  /// Fills a contiguous tensor on the CPU with the elements from number `first` on; null where the tensor
  /// must be read whole.
  std::function<void(std::int64_t first, const at::Tensor& into)> read_elements;
  /// Fills `into` with the bytes that its elements lie in, from number `first` on, also of a dtype that
  /// cannot be read; null where they do not lie in order.
  std::function<void(std::uint64_t first, std::span<std::byte> into)> read_bytes = nullptr;
  /// How far apart neighbours along each axis are among the elements that `read_elements` numbers; empty: as
  /// in a contiguous tensor.
  std::vector<std::int64_t> strides = {};

  /// Its shape and dtype without memory (meta device).
  at::Tensor meta() const;
};

/// The tensors of a checkpoint or a state dict by name.
using SourceTensors = std::map<std::string, SourceTensor>;

/// Those of a checkpoint. `reader` must outlive them.
SourceTensors source_tensors(const CheckpointReader& reader);

/// Those of a state dict. Erasing one lets its memory go.
SourceTensors source_tensors(StateDict weights);

/// The tensor as it is, in blocks where that can be.
StoredTensor stored_tensor(const SourceTensor& source);

/// Note [Blocks from the file]
/// What a recipe makes is often a view of one tensor of the file, whole or a run of its rows, with its axes
/// in another order. Run on a meta tensor, the recipe says so by strides and offset, and then any block of
/// ours is one run of the file: nothing of the tensor need be held. Of two that alternate (gate and up
/// in neighbouring rows), each is read by a run that holds the other's numbers as well.
///
/// `made` is such a view of `meta`, both on the meta device. Nothing where its blocks are not runs of the
/// file, or are less than half of them.
std::optional<StoredTensor> view_in_file(const SourceTensor& source, const at::Tensor& meta,
                                         const at::Tensor& made);

}  // namespace hooked
