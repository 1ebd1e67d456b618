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
  rows,                ///< each column has a mean of its own, as in Wang et al. 2022; prompts are aligned
  rows_and_positions,  ///< all columns have the same one; not of scores and patterns
};

/// What patched places become: the values of another run, zeros, a mean, other prompts, or a mixture.
///
///     {.from = model.run_with_cache(clean).cache}
///     {.from = PatchSource::mean(model.run_with_cache(many_prompts).cache, MeanOver::rows)}
class PatchSource {
 public:
  /// Nothing yet, which every analysis refuses.
  PatchSource();
  /// The values of another run: row i's for row i of the input, or its one row's for every row. All positions
  /// must have been kept.
  PatchSource(ActivationCache run);  // NOLINT: a run is where values come from
  /// The same under a name of your own, for titles: `the clean run`.
  static PatchSource run(ActivationCache run, std::string name);
  /// Zeros.
  static PatchSource zero();
  /// This number everywhere.
  static PatchSource value(double number);
  /// This tensor, broadcast to the activation [1, ...]: a direction [d_model] at every position.
  static PatchSource value(at::Tensor tensor);
  /// The mean over the rows of a run, or over its rows and positions. Padding does not count; of scores and
  /// patterns each query and key is over the rows in which both are tokens. Throws HookError, when it is
  /// used, for activations that were not kept, for scores and patterns over positions, and where no row has a
  /// column, or a query and a key together.
  static PatchSource mean(ActivationCache data, MeanOver over);
  /// The values of a row of `data` that is drawn for each row of the input ("resample ablation"): the same
  /// row for all places of a sweep, the same rows for the same seed.
  static PatchSource resampled(ActivationCache data, std::uint64_t seed);
  /// (1 - share) * one + share * other. Throws ShapeError for a share that is not finite.
  static PatchSource mixture(const PatchSource& one, const PatchSource& other, double share);

  /// What it is, in words, as titles have it: `zeros`, `the mean over 32 rows, by position`.
  const std::string& description() const& noexcept { return description_; }
  /// The same of a temporary, as a copy.
  std::string description() const&& { return description_; }

  class Kind;  ///< what a source may be, for its implementation

 private:
  friend class SourceReader;
  /// One of what is added up.
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
