#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "core/out_of_memory.h"
#include "harvest/contexts.h"
#include "hooked/harvest/activation_stream.h"

namespace hooked {

/// An activation that is harvested.
struct HarvestedName {
  ActivationName name;
  std::vector<std::int64_t> shape;  ///< of one row
  at::ScalarType dtype;             ///< that is kept

  /// `row`, and the activation's own axes.
  std::vector<std::string> axes() const;
  std::uint64_t row_bytes() const;
};

/// A unit whose documents are read and encoded.
struct PreparedUnit {
  Contexts contexts;
  std::vector<std::int64_t> kept;  ///< indices of its tokens that have rows
};

/// How the model reads a corpus: everything that HarvestOptions say, for one model and corpus.
class UnitRuns {
 public:
  /// Throws as ActivationStream does.
  UnitRuns(const HookedTransformer& model, const Corpus& corpus, const HarvestOptions& options);

  const HookedTransformer& model() const { return model_; }
  const Corpus& corpus() const { return corpus_; }
  const HarvestOptions& options() const { return options_; }
  const ContextRules& rules() const { return rules_; }
  const std::vector<HarvestedName>& names() const { return names_; }
  /// Of the activations, and of what is kept of the tokens.
  std::uint64_t row_bytes() const;

  PreparedUnit prepare(const CorpusUnit& unit) const;

  /// The end of the contexts that a run from `first` on reads.
  std::size_t run_end(const PreparedUnit& unit, std::size_t first) const;
  /// Runs the contexts [first, end): the rows that are kept of them, none if that is none.
  ActivationRows run(const PreparedUnit& unit, std::size_t first, std::size_t end) const;

  /// What preparing, running and writing need; they are not retried.
  MemoryUse memory() const;

  /// Calls `function` before each layer of later runs, where that costs nothing. What it throws ends the run.
  void call_between_layers(const std::function<void()>& function);

 private:
  void measure();
  at::Tensor rows_of(const HarvestedName& name, const at::Tensor& value, const at::Tensor& places,
                     bool all) const;

  HookedTransformer model_;
  Hooks hooks_;  // those that were attached: a copied handle has none
  Corpus corpus_;
  HarvestOptions options_;
  ContextRules rules_;
  RowRules row_rules_;
  std::vector<HarvestedName> names_;
};

/// Units one after another, each prepared by another thread while the one before is worked on.
class UnitQueue {
 public:
  UnitQueue(const UnitRuns& runs, std::vector<CorpusUnit> units);

  /// The next unit; nothing after the last one.
  std::optional<PreparedUnit> next();

 private:
  void begin();

  const UnitRuns& runs_;
  std::vector<CorpusUnit> units_;
  std::size_t begun_ = 0;
  std::future<PreparedUnit> ahead_;  // of the last unit that was begun
};

/// The time since a harvest began, and what was done.
class HarvestClock {
 public:
  /// `todo` are the units to make; `units_before` were there already.
  HarvestClock(std::vector<CorpusUnit> todo, std::int64_t units_before);

  void add_tokens(std::int64_t tokens) { tokens_ += tokens; }
  /// `share` of the unit in hand is done.
  void within_unit(double share) { within_ = share; }
  void end_unit();

  std::int64_t tokens() const { return tokens_; }
  double seconds() const;
  HarvestProgress progress() const;

 private:
  std::vector<CorpusUnit> todo_;
  std::int64_t units_before_;
  double total_ = 0, done_ = 0, within_ = 0;
  std::size_t units_ = 0;
  std::int64_t tokens_ = 0;
  std::chrono::steady_clock::time_point began_;
};

/// The runs of a unit, one after another.
class UnitSteps {
 public:
  UnitSteps(const UnitRuns& runs, const PreparedUnit& unit, HarvestClock& clock)
      : runs_(runs), unit_(unit), clock_(clock) {}

  /// The rows of the next run that keeps any; nothing after the last one.
  std::optional<ActivationRows> next();

 private:
  const UnitRuns& runs_;
  const PreparedUnit& unit_;
  HarvestClock& clock_;
  std::size_t next_context_ = 0;
};

}  // namespace hooked
