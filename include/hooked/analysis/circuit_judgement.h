#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/circuit.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// The scores of runs in which only a circuit is left: a Grid [circuit], labelled by what each consists of
/// (Grid::with_labels gives other names), preceded by `row` if there are several rows. `sweep` says what
/// replaces all other nodes or edges (`from`: zeros, a mean, other prompts, a run), in which prompts
/// (`into`), and how it is scored; `site`, `over`, `table` and `partial` stay empty. A node outside the
/// circuit writes its value in `from`. An edge outside it carries what its writer has in `from`, while other
/// edges may read the same writer unchanged.
///
/// Throws as sweep(), and HookError for a mix of node and edge circuits. Edges are also refused in a model
/// with two stacks, with latent attention, or with norms on the stream or after what is written to it,
/// because then what is read is not a sum of the parts' shares.
Grid run_circuits(const HookedTransformer& model, const std::vector<Circuit>& circuits,
                  const SweepOptions& sweep);

/// How a circuit is judged. For designated initialisers.
struct CircuitJudgementOptions {
  SweepOptions sweep = {};  ///< as run_circuits takes it, with one metric
  /// How many other sets of the circuit's size it is compared with, and how many subsets of it are looked at:
  /// all of them if there are no more than this, else this many, drawn at random. 0: none.
  std::int64_t sets = 100;
  std::uint64_t seed = 0;  ///< of these draws
};

/// How good a circuit is. Scores are means over the rows.
struct CircuitJudgement {
  double whole;    ///< the score of the whole model
  double none;     ///< with everything ablated
  double circuit;  ///< of the circuit alone
  double without;  ///< of the rest alone: with the circuit ablated
  /// (circuit - none) / (whole - none): 1 if the circuit does all of it. If whole and none score the same,
  /// this and everything that follows is NaN.
  double faithfulness;
  /// (whole - without) / (whole - none): 1 if the rest does nothing.
  double completeness;
  /// The largest |score of (circuit without K) - score of (model without K)| / |whole - none| over subsets K
  /// of the circuit: 0 if the circuit breaks down as the model does (Wang et al. 2022, "completeness").
  double incompleteness;
  /// How much the faithfulness drops without each node or edge: a Grid [part].
  Grid minimality;
  /// Faithfulness and completeness of other sets of the circuit's size: a Grid [set, measure].
  Grid others;
  bool all_others;       ///< these are all such sets, not a random draw
  double more_faithful;  ///< the share of them that is at least as faithful; NaN if there are none
  bool complete;         ///< not ended by `progress`; else missing numbers are NaN
};

/// Judges a circuit by runs of it and of other sets. Throws as run_circuits().
CircuitJudgement judge_circuit(const HookedTransformer& model, const Circuit& circuit,
                               const CircuitJudgementOptions& options);

}  // namespace hooked
