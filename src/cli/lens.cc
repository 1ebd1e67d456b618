// hooked lens and hooked attribute: what the stream would predict, and what wrote a logit.
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
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
#include "cli/text_notes.h"
#include "core/number_text.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/logit_lens.h"

namespace hooked::cli {
namespace {

Grain grain_of(const std::string& word) {
  if (word == "head") return Grain::head;
  if (word == "expert") return Grain::expert;
  if (word == "feature") return Grain::feature;
  return word == "neuron" ? Grain::neuron : Grain::layer;
}

Json lens_json(const LogitLens& made, const LogitLensOptions& lens, const GivenInput& given,
               const HookedTransformer& model) {
  auto rows = Json::array();
  for (const LogitLensRow& row : made.top) {
    auto next = Json::array();
    for (const auto& guess : row.predictions)
      next.push_back(next_token_json(model, guess.token, guess.logit, guess.probability));
    rows.push_back({{"row", row.row},
                    {"position", position_in_row(given.input, row.row, row.column)},
                    {"point", row.part.empty() ? row.name.to_string() : row.part},
                    {"next", std::move(next)}});
  }
  Json json = model_json(model);
  json["rows"] = std::move(rows);
  json["complete"] = made.complete;
  json["logits_centred"] = model.config().logits_centred();
  if (!lens.tokens.empty()) {
    json["logits"] = grid_json(made.logits);
    json["probabilities"] = grid_json(made.probabilities);
    json["ranks"] = grid_json(made.ranks);
  }
  add_tokens(given, json);
  return json;
}

// Ctrl-C ends the run after the current layer, with nothing to show. What a dictionary lets go on is kept
// too, and its features if they have parts.
CachedRun watched_run(const HookedTransformer& model, const Input& input, const Edits& edits, bool features) {
  Selection kept = act::defaults;
  if (!model.dictionaries().empty()) kept = kept | act::sae_output;
  if (features) kept = kept | act::sae_input | act::sae_acts_post;
  return model.run_with_cache(input, kept,
                              {.hooks = interrupt_hook(), .edits = edits, .output = Output::none});
}

/// A grid of parts without those that the lens does not list: they wrote nothing, or were not read.
Grid listed_points(const Grid& grid, const LogitLens& lens) {
  std::set<std::string> listed;
  for (const LogitLensRow& row : lens.top) listed.insert(row.part);
  std::vector<GridAxis> axes = grid.axes();
  const GridAxis all = grid.axis("point");
  GridAxis left{.name = all.name, .labels = {}};
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < all.labels.size(); ++i) {
    if (!listed.contains(all.labels[i])) continue;
    kept.push_back(static_cast<std::int64_t>(i));
    left.labels.push_back(all.labels[i]);
    left.places.push_back(all.places[i]);
  }
  const auto point = std::ranges::find(axes, all.name, &GridAxis::name);
  *point = std::move(left);
  const auto dimension = point - axes.begin();
  return Grid(grid.values().index_select(dimension, at::tensor(kept, at::kLong)), std::move(axes),
              {.title = grid.title(), .unit = grid.unit()});
}

void print_lens(const LogitLens& lens, bool of_parts) {
  print_printed(lens);
  for (const Grid* grid : {&lens.ranks, &lens.probabilities}) {
    if (grid->values().numel() == 0) continue;
    fmt::print("\n");
    print_printed(of_parts ? listed_points(*grid, lens) : without_missing(*grid, "point"));
  }
}

/// What is printed of an attribution.
struct ShownParts {
  const HookedTransformer& model;
  const TokenColumns& tokens;  ///< of the run
  const std::vector<Position>& positions;
  std::int64_t top_k;

  /// `10  Mary`: a column of a row and its token.
  std::string column(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = column - tokens.first;
    if (!model.has_tokenizer() || place < 0 || place >= tokens.ids.size(1)) return std::to_string(column);
    return fmt::format("{} {}", column, model.to_str_tokens(tokens.ids[row].narrow(0, place, 1)).front());
  }
  std::string position(std::int64_t row, std::int64_t pos) const {
    const std::int64_t rows = tokens.ids.size(0);
    return column(row, positions.empty()
                           ? tokens.first + pos
                           : positions[static_cast<std::size_t>(pos)].column_in(row, rows, tokens));
  }
};

/// The largest parts of one row and position, [part] or [part, key]. Parts of exactly 0, such as biases that
/// the model does not have, are not listed.
void print_largest(const Grid& parts, std::int64_t row, const ShownParts& shown) {
  const bool sources = parts.axes().size() > 1;
  std::vector<Table::Column> columns = {{"part"}, {parts.unit(), Align::right}, {"activation"}};
  if (sources) columns.insert(columns.begin() + 1, {"from"});
  Table table(std::move(columns));
  const auto largest = parts.largest(static_cast<std::size_t>(shown.top_k), LargestBy::size);
  const ColumnFormat number(largest.empty() ? 0 : std::abs(largest.front().value), 4);
  for (const auto& cell : largest) {
    if (cell.value == 0) break;
    std::vector<std::string> cells = {cell.labels[0], number(cell.value),
                                      cell.place ? cell.place->to_string() : ""};
    if (sources) cells.insert(cells.begin() + 1, shown.column(row, cell.index[1]));
    table.add(std::move(cells));
  }
  table.print("  ");
  const bool all = !parts.values().isnan().any().item<bool>();
  fmt::print("  {} {}{} together {} {}\n", all ? "all" : "the", sources ? "heads" : "parts",
             all ? "" : " so far", number(parts.values().nansum().item<double>()), parts.unit());
}

// Whether there is a part to list. Those that work begins with are biases, which many models do not have.
bool has_parts(const Grid& parts) { return parts.values().nan_to_num().ne(0).any().item<bool>(); }

void print_parts(const Grid& parts, const ShownParts& shown) {
  for (std::int64_t row = 0; row < std::ssize(parts.axis("row").labels); ++row) {
    for (std::int64_t pos = 0; pos < std::ssize(parts.axis("pos").labels); ++pos) {
      if (row > 0 || pos > 0) fmt::print("\n");
      fmt::print("row {}, position {}\n", row, shown.position(row, pos));
      print_largest(parts.slice("row", row).slice("pos", pos), row, shown);
    }
  }
}

}  // namespace

