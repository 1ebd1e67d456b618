#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hooked/analysis/answers.h"
#include "hooked/analysis/grid.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/position.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/edit.h"

namespace HOOKED_EXPORT hooked {

/// Pairs of inputs for interchange interventions: row i of both is a pair. Into the run of `base`, a part of
/// the run of `source` is put; `expected` is what the model should then answer, if that part carries the
/// variable that is looked for.
struct InterchangePairs {
  Input base;                                            ///< [pair, pos]
  Input source;                                          ///< [pair, pos]
  Answers expected;                                      ///< each pair's, as texts or ids
  Position answer_at = Position::last();                 ///< in `base`: where it is answered
  std::vector<Position> positions = {Position::last()};  ///< in `base`: where something is put in
  std::vector<Position> source_positions = {};           ///< in `source`; empty: the same ones
};

/// A subspace of an activation: what an interchange puts in is a vector's part in it.
struct Subspace {
  Address place = ActivationName{};  ///< an activation [row, pos, d], or a head of one
  at::Tensor basis = {};             ///< [d, k] float64 with orthonormal columns

  /// The projection on it, [d, d].
  at::Tensor projection() const;
  /// The largest sine of an angle between vectors of this and of another subspace of the same size: 0 if they
  /// are the same. Throws ShapeError for other sizes.
  double distance(const Subspace& other) const;
};

/// The edits by which a run of these rows gets the part of `source` [row, position, d] in the subspace at
/// `positions`: block := block - P block + P source, P the projection, whatever the block is by then. Throws
/// ShapeError and HookError for what does not fit.
Edits interchange(const HookedTransformer& model, const Subspace& subspace, const at::Tensor& source,
                  const Input& base, const std::vector<Position>& positions = {Position::last()});

/// How often the model answers as it should after interchanges.
struct InterchangeReport {
  Grid correct;    ///< [row]: 1 where the likeliest token is the expected one, else 0
  Grid accuracy;   ///< its mean with Wilson's interval, without an axis
  Grid objective;  ///< [row]: the log-probability of the expected answer, in nats
};

/// Puts the sources' part in the subspace into the runs of the bases, and scores the answers: interchange
/// accuracy (Geiger et al. 2021). Throws HookError for an activation without vectors and models without
/// logits, ShapeError for a basis that is not orthonormal and pairs that do not fit.
InterchangeReport judge_interchange(const HookedTransformer& model, const InterchangePairs& pairs,
                                    const Subspace& subspace);

/// How a subspace is searched for. For designated initialisers.
struct AlignmentOptions {
  Address place = act::resid_post(0);  ///< an activation [row, pos, d], or a head of one
  std::int64_t dimensions = 1;         ///< of the subspace
  double held_out = 0.25;              ///< share of the pairs that judge it and are not learned from
  std::int64_t epochs = 30;            ///< times that each of the others is learned from
  std::int64_t pairs_per_step = 16;    ///< learned from together
  /// By how many radians a step turns a column at most, about, at first; it falls to 0 in equal steps. Adam's
  /// rate for each entry is this divided by the square root of d.
  double learning_rate = 0.05;
  std::uint64_t seed = 0;  ///< of the split, the order of pairs, and where the search starts
  at::Tensor start = {};   ///< [d, dimensions] to start from, such as directions of a probe
  std::function<bool(const SweepProgress&)> progress = nullptr;  ///< after each step; false ends the search
};

/// A subspace that was searched for.
struct Alignment {
  Subspace subspace;               ///< where the search ended
  Grid loss;                       ///< [epoch]: mean of minus the log-probability, in nats
  InterchangeReport held_out;      ///< on pairs that were not learned from
  InterchangeReport whole;         ///< on these pairs, with all of the activation put in: the most there is
  std::vector<std::int64_t> rows;  ///< the held-out pairs, ascending
  bool complete;                   ///< not ended by `progress`
};

/// Distributed alignment search (Geiger et al. 2023): the subspace of an activation that, interchanged, makes
/// the model answer as expected. A basis with orthonormal columns is learned by gradients through the runs,
/// with Adam (Kingma and Ba 2015). Throws as judge_interchange, ConfigError for options out of range, and
/// ShapeError for a start that does not fit.
Alignment align_subspace(const HookedTransformer& model, const InterchangePairs& pairs,
                         const AlignmentOptions& options = {});

}  // namespace hooked
