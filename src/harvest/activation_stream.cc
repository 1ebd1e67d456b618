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
  return with_memory(state_->runs.memory(), [&] { return state_->next(); });
}

std::optional<ActivationRows> ActivationStream::State::next() {
  for (;;) {
    if (!unit) {
      unit = queue.next();
      if (!unit) return std::nullopt;
      steps.emplace(runs, *unit, clock);
    }
    if (auto rows = steps->next()) {
      const auto& progress = runs.options().progress;
      if (progress && !progress(clock.progress())) return std::nullopt;
      return rows;
    }
    unit.reset();
  }
}

}  // namespace hooked
