// hooked circuits: estimates by gradients which parts matter, and judges a circuit of them by runs.
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "cli/actions.h"
#include "cli/input_options.h"
#include "cli/interrupt.h"
#include "cli/json_output.h"
#include "cli/output.h"
#include "cli/patch_prompts.h"
#include "cli/picture.h"
#include "cli/progress_bar.h"
#include "core/number_text.h"
#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/core/error.h"

namespace hooked::cli {
namespace {

/// The results up to the point where the run was ended.
struct Found {
  std::optional<Grid> scores;  ///< of nodes or edges, mean over the pairs
  std::optional<AttributionCheck> check;
  std::optional<Circuit> circuit;
  std::optional<CircuitJudgement> judgement;
  bool complete = true;
  std::vector<std::string> rest = {};   ///< if not complete: what there is of each part that was asked for
  std::vector<std::string> notes = {};  ///< of its runs
};

// Over the pairs that were reached; the title counts them if they are not all.
Grid mean_over_pairs(const AttributionPatchingReport& report) {
  const Grid mean = report.grid.mean("row");
  const auto pairs = static_cast<std::int64_t>(report.grid.axis("row").labels.size());
  const std::string of = report.rows == pairs ? "" : fmt::format("{} of ", report.rows);
  return Grid(mean.values(), mean.axes(),
              {.title = fmt::format("{}, mean over {}{} pairs", report.grid.title(), of, pairs),
               .unit = mean.unit()});
}

/// Runs the clean prompt; parts are replaced by their values in the corrupted run.
class CircuitFinder {
 public:
  CircuitFinder(const HookedTransformer& model, const CircuitsOptions& options)
      : model_(model), options_(options), prompts_(model, options) {
    sweep_ = {.from = prompts_.source(options.with, PromptSide::corrupted,
                                      {.capture = act::defaults, .seed = options.seed}),
              .into = prompts_.input(PromptSide::clean),
              .metric = prompts_.metrics(PromptSide::clean).front(),
              .edits = prompts_.edits(PromptSide::clean)};
  }

  const PatchPrompts& prompts() const { return prompts_; }
  /// What parts are replaced by.
  std::string source_text() const { return sweep_.from.description(); }

  Found find() const {
    Found found;
    const bool chooses = options_.top || options_.threshold;
    if (options_.circuit.empty()) {
      estimate(found);
      if (found.rest.empty() && !interrupted() && chooses) {
        found.circuit = choose_circuit(
            model_, *found.scores,
            {.count = options_.top, .threshold = options_.threshold, .greedy = options_.greedy});
      }
    } else {
      found.circuit = Circuit::load(model_, options_.circuit);
    }
    if (chooses && !found.circuit) found.rest.emplace_back("no circuit is chosen");
    const bool judges = options_.judge && found.circuit && !interrupted();
    if (options_.judge && !judges) found.rest.emplace_back("nothing is judged");
    if (judges) {
      WatchedWork work("judging");
      found.judgement =
          judge_circuit(model_, *found.circuit,
                        {.sweep = watched_by(work), .sets = *options_.judge, .seed = options_.seed});
      if (!found.judgement->complete) {
        found.rest.push_back(
            fmt::format("{} of {} runs judge the circuit, and what needs the others is left out",
                        grouped(work.done()), grouped(work.total())));
      }
      note_not_finite(at::scalar_tensor(found.judgement->whole), found);
    }
    found.complete = found.rest.empty();
    return found;
  }

 private:
  // Adds a note if the scores of runs without a patch are not finite.
  static void note_not_finite(const at::Tensor& unpatched, Found& found) {
    if (!found.rest.empty() || !found.notes.empty() || std::isfinite(unpatched.sum().item<double>())) return;
    found.notes.push_back(
        fmt::format("{}the score without a patch is NaN or infinite, as the logits are", kNotFinite));
  }

  // How many pairs have scores, in words.
  std::string scored_text(const AttributionPatchingReport& report, const WatchedWork& work) const {
    const std::int64_t pairs = prompts_.pairs().size();
    std::string text = report.rows == pairs ? "all scores are there"
                       : report.rows == 0   ? "no score is whole"
                                            : fmt::format("scores of {} of {} pairs", report.rows, pairs);
    return text + fmt::format(" after {} of {} steps", grouped(work.done()), grouped(work.total()));
  }

  SweepOptions watched_by(WatchedWork& work) const {
    // So that Ctrl-C ends soon: a gradient or a run of many rows is one step, and a CPU gains little from
    // many rows.
    constexpr std::int64_t kTokensOfAStep = 128;
    SweepOptions sweep = sweep_;
    sweep.progress = work.progress();
    if (model_.device().is_cpu()) sweep.tokens_per_run = kTokensOfAStep;
    return sweep;
  }

