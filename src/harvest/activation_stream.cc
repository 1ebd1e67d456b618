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
  std::optional<UnitSteps> steps;
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
      if (!state.unit) return std::nullopt;
      state.steps.emplace(state.runs, *state.unit, state.clock);
    }
    if (auto rows = state.steps->next()) {
      const auto& progress = state.runs.options().progress;
      if (progress && !progress(state.clock.progress())) return std::nullopt;
      return rows;
    }
    state.unit.reset();
  }
}

}  // namespace hooked
