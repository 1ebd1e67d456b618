#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/hooks/activation_name.h"

namespace hooked {

/// The activation points of one model, numbered in the order of the table: what names and selections resolve
/// against.
class PointIndex {
 public:
  explicit PointIndex(const ModelConfig& config);

  std::size_t size() const noexcept { return names_.size(); }
  const ActivationName& name(std::size_t point) const { return names_[point]; }
  const std::vector<ActivationName>& names() const noexcept { return names_; }
  /// Blocks of the main stack, the decoder's where there is an encoder, and of the encoder.
  std::int64_t n_layers() const noexcept { return n_layers_; }
  std::int64_t n_encoder_layers() const noexcept { return n_encoder_layers_; }
  /// The stack that has the n_layers blocks.
  Stack main_stack() const noexcept { return n_encoder_layers_ > 0 ? Stack::decoder : Stack::blocks; }

  /// `name` with a negative layer counted from the end. Throws HookError when the layer is out of range.
  ActivationName resolve(const ActivationName& name) const;

  /// The number of a point. Throws HookError when this model does not have it: says when the site exists, and
  /// the nearest name that does.
  std::size_t require(const ActivationName& name) const;

  /// The existing name nearest to `text`.
  std::string nearest_to(std::string_view text) const;

 private:
  std::vector<ActivationName> names_;
  std::unordered_map<ActivationName, std::size_t> numbers_;
  std::int64_t n_layers_;
  std::int64_t n_encoder_layers_;
};

/// The part of the graph that a run computes: some runs start or stop at a layer.
struct Reach {
  bool entry = true;  ///< the points before the first block
  /// Blocks are counted in the order in which they run: those of an encoder, then the n_layers others.
  std::int64_t first_block = 0;
  std::int64_t end_block = 0;       ///< one past the last block that runs
  bool exit = true;                 ///< the final norm and the unembedding
  std::int64_t encoder_blocks = 0;  ///< how many of the blocks are an encoder's

  /// All of a model.
  static Reach everything(const PointIndex& points) {
    return {true, 0, points.n_encoder_layers() + points.n_layers(), true, points.n_encoder_layers()};
  }

  /// The number of a block.
  std::int64_t block(const ActivationName& name) const {
    return name.layer + (name.stack == Stack::encoder ? 0 : encoder_blocks);
  }
  /// Whether the whole encoder runs, its final norm included.
  bool encodes() const { return first_block < encoder_blocks && end_block >= encoder_blocks; }

  bool contains(const ActivationName& name) const;
};

}  // namespace hooked