  void estimate(Found& found) const {
    WatchedWork work(options_.check > 0 ? "gradients, checks" : "gradients");
    const HeldInGradient hold{.norms = options_.hold_norms, .patterns = options_.hold_patterns};
    Integration integration;
    if (options_.steps > 0) integration = {.over = IntegrateOver::inputs, .steps = options_.steps};
    const SweepOptions sweep = watched_by(work);
    AttributionPatchingReport report = options_.edges
                                           ? edge_attribution_report(model_, {.sweep = sweep,
                                                                              .hold = hold,
                                                                              .integration = integration,
                                                                              .check = options_.check,
                                                                              .seed = options_.seed})
                                           : node_attribution_report(model_, {.sweep = sweep,
                                                                              .hold = hold,
                                                                              .integration = integration,
                                                                              .check = options_.check,
                                                                              .seed = options_.seed});
    found.check = std::move(report.check);
    if (!report.complete) {
      found.rest.push_back(scored_text(report, work));
      if (options_.check > 0 && !found.check) found.rest.emplace_back("nothing is checked");
    }
    note_not_finite(report.unpatched.values(), found);
    if (prompts_.pairs().size() < 2) {
      found.scores = std::move(report.grid);
      return;
    }
    Grid mean = mean_over_pairs(report);
    // Means include numbers that are not finite.
    if (!found.notes.empty())
      mean = Grid(report.grid.values().mean(0), mean.axes(), {.title = mean.title(), .unit = mean.unit()});
    found.scores = std::move(mean);
  }

