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
  State& state = *state_;
  for (;;) {
    if (!state.unit) {
      state.unit = state.queue.next();
      state.next_context = 0;
      if (!state.unit) return std::nullopt;
    }
    const std::size_t contexts = state.unit->contexts.ends.size();
    if (state.next_context == contexts) {
      state.unit.reset();
      state.clock.end_unit();
      continue;
    }
    const std::size_t first = state.next_context;
    state.next_context = state.runs.run_end(*state.unit, first);
    ActivationRows rows = state.runs.run(*state.unit, first, state.next_context);
    if (rows.rows() == 0) continue;
    state.clock.add_tokens(static_cast<std::int64_t>(state.unit->contexts.ends[state.next_context - 1] -
                                                     state.unit->contexts.begin(first)));
    state.clock.within_unit(static_cast<double>(state.next_context) / static_cast<double>(contexts));
    const auto& progress = state.runs.options().progress;
    if (progress && !progress(state.clock.progress())) return std::nullopt;
    return rows;
  }
}

}  // namespace hooked
