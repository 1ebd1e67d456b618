#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooked/hooks/act.h"
#include "hooked/hooks/address.h"

namespace hooked {

class PointIndex;

/// Activations by name, in firing order, as downstream saw them (after hooks and edits).
///
/// Holds handles, not copies, and nothing in the engine writes in place behind it. Keeps no model alive.
/// Reading from several threads is fine.
class ActivationCache {
 public:
  /// One activation and, when only some positions were kept, which (absolute, along its pos or query axis).
  struct Entry {
    ActivationName name;
    at::Tensor value;
    std::vector<std::int64_t> positions;
  };

  ActivationCache() = default;
  /// What negative layers count from, and what those of an encoder do.
  explicit ActivationCache(std::int64_t n_layers, std::int64_t n_encoder_layers = 0)
      : n_layers_(n_layers), n_encoder_layers_(n_encoder_layers) {}
  /// As empty as it is for any run of that model.
  explicit ActivationCache(const PointIndex& points);

  /// The activation at an address; indices pick a block out of it (a view; one number drops its axis).
  /// Throws HookError with the nearest kept name when it was not kept, and on indices out of range.
  /// (Const, because assigning to a tensor that is returned by value would write into the cached memory.)
  const at::Tensor operator[](const Address& address) const;
  /// As above for text: a full name or address, or the field's shorthand.
  const at::Tensor operator[](std::string_view text) const;

  bool contains(const ActivationName& name) const;
  std::size_t size() const noexcept { return entries_.size(); }
  bool empty() const noexcept { return entries_.empty(); }
  auto begin() const noexcept { return entries_.begin(); }
  auto end() const noexcept { return entries_.end(); }
  std::vector<ActivationName> names() const;
  std::int64_t n_layers() const noexcept { return n_layers_; }

  /// Bytes of the distinct storages held.
  std::size_t bytes() const;

  /// One layer after the other of a site, as a new first axis: [layer, ...]. Throws HookError when a layer
  /// misses.
  at::Tensor stack(act::BlockSite site) const;

  /// Only row `index` of every activation, with the batch axis kept (size 1). Experts' activations, whose
  /// tokens are of all rows, are left out. Throws HookError out of range.
  ActivationCache row(std::int64_t index) const;

  /// One cache of what was computed in stretches of columns, from left to right: each activation joined along
  /// its pos or query axis, or that of an expert's tokens (stretch by stretch, which is another order than
  /// one run's). Scores and patterns of earlier stretches end with -inf and 0 for the keys that they could
  /// not see yet.
  static ActivationCache join(const std::vector<ActivationCache>& stretches);

  /// Copies on another device (`"cpu"`, `"cuda:0"`).
  ActivationCache to(const c10::Device& device) const;

  /// Writes a safetensors file: each activation under its name, contiguous. Throws IoError.
  void save(const std::filesystem::path& file) const;

  /// Reads what `save` wrote. Throws CheckpointError, HookError for a key that is no activation's name.
  static ActivationCache load(const std::filesystem::path& file);

  /// Adds or replaces an entry; the value is taken as it is. Used where activations are made.
  void insert(Entry entry);

 private:
  const Entry& entry(const ActivationName& name) const;
  /// Nothing in it, for the same model.
  ActivationCache emptied() const { return ActivationCache(n_layers_, n_encoder_layers_); }

  std::vector<Entry> entries_;
  std::unordered_map<ActivationName, std::size_t> numbers_;
  std::int64_t n_layers_ = 0;
  std::int64_t n_encoder_layers_ = 0;
};

}  // namespace hooked