  const HookedTransformer& model_;
  const CircuitsOptions& options_;
  PatchPrompts prompts_;
  SweepOptions sweep_;
};

constexpr int kDecimals = 4;

std::string place_text(const GridCell& cell) {
  return cell.labels.size() == 2 ? fmt::format("{} -> {}", cell.labels[0], cell.labels[1]) : cell.labels[0];
}

ColumnFormat format_of(const std::vector<GridCell>& cells) {
  std::vector<double> numbers;
  for (const GridCell& cell : cells) numbers.push_back(cell.value);
  return ColumnFormat::of(numbers, kDecimals);
}

void print_scores(const Grid& scores, const CircuitsOptions& options) {
  if (scores.values().isnan().all().item<bool>()) return;
  fmt::print("{} ({}): what replacing a part changes\n", scores.title(), scores.unit());
  Table table({{options.edges ? "edge" : "node"}, {"score", Align::right}});
  const auto cells = scores.largest(static_cast<std::size_t>(options.top_k), LargestBy::size);
  const auto number = format_of(cells);
  for (const GridCell& cell : cells) table.add({place_text(cell), number(cell.value)});
  table.print();
}

void print_check(const AttributionCheck& check, const CircuitsOptions& options) {
  const char* parts = options.edges ? "edges" : "nodes";
  if (!check.complete) {
    const auto patched =
        std::ranges::count_if(check.cells, [](const CheckedCell& cell) { return !std::isnan(cell.effect); });
    fmt::print("\n{} of {} {} patched, which is too early to compare scores with effects\n", patched,
               check.cells.size(), parts);
    return;
  }
  fmt::print("\n{} {} patched: correlation of scores and effects {}, missed {}\n", check.cells.size(), parts,
             fixed_text(check.correlation, 3), check.missed.size());
}

void print_circuit(const Circuit& circuit) {
  fmt::print("\ncircuit of {} {}\n", circuit.size(),
             circuit.kind() == CircuitKind::nodes ? "nodes" : "edges");
  if (circuit.kind() == CircuitKind::nodes) {
    for (const std::string& node : circuit.nodes()) fmt::print("  {}\n", node);
  } else {
    for (const CircuitEdge& edge : circuit.edges()) fmt::print("  {} -> {}\n", edge.writer, edge.reader);
  }
}

void print_judgement(const CircuitJudgement& judged, const std::string& source) {
  const double scores[] = {judged.whole, judged.none, judged.circuit, judged.without};
  const double shares[] = {judged.faithfulness, judged.completeness, judged.incompleteness};
  const auto score = ColumnFormat::of(scores, kDecimals), share = ColumnFormat::of(shares, kDecimals);
  std::vector<Field> fields{{"ablated parts become", source}};
  const auto add = [&](const char* label, double value, const ColumnFormat& number) {
    // Ended early, it lacks what needs further runs.
    if (judged.complete || !std::isnan(value)) fields.push_back({label, number(value)});
  };
  add("whole model", judged.whole, score);
  add("everything ablated", judged.none, score);
  add("circuit alone", judged.circuit, score);
  add("circuit ablated", judged.without, score);
  add("faithfulness", judged.faithfulness, share);
  add("completeness", judged.completeness, share);
  add("incompleteness", judged.incompleteness, share);
  if (fields.size() == 1) return;
  fmt::print("\n");
  print_fields(fields);
  const auto others = judged.others.values().size(0);
  if (std::isfinite(judged.more_faithful)) {
    fmt::print("{} of {} {}sets of its size are at least as faithful\n",
               std::llround(judged.more_faithful * static_cast<double>(others)), others,
               judged.all_others ? "" : "random ");
  }
  if (!judged.complete && judged.minimality.values().isnan().all().item<bool>()) return;
  fmt::print("\n");
  Table table({{"without"}, {"faithfulness lost", Align::right}});
  const auto lost = judged.minimality.largest(judged.minimality.axes()[0].labels.size());
  const auto number = format_of(lost);
  for (const GridCell& cell : lost) table.add({cell.labels[0], number(cell.value)});
  table.print();
}

Json circuit_json(const Circuit& circuit) {
  Json json{{"kind", circuit.kind() == CircuitKind::nodes ? "nodes" : "edges"}, {"nodes", circuit.nodes()}};
  if (circuit.kind() == CircuitKind::nodes) return json;
  json["edges"] = Json::array();
  for (const CircuitEdge& edge : circuit.edges()) json["edges"].push_back(Json{edge.writer, edge.reader});
  return json;
}

Json check_json(const AttributionCheck& check) {
  Json json{{"correlation", number_json(check.correlation)},
            {"missed", check.missed.size()},
            {"cells", Json::array()}};
  for (const CheckedCell& cell : check.cells) {
    json["cells"].push_back({{"labels", cell.labels},
                             {"estimate", number_json(cell.estimate)},
                             {"effect", number_json(cell.effect)},
                             {"drawn", cell.drawn}});
  }
  return json;
}

Json judgement_json(const CircuitJudgement& judged) {
  return {{"whole", number_json(judged.whole)},
          {"none", number_json(judged.none)},
          {"circuit", number_json(judged.circuit)},
          {"without", number_json(judged.without)},
          {"faithfulness", number_json(judged.faithfulness)},
          {"completeness", number_json(judged.completeness)},
          {"incompleteness", number_json(judged.incompleteness)},
          {"more_faithful", number_json(judged.more_faithful)},
          {"all_others", judged.all_others},
          {"minimality", grid_json(judged.minimality)},
          {"others", grid_json(judged.others)},
          {"complete", judged.complete}};
}

Json found_json(const Found& found, const HookedTransformer& model, const CircuitFinder& finder) {
  const PatchPrompts& prompts = finder.prompts();
  Json json = model_json(model);
  json["metric"] = metric_json(prompts.metric_kinds().front());
  json["source"] = finder.source_text();
  if (found.scores) json["scores"] = grid_json(*found.scores);
  if (found.check) json["check"] = check_json(*found.check);
  if (found.circuit) json["circuit"] = circuit_json(*found.circuit);
  if (found.judgement) json["judgement"] = judgement_json(*found.judgement);
  json["complete"] = found.complete;
  prompts.add_tokens(PromptSide::clean, json);
  return json;
}

}  // namespace

void perform(const CircuitsOptions& options) {
  const auto reads = CommandReads(options).add_path(options.circuit);
  require_can_write(options.out, Grid::require_can_save, reads, options.force);
  require_can_write(options.save, Circuit::require_can_save, reads, options.force);
  const auto model = load_model(options.model);
  const CircuitFinder finder(model, options);
  const InterruptGuard guard;
  const Found found = finder.find();
  // Shown first, so that a full disk does not lose what was computed.
  if (options.json) {
    Json json = found_json(found, model, finder);
    json["not_finite"] = not_finite_json(found.notes);
    print_json(json);
  } else {
    if (found.scores) print_scores(*found.scores, options);
    if (found.check) print_check(*found.check, options);
    if (found.circuit) print_circuit(*found.circuit);
    if (found.judgement) print_judgement(*found.judgement, finder.source_text());
    if (!found.complete) print_ended_early(found.rest);
  }
  std::fflush(stdout);
  print_notes(found.notes);
  if (!interrupted()) print_notes(finder.prompts().answer_notes());  // which need a run
  if (found.scores && !options.out.empty())
    save_parts(*found.scores, found.complete, options, finder.prompts());
  if (found.circuit && !options.save.empty()) found.circuit->save(options.save, overwrite_of(options.force));
}

}  // namespace hooked::cli
