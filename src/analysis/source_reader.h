#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "hooked/analysis/patch_source.h"
#include "hooked/hooks/address.h"

namespace hooked {

/// One row of the input of a sweep, out of so many.
struct SweptRow {
  std::int64_t number;
  std::int64_t of;
};

/// A kind of source: values of an activation for one row.
class PatchSource::Kind {
 public:
  virtual ~Kind() = default;
  /// Values that stand in place of `unpatched` [1, ...] (an expert's: [routed, ...]), or broadcast to it; a
  /// run's have its own places. Throws HookError and ShapeError.
  virtual at::Tensor values(const ActivationName& name, const at::Tensor& unpatched, SweptRow row) const = 0;
  /// The run that they come from place by place, or null, and which of its rows serves `row` where a tensor
  /// of it has so many.
  virtual const ActivationCache* run() const { return nullptr; }
  virtual std::int64_t row_of(SweptRow row, std::int64_t rows) const { return rows == 1 ? 0 : row.number; }
};

/// Where values are put and where they are taken. Indices are numbers from 0 on, or lists of these.
struct PatchedPlace {
  AxisIndices into;  ///< in the run that is patched
  AxisIndices from;  ///< in the run that values come from
};

/// An axis of an activation whose places are columns of tokens.
struct TokenAxis {
  ActivationName name;
  Axis axis;
};

/// What a source gives for one activation and one row.
class SourceReader {
 public:
  /// Of an activation that is `unpatched` in the run without patches.
  SourceReader(const PatchSource& source, const ActivationName& name, at::Tensor unpatched, SweptRow row);

  /// The values for one place, of the block's shape. Throws HookError where they do not fit.
  at::Tensor block(const PatchedPlace& place) const;

  /// The columns along an axis of positions in the run that values come from, with the mask of the one row
  /// [1, column]; nothing where no part of the source is a run.
  static std::optional<TokenColumns> columns(const PatchSource& source, const TokenAxis& axis, SweptRow row);
  /// An activation of that run's row, [1, ...]; undefined where there is none.
  static at::Tensor of_run(const PatchSource& source, const ActivationName& name, SweptRow row);

 private:
  struct Values {
    at::Tensor tensor;
    bool of_a_run;
    double share;
  };

  ActivationName name_;
  at::Tensor unpatched_;
  std::vector<Values> values_;
};

}  // namespace hooked
