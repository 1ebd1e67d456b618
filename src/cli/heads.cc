// hooked heads: where heads look.
#include "hooked/analysis/heads.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/edit_options.h"
#include "cli/grid_output.h"
#include "cli/input_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "hooked/analysis/repetition.h"

namespace hooked::cli {
namespace {

/// What heads are scored on.
struct Scored {
  Input input;
  std::optional<RepetitionScores> repetition;  ///< of random tokens
};

RepeatedTokensOptions repeated_tokens(const HookedTransformer& model, const HeadsOptions& options) {
  auto repeated = repeated_tokens_of(model);
  repeated.rows = options.rows;
  repeated.half = options.half;
  repeated.seed = options.seed;
  return repeated;
}

Scored scored_input(const HookedTransformer& model, const HeadsOptions& options) {
  if (options.half == 0) return {read_input(options.input, model).input, std::nullopt};
  const auto repeated = repeated_tokens(model, options);
  const auto tokens = repeated_random_tokens(repeated);
  return {tokens, repetition_scores(model, repeated, {.edits = read_edits(options.edits, model, tokens)})};
}

std::vector<std::string> scores_of(const HeadsOptions& options) {
  if (!options.scores.empty()) return options.scores;
  if (options.half > 0) return {"previous_token", "duplicate_token", "induction"};
  if (options.of == "cross") return {"first_token", "entropy"};
  return {"previous_token", "current_token", "first_token"};
}

HeadScoreOptions score_options(const HeadsOptions& options, const Input& input) {
  HeadScoreOptions how{.exclude_bos = options.exclude_bos,
                       .exclude_current_token = options.exclude_current_token,
                       .rows = options.per_row ? HeadRows::each : HeadRows::mean};
  if (options.measure != "share")
    how.measure = options.measure == "mul" ? HeadMeasure::mul : HeadMeasure::abs;
  if (options.of == "cross") how.site = act::cross_pattern;
  if (options.of == "encoder") how.stack = Stack::encoder;
  how.tokens = options.of == "encoder" ? input.tokens : input.main_tokens();
  return how;
}

struct NamedScores {
  std::string name;
  Grid grid;
};

std::vector<NamedScores> scores_of_heads(const HookedTransformer& model, const HeadsOptions& options,
                                         const Input& input) {
  const auto how = score_options(options, input);
  const auto run = model.run_with_cache(
      input, how.site, {.edits = read_edits(options.edits, model, input), .output = Output::none});
  print_notes(run.notes);
  std::vector<NamedScores> scores;
  for (const std::string& name : scores_of(options)) {
    const auto& row = head_score_row(name);
    HeadScoreOptions own = how;
    if (row.kind == HeadScoreKind::spread) own.measure = HeadMeasure::share;
    scores.push_back({name, head_scores(run.cache, row.score, own)});
  }
  return scores;
}

// The mean over rows of each half.
std::pair<double, double> halves(const Grid& scores) {
  const Grid mean = scores.mean("row");
  return {mean.at({0}), mean.at({1})};
}

void print_repetition(const RepetitionScores& scores, const HeadsOptions& options) {
  const auto [loss_once, loss_again] = halves(scores.loss);
  const auto [right_once, right_again] = halves(scores.accuracy);
  fmt::print("{} rows of {} random tokens said twice\n", options.rows, options.half);
  Table table({{""}, {"loss (nats)", Align::right}, {"predicted right", Align::right}});
  table.add({"first half", fmt::format("{:.4f}", loss_once), fmt::format("{:.1f} %", 100 * right_once)});
  table.add({"second half", fmt::format("{:.4f}", loss_again), fmt::format("{:.1f} %", 100 * right_again)});
  table.print("  ");
  fmt::print("\n");
}

}  // namespace

void perform(const HeadsOptions& options) {
  require_folder_of(options.out);
  const auto model = load_model(options.model);
  const Scored on = scored_input(model, options);
  const auto scores = scores_of_heads(model, options, on.input);
  for (const auto& [name, grid] : scores) {
    if (!options.out.empty()) grid.save(file_of(options.out, name, scores.size() > 1));
  }
  if (!options.json) {
    if (on.repetition) print_repetition(*on.repetition, options);
    for (const auto& score : scores) {
      print_printed(score.grid);
      fmt::print("\n");
    }
    return;
  }
  Json json = {{"scores", Json::object()}};
  for (const auto& [name, grid] : scores) json["scores"][name] = grid_json(grid);
  if (on.repetition) {
    json["repetition"] = {{"loss", grid_json(on.repetition->loss)},
                          {"accuracy", grid_json(on.repetition->accuracy)}};
  }
  add_tokens(on.input, json);
  print_json(json);
}

}  // namespace hooked::cli
