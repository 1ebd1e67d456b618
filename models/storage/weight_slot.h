#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hooked {

class CodedSlot;

/// A tensor of the state dict as it is in storage, which may cut its dimensions into pieces: a matrix [in,
/// out] that is stored in blocks of 64 columns is pieces [in, out / 64, 64] with parts {1, 2}.
class SlotView {
 public:
  /// A tensor stored in one piece.
  SlotView(at::Tensor whole);  // NOLINT(google-explicit-constructor): most are
  /// `parts`: how many dimensions of `pieces`, 1 to 3, make up each dimension of the tensor.
  SlotView(at::Tensor pieces, std::vector<std::int64_t> parts);

  /// A tensor that is stored in codes, or is to be: read, but not written.
  SlotView(std::shared_ptr<const CodedSlot> coded);  // NOLINT(google-explicit-constructor): as above

  bool defined() const { return pieces_.defined() || coded_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// The bytes of its numbers, also if they are stored in codes.
  std::uint64_t nbytes() const;
  at::ScalarType dtype() const;
  c10::Device device() const;
  /// The storage, in whatever shape: for filling all of it. Undefined if it is stored in codes.
  const at::Tensor& pieces() const { return pieces_; }
  /// The matrix that has it in codes, or null.
  const CodedSlot* coded() const { return coded_.get(); }

  /// The number at an index in the tensor, counted as if it were contiguous: [], a view if possible.
  at::Tensor number(std::int64_t place) const;

  /// The tensor: a view of the storage if possible, otherwise a copy.
  at::Tensor read() const;
  /// Writes the whole tensor.
  void write(const at::Tensor& values) const;
  /// Writes the stretch of `dimension` that begins at `first` and is as long as `values`.
  void write(std::int64_t dimension, std::int64_t first, const at::Tensor& values) const;

 private:
  at::Tensor pieces_;
  std::shared_ptr<const CodedSlot> coded_;  ///< instead of them
  std::vector<std::int64_t> parts_, sizes_;
};

/// Where one tensor of the state dict is in the packed parameters. Everything else about it is in the table
/// of weights (core/weight_table.h).
struct WeightSlot {
  std::string name;  ///< state-dict name: `blocks.0.attn.W_Q`
  SlotView view;     ///< in the state dict's shape; shares the packed parameter's memory
};

using WeightSlots = std::vector<WeightSlot>;

/// Adds a weight, or nothing if this model's is undefined.
inline void add_slot(WeightSlots& all, std::string name, const SlotView& view) {
  if (view.defined()) all.push_back({std::move(name), view});
}

/// Adds the slots of `module` at `path` in the state dict, or nothing if `module` is null.
template <class Module>
void add_slots(WeightSlots& all, const Module& module, const std::string& path) {
  if (!module) return;
  for (WeightSlot& slot : module->slots(path)) all.push_back(std::move(slot));
}

}  // namespace hooked
