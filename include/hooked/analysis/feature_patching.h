#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// The nodes of one dictionary: its features, and the error of its reconstruction. For designated
/// initialisers.
struct FeatureNodes {
  Address features;  ///< its point: act::sae_acts_post(act::resid_post(3))
  /// Only these features; empty: those that are not 0 somewhere, in `into` or in what is put in. All others
  /// have no effect.
  std::vector<std::int64_t> which = {};
  bool all = false;         ///< every feature of the dictionary
  bool by_position = true;  ///< each position by itself; false: all positions of a feature together
  bool errors = true;       ///< a last place on the axis `feature`, `error`
};

/// Patches the features of one dictionary, and its error term, one by one. A Grid with the axes `pos` (if
/// `by_position`) and `feature`, before them `row` and `metric` as sweep() has them.
///
///     const auto spliced = model.with_dictionary(sae, {.with_error = true});
///     sweep(spliced, {.features = act::sae_acts_post(act::resid_post(3)), .by_position = false},
///           {.from = PatchSource::zero(), .into = tokens, .metric = logit_diff});
///
/// `options` sets everything except `site`, `table` and `stack`; `over` may restrict Axis::pos to some
/// places, and may name Axis::batch. Values of a run are those of a run of `model` that kept sae_acts_post,
/// and for errors sae_error. Throws as sweep(), and HookError for a point that is not the features of a
/// dictionary inside a block.
Grid sweep(const HookedTransformer& model, const FeatureNodes& nodes, const SweepOptions& options);

/// The same with a report.
SweepReport sweep_report(const HookedTransformer& model, const FeatureNodes& nodes,
                         const SweepOptions& options);

/// What these patches change, estimated from gradients (Marks et al. 2024, "sparse feature circuits"). With
/// the error term the error is a constant: gradients reach earlier activations through features. At a
/// position, the estimates of all features and of the error add up to that of the whole activation there,
/// unless a skip connection or a norm of the input changes with it; without the error term an error's
/// estimate is 0. Throws as attribution_patching(), and as above.
Grid attribution_patching(const HookedTransformer& model, const FeatureNodes& nodes,
                          const AttributionPatchingOptions& options);

/// The same with a report.
AttributionPatchingReport attribution_patching_report(const HookedTransformer& model,
                                                      const FeatureNodes& nodes,
                                                      const AttributionPatchingOptions& options);

}  // namespace hooked
