#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hooked/hooks/activation_cache.h"

namespace hooked {

/// The columns of the run that made a cache, along a position axis of one of its activations: those of the
/// encoder or of the stack that predicts. Nothing if the cache was not made by a run.
const std::optional<TokenColumns>& tokens_along(const ActivationCache& cache, const ActivationName& name,
                                                Axis axis);

/// Whether the places on an axis of activations are columns of tokens.
bool counts_tokens(Axis axis);

/// Which columns of a sequence a cache's entry holds, along its pos, source or query axis.
///
/// An address means columns of the sequence. This is the one place that maps them to places in the tensor.
class HeldColumns {
 public:
  HeldColumns(const ActivationCache& cache, const ActivationCache::Entry& entry);

  /// Whether each column is its own place: all are held, from 0 on and in order.
  bool all() const;
  /// Whether all columns that the run computed are held, in order; earlier ones belong to its prefix.
  bool all_of_the_run() const;
  /// The places of columns [row or 1, column] int64 on the CPU, [row, column]; -1 for columns that are not
  /// held.
  at::Tensor places(const at::Tensor& columns) const;
  /// The block that `indices` pick. `last` means the column `last` of each row, [batch] int64; undefined:
  /// each row's last real token. Throws HookError for a column that is not held or out of range, and if the
  /// end of the sequence is asked for but unknown.
  at::Tensor block(const AxisIndices& indices, const at::Tensor& last = {}) const;
  /// The columns as text: `2, 3, 4`.
  std::string text() const;

 private:
  /// Indices translated to places in the value.
  struct Places {
    AxisIndices indices;
    at::Tensor last = {};  ///< each row's own, [batch] int64, if an index is `last`
    /// The same if rows hold several columns at places of their own, one entry per column: the index of their
    /// axis is `last` then.
    std::vector<at::Tensor> each = {};
  };

  std::int64_t batch() const { return entry_.held.sizes().front(); }
  /// [row or 1, held] on the CPU.
  at::Tensor held() const;
  Places places_of(const AxisIndices& indices, const at::Tensor& last) const;
  /// The columns that an index (not `last`) means: [1, column].
  at::Tensor columns_of(const AxisIndex& index, const std::string& where) const;
  /// Each row's last real token, [row].
  at::Tensor last_of_rows(const std::string& where) const;
  /// Throws for the first column that has no place in these rows.
  void require_held(const at::Tensor& places, const at::Tensor& columns,
                    const std::vector<std::int64_t>& rows, const std::string& where) const;

  const ActivationCache::Entry& entry_;
  std::optional<Axis> axis_;  ///< the one that counts columns
  const std::optional<TokenColumns>& tokens_;
};

}  // namespace hooked
