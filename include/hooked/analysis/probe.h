#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "hooked/analysis/linear_fit.h"
#include "hooked/analysis/metric.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/edit.h"
#include "hooked/io/overwrite.h"
#include "hooked/io/provenance.h"

namespace HOOKED_EXPORT hooked {

/// How a probe was fitted, and how well it does.
struct ProbeFacts {
  std::string method = {};         ///< `ridge`, `logistic`, `mean difference`, `components`, `contrast`
  double penalty = 0;              ///< alpha of ridge, C of logistic regression
  std::int64_t rows = 0;           ///< vectors that it was fitted to
  std::int64_t held_out_rows = 0;  ///< other vectors that it was tried on
  double held_out_accuracy = 0;    ///< the share of these that it says right
  std::uint64_t seed = 0;          ///< of the split
  bool converged = true;           ///< LinearFit::converged
};

/// Directions of an activation, with what they were fitted to: a linear probe, a difference of means,
/// components. A value; keeps no model alive.
///
/// It belongs to one model, in one basis: the same model with other weights, also with other processing
/// steps, is another one, and its runs refuse the edits. A direction's length does not matter to an edit:
/// steer() and project_out() use unit vectors, so that steering by 3 raises measure() by 3.
///
///     const auto probe = fit_probes(model, input, labels).probes.back();
///     model.run(input, {.edits = probe.steer(model, 4)});
struct Probe {
  LinearFit fit;                          ///< its outputs are directions and numbers
  std::vector<std::string> classes = {};  ///< names of the classes; empty: outputs are numbers
  Address place = ActivationName{};  ///< the activation: `blocks.1.hook_resid_post`, of a head with its index
  std::string position = {};         ///< label of the position at which it was fitted; empty: several
  Provenance origin = {};            ///< the model, its fingerprint, and the processing it had
  ProbeFacts facts = {};             ///< how it was fitted

  /// An output's direction, of length 1, [d] float64. Throws ShapeError for an output that it does not have,
  /// and for one whose weights are all 0.
  at::Tensor direction(std::int64_t output = 0) const;

  /// Adds `by` along an output's direction, at all positions of the place, or at `where`, a block of the same
  /// activation: `probe.place.pos(-1)`. Throws as direction() and require_fits(), HookError for another
  /// activation.
  Edit steer(const HookedTransformer& model, double by, std::int64_t output = 0) const;
  /// The same at a block.
  Edit steer(const HookedTransformer& model, double by, std::int64_t output, const Address& where) const;
  /// Removes what the outputs read: an edit for each of their directions, made orthogonal to one another.
  Edits project_out(const HookedTransformer& model) const;
  /// The same at a block.
  Edits project_out(const HookedTransformer& model, const Address& where) const;

  /// The activation along an output's direction, as a score of each row.
  Metric measure(Position position = Position::last(), std::int64_t output = 0) const;
  /// An output, with its weights' length and intercept, as a score of each row.
  Metric score(Position position = Position::last(), std::int64_t output = 0) const;

  /// Throws HookError unless it was fitted to this model with these weights.
  void require_fits(const HookedTransformer& model) const;
  /// The same directions for another model whose activation has the same size: declares that this is meant.
  /// Throws HookError if the model does not have the activation, or has it in another size.
  Probe assigned_to(const HookedTransformer& model) const;

  /// Writes a safetensors file of `weight` and `intercept`; the rest is in its metadata. Throws IoError for
  /// another ending, and for an existing file that `overwrite` does not allow to replace.
  void save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours) const;
  /// Throws what saving would throw about the file: for a check before long work.
  static void require_can_save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);
  /// Reads what save() wrote, bit for bit. Throws IoError, and CheckpointError naming what is wrong.
  static Probe load(const std::filesystem::path& file);
};

}  // namespace hooked
