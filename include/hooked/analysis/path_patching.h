#pragma once

#include <cstdint>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// What paths from a sender to a receiver may pass through in addition to the stream.
enum class PathThrough : std::uint8_t {
  nothing,  ///< direct paths
  mlps,     ///< MLPs on the way are recomputed; heads on the way stay as they are (Wang et al. 2022)
};

/// Which sets of paths get a number each.
enum class PathCells : std::uint8_t {
  whole,          ///< from all senders together to all receivers together: one number
  each_sender,    ///< from each sender to all receivers together: an axis `sender`
  each_receiver,  ///< from all senders together to each receiver: an axis `receiver`
  each,           ///< from each sender to each receiver: both axes
};

/// Which paths are patched. For designated initialisers.
struct PathPatchingOptions {
  /// Where paths begin: parts, given by what they write. Heads `act::z(9).head(6)` (or all of a layer's,
  /// `act::z(9)`), cross-attention's likewise, `act::attn_out(9)`, `act::mlp_out(9)`, one of the embeddings,
  /// `act::pos_embed`, or their sum, `act::resid_pre(0)`; with two stacks the encoder's too, by name. Empty:
  /// every head and every MLP of the stack that predicts.
  std::vector<Address> senders = {};
  /// Where paths end: queries, keys and values of heads, `act::q(9).head(6)` (for keys and values that heads
  /// share, the number of the kv head), what MLPs read, `act::mlp_in(9)`, and the end of the stream that
  /// predicts, `act::resid_post(-1)`. With two stacks cross-attention's too: its keys and values read the end
  /// of the encoder's stream. Empty: the end of the stream.
  std::vector<Address> receivers = {};
  PathThrough through = PathThrough::nothing;  ///< what paths may pass through
  PathCells cells = PathCells::whole;          ///< what gets a number
  /// Where senders are patched: columns, named places, last(); a place may be elsewhere in `from`. Empty:
  /// everywhere. (Receivers see it wherever it gets to.)
  std::vector<SweptPlace> positions = {};
  /// From where, into what, how it is scored, and the rest; `site`, `over`, `table` and `stack` stay empty.
  SweepOptions sweep = {};
};

/// Path patching: the score if the receivers read the stream as if the senders had written what they write in
/// `from`, while everything on other paths stays as it is in `into` (Wang et al. 2022, "path patching";
/// Goldowsky-Dill et al. 2023).
///
/// A set of paths takes three runs: one without a patch; one with the senders patched in which every other
/// head (and, for direct paths, every other MLP) writes what it wrote, from which the receivers' values are
/// taken; and one with the receivers patched with these values. Norms are recomputed in all of them.
/// (direct_path() holds their scales, as TransformerLens does.) A cell is NaN if no path leads from its
/// senders to its receivers.
///
/// A Grid with the axes that `cells` says, preceded by `row` and `metric` as in sweep(). Throws as sweep(),
/// and HookError for senders and receivers other than the above, and for one that is counted together with
/// others and is on no path, as from layer 1 into layer 0.
Grid path_patching(const HookedTransformer& model, const PathPatchingOptions& options);

/// The same with a report.
SweepReport path_patching_report(const HookedTransformer& model, const PathPatchingOptions& options);

}  // namespace hooked
