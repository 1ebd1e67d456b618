#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/directions/vector_places.h"
#include "hooked/analysis/probe_fits.h"
#include "hooked/engine/hooked_transformer.h"

namespace hooked {

/// Places from the `begin`-th to before the `end`-th: those that one pass over the input is about.
struct PlaceGroup {
  std::size_t begin, end;
};

/// What is done with the vectors of a stream of runs. The places of a group, in several passes if need be.
struct VectorWork {
  /// Memory that a place takes until its group is done.
  std::function<std::int64_t(std::size_t place)> bytes;
  /// Takes what a run of rows from `first` on has at the places of a group, [row, d] for each.
  std::function<void(PlaceGroup group, const std::vector<at::Tensor>& vectors, std::int64_t first)> add;
  /// All rows are there.
  std::function<void(PlaceGroup group)> finish;
};

/// How the runs went.
struct StreamEnd {
  bool complete = true;
  std::vector<std::string> notes = {};  ///< each once
};

/// The runs of an input, and with `against` the differences from those of a second one of as many rows.
struct VectorInput {
  const Input& input;
  const Input* against = nullptr;
};

/// Runs the input once for each group of places that fits DirectionOptions::most_bytes, a few rows at a time.
/// Throws MemoryError in the name of `where` for a place that does not fit alone.
StreamEnd run_vectors(const HookedTransformer& model, const VectorInput& input, const VectorPlaces& places,
                      const DirectionOptions& options, std::string_view where, const VectorWork& work);

/// The same of a cache that has all rows.
void read_vectors(const ActivationCache& cache, const VectorPlaces& places, const VectorWork& work);

}  // namespace hooked
