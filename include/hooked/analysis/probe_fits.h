#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/grid.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/probe.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// What fits a probe.
enum class ProbeMethod : std::uint8_t {
  ridge,            ///< ridge_classifier
  logistic,         ///< logistic_regression
  mean_difference,  ///< mean_difference
};

/// Where directions are fitted, and in which runs. For designated initialisers.
struct DirectionOptions {
  /// Activations with a vector at each position; each head has vectors of its own.
  Selection of = act::resid_post;
  std::vector<Position> positions = {Position::last()};  ///< each has probes of its own; none may be padding
  RunOptions run = {};                                   ///< hooks and edits of the runs
  /// Of what is kept: activations for logistic regression and of held-out rows, sums of products for the
  /// others. If all places do not fit, the input is run several times, for some of them each.
  std::int64_t most_bytes = std::int64_t{2} << 30;
  /// Called after some rows; false ends the work.
  std::function<bool(const SweepProgress&)> progress = nullptr;
};

/// How probes are fitted and tried. For designated initialisers.
struct ProbeOptions {
  DirectionOptions at = {};                    ///< where, and in which runs
  ProbeMethod method = ProbeMethod::logistic;  ///< what fits them
  /// Ridge's alpha or logistic regression's C; 1 if not set.
  std::optional<double> penalty = {};
  bool intercept = true;     ///< as RidgeOptions; a mean difference has one
  bool standardize = false;  ///< as RidgeOptions; not of a mean difference
  std::int64_t sparse = 0;   ///< read so many features only, separating_features; 0: all
  double held_out = 0.2;     ///< share of each class's rows that the probes are tried on and not fitted to
  std::uint64_t seed = 0;    ///< draws these rows
  std::vector<std::string> classes = {};  ///< names of the classes; empty: `0`, `1`, ...
};

/// Probes and how well they do.
struct ProbeReport {
  /// The share of held-out rows whose class is said right, with its Wilson interval: [layer, pos], or
  /// [point, pos] for activations of several kinds or heads.
  Grid accuracy;
  /// 1 for each held-out row that is said right, else 0: `row` before these axes. For mean_interval and
  /// difference_test.
  Grid correct;
  std::vector<Probe> probes;            ///< one for each cell of `accuracy`, in its order
  std::vector<std::int64_t> held_out;   ///< the rows of the labels that were not fitted to, ascending
  double largest_class;                 ///< its share of the held-out rows: what says nothing reaches
  bool complete;                        ///< not ended by `progress`; else `probes` is empty and grids are NaN
  std::vector<std::string> notes = {};  ///< of the runs, each once; a fit that did not converge
};

/// Fits a probe for the class of each row, `labels` int64 [row], at each place, and tries it on held-out
/// rows: where can the class be read? A row is on one side of the split only. Ridge and mean differences keep
/// sums of products, [d, d] for each place, and no activation of the rows that they are fitted to.
///
///     const auto report = fit_probes(model, input, labels);
///     std::cout << report.accuracy;
///
/// Throws HookError for an activation without vectors, ShapeError for labels that do not fit, for a class
/// without a row to fit to, for a single class and for numbers that are not finite; ConfigError for shares
/// and penalties out of range; MemoryError if a single place takes more than `most_bytes`; and what running
/// throws. (Alain and Bengio 2017.)
ProbeReport fit_probes(const HookedTransformer& model, const Input& input, const at::Tensor& labels,
                       const ProbeOptions& options = {});

/// The same of activations that a cache has. Throws HookError for one that is missing.
ProbeReport fit_probes(const HookedTransformer& model, const ActivationCache& cache, const at::Tensor& labels,
                       const ProbeOptions& options = {});

/// Directions of components, and how much of the variance they hold.
struct ComponentReport {
  Grid share;                 ///< [layer or point, pos, component]: of the variance
  std::vector<Probe> probes;  ///< for each place one, whose outputs are the components
  bool complete;              ///< not ended by `progress`; else `probes` is empty and `share` is NaN
  std::vector<std::string> notes = {};  ///< of the runs, each once
};

/// The first principal components of the activations at each place (principal_components), from sums of
/// products over a stream of runs. An output of a probe is the distance from the mean along its component.
/// Throws as fit_probes and principal_components.
ComponentReport fit_components(const HookedTransformer& model, const Input& input, std::int64_t count,
                               const DirectionOptions& options = {});

/// Directions from pairs of prompts that differ in what is looked for.
struct ContrastReport {
  Grid share;                           ///< [layer or point, pos, component]: of the squared differences
  std::vector<Probe> means;             ///< for each place the mean difference, positive minus negative
  std::vector<Probe> components;        ///< for each place the components of the differences
  bool complete;                        ///< not ended by `progress`; else there are no probes
  std::vector<std::string> notes = {};  ///< of the runs, each once
};

/// Mean differences and contrast_components of the rows of `positive` and `negative`, a pair each, at each
/// place; for both sides the positions are the same. Throws as fit_probes and contrast_components.
ContrastReport contrast_directions(const HookedTransformer& model, const Input& positive,
                                   const Input& negative, std::int64_t count = 1,
                                   const DirectionOptions& options = {});

}  // namespace hooked