void perform(const LensOptions& options) {
  require_can_write(options.out, Grid::require_can_save, CommandReads(options).add_path(options.maps),
                    options.force);
  const auto model = load_model(options.model);
  const auto given = read_input(options.input, model);
  const Input& input = given.input;
  LogitLensOptions lens{.positions = read_positions(options.positions, input),
                        .tokens = ids_of_choice(options.answers, model),
                        .top_k = options.top_k,
                        .mid = options.mid};
  if (!options.parts.empty()) lens.parts = grain_of(options.parts);
  if (!options.maps.empty()) lens.maps = LensMaps::load(options.maps);
  const auto edits = read_edits(options.edits, model, input);
  const InterruptGuard guard;
  const auto run = watched_run(model, input, edits, lens.parts == Grain::feature);
  const std::vector<std::string> notes = notes_of(run);
  print_notes(notes);
  print_notes(answer_notes({&options.answers}, model, input, lens.positions.front(), edits));
  WatchedWork work("lens");
  lens.progress = work.progress();
  const auto made = logit_lens(model, run.cache, lens);
  work.end();
  if (!options.json) {
    if (made.complete || !made.top.empty()) print_lens(made, lens.parts.has_value());
    if (!made.complete) print_ended_early(work.done(), work.total(), "readings");
  } else {
    Json json = lens_json(made, lens, given, model);
    json["not_finite"] = not_finite_json(notes);
    print_json(json);
  }
  std::fflush(stdout);
  if (options.out.empty()) return;
  save_grid(
      made.probabilities, options.out,
      {.force = options.force,
       .whole = false,
       .caption = {options.model.model, prompt_words(given) + answer_words(tokens_of(options.answers), {})}});
}

void perform(const AttributeOptions& options) {
  require_can_write(options.out, Grid::require_can_save, CommandReads(options), options.force);
  const auto model = load_model(options.model);
  const auto given = read_input(options.input, model);
  const Input& input = given.input;
  const auto answer = Answers::any_of(ids_of_choice(options.answers, model));
  const auto against = options.against.empty()
                           ? std::nullopt
                           : std::optional(Answers::any_of(ids_of_choice(options.against, model)));
  const auto positions = read_positions(options.positions, input);
  const auto edits = read_edits(options.edits, model, input);
  const InterruptGuard guard;
  const auto run = watched_run(model, input, edits, !options.sources && options.grain == "feature");
  const std::vector<std::string> notes = notes_of(run);
  print_notes(notes);
  print_notes(answer_notes({&options.answers, &options.against}, model, input, positions.front(), edits));
  WatchedWork work("attribution");
  const auto parts =
      options.sources
          ? source_attribution(
                model, run.cache,
                {.answer = answer, .against = against, .positions = positions, .progress = work.progress()})
          : direct_logit_attribution(
                model, run.cache,
                {.answer = answer,
                 .against = against,
                 .grain = grain_of(options.grain),
                 .value_biases = options.value_biases_apart ? ValueBiases::in_bias : ValueBiases::in_heads,
                 .positions = positions,
                 .progress = work.progress()});
  work.end();
  // Shown first, so that a full disk does not lose what was computed.
  if (options.json) {
    Json json = model_json(model);
    json["parts"] = grid_json(parts);
    json["complete"] = work.complete();
    json["not_finite"] = not_finite_json(notes);
    add_tokens(given, json);
    print_json(json);
  } else {
    if (work.complete() || has_parts(parts)) {
      print_parts(parts, {model, *run.cache.tokens(), positions, options.top_k});
      if (options.against.empty() && model.config().logits_centred()) print_logits_centred();
    }
    if (!work.complete())
      print_ended_early(work.done(), work.total(), options.sources ? "layers" : "modules");
  }
  std::fflush(stdout);
  if (options.out.empty()) return;
  save_grid(
      parts, options.out,
      {.force = options.force,
       .whole = work.complete() && notes.empty(),
       .caption = {options.model.model, prompt_words(given) + answer_words(tokens_of(options.answers),
                                                                           tokens_of(options.against))}});
}

}  // namespace hooked::cli
