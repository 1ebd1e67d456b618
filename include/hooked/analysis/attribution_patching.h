#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// What gradients treat as constant, so that no gradient flows through it.
struct HeldInGradient {
  bool norms = false;     ///< what norms divide by: then every norm is linear, as in direct logit attribution
  bool patterns = false;  ///< attention probabilities: then gradients flow through values only
};

/// Between which runs gradients are averaged.
enum class IntegrateOver : std::uint8_t {
  nothing,  ///< one gradient, of the run that is patched: attribution patching (Nanda 2023)
  inputs,   ///< runs between the two streams before the first block (Sundararajan et al. 2017; Hanna et al.
            ///< 2024)
  /// Runs between the two values of each activation alone, the rest of the model following: exact for an
  /// activation that is replaced whole, in the limit of many steps. Takes that many runs per activation.
  activations,
};

/// Where on the path from one run to the other the gradients are taken.
enum class StepRule : std::uint8_t {
  midpoint,  ///< (i + 1/2) / steps: the error falls with the square of the steps
  left,      ///< i / steps, starting at the run that is patched
  right,     ///< (i + 1) / steps, ending at what is patched in
};

/// Integrated gradients. For designated initialisers.
struct Integration {
  IntegrateOver over = IntegrateOver::nothing;  ///< the path that is integrated over
  std::int64_t steps = 8;                       ///< gradients on that path
  StepRule rule = StepRule::midpoint;           ///< where they are taken
};

/// What is estimated, and how. For designated initialisers.
struct AttributionPatchingOptions {
  /// What is patched, from where, into what, and how it is scored: as for sweep(), except `partial`. The
  /// steps that `progress` counts are the gradients of each row, and then the cells that are checked.
  /// `tokens_per_run` is how many tokens of several rows are differentiated together.
  SweepOptions sweep = {};
  HeldInGradient hold = {};      ///< what gradients do not flow through
  Integration integration = {};  ///< over which runs gradients are averaged
  /// For queries and keys: computes the attention probabilities that a patch results in, and uses the
  /// gradient only from there on. Otherwise a saturated softmax hides the effect (AtP*, Kramar et al. 2024,
  /// 3.1.1). Several keys in one cell count one by one, all keys of a head together.
  bool query_key = false;
  /// One gradient per layer, which does not flow through what that layer adds to the stream; the result is
  /// the mean size of the estimates, never negative. Effects that cancel show up (AtP*, "GradDrop", 3.1.2). A
  /// layer's own nodes get 0 without it, so their mean is over the other layers; the stream is in none.
  bool drop_layers = false;
  /// Gradients of this many layers are computed at a time, from streams that are kept: the memory is that of
  /// this many layers, the time that of one more run. 0: all together.
  std::int64_t layers_at_once = 0;
  /// The cells with the n largest estimates, and n others drawn at random, are also swept exactly. 0: none.
  /// Of several metrics the first is checked.
  std::int64_t check = 0;
  std::uint64_t seed = 0;  ///< of that random draw
};

/// A cell that was estimated and swept.
struct CheckedCell {
  std::vector<std::int64_t> index;  ///< in the grid
  std::vector<std::string> labels;  ///< one per axis
  double estimate;                  ///< by gradients
  double effect;                    ///< from the sweep: the patched score minus the unpatched one; NaN if
                                    ///< `progress` ended the check before it
  bool drawn;                       ///< drawn at random, not chosen by its estimate
};

/// How good the estimates are.
struct AttributionCheck {
  std::vector<CheckedCell> cells;  ///< the largest estimates first, then the drawn ones
  /// Pearson's correlation of estimates (with drop_layers: of sizes) and effects over all of these; NaN for
  /// fewer than two different numbers, and if `complete` is false.
  double correlation;
  /// Drawn cells whose effect is larger than the median effect of those chosen by their estimates.
  std::vector<CheckedCell> missed;
  std::int64_t runs;     ///< patched runs that were computed
  bool complete = true;  ///< not ended by `progress`
};

/// Estimates and how they were computed.
struct AttributionPatchingReport {
  Grid grid;                              ///< as attribution_patching() returns it; NaN for missing numbers
  Grid unpatched;                         ///< the scores without a patch
  std::optional<AttributionCheck> check;  ///< if one was asked for
  std::int64_t gradient_runs;             ///< runs with gradients, each of some rows
  double seconds;                         ///< in total
  bool complete;                          ///< not ended by `progress`, the check included
  std::int64_t rows = 0;                  ///< the first rows, which have numbers; the others are NaN
};

/// Attribution patching: estimates from gradients what sweep() computes with one run per cell, that is, how
/// much the score of `into` changes if an activation becomes what it is in `from`:
///
///     (value in `from` - value in `into`) . d score / d activation,
///
/// with one run and one gradient for all cells of a batch (Nanda 2023, "attribution patching"; Syed et al.
/// 2023). The grid has the axes and cells of the sweep, and NaN wherever the sweep has no number. Its numbers
/// are changes of the score. (`sweep` itself gives scores; subtract `unpatched` to get what is estimated
/// here.) Metrics may read activations.
///
/// Throws as sweep(), and HookError for a metric without a gradient (rank, top1), for `query_key` at other
/// sites than queries and keys, for a divergence of the run from itself without integration, for
/// `layers_at_once` with hooks, edits, two stacks or a metric of activations, and for integration over inputs
/// if `from` did not keep resid_pre of the first layer.
Grid attribution_patching(const HookedTransformer& model, const AttributionPatchingOptions& options);

/// The same with a report, and exact sweeps of some cells.
AttributionPatchingReport attribution_patching_report(const HookedTransformer& model,
                                                      const AttributionPatchingOptions& options);

/// The cells of a preset, as sweep() has them.
Grid attribution_patching(const HookedTransformer& model, const PatchingPreset& preset,
                          const AttributionPatchingOptions& options);

/// The same with a report.
AttributionPatchingReport attribution_patching_report(const HookedTransformer& model,
                                                      const PatchingPreset& preset,
                                                      const AttributionPatchingOptions& options);

}  // namespace hooked
