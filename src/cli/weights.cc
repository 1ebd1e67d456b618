// hooked weights: circuits from weights alone.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
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
#include "hooked/analysis/circuits.h"
#include "hooked/analysis/singular_directions.h"

namespace hooked::cli {
namespace {

/// A grid and its name in JSON and in file names.
struct NamedGrid {
  std::string name;
  Grid grid;
};

// The names of the grids that the options ask for.
std::vector<std::string> grid_names(const WeightsOptions& options) {
  if (!options.composition.empty()) return options.composition;
  if (options.copying) return {"eigenvalues", "top_k"};
  return {"logits"};
}

void save(const std::vector<NamedGrid>& grids, bool complete, const WeightsOptions& options) {
  if (options.out.empty()) return;
  const bool several = grid_names(options).size() > 1;
  for (const auto& [name, grid] : grids)
    save_grid(grid, file_of(options.out, name, several),
              {.force = options.force, .whole = complete, .caption = {options.model.model, ""}});
}

CircuitOptions circuits_of(const WeightsOptions& options) {
  return {.norms = !options.bare, .stack = options.encoder ? Stack::encoder : Stack::none};
}

HeadInput input_of(const std::string& word) {
  if (word == "q") return HeadInput::query;
  return word == "k" ? HeadInput::key : HeadInput::value;
}

void print_composition(const CompositionScores& found, std::int64_t largest) {
  const std::vector<GridCell> shown = found.scores.largest(static_cast<std::size_t>(largest));
  std::vector<double> numbers{found.random_mean, found.random_deviation};
  for (const GridCell& cell : shown) numbers.push_back(cell.value);
  const auto number = ColumnFormat::of(numbers, 4);
  fmt::print("{} ({}); random heads {} +- {}\n", found.scores.title(), found.scores.unit(),
             number(found.random_mean), number(found.random_deviation));
  Table table({{"head"}, {"read by"}, {"score", Align::right}, {"deviations above random", Align::right}});
  for (const GridCell& cell : shown) {
    table.add({fmt::format("{}.{}", cell.labels[0], cell.labels[1]),
               fmt::format("{}.{}", cell.labels[2], cell.labels[3]), number(cell.value),
               fixed_text((cell.value - found.random_mean) / found.random_deviation, 1)});
  }
  table.print("  ");
}

void show_composition(const HookedTransformer& model, const WeightsOptions& options) {
  Json json = model_json(model);
  json["composition"] = Json::object();
  std::vector<NamedGrid> grids;
  std::vector<std::string> rest;  // what there is of each input, once the work is ended
  const InterruptGuard guard;
  for (const std::string& input : options.composition) {
    if (interrupted()) {
      rest.push_back(fmt::format("by {} was not begun", input));
      continue;
    }
    WatchedWork work("composition by " + input);
    const auto found = composition_scores(model, input_of(input),
                                          {.circuits = circuits_of(options),
                                           .random_draws = options.draws,
                                           .seed = options.seed,
                                           .progress = work.progress()});
    work.end();
    if (!found.complete) {
      const auto layers = found.scores.values().size(0), pairs = layers * (layers - 1) / 2;
      rest.push_back(fmt::format("by {} has {} of {} pairs of layers and {} of {} random draws", input,
                                 grouped(std::min(work.done(), pairs)), grouped(pairs), grouped(found.draws),
                                 grouped(options.draws)));
    }
    grids.push_back({input, found.scores});
    if (!options.json) {
      if (grids.size() > 1) fmt::print("\n");
      print_composition(found, options.largest);
      continue;
    }
    json["composition"][input] = {{"scores", grid_json(found.scores)},
                                  {"random_mean", number_json(found.random_mean)},
                                  {"random_deviation", number_json(found.random_deviation)},
                                  {"random_draws", found.draws},
                                  {"complete", found.complete}};
  }
  json["complete"] = rest.empty();
  if (options.json) print_json(json);
  if (!rest.empty() && !options.json) print_ended_early(rest);
  std::fflush(stdout);
  save(grids, rest.empty(), options);
}

void show_copying(const HookedTransformer& model, const WeightsOptions& options) {
  const InterruptGuard guard;
  WatchedWork work("copying");
  const auto found = copying_scores(model, {.circuits = circuits_of(options),
                                            .top_k = options.top_k,
                                            .tokens = options.sample,
                                            .seed = options.seed,
                                            .progress = work.progress()});
  work.end();
  if (options.json) {
    Json json = model_json(model);
    json["eigenvalues"] = grid_json(found.eigenvalues);
    json["top_k"] = grid_json(found.top_k);
    json["complete"] = found.complete;
    print_json(json);
  } else {
    print_printed(found.eigenvalues);
    fmt::print("\n");
    print_printed(found.top_k);
  }
  if (!found.complete && !options.json) print_ended_early(work.done(), work.total(), "heads");
  std::fflush(stdout);
  save({{"eigenvalues", found.eigenvalues}, {"top_k", found.top_k}}, found.complete, options);
}

SingularOf matrix_of(std::string_view word) {
  static constexpr std::array kNames{
      std::pair{"ov_written", SingularOf::ov_written}, std::pair{"ov_read", SingularOf::ov_read},
      std::pair{"qk_query", SingularOf::qk_query},     std::pair{"qk_key", SingularOf::qk_key},
      std::pair{"mlp_in", SingularOf::mlp_in},         std::pair{"mlp_gate", SingularOf::mlp_gate},
      std::pair{"mlp_out", SingularOf::mlp_out}};
  for (const auto& [name, matrix] : kNames)
    if (word == name) return matrix;
  return SingularOf::ov_written;  // the parser accepts no other
}

Json tokens_json(const HookedTransformer& model, const std::vector<SingularTokens::Token>& tokens) {
  auto json = Json::array();
  for (const auto& token : tokens) {
    json.push_back(token_json(model, token.token));
    json.back()["logit"] = number_json(token.logit);
  }
  return json;
}

void show_singular(const HookedTransformer& model, const WeightsOptions& options) {
  const auto found = singular_directions(model, {.of = matrix_of(options.singular),
                                                 .layer = options.layer,
                                                 .index = options.index,
                                                 .directions = options.directions,
                                                 .top_k = options.top_k,
                                                 .circuits = circuits_of(options)});
  if (options.json) {
    auto rows = Json::array();
    for (const auto& row : found.top) {
      rows.push_back({{"value", number_json(row.value)},
                      {"subspace", row.subspace},
                      {"dimensions", row.dimensions},
                      {"raised", tokens_json(model, row.raised)},
                      {"lowered", tokens_json(model, row.lowered)}});
    }
    Json json = model_json(model);
    json["title"] = found.title;
    json["directions"] = std::move(rows);
    json["complete"] = true;  // one matrix is one step: it cannot be partly done
    print_json(json);
  } else {
    print_printed(found);
  }
  std::fflush(stdout);
  if (options.out.empty()) return;
  const auto logits = found.logits.to(at::kCPU, at::kDouble);  // [direction, vocab]
  const Grid grid(logits, {counted_axis("direction", logits.size(0)), counted_axis("vocab", logits.size(1))},
                  {.title = "Singular directions of " + found.title, .unit = "logits"});
  save({{"logits", grid}}, true, options);
}

}  // namespace

void perform(const WeightsOptions& options) {
  const auto names = grid_names(options);
  for (const auto& name : names) {
    require_can_write(file_of(options.out, name, names.size() > 1), Grid::require_can_save,
                      CommandReads(options.model), options.force);
  }
  const auto model = load_model(options.model);
  if (!options.composition.empty()) return show_composition(model, options);
  if (options.copying) return show_copying(model, options);
  show_singular(model, options);
}

}  // namespace hooked::cli
