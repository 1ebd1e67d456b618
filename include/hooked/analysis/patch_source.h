#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/hooks/activation_cache.h"

namespace HOOKED_EXPORT hooked {

/// What the mean of activations over a data set is taken over.
enum class MeanOver : std::uint8_t {
  rows,                ///< each column has its own mean, as in Wang et al. 2022; prompts must be aligned
  rows_and_positions,  ///< all columns share one mean; not for scores and patterns
};

/// What patched places become: the values of another run, zeros, a mean, other prompts, or a mixture.
///
///     {.from = model.run_with_cache(clean).cache}
///     {.from = PatchSource::mean(model.run_with_cache(many_prompts).cache, MeanOver::rows)}
class PatchSource {
 public:
  /// Nothing yet; every analysis refuses it.
  PatchSource();
  /// The values of another run: row i's for row i of the input, or those of its only row for every row. All
  /// positions must have been kept.
  PatchSource(ActivationCache run);  // NOLINT: a run is where values come from
  /// The same with your own name, for titles: `the clean run`.
  static PatchSource run(ActivationCache run, std::string name);
  /// Zeros.
  static PatchSource zero();
  /// This number everywhere.
  static PatchSource value(double number);
  /// This tensor, broadcast to the activation [1, ...]: a direction [d_model] at every position.
  static PatchSource value(at::Tensor tensor);
  /// The mean over the rows of a run, or over its rows and positions. Padding does not count; for scores and
  /// patterns, each query and key is averaged over the rows in which both are tokens. When it is used it
  /// throws HookError for activations that were not kept, for scores and patterns over positions, and if no
  /// row has a column, or both a query and a key.
  static PatchSource mean(ActivationCache data, MeanOver over);
  /// For each row of the input, the values of a row of `data` drawn at random ("resample ablation"): the same
  /// row for all places of a sweep, and the same rows for the same seed.
  static PatchSource resampled(ActivationCache data, std::uint64_t seed);
  /// (1 - share) * one + share * other. Throws ShapeError for a share that is not finite.
  static PatchSource mixture(const PatchSource& one, const PatchSource& other, double share);

  /// What it is, in words, for titles: `zeros`, `the mean over 32 rows, by position`.
  const std::string& description() const& noexcept { return description_; }
  /// The same of a temporary, as a copy.
  std::string description() const&& { return description_; }

  class Kind;  ///< what a source may be, for its implementation

 private:
  friend class SourceReader;
  /// One term of the sum.
  struct Term {
    std::shared_ptr<const Kind> kind;
    double share;
  };

  PatchSource(std::shared_ptr<const Kind> kind, std::string description);
  const std::vector<Term>& terms() const&;

  std::vector<Term> terms_;
  std::string description_;
};

}  // namespace hooked
