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

  /// What was kept at the columns, [row, pos, ...] float64 on the CPU. Throws HookError where it was not.
  at::Tensor operator()(const Address& address) const;
  /// A norm of the stream with the scale that it had; without its bias.
  FrozenNorm frozen(const StreamNorm& norm) const;
  /// The same without its weight, too.
  FrozenNorm division(const StreamNorm& norm) const;
};

/// Where a run is read.
struct ReadAt {
  Address like;  ///< whose columns count where nothing says which there are
  const std::vector<Position>& positions;
};

/// A cache as that of a run of the model. Throws HookError for a cache of another model, and as columns_of().
RunReading reading_of(const HookedTransformer& model, const ActivationCache& cache, const ReadAt& at);

/// What one module wrote, in parts: each part is values times a matrix of its own.
struct Writing {
  std::vector<std::string> labels = {};             ///< one per part
  std::vector<std::optional<Address>> places = {};  ///< one per part
  std::function<at::Tensor()> values = {};          ///< [row, pos, part, width] float64
  std::function<at::Tensor()> matrix = {};          ///< [part, width, d_model] float64; none: the identity
  std::vector<FrozenNorm> through = {};             ///< norms between the module and the stream, in order
  std::optional<ActivationName> z = std::nullopt;   ///< of heads: what W_O reads, by its full name

  /// [part, row, pos, d_model]
  at::Tensor vectors() const;
  /// Directions [row, pos, direction, d_model] of the stream as they stand before those norms.
  at::Tensor before_norms(at::Tensor directions) const;
  /// Along directions [row, pos, direction, d_model], [part, row, pos, direction]: without the vectors.
  at::Tensor along(const at::Tensor& directions) const;
};

/// One step along the stream: an optional norm of everything so far, then new writes.
struct PathStep {
  std::optional<FrozenNorm> norm = std::nullopt;
  std::vector<Writing> written = {};
};

/// The way of the stream from the embedding to an activation.
using StreamPath = std::vector<PathStep>;

/// How the writers are split.
struct Split {
  Grain grain = Grain::layer;
  ValueBiases value_biases = ValueBiases::in_heads;
};

/// The way to `of`, a full name as ResidualOptions has it. Throws HookError where it is none of these.
StreamPath path_to(const ActivationName& of, const Split& split, const RunReading& run);

/// Calls `use` with each writing and the directions as they stand behind the module that wrote it, the last
/// writing first. `directions` [row, pos, direction, d_model] stand at the end of the path.
void walk_back(const StreamPath& path, at::Tensor directions,
               const std::function<void(const Writing& writing, const at::Tensor& seen)>& use);

/// Calls `use` with each writing and what it wrote as it stands at the end of the path, [part, row, pos,
/// d_model], one writing after the other, until it gives false.
void walk_forward(const StreamPath& path,
                  const std::function<bool(const Writing& writing, const at::Tensor& vectors)>& use);

/// Puts the parts of a writing on an axis.
void append(GridAxis& axis, const Writing& writing);
/// The axis `part` of all parts of a path, with the remainder behind them.
GridAxis part_axis(const StreamPath& path);

/// Parts and their numbers.
struct Parts {
  GridAxis axis;      ///< `part`
  at::Tensor values;  ///< [part, row, pos, d_model or direction] float64
};

/// The parts as vectors, carried to the end of the path. `whole` [row, pos, d_model] is what stands there:
/// what it has besides is the remainder.
Parts vectors_along(const StreamPath& path, const at::Tensor& whole);
/// The parts read along directions [row, pos, direction, d_model] at the end of the path. `watch` is told how
/// many modules are done, and may end the work: NaN stands for what is missing then, and for the remainder.
Parts directions_along(const StreamPath& path, const at::Tensor& whole, const at::Tensor& directions,
                       const std::function<bool(const SweepProgress&)>& watch = nullptr);

/// What the module of a write step wrote. (stream_writers.cc)
std::vector<Writing> written_by(const StreamStep& write, const Split& split, const RunReading& run);
/// One part that is the same everywhere, `vector` [d_model].
Writing constant_part(std::string label, const at::Tensor& vector, const RunReading& run);
/// One part that was kept as a vector.
Writing kept_part(std::string label, const Address& address, const RunReading& run);

}  // namespace hooked
