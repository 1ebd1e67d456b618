// Generations: step by step by whole runs over the tokens so far.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hooked/engine/generate_options.h"
#include "tests/combinations/comparison.h"
#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

using reference::PlainRun;

/// Logits so close that rounding may decide which is the largest.
constexpr double kTie = 1e-6;

/// The steps of a generation in which a change applies.
struct Steps {
  bool prompt, new_tokens;
};

/// A generation of one row.
class RowGeneration {
 public:
  RowGeneration(const Subject& subject, const Row& prompt)
      : subject_(subject), row_(prompt), prompt_(prompt.width) {}

  void run() {
    const Generation& generation = subject_.combination().generation;
    for (std::int64_t step = 0; step < generation.tokens; ++step) {
      run_ = subject_.oracle().run(row_, changes());
      const double* logits = run_.logits.row(run_.logits.size(1) - 1);
      const double* best = std::max_element(logits, logits + run_.logits.last());
      double total = 0.0, second = -INFINITY;
      for (const double* logit = logits; logit != logits + run_.logits.last(); ++logit) {
        total += std::exp(*logit - *best);
        if (logit != best) second = std::max(second, *logit);
      }
      tied = tied || *best - second < kTie;
      log_probs.push_back(-std::log(total));
      row_.tokens.push_back(best - logits);
      row_.columns.push_back(row_.width++);
    }
    run_ = subject_.oracle().run(row_, changes());
  }

  const Row& row() const { return row_; }
  const PlainRun& last_run() const { return run_; }

  std::vector<double> log_probs;
  bool tied = false;

 private:
  /// All changes, each in the steps in which it applies.
  std::vector<reference::Change> changes() const {
    const Combination& c = subject_.combination();
    std::vector<reference::Change> all;
    const auto add = [&](const std::vector<Change>& given, Steps steps) {
      for (std::int64_t width = prompt_; width <= row_.width; ++width) {
        if (width == prompt_ ? !steps.prompt : !steps.new_tokens) continue;
        // The step decides what an index means: its last column is the newest one.
        Row step = row_;
        step.width = width;
        step.first_changed = width == prompt_ ? 0 : width - 1;
        step.end_changed = width;
        step.columns.resize(static_cast<std::size_t>(
            std::ranges::count_if(step.columns, [width](std::int64_t column) { return column < width; })));
        const std::int64_t newest = step.columns.back();
        step.columns = row_.columns;
        step.last_column = newest;
        for (reference::Change& change : subject_.oracle().changes_of(given, step, nowhere_))
          all.push_back(change);
      }
    };
    add(c.changes, {true, true});
    add(c.generation.prompt_changes, {true, false});
    add(c.generation.new_token_changes, {false, true});
    return all;
  }

  const Subject& subject_;
  Row row_;
  std::int64_t prompt_;
  PlainRun run_, nowhere_;
};

}  // namespace

void compare_generation(const Subject& subject, Comparison& comparison) {
  const Combination& c = subject.combination();
  const Subject::Attached handle = subject.attached(c.changes);
  GenerateOptions options{.max_new_tokens = c.generation.tokens,
                          .sampling = {.greedy = true},
                          .stop = {.tokens = std::vector<std::int64_t>{}},
                          .hooks = subject.hooks(c.changes, Said::hook),
                          .edits = subject.edits(c.changes),
                          .prompt_edits = subject.edits(c.generation.prompt_changes),
                          .new_token_edits = subject.edits(c.generation.new_token_changes)};
  for (const Where& read : c.reads) options.capture = options.capture | target_of(read).where;
  if (c.less.kept.given()) options.keep.positions = index_of(c.less.kept);
  const GenerateResult result = handle.model.generate(subject.whole(subject.rows()), options);
  // Keys that were rotated for a shorter row stay as they are in a generation.
  const RotaryPositions* rotary = subject.config().rotary();
  if (rotary != nullptr && (std::holds_alternative<DynamicScaling>(rotary->scaling) ||
                            std::holds_alternative<LongropeScaling>(rotary->scaling))) {
    return;
  }

  std::vector<Row> rows;
  std::vector<PlainRun> runs;
  Array tokens({c.rows(), c.generation.tokens}), log_probs(tokens.shape);
  for (const Row& prompt : subject.rows()) {
    RowGeneration generation(subject, prompt);
    generation.run();
    if (generation.tied) return;
    for (std::int64_t i = 0; i < c.generation.tokens; ++i) {
      const auto at = static_cast<std::size_t>(i);
      tokens(prompt.index, i) = static_cast<double>(generation.row().tokens[prompt.tokens.size() + at]);
      log_probs(prompt.index, i) = generation.log_probs[at];
    }
    rows.push_back(generation.row());
    runs.push_back(generation.last_run());
  }
  comparison.expect("new tokens", result.tokens.narrow(1, c.columns(), c.generation.tokens), tokens);
  comparison.expect("log_probs", result.log_probs, log_probs);
  Held held = all_columns(rows);
  if (c.less.kept.given()) {
    for (const Row& row : rows) {
      auto& columns = held[static_cast<std::size_t>(row.index)];
      columns = resolved(c.less.kept, row.width, row.last());
      // A generation keeps them as they come: the prompt's in the order asked for, then one by one.
      std::ranges::stable_sort(columns, {},
                               [&](std::int64_t column) { return std::max(column, c.columns() - 1); });
    }
  }
  for (const Where& read : c.reads) {
    for (const std::int64_t layer : layers_of(read, subject.config())) {
      const ActivationName name = name_in(read, layer);
      Where one = read;
      one.layer = layer;
      comparison.expect(one.to_string(), result.cache[address_of(read, layer)],
                        block_of(read, name, rows, runs, held));
    }
  }
}

}  // namespace hooked::combinations
