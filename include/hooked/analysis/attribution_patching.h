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

/// What gradients take for constant, so that none passes through it.
struct HeldInGradient {
  bool norms = false;     ///< what norms divide by: every norm is linear then, as in direct logit attribution
  bool patterns = false;  ///< attention probabilities: only values carry what heads move
};

/// Between which runs gradients are averaged.
enum class IntegrateOver : std::uint8_t {
  nothing,  ///< one gradient, of the run that is patched: attribution patching (Nanda 2023)
  inputs,   ///< runs between the two streams before the first block (Sundararajan et al. 2017; Hanna et al.
            ///< 2024)
  /// Runs between the two values of each activation by itself, the rest of the model following: exact for an
  /// activation that is replaced whole, as steps become many. That many runs for each activation.
  activations,
};

/// Where on the way from one run to the other the gradients are taken.
enum class StepRule : std::uint8_t {
  midpoint,  ///< (i + 1/2) / steps: the error falls with the square of the steps
  left,      ///< i / steps, from the run that is patched on
  right,     ///< (i + 1) / steps, up to what is patched in
};

/// Integrated gradients. For designated initialisers.
struct Integration {
  IntegrateOver over = IntegrateOver::nothing;  ///< the way that is integrated over
  std::int64_t steps = 8;                       ///< gradients on the way
  StepRule rule = StepRule::midpoint;           ///< where they are taken
};

/// What is estimated, and how. For designated initialisers.
struct AttributionPatchingOptions {
  /// What is patched, from where, into what, scored how: as sweep() takes it, but for `partial`.
  /// `tokens_per_run` is how many tokens of several rows are differentiated together.
  SweepOptions sweep = {};
  HeldInGradient hold = {};      ///< what gradients do not pass through
  Integration integration = {};  ///< over which runs gradients are averaged
  /// For queries and keys: what a patch makes of the attention probabilities is computed, and only from there
  /// on the gradient is used. A softmax that is saturated hides it otherwise (AtP*, Kramar et al.
  /// 2024, 3.1.1). Several keys in one cell count one by one, all keys of a head together.
  bool query_key = false;
  /// One gradient for each layer, in which what that layer adds to the stream passes none; the result is the
  /// mean size of the estimates, so never negative. Effects that cancel show (AtP*, "GradDrop", 3.1.2). A
  /// layer's own nodes get 0 without it, so their mean is over the other layers; the stream lies in no layer.
  bool drop_layers = false;
  /// Gradients of so many layers are computed at a time, from streams that are kept: the memory is that of so
  /// many layers, the time that of one more run. 0: all together.
  std::int64_t layers_at_once = 0;
  /// So many cells of the largest estimates, and as many of the others drawn at random, are swept exactly as
  /// well. 0: none. Of several metrics the first is checked.
  std::int64_t check = 0;
  std::uint64_t seed = 0;  ///< of that draw
};

/// A cell that was estimated and swept.
struct CheckedCell {
  std::vector<std::int64_t> index;  ///< in the grid
  std::vector<std::string> labels;  ///< one per axis
  double estimate;                  ///< by gradients
  double effect;                    ///< of the sweep: the patched score less the unpatched one
  bool drawn;                       ///< at random, not for its estimate
};

/// What estimates are worth.
struct AttributionCheck {
  std::vector<CheckedCell> cells;  ///< the largest estimates first, then those that were drawn
  /// Pearson's correlation of estimates (with drop_layers of sizes) and effects over all of these; NaN for
  /// less than two different numbers.
  double correlation;
  /// Drawn cells whose effect is larger than the median effect of those that were chosen by their estimates.
  std::vector<CheckedCell> missed;
  std::int64_t runs;  ///< patched runs that were computed
};

/// Estimates and how they came about.
struct AttributionPatchingReport {
  Grid grid;       ///< as attribution_patching() gives it; NaN where there is no number
  Grid unpatched;  ///< the scores without a patch
  std::optional<AttributionCheck> check;  ///< where one was asked for
  std::int64_t gradient_runs;             ///< runs with gradients, each of some rows
  double seconds;                         ///< all that it took
  bool complete;                          ///< not ended by `progress`
  std::int64_t rows = 0;                  ///< the first ones that have numbers; NaN for the others
};

/// Attribution patching: estimates by gradients what sweep() computes by a run for each cell, that is, how
/// much the score of `into` changes where an activation becomes what it is in `from`:
///
///     (value in `from` - value in `into`) . d score / d activation,
///
/// with one run and one gradient for all cells of a batch (Nanda 2023, "attribution patching"; Syed et al.
/// 2023). The grid has the axes and cells of the sweep, and NaN where that has no number; its numbers are
/// changes of the score. (`sweep` itself gives scores: less `unpatched` they are what is estimated.) Metrics
/// may read activations.
///
/// Throws as sweep(), and HookError for a metric without a gradient (rank, top1), for `query_key` elsewhere
/// than at queries and keys, for a divergence of the run from itself without integration, for
/// `layers_at_once` with hooks, edits, two stacks or a metric of activations,
/// and for integration over inputs where `from` has not kept resid_pre of the first layer.
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
