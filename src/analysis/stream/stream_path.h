#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/places/row_columns.h"
#include "analysis/stream/frozen_norm.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/sweep_progress.h"
#include "hooks/stream.h"

namespace hooked {

/// A run as analyses read it: its model, what it kept, and where.
struct RunReading {
  const HookedTransformer& model;
  const ActivationCache& cache;
  RowColumns columns;

  /// What was kept at the columns, [row, pos, ...] float64 on the CPU. Throws HookError if it was not kept.
  at::Tensor operator()(const Address& address) const;
  /// A norm of the stream with the scale that it had; without its bias.
  FrozenNorm frozen(const StreamNorm& norm) const;
  /// The same, also without its weight.
  FrozenNorm division(const StreamNorm& norm) const;
};

/// Where a run is read.
struct ReadAt {
  Address like;  ///< whose columns are used if the cache does not know its own
  const std::vector<Position>& positions;
};

/// A cache as a run of the model. Throws HookError for a cache of another model, and as columns_of().
RunReading reading_of(const HookedTransformer& model, const ActivationCache& cache, const ReadAt& at);

/// What one module wrote, in parts: each part is values times its own matrix.
struct Writing {
  std::vector<std::string> labels = {};             ///< one per part
  std::vector<std::optional<Address>> places = {};  ///< one per part
  std::function<at::Tensor()> values = {};          ///< [row, pos, part, width] float64
  std::function<at::Tensor()> matrix = {};          ///< [part, width, d_model] float64; none: the identity
  std::vector<FrozenNorm> through = {};             ///< norms between the module and the stream, in order
  std::optional<ActivationName> z = std::nullopt;   ///< for heads: the input of W_O, by its full name

  /// [part, row, pos, d_model]
  at::Tensor vectors() const;
  /// Directions [row, pos, direction, d_model] of the stream, carried to before those norms.
  at::Tensor before_norms(at::Tensor directions) const;
  /// Read along directions [row, pos, direction, d_model], [part, row, pos, direction]: without the vectors.
  at::Tensor along(const at::Tensor& directions) const;
};

/// One step along the stream: an optional norm of everything so far, then new writes.
struct PathStep {
  std::optional<FrozenNorm> norm = std::nullopt;
  std::vector<Writing> written = {};
};

/// The path of the stream from the embedding to an activation.
using StreamPath = std::vector<PathStep>;

/// How the writers are split.
struct Split {
  Grain grain = Grain::layer;
  ValueBiases value_biases = ValueBiases::in_heads;
};

/// The path to `of`, a full name as in ResidualOptions. Throws HookError for any other activation.
StreamPath path_to(const ActivationName& of, const Split& split, const RunReading& run);

/// Calls `use` with each writing and the directions right after the module that wrote it, the last writing
/// first. `directions` [row, pos, direction, d_model] are those at the end of the path.
void walk_back(const StreamPath& path, at::Tensor directions,
               const std::function<void(const Writing& writing, const at::Tensor& seen)>& use);

/// Calls `use` with each writing and what it wrote, carried to the end of the path, [part, row, pos,
/// d_model], one writing after another, until it returns false.
void walk_forward(const StreamPath& path,
                  const std::function<bool(const Writing& writing, const at::Tensor& vectors)>& use);

/// Appends the parts of a writing to an axis.
void append(GridAxis& axis, const Writing& writing);
/// The axis `part` of all parts of a path, with the remainder last.
GridAxis part_axis(const StreamPath& path);

/// Parts and their numbers.
struct Parts {
  GridAxis axis;      ///< `part`
  at::Tensor values;  ///< [part, row, pos, d_model or direction] float64
};

/// The parts as vectors, carried to the end of the path. `whole` [row, pos, d_model] is the stream there; the
/// remainder is `whole` minus all parts.
Parts vectors_along(const StreamPath& path, const at::Tensor& whole);
/// The parts read along directions [row, pos, direction, d_model] at the end of the path. `watch` gets the
/// number of modules that are done, and may end the work: then missing parts and the remainder are NaN.
Parts directions_along(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                       const std::function<bool(const SweepProgress&)>& watch = nullptr);

/// What the module of a write step wrote. (stream_writers.cc)
std::vector<Writing> written_by(const StreamStep& write, const Split& split, const RunReading& run);
/// One part that is the same everywhere, `vector` [d_model].
Writing constant_part(std::string label, const at::Tensor& vector, const RunReading& run);
/// One part that was kept as a vector; of a dictionary that stands there, what goes on.
Writing kept_part(std::string label, const ActivationName& name, const RunReading& run);

}  // namespace hooked
