#include "analysis/directions/vector_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/runs/row_runs.h"
#include "analysis/runs/standing_edits.h"
#include "analysis/runs/sweep_input.h"
#include "hooked/core/error.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

/// Neighbouring places that fit the memory together.
std::vector<PlaceGroup> groups_of(const VectorPlaces& places, std::int64_t most, std::string_view where,
                                  const VectorWork& work) {
  std::vector<PlaceGroup> groups;
  std::int64_t taken = 0;
  for (std::size_t place = 0; place < places.size(); ++place) {
    const std::int64_t bytes = work.bytes(place);
    if (bytes > most) {
      throw MemoryError(
          where,
          fmt::format("what is kept of {} takes more than is allowed; expected at most {} bytes, got "
                      "{}; raise most_bytes, or take fewer rows or a smaller held-out share (ridge and "
                      "mean differences keep nothing of the rows that they are fitted to)",
                      places.all()[place].place.to_string(), most, bytes));
    }
    if (groups.empty() || taken + bytes > most) {
      groups.push_back({place, place});
      taken = 0;
    }
    groups.back().end = place + 1;
    taken += bytes;
  }
  return groups;
}

std::vector<at::Tensor> read_group(const ActivationCache& cache, const VectorPlaces& places, PlaceGroup group,
                                   std::int64_t first, std::int64_t count) {
  std::vector<at::Tensor> vectors;
  for (std::size_t place = group.begin; place < group.end; ++place)
    vectors.push_back(places.read(cache, place, first, count));
  return vectors;
}

}  // namespace

StreamEnd run_vectors(const HookedTransformer& model, const VectorInput& input, const VectorPlaces& places,
                      const DirectionOptions& options, std::string_view where, const VectorWork& work) {
  const auto groups = groups_of(places, options.most_bytes, where, work);
  const std::int64_t all = places.rows() * static_cast<std::int64_t>(groups.size());
  const PointIndex points(model.config());
  StreamEnd end;
  std::int64_t before = 0;
  for (const PlaceGroup group : groups) {
    RunOptions run = options.run;
    run.output = Output::none;
    run.capture = places.activations(group.begin, group.end);
    const std::function<bool(const SweepProgress&)> watch = [&](const SweepProgress& of_pass) {
      if (!options.progress) return true;
      SweepProgress whole = of_pass;
      whole.done += before;
      whole.total = all;
      return options.progress(whole);
    };
    std::int64_t next = 0;  // if memory runs out, the same rows come again
    const RowRuns made =
        run_rows(model, input.input, run, where, watch, [&](const Input& some, const RunResult& result) {
          const std::int64_t count = some.batch();
          auto vectors = read_group(result.cache, places, group, next, count);
          if (input.against != nullptr) {
            const SweepInput others(model, *input.against, where);
            RunOptions own = run;
            if (!run.edits.empty()) own.edits = edits_of_row(run.edits, points, others.row(next));
            const RunResult other = model.run(others.of_rows(next, next + count), own);
            const auto theirs = read_group(other.cache, places, group, next, count);
            for (std::size_t i = 0; i < vectors.size(); ++i) vectors[i] = vectors[i] - theirs[i];
          }
          work.add(group, vectors, next);
          next += count;
        });
    for (const std::string& note : made.notes) {
      if (std::ranges::find(end.notes, note) == end.notes.end()) end.notes.push_back(note);
    }
    if (!made.complete) {
      end.complete = false;
      return end;
    }
    work.finish(group);
    before += places.rows();
  }
  return end;
}

void read_vectors(const ActivationCache& cache, const VectorPlaces& places, const VectorWork& work) {
  for (std::size_t place = 0; place < places.size(); ++place) {
    const PlaceGroup one{place, place + 1};
    work.add(one, read_group(cache, places, one, 0, places.rows()), 0);
    work.finish(one);
  }
}

}  // namespace hooked
