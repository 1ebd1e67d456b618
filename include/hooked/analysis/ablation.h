#pragma once

#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// A part of a model that writes to its stream.
struct ModelPart {
  std::string name;  ///< `head 1.3`, `mlp 1`, `conv 1`, `linear_attn 1`, `cross head 1.3`; an encoder's
                     ///< `encoder head 1.3`
  Address place;  ///< what it writes with: a head's z, a layer's mlp_out, attn_out of a layer without heads

  bool operator==(const ModelPart&) const = default;
};

/// Every head, every MLP and every sublayer that replaces attention, in the order in which they write.
std::vector<ModelPart> model_parts(const HookedTransformer& model);

/// All parts except these, which are given by their places: heads `act::z(9).head(6)`, all heads of a layer
/// `act::z(9)`, MLPs `act::mlp_out(9)`. Throws HookError for a place that is not a part of the model.
std::vector<Address> parts_besides(const HookedTransformer& model, const std::vector<Address>& parts);

/// What is ablated. For designated initialisers.
struct AblationOptions {
  /// The sets to ablate; each set gets one number. A set is any activations, or blocks of them, that
  /// sweep()'s table takes. With `complement` everything outside the set is ablated.
  std::vector<std::vector<Address>> sets = {};
  /// Ablate everything else: all heads and MLPs except those of a set ("what do these do alone").
  bool complement = false;
  /// What ablated places become (zeros, a mean, other prompts, a run), in which input, how it is scored, and
  /// the rest; `site`, `over` and `table` stay empty.
  SweepOptions sweep = {};
};

/// The scores of runs in which a set of activations is ablated: a Grid [set], preceded by `row` and `metric`
/// as in sweep(). An empty set ablates nothing, and its complement ablates everything.
///
///     ablate(model, {.sets = {heads}, .sweep = {.from = PatchSource::mean(many), .into = text, .metric =
///     loss()}}) ablate(model, {.sets = {circuit}, .complement = true,
///                    .sweep = {.from = PatchSource::resampled(others, 1), .into = text, .metric = metric}})
///
/// The second call scores what is left of a behaviour when everything outside a circuit is resampled (Chan et
/// al. 2022, "causal scrubbing"). Throws as sweep() and parts_besides().
Grid ablate(const HookedTransformer& model, const AblationOptions& options);

/// The same with a report.
SweepReport ablate_report(const HookedTransformer& model, const AblationOptions& options);

}  // namespace hooked
