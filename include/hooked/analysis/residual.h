#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// How finely the writers of the stream are told apart: from `layer` to `neuron` each finer than the one
/// before, and by the features of the model's dictionaries.
enum class Grain : std::uint8_t {
  layer,   ///< attention and MLP of each layer
  head,    ///< each attention head separately
  expert,  ///< each head, and each expert of a mixture
  neuron,  ///< each head and each neuron, including those of experts
  /// Each feature of the model's dictionaries that fires at one of the positions, what their reconstructions
  /// miss, and their decoders' biases; the other writers as with `layer`. In the place of what was written up
  /// to a dictionary of the stream itself (resid_post) are its features.
  feature,
};

/// Where the constant part of a head's values counts. It reaches the head's output whatever the head attends
/// to: b_V, and W_V times the bias of the norm before it (which folded weights have in b_V).
enum class ValueBiases : std::uint8_t {
  in_heads,  ///< in each head's part, which is then its `result`, z W_O
  /// In the attention's bias, where fold_value_biases puts it: a head's part is what it read from the tokens'
  /// stream. Refused with sinks, clipped values and latents, where the constant part is not separate.
  in_bias,
};

/// What is taken apart, how finely and where. For designated initialisers.
struct ResidualOptions {
  /// The activation that is taken apart. A point of the stream (resid_pre, resid_mid, resid_post, ...; what
  /// cross-attention reads of it, cross_attn_in, is captured on request); the output of a norm of the stream
  /// (ln1_normalized, ln_final_normalized, ...), with the scale of this run; or what a sublayer adds to it
  /// (attn_out, mlp_out, cross_attn_out). Nothing: the end of the stream.
  std::optional<Address> of = std::nullopt;
  Grain grain = Grain::layer;                        ///< the parts that get a place each
  ValueBiases value_biases = ValueBiases::in_heads;  ///< where a head's value bias counts
  /// Directions [d_model] or [direction, d_model] that the parts are read along. Then no part is built as a
  /// vector: neurons are read through W_out times the directions. Undefined: the vectors themselves.
  at::Tensor along = {};
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// Splits an activation of the residual stream into what each part of the model wrote (Elhage et al. 2021): a
/// Grid [row, part, pos, d_model], NaN if the position is padding. With `along` the last axis is `direction`,
/// or there is none for one direction [d_model].
///
/// The parts add up to the activation, to float precision, in every model. If there is a norm between a part
/// and the activation (an output norm, norms after the additions, a norm of the embeddings), the part is
/// carried through it with the scale that the norm had in this run, which is a linear map. The biases of such
/// norms are parts of their own. `remainder`, the last part, is the rest of the activation: rounding, or what
/// hooks and edits put there.
///
/// Parts are named `embed`, `pos_embed`, `token_type_embed`, `attn 0`, `cross attn 0`, `mlp 0`; by head
/// `head 1.3`, `attn bias 1`, `cross head 1.3`, `cross attn bias 1`; by expert `expert 1.3` and
/// `shared expert 1`; by neuron `neuron 1.17`, `neuron 1.3.17` (of expert 3), `shared neuron 1.17` and
/// `mlp bias 1`; biases of norms `attn norm bias 1`, `mlp norm bias 1`, `ln1 bias 1`, `ln2 bias 1`,
/// `embed norm bias`; by feature, of a dictionary of an MLP or of heads, `mlp feature 1.17`, `mlp skip 1`,
/// `mlp decoder bias 1`, `mlp error 1` and `attn feature 1.17`, and of the stream `resid_post feature 1.17`.
/// A feature that a cross-layer transcoder reads in an earlier layer is `mlp feature 1.17 of layer 0`. At
/// tokens that a dictionary leaves out, all of the activation is in its error. A part's place is the
/// activation that it was computed from: attn_out, a head's `result`, a neuron's or an expert's `post`, a
/// dictionary's sae_acts_post and sae_error.
///
/// Needs the parts' activations (by head z, by neuron post, by expert expert_post, expert_weights and
/// expert_indices), the scales of the norms on the way and the activation itself in the cache; the default
/// capture has all of them. By feature it also needs sae_acts_post; with a skip connection or a norm of the
/// input sae_input; without the error term, or with edits of features, sae_output. Throws HookError if one is
/// missing or a position was not kept, for an activation other than the above, and by feature where there is
/// no dictionary; ShapeError for positions and directions that do not fit.
Grid residual_parts(const HookedTransformer& model, const ActivationCache& cache,
                    const ResidualOptions& options = {});

/// What a norm divides by.
enum class NormScale : std::uint8_t {
  of_run,  ///< the scale that it had in the run, at the same row and position: the norm is then linear
  own,     ///< each vector's own size, as if it were all of the stream
};

/// A norm through which vectors of the stream are read. For designated initialisers.
struct ReadingNorm {
  /// Its scale: act::ln1_scale(3), act::ln_final_scale, act::ln1_post_scale(0).
  Address norm;
  NormScale scale = NormScale::of_run;  ///< what it divides by
};

/// Which points of the stream are stacked. For designated initialisers.
struct AccumulatedOptions {
  std::optional<Address> until = std::nullopt;     ///< the last point; nothing: the end of the stream
  bool mid = false;                                ///< also the points between a block's sublayers
  std::optional<ReadingNorm> norm = std::nullopt;  ///< each point as this norm's output, without its weights
  std::vector<Position> positions = {Position::last()};  ///< of each row; empty: all
};

/// The stream as it grows: a Grid [row, point, pos, d_model] of each block's resid_pre (and with `mid` the
/// points between its sublayers) up to the last point, each with its address. Throws as residual_parts.
Grid accumulated_residual(const HookedTransformer& model, const ActivationCache& cache,
                          const AccumulatedOptions& options = {});

/// How a stack of vectors is normed. For designated initialisers.
struct NormStackOptions {
  ReadingNorm norm;  ///< through which they are read
  /// The vectors' positions: what the axis `pos` of the stack counts. Empty: all columns.
  std::vector<Position> positions = {Position::last()};
};

/// Vectors of the stream as a norm reads them: centred if it centres, and divided by its scale; without its
/// weight and bias, like the activation `..._normalized`. `stack` has the axes `row`, `pos` and, last,
/// `d_model` and any others: the output of residual_parts or accumulated_residual, or your own stack. Throws
/// ShapeError for other axes or sizes, HookError if the scale was not kept.
Grid normed_stack(const HookedTransformer& model, const ActivationCache& cache, const Grid& stack,
                  const NormStackOptions& options);

}  // namespace hooked
