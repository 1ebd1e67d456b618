#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/circuit.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// The scores of runs in which only a circuit is left: a Grid [circuit]; `row` stands before where there are
/// several rows. `sweep` says what stands in for all other nodes or edges (`from`: zeros, a mean, other
/// prompts, a run), in which prompts (`into`), and how it is scored; `site`, `over`, `table` and `partial`
/// stay empty. A node outside of the circuit writes what it has in `from`. An edge outside carries what its
/// writer has in `from`, while the same writer may be read as it is along other edges.
///
/// Throws as sweep(), and HookError for circuits of both kinds, and for edges in a model with two stacks,
/// with latent attention, or with norms on the stream or behind what is written to it, where a part's share
/// of what is read is no sum.
Grid run_circuits(const HookedTransformer& model, const std::vector<Circuit>& circuits,
                  const SweepOptions& sweep);

/// What a circuit is judged by. For designated initialisers.
struct CircuitJudgementOptions {
  SweepOptions sweep = {};  ///< as run_circuits takes it, with one metric
  /// How many other sets of the circuit's size it is compared with, and how many subsets of it are looked at:
  /// all of them where there are no more, else as many, drawn at random. 0: none.
  std::int64_t sets = 100;
  std::uint64_t seed = 0;  ///< of these draws
};

/// How good a circuit is. Scores are means over the rows.
struct CircuitJudgement {
  double whole;    ///< the score of the whole model
  double none;     ///< with everything ablated
  double circuit;  ///< of the circuit alone
  double without;  ///< of the rest alone: with the circuit ablated
  /// (circuit - none) / (whole - none): 1 where the circuit does it all. Where whole and none score the same
  /// it is NaN, as all that follows.
  double faithfulness;
  /// (whole - without) / (whole - none): 1 where the rest does nothing.
  double completeness;
  /// The largest |score of (circuit without K) - score of (model without K)| / |whole - none| over subsets K
  /// of the circuit: 0 where the circuit falls apart as the model does (Wang et al. 2022, "completeness").
  double incompleteness;
  /// By how much the faithfulness falls without a node or an edge: a Grid [part].
  Grid minimality;
  /// Faithfulness and completeness of other sets of the circuit's size: a Grid [set, measure].
  Grid others;
  bool all_others;       ///< these are all that there are, not a draw
  double more_faithful;  ///< the share of them that is at least as faithful; NaN where there are none
  bool complete;         ///< not ended by `progress`; else NaN stands for what is missing
};

/// Judges a circuit by runs of it and of other sets. Throws as run_circuits().
CircuitJudgement judge_circuit(const HookedTransformer& model, const Circuit& circuit,
                               const CircuitJudgementOptions& options);

}  // namespace hooked
