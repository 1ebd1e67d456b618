#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// What a model's parts write to its stream and what they read of it, in their order. With two stacks the
/// encoder's stream comes first; cross-attention's keys and values read its end.
struct StreamGraph {
  /// What one module writes: one part, or one per head.
  struct Writer {
    Address written;                     ///< the activation it comes from: z, or the part itself
    bool of_heads;                       ///< through W_O of the layer
    std::optional<ActivationName> norm;  ///< which heads pass on their way to the stream, by its `normalized`
    std::int64_t first, count;           ///< its parts on the axis of writers
  };
  /// What one module reads.
  struct Reader {
    enum class Kind : std::uint8_t { queries, keys, values, stream } kind;
    Address gradient;                    ///< at which the gradient is taken
    std::optional<ActivationName> norm;  ///< through which heads read, by its `normalized`
    std::int64_t first, count;           ///< on the axis of readers
  };
  /// One event on the stream.
  struct Step {
    /// `stream`: another stream begins, to which nothing is written yet.
    enum class Kind : std::uint8_t { stream, write, read, norm } kind;
    std::size_t number;  ///< among writers, readers or norms; for `stream` its first writer
  };

  std::vector<Writer> writers;
  std::vector<Reader> readers;
  std::vector<ActivationName> norms;  ///< on the stream itself, by their `normalized`; a block's number
                                      ///< that multiplies it by its `resid_sum`
  std::vector<Step> steps;
  GridAxis writer_axis, reader_axis;

  static StreamGraph of(const HookedTransformer& model);

  /// The activations whose gradients are needed, and what else a run must keep.
  std::vector<ActivationName> differentiated() const;
  std::vector<ActivationName> kept(const HookedTransformer& model) const;
};

/// Whether queries, keys, values or z belong to cross-attention.
bool is_of_cross_attention(Site site);
/// The weights that an activation belongs to: those of its stack, or cross-attention's.
WeightView weights_around(const HookedTransformer& model, const ActivationName& name);

}  // namespace hooked
