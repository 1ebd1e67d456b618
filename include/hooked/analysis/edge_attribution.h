#pragma once

#include <cstdint>

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/grid.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// Which edges are estimated, and how. For designated initialisers.
struct EdgeAttributionOptions {
  /// From where, into what, how it is scored (by one metric), and the rest; `site`, `over`, `table` and
  /// `partial` stay empty. `from` must have kept what the parts write: the embeddings, z and mlp_out.
  SweepOptions sweep = {};
  HeldInGradient hold = {};      ///< what gradients do not flow through
  Integration integration = {};  ///< over nothing ("EAP") or over inputs ("EAP-IG")
  bool by_position = false;      ///< one number per column; else their sum
  /// The n largest edges, and n others drawn at random, are also patched exactly, each by path_patching from
  /// its writer directly to its reader. 0: none.
  std::int64_t check = 0;
  std::uint64_t seed = 0;  ///< of that random draw
};

/// Edge attribution patching: estimates from gradients how much the score of `into` changes if one part of
/// the model reads what another one writes in `from`, while all others still read what it writes in `into`:
///
///     (what it writes in `from` - in `into`) . d score / d what the reader reads
///
/// (Syed et al. 2023; with integration over inputs Hanna et al. 2024). A Grid [writer, reader] or, by
/// position, [writer, reader, pos], preceded by `row` if there are several rows. NaN if the reader does not
/// come after the writer. Writers are the embeddings, heads and MLPs, named as in residual_parts; readers are
/// `head 1.3 q`, `head 1.3 k`, `head 1.3 v` (for keys and values that heads share: `kv head 1.0 k`), `mlp 1`
/// and `logits`, the end of the stream. Biases write the same in both runs and have no edge.
///
/// With two stacks there are two streams: the encoder's parts are named `encoder head 0.1`, cross-attention's
/// heads `cross head 1.3`. Their queries, `cross head 1.3 q`, read the decoder's stream. Their keys and
/// values read the end of the encoder's; these are its edges into the decoder. By position, `pos` counts the
/// columns of the stream that is read, with NaN after the end of the shorter one.
///
/// One gradient at queries, keys, values and the inputs of MLPs gives all edges: it is carried through the
/// norms on the way by their derivatives in that run, or with `hold.norms` at the scales that they had. So
/// the edges from a writer add up to what attribution_patching gives for it, in every model, whatever norms
/// are on its stream. The model needs no switch and no copies of shared heads.
///
/// Throws as sweep(), HookError for several metrics, one without a gradient, integration over activations,
/// `check` by position, and hooks and edits on the way from writers to readers (the stream, its norms,
/// attn_out, split inputs), because edges are not carried through them.
Grid edge_attribution(const HookedTransformer& model, const EdgeAttributionOptions& options);

/// The same with a report, and exact effects of some edges: the score if the reader reads what the writer
/// writes in `from`, minus the score without a patch.
AttributionPatchingReport edge_attribution_report(const HookedTransformer& model,
                                                  const EdgeAttributionOptions& options);

}  // namespace hooked
