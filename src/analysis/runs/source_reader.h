#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/patch_source.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/address.h"

namespace hooked {

/// One row of the input of a sweep, out of so many.
struct SweptRow {
  std::int64_t number;
  std::int64_t of;
  /// Columns of padding behind the row's last token that its patched runs do without.
  std::int64_t without = 0;
};

/// A kind of source: values of an activation for one row.
class PatchSource::Kind {
 public:
  virtual ~Kind() = default;
  /// Values that stand in place of `unpatched` [1, ...] (an expert's: [routed, ...]), or broadcast to it; a
  /// run's have its own places; undefined where there are none. Throws HookError and ShapeError.
  virtual at::Tensor values(const ActivationName& name, const at::Tensor& unpatched, SweptRow row) const = 0;
  /// The run that they come from place by place, or null, and which of its rows serves `row` where a tensor
  /// of it has so many.
  virtual const ActivationCache* run() const { return nullptr; }
  /// The cache that values come from in any way, or null.
  virtual const ActivationCache* data() const { return run(); }
  virtual std::int64_t row_of(SweptRow row, std::int64_t rows) const { return rows == 1 ? 0 : row.number; }
  /// One text for all that it gives at these activations; the description says the rest.
  virtual std::string fingerprint(const std::vector<ActivationName>& names) const = 0;
};

/// The scores from which the pattern of that name is made; nothing for other activations.
std::optional<ActivationName> scores_behind(const ActivationName& name);

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

/// A token that an expert gets.
struct RoutedToken {
  std::int64_t column;  ///< of its row
  std::int64_t number;  ///< among all tokens of the expert: by rank, then row and column
};

/// The tokens of a row that an expert gets, of hook_expert_indices [row, pos, rank]. Padding meets no expert.
std::vector<RoutedToken> tokens_of_expert(const at::Tensor& indices, const TokenColumns& columns,
                                          std::int64_t row, std::int32_t expert);

/// Throws HookError where nothing says what is patched in, and for values of another model.
void require_source(const PatchSource& source, const HookedTransformer& model);
/// The title of what is patched, with what it becomes: `Patching z with zeros`.
std::string titled(std::string_view what, const PatchSource& source);

/// What a source gives for one activation and one row.
class SourceReader {
 public:
  /// The caches that it reads. Throws HookError where nothing says what is patched in.
  static std::vector<const ActivationCache*> caches(const PatchSource& source);
  /// Of an activation that is `unpatched` in the run without patches. Keys that are `masked` there, bool and
  /// like it, stay as they are, and so do scores of -inf.
  SourceReader(const PatchSource& source, const ActivationName& name, at::Tensor unpatched, SweptRow row,
               at::Tensor masked = {});

  /// The values for one place, of the block's shape. Throws HookError where they do not fit.
  at::Tensor block(const PatchedPlace& place) const;

  /// Whether there are values: no token may have met an expert in the data of a mean.
  bool has_values() const noexcept { return !values_.empty(); }

  /// The row of a run that values come from.
  struct RowOfRun {
    TokenColumns columns;  ///< along the axis asked for, of all rows
    std::int64_t rows, row;
  };
  /// The columns along an axis of positions; nothing where no part of the source is a run. Throws HookError
  /// for a mixture of runs whose tokens stand in different columns.
  static std::optional<RowOfRun> columns(const PatchSource& source, const TokenAxis& axis, SweptRow row);
  /// One text for what a source puts in at these activations, as far as it has them.
  static std::string record(const PatchSource& source, const std::vector<ActivationName>& names);
  /// The tokens of that row that an expert got there; nothing where no part of the source is a run.
  static std::optional<std::vector<RoutedToken>> routed(const PatchSource& source,
                                                        const ActivationName& expert, SweptRow row);

 private:
  struct Values {
    at::Tensor tensor;
    bool of_a_run;
    double share;
  };

  ActivationName name_;
  at::Tensor unpatched_;
  at::Tensor masked_;  ///< undefined: every place can be patched
  std::vector<Values> values_;
};

/// What a source gives for all of an activation in some rows, [row, ...] beside `unpatched` [row, ...]; that
/// itself where there are no values. Throws as SourceReader does.
at::Tensor whole_values(const PatchSource& source, const ActivationName& name, const at::Tensor& unpatched,
                        const std::vector<SweptRow>& rows);

}  // namespace hooked
