#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/patch_source.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"

namespace HOOKED_EXPORT hooked {

/// A kind of activation that every layer may have, an expert's and those inside dictionaries included.
struct SweptSite {
  Site site;  ///< the kind of point
  /// Inside dictionaries: those that stand at this kind of activation; nothing: all, if they stand at one
  /// kind.
  std::optional<Site> host = {};
  /// Of every layer.
  SweptSite(act::BlockSite block) : site(block.site) {}  // NOLINT: a site can be swept
  /// Of every expert of every layer.
  SweptSite(act::ExpertSite expert) : site(expert.site) {}  // NOLINT
  /// Of every dictionary.
  SweptSite(act::DictionarySite inside) : site(inside.site) {}  // NOLINT
  /// Of the dictionaries at one kind of activation: `{act::sae_acts_post, act::resid_post}`.
  SweptSite(act::DictionarySite inside, act::BlockSite at) : site(inside.site), host(at.site) {}
};

/// One place on an axis. On the axes of positions it is a Position, which may differ in the run that values
/// come from; on the others a number, negative from the end.
struct SweptPlace {
  Position into;  ///< in the run that is patched
  Position from;  ///< in the run that values come from
  /// The same in both.
  template <std::convertible_to<Position> P>
  SweptPlace(P place) : into(place), from(std::move(place)) {}  // NOLINT: 3 is a place
  /// A place that is elsewhere in the run that values come from.
  SweptPlace(Position into_place, Position from_place)
      : into(std::move(into_place)), from(std::move(from_place)) {}
};

/// An axis of a sweep: all of its places, or some.
///
///     {Axis::layer, {Axis::head, {0, 3}}, {Axis::pos, {Position::last(), pairs.clean_place("subject")}}}
///
/// On the axis of a dictionary's features, all are those that are not 0 somewhere, in `into` or in what is
/// put in: patching any other feature changes nothing.
struct SweptAxis {
  Axis axis;                       ///< which
  std::vector<SweptPlace> places;  ///< in this order; empty: all
  /// All places, or these.
  SweptAxis(Axis of, std::vector<SweptPlace> some = {}) : axis(of), places(std::move(some)) {}  // NOLINT
};

/// What to patch, from where, into what, and how it is scored. For designated initialisers. Set either `site`
/// and `over`, or `table`.
struct SweepOptions {
  std::optional<SweptSite> site = {};  ///< the kind of activation that is replaced
  /// The grid's axes: Axis::layer, any of the site's own, Axis::expert for an expert's site, and Axis::batch
  /// for the rows of `into`, which come first if it is not named.
  std::vector<SweptAxis> over = {};
  /// Explicit cells: the activations, or blocks of them, that are replaced together in one run.
  std::vector<std::vector<Address>> table = {};
  PatchSource from = {};      ///< what the places become; required
  Input into = at::Tensor();  ///< what the patched runs read; each row is swept separately
  /// Score each patched run. Threads of the sweep's own may call them, one at a time.
  Metrics metric = {};
  Hooks hooks = {};  ///< active in every run, in addition to those that are attached
  Edits edits = {};  ///< active in every run, before the patch
  /// Patched runs are computed together up to this many tokens, and fewer if memory runs out.
  std::int64_t tokens_per_run = 1024;
  Stack stack = Stack::none;  ///< whose layers: of the stack that predicts, or Stack::encoder
  /// As RunOptions::threads. Many small runs on the CPU are computed in parallel, each by one thread. With
  /// hooks, and if there are few or large runs, they are computed one after another by all threads.
  std::optional<int> threads = {};
  /// The same model on more devices (`replicate(model, "cuda:0,cuda:1")`), which share the runs. Each has its
  /// own thread that hands it one run after another, and its results are scored where the model is. The
  /// numbers are those of one device. With hooks all runs are the model's own.
  std::vector<HookedTransformer> replicas = {};
  /// Called after each run, by one thread at a time; false ends the sweep.
  std::function<bool(const SweepProgress&)> progress = nullptr;
  /// A file, whose name ends in `.safetensors`, that holds what is done so far: it is read when the sweep
  /// begins, if it exists, and written while it runs and at the end, also if a hook throws. Empty:
  /// none.
  std::filesystem::path partial = {};
};

/// A number that a metric could not compute.
struct FailedCell {
  std::vector<std::int64_t> index;  ///< in the grid
  std::vector<std::string> labels;  ///< one per axis
  std::string error;                ///< what the metric threw
};

/// A sweep and how it went.
struct SweepReport {
  Grid grid;                       ///< NaN for missing numbers
  Grid unpatched;                  ///< the scores without a patch, on the grid's `metric` and `row` axes
  std::vector<FailedCell> failed;  ///< whose metric threw
  std::int64_t runs;               ///< patched runs that were computed, as rows of larger ones
  double seconds;                  ///< in total
  bool complete;                   ///< not ended by `progress`
  std::int64_t rows = 0;           ///< the first rows, whose cells are all done
  /// Notes on how the runs were computed (RunResult::notes), each note once, and after a complete sweep on
  /// answers whose other spelling is a token too (spelling_notes).
  std::vector<std::string> notes = {};
  std::string source = {};  ///< what was patched in: PatchSource::description()
};

/// Activation patching: for every place on the axes `over`, runs `into` with the activation of `site` at that
/// place replaced by its value in `from`, and scores the run with the metric.
///
/// The grid has the axes `over`, before them `row` if `into` has several rows, and before that `metric` if
/// there are several. An axis of the site that is not in `over` is replaced whole. `Axis::pos` is the query
/// axis of patterns and scores, `Axis::head` the key/value heads of keys and values. The numbers equal those
/// of one full run per place up to rounding; what a patch cannot change is computed once. A cell is NaN if a
/// layer does not have the site, if a position is padding (one that `over` names must not be), if an expert
/// got no token in the data of a mean, and if a stopped sweep did not reach it. Of an expert's activations
/// only those tokens are patched that both runs send to it. The title says what was put in:
/// `Patching z with the mean over 32 rows, by position`.
///
/// Hooks are called with rows of patched runs: they cannot tell the rows of `into` apart. If memory runs out,
/// fewer patches are run together from then on; hooks are called again for those that did not fit.
///
/// Throws HookError for a site, an axis or a source that does not fit, and for a missing one or one of
/// another model; ShapeError for tokens, positions or a metric that do not fit; CheckpointError for a
/// partial file of another model, tokens or options; IoError for a file of another kind in its place;
/// MemoryError if there is not enough memory for one patch alone. What a metric or a hook throws is
/// passed on. (Method: Vig et al. 2020; Meng et al. 2022, "causal tracing"; Wang et al. 2023, "path
/// patching".)
Grid sweep(const HookedTransformer& model, const SweepOptions& options);

/// The same, with the scores of the unpatched runs; what a metric throws for a cell is listed, and the other
/// cells remain valid.
SweepReport sweep_report(const HookedTransformer& model, const SweepOptions& options);

/// Throws IoError unless a sweep can keep what is done so far in that file: a new one, or the partial file of
/// a sweep. For a check before long work; a sweep checks it too.
void require_can_keep(const std::filesystem::path& partial);

/// The scores of a run without patches, on the axes `metric` (if there are several) and `row` (if there are
/// several): what a sweep is rescaled with.
///
///     grid.rescaled(scores(model, corrupted, metric), scores(model, clean, metric), "share restored")
Grid scores(const HookedTransformer& model, const Input& input, const Metrics& metric);

}  // namespace hooked
