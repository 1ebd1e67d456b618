#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/hooks/activation_name.h"

namespace HOOKED_EXPORT hooked {

/// The activation points of one model, numbered in the order of the table. Names and selections resolve
/// against them.
class PointIndex {
 public:
  /// The points of a model of that config.
  explicit PointIndex(const ModelConfig& config);

  /// The same with the points inside dictionaries, numbered after all others.
  PointIndex with(const std::vector<ActivationName>& inside) const;

  /// The number of points.
  std::size_t size() const noexcept { return names_.size(); }
  /// The full name of a point, which is below size().
  ActivationName name(std::size_t point) const { return names_[point]; }
  /// The full names of all, in the order of the table.
  const std::vector<ActivationName>& names() const& noexcept { return names_; }
  /// The same for a temporary, as a copy.
  std::vector<ActivationName> names() const&& { return names_; }
  /// The stacks of the model.
  Stacks stacks() const noexcept { return stacks_; }
  /// Blocks of the stack that predicts, and of the encoder.
  std::int64_t n_layers() const noexcept { return stacks_.n_layers; }
  /// Blocks of the encoder; 0 without one.
  std::int64_t n_encoder_layers() const noexcept { return stacks_.n_encoder_layers; }

  /// `name` with its stack, and with a negative layer counted from the end. Throws HookError if the layer is
  /// out of range.
  ActivationName resolve(const ActivationName& name) const;

  /// The number of a point with that full name, if this model has it.
  std::optional<std::size_t> find(const ActivationName& name) const;

  /// The number of a point. Throws HookError if this model does not have it, saying when the site exists and
  /// which existing name is nearest.
  std::size_t require(const ActivationName& name) const;

 private:
  std::vector<ActivationName> names_;
  std::unordered_map<ActivationName, std::size_t> numbers_;
  Stacks stacks_;
};

/// The part of the graph that a run computes, as some runs start or stop at a layer.
struct Reach {
  bool entry = true;                ///< the points before the first block
  std::int64_t first_block = 0;     ///< of the stack that predicts
  std::int64_t end_block = 0;       ///< one past the last of its blocks that runs
  bool exit = true;                 ///< the final norm and the unembedding, if the model has them
  std::int64_t encoder_blocks = 0;  ///< how many of an encoder's blocks run, from the first
  /// An encoder's final norm runs, and the maps from its output to keys and values.
  bool encoder_exit = false;

  /// The whole model.
  static Reach everything(const PointIndex& points) {
    const std::int64_t encoder = points.n_encoder_layers();
    return {true, 0, points.n_layers(), true, encoder, encoder > 0};
  }

  /// Whether the run computes that point.
  bool contains(const ActivationName& name) const;
};

}  // namespace hooked
