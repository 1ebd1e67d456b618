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

/// One row of the input of a sweep, and the number of rows.
struct SweptRow {
  std::int64_t number;
  std::int64_t of;
  /// Columns of padding after the row's last token that its patched runs omit.
  std::int64_t without = 0;
};

/// A kind of source: values of an activation for one row.
class PatchSource::Kind {
 public:
  virtual ~Kind() = default;
  /// Values that replace `unpatched` [1, ...] (an expert's: [routed, ...]), or broadcast to it; those of a
  /// run are at its own places; undefined if there are none. Throws HookError and ShapeError.
  virtual at::Tensor values(const ActivationName& name, const at::Tensor& unpatched, SweptRow row) const = 0;
  /// The run that the values come from place by place, or null, and which of its rows serves `row` if a
  /// tensor of it has this many.
  virtual const ActivationCache* run() const { return nullptr; }
  /// The cache that values come from in any way, or null.
  virtual const ActivationCache* data() const { return run(); }
  virtual std::int64_t row_of(SweptRow row, std::int64_t rows) const { return rows == 1 ? 0 : row.number; }
  /// A text that identifies the values for these activations, together with the description.
  virtual std::string fingerprint(const std::vector<ActivationName>& names) const = 0;
};

/// The scores from which the pattern of that name is computed; nothing for other activations.
std::optional<ActivationName> scores_behind(const ActivationName& name);

/// Where values are put and where they are taken from. Indices are numbers from 0 on, or lists of these.
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

/// The tokens of a row that an expert gets, from hook_expert_indices [row, pos, rank], without padding.
std::vector<RoutedToken> tokens_of_expert(const at::Tensor& indices, const TokenColumns& columns,
                                          std::int64_t row, std::int32_t expert);

/// Throws HookError for a missing source, and for values of another model.
void require_source(const PatchSource& source, const HookedTransformer& model);
/// The title of what is patched, with what it becomes: `Patching z with zeros`.
std::string titled(std::string_view what, const PatchSource& source);

/// A source's values for one activation and one row.
class SourceReader {
 public:
  /// The caches that it reads. Throws HookError for a missing source.
  static std::vector<const ActivationCache*> caches(const PatchSource& source);
  /// For an activation that is `unpatched` in the run without patches. Keys that are `masked` there, bool and
  /// of its shape, stay as they are, and so do scores of -inf.
  SourceReader(const PatchSource& source, const ActivationName& name, at::Tensor unpatched, SweptRow row,
               at::Tensor masked = {});

  /// The values for one place, of the block's shape. Throws HookError if they do not fit.
  at::Tensor block(const PatchedPlace& place) const;

  /// Whether there are values: in the data of a mean an expert may have got no token.
  bool has_values() const noexcept { return !values_.empty(); }

  /// Which places on the last axis have a value other than 0 somewhere, bool; undefined: there are no values.
  at::Tensor not_zero() const;

  /// The row of a run that values come from.
  struct RowOfRun {
    TokenColumns columns;  ///< along the axis asked for, of all rows
    std::int64_t rows, row;
  };
  /// The columns along an axis of positions; nothing if no part of the source is a run. Throws HookError for
  /// a mixture of runs whose tokens are in different columns.
  static std::optional<RowOfRun> columns(const PatchSource& source, const TokenAxis& axis, SweptRow row);
  /// A text that identifies what a source puts in at these activations, as far as it has them.
  static std::string record(const PatchSource& source, const std::vector<ActivationName>& names);
  /// The tokens of that row that an expert got there; nothing if no part of the source is a run.
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

/// A source's values for all of an activation in some rows, [row, ...], like `unpatched` [row, ...]; without
/// values, `unpatched` itself. Throws as SourceReader does.
at::Tensor whole_values(const PatchSource& source, const ActivationName& name, const at::Tensor& unpatched,
                        const std::vector<SweptRow>& rows);

}  // namespace hooked
