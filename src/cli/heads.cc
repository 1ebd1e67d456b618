// hooked heads: where heads attend.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/picture.h"
#include "cli/progress_bar.h"
#include "core/number_text.h"
#include "hooked/analysis/attention_grid.h"
#include "hooked/analysis/head_runs.h"
#include "hooked/analysis/repetition.h"

namespace hooked::cli {
namespace {

RepeatedTokensOptions repeated_tokens(const HookedTransformer& model, const HeadsOptions& options) {
  auto repeated = repeated_tokens_of(model);
  repeated.rows = options.rows;
  repeated.half = options.half;
  repeated.seed = options.seed;
  return repeated;
}

GivenInput scored_input(const HookedTransformer& model, const HeadsOptions& options) {
  if (options.half == 0) return read_input(options.input, model);
  return {repeated_random_tokens(repeated_tokens(model, options)), {}, {}};
}

std::vector<std::string> scores_of(const HeadsOptions& options) {
  if (!options.scores.empty()) return options.scores;
  if (options.half > 0) return {"previous_token", "duplicate_token", "induction"};
  if (options.of == "cross") return {"first_token", "entropy"};
  return {"previous_token", "current_token", "first_token"};
}

HeadScoreOptions score_options(const HeadsOptions& options) {
  HeadScoreOptions how{.exclude_bos = options.exclude_bos,
                       .exclude_current_token = options.exclude_current_token,
                       .rows = options.per_row ? HeadRows::each : HeadRows::mean};
  if (options.measure != "share")
    how.measure = options.measure == "mul" ? HeadMeasure::mul : HeadMeasure::abs;
  if (options.of == "cross") how.site = act::cross_pattern;
  if (options.of == "encoder") how.stack = Stack::encoder;
  return how;
}

/// The results up to the point where the run was ended.
struct HeadsFound {
  std::vector<std::string> names;  ///< of the scores
  HeadRunsReport heads;
  std::optional<RepetitionScores> repetition;  ///< of random tokens
  std::int64_t repeated_rows = 0;              ///< those of them with numbers; without any, no repetition
  bool complete;
};

HeadsFound find_heads(const HookedTransformer& model, const HeadsOptions& options, const Input& input) {
  const InterruptGuard guard;
  HeadsFound found{.names = scores_of(options), .heads = {}, .repetition = {}, .complete = true};
  HeadRunsOptions runs{.how = score_options(options), .edits = read_edits(options.edits, model, input)};
  for (const std::string& name : found.names) runs.scores.push_back(head_score_row(name).score);
  {
    WatchedWork work("heads");
    runs.progress = work.progress();
    found.heads = head_scores_report(model, input, runs);
  }
  if (options.half > 0 && !interrupted()) {
    WatchedWork work("repetition");
    auto repetition =
        repetition_scores(model, repeated_tokens(model, options), {.edits = runs.edits}, work.progress());
    found.repeated_rows = work.done();
    if (found.repeated_rows > 0) found.repetition = std::move(repetition);
  }
  const bool all_repeated = options.half == 0 || (found.repetition && found.repetition->complete);
  found.complete = found.heads.complete && all_repeated;
  return found;
}

// The mean over rows of each half.
std::pair<double, double> halves(const Grid& scores) {
  const Grid mean = scores.mean("row");
  return {mean.at({0}), mean.at({1})};
}

void print_repetition(const HeadsFound& found, const HeadsOptions& options) {
  const auto [loss_once, loss_again] = halves(found.repetition->loss);
  const auto [right_once, right_again] = halves(found.repetition->accuracy);
  fmt::print("{} rows of {} random tokens, repeated once\n", found.repeated_rows, options.half);
  Table table({{""}, {"loss (nats)", Align::right}, {"predicted right", Align::right}});
  table.add({"first half", fixed_text(loss_once, 4), percent_text(right_once)});
  table.add({"second half", fixed_text(loss_again, 4), percent_text(right_again)});
  table.print("  ");
  fmt::print("\n");
}

Json heads_json(const HeadsFound& found, const HookedTransformer& model, const GivenInput& given) {
  Json json = model_json(model);
  json["scores"] = Json::object();
  for (std::size_t i = 0; i < found.heads.scores.size(); ++i)
    json["scores"][found.names[i]] = grid_json(found.heads.scores[i]);
  if (found.repetition) {
    json["repetition"] = {{"loss", grid_json(found.repetition->loss)},
                          {"accuracy", grid_json(found.repetition->accuracy)}};
  }
  json["complete"] = found.complete;
  json["rows_scored"] = found.heads.rows;
  add_tokens(given, json);
  return json;
}

GridSave save_of(const HeadsOptions& options, const GivenInput& given) {
  const std::string random =
      fmt::format("{} rows of {} random tokens, repeated once", given.input.batch(), options.half);
  return {.force = options.force,
          .whole = false,
          .caption = {options.model.model, options.half > 0 ? random : prompt_words(given)}};
}

/// The attention of one head, or of all heads of a layer: a grid for each row of the input.
void show_pattern(const HeadsOptions& options, const CommandReads& reads) {
  require_can_write(options.out, Grid::require_can_save, reads, options.force);
  const auto model = load_model(options.model);
  const GivenInput given = read_input(options.input, model);
  const std::int64_t rows = given.input.batch();
  const auto file = [&](std::int64_t row) {
    return file_of(options.out, fmt::format("row-{}", row), rows > 1);
  };
  for (std::int64_t row = 0; row < rows; ++row)
    require_can_write(file(row), Grid::require_can_save, reads, options.force);
  const act::BlockSite site = options.of == "cross" ? act::cross_pattern : act::pattern;
  const auto layer = static_cast<std::int32_t>(options.pattern->layer);
  Address pattern = site.in(options.of == "encoder" ? Stack::encoder : Stack::none, layer);
  if (options.pattern->head) pattern = pattern.head(*options.pattern->head);
  const auto run =
      model.run_with_cache(given.input, pattern.name(),
                           {.edits = read_edits(options.edits, model, given.input), .output = Output::none});
  const std::vector<std::string> notes = notes_of(run);
  std::vector<Grid> grids;
  for (std::int64_t row = 0; row < rows; ++row)
    grids.push_back(attention_grid(model, run.cache, rows > 1 ? pattern.row(row) : pattern));
  if (options.json) {
    Json json = model_json(model);
    json["patterns"] = Json::array();
    json["not_finite"] = not_finite_json(notes);
    for (const Grid& grid : grids) json["patterns"].push_back(grid_json(grid));
    add_tokens(given, json);
    print_json(json);
  } else {
    for (const Grid& grid : grids) {
      if (&grid != &grids.front()) fmt::print("\n");
      if (const at::Tensor later = later_keys(grid); later.defined())
        print_blanked(grid, later);  // as in pictures
      else
        print_printed(grid);
    }
  }
  std::fflush(stdout);
  print_notes(notes);
  for (std::int64_t row = 0; row < rows && !options.out.empty(); ++row)
    save_grid(grids[static_cast<std::size_t>(row)], file(row), save_of(options, given));
}

}  // namespace

void perform(const HeadsOptions& options) {
  const CommandReads reads(options);
  if (options.pattern) return show_pattern(options, reads);
  const auto names = scores_of(options);
  for (const auto& name : names) {
    require_can_write(file_of(options.out, name, names.size() > 1), Grid::require_can_save, reads,
                      options.force);
  }
  const auto model = load_model(options.model);
  const GivenInput given = scored_input(model, options);
  const Input& input = given.input;
  const HeadsFound found = find_heads(model, options, input);
  const auto& scores = found.heads.scores;
  // Shown first, so that a full disk does not lose what was computed.
  if (options.json) {
    Json json = heads_json(found, model, given);
    json["not_finite"] = not_finite_json(found.heads.notes);
    print_json(json);
  } else {
    if (found.repetition) print_repetition(found, options);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (i > 0) fmt::print("\n");
      print_printed(options.per_row ? without_missing(scores[i], "row") : scores[i]);
    }
    if (!found.heads.complete) {
      print_ended_early(found.heads.rows, input.batch(), "rows");
    } else if (!found.complete) {
      print_ended_early(found.repeated_rows, options.rows, "rows of how well they are repeated");
    }
  }
  std::fflush(stdout);
  print_notes(found.heads.notes);
  for (std::size_t i = 0; i < scores.size() && !options.out.empty(); ++i)
    save_grid(scores[i], file_of(options.out, found.names[i], scores.size() > 1), save_of(options, given));
}

}  // namespace hooked::cli
