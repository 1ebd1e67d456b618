#include "hooked/harvest/activation_stream.h"

#include <utility>

#include "harvest/unit_runs.h"
#include "hooked/harvest/harvest.h"

namespace hooked {

struct ActivationStream::State {
  State(const HookedTransformer& model, const Corpus& corpus, const HarvestOptions& options)
      : runs(model, corpus, options),
        units(corpus.units(StoreOptions{}.unit_tokens)),
        queue(runs, units),
        clock(units, 0) {}

  std::optional<ActivationRows> next();

  UnitRuns runs;
  std::vector<CorpusUnit> units;
  UnitQueue queue;
  HarvestClock clock;
  std::optional<PreparedUnit> unit;
  std::size_t next_context = 0;
};

ActivationStream::ActivationStream(const HookedTransformer& model, const Corpus& corpus,
                                   const HarvestOptions& options)
    : state_(std::make_unique<State>(model, corpus, options)) {}
ActivationStream::ActivationStream(ActivationStream&&) noexcept = default;
ActivationStream& ActivationStream::operator=(ActivationStream&&) noexcept = default;
ActivationStream::~ActivationStream() = default;

std::int64_t ActivationStream::tokens() const { return state_->clock.tokens(); }

std::optional<ActivationRows> ActivationStream::next() {
  return with_memory(state_->runs.memory(), [&] { return state_->next(); });
}

std::optional<ActivationRows> ActivationStream::State::next() {
  for (;;) {
    if (!unit) {
      unit = queue.next();
      next_context = 0;
      if (!unit) return std::nullopt;
    }
    const std::size_t contexts = unit->contexts.ends.size();
    if (next_context == contexts) {
      unit.reset();
      clock.end_unit();
      continue;
    }
    const std::size_t first = next_context;
    next_context = runs.run_end(*unit, first);
    ActivationRows rows = runs.run(*unit, first, next_context);
    if (rows.rows() == 0) continue;
    clock.add_tokens(
        static_cast<std::int64_t>(unit->contexts.ends[next_context - 1] - unit->contexts.begin(first)));
    clock.within_unit(static_cast<double>(next_context) / static_cast<double>(contexts));
    const auto& progress = runs.options().progress;
    if (progress && !progress(clock.progress())) return std::nullopt;
    return rows;
  }
}

}  // namespace hooked
