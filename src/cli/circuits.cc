// hooked circuits: estimates by gradients which parts matter, and judges a circuit of them by runs.
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

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
#include "cli/progress_bar.h"
#include "core/unsigned_nan.h"
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
  std::vector<std::string> notes = {};  ///< of its runs
};

// Over the pairs that were reached; the title counts them if they are not all.
Grid mean_over_pairs(const AttributionPatchingReport& report) {
  const Grid mean = report.grid.mean("row");
  const auto pairs = static_cast<std::int64_t>(report.grid.axis("row").labels.size());
  if (report.rows == pairs) return mean;
  return Grid(mean.values(), mean.axes(),
              {.title = fmt::format("{}, mean over {} of {} pairs", report.grid.title(), report.rows, pairs),
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
    if (options_.circuit.empty()) {
      estimate(found);
      if (found.complete && (options_.top || options_.threshold)) {
        found.circuit = choose_circuit(
            model_, *found.scores,
            {.count = options_.top, .threshold = options_.threshold, .greedy = options_.greedy});
      }
    } else {
      found.circuit = Circuit::load(model_, options_.circuit);
    }
    if (found.circuit && options_.judge && !interrupted()) {
      WatchedWork work("judging");
      found.judgement =
          judge_circuit(model_, *found.circuit,
                        {.sweep = watched_by(work), .sets = *options_.judge, .seed = options_.seed});
      found.complete = found.judgement->complete;
      note_not_finite(at::scalar_tensor(found.judgement->whole), found);
    }
    found.complete = found.complete && (found.judgement || !options_.judge);
    return found;
  }

 private:
  // Adds a note if the scores of runs without a patch are not finite.
  static void note_not_finite(const at::Tensor& unpatched, Found& found) {
    if (!found.complete || !found.notes.empty() || std::isfinite(unpatched.sum().item<double>())) return;
    found.notes.push_back(
        fmt::format("{}the score without a patch is NaN or infinite, as the logits are", kNotFinite));
  }

  SweepOptions watched_by(WatchedWork& work) const {
    SweepOptions sweep = sweep_;
    sweep.progress = work.progress();
    return sweep;
  }

  void estimate(Found& found) const {
    WatchedWork work("gradients");
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
    found.complete = report.complete && !interrupted();
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

std::string place_text(const GridCell& cell) {
  return cell.labels.size() == 2 ? fmt::format("{} -> {}", cell.labels[0], cell.labels[1]) : cell.labels[0];
}

void print_scores(const Grid& scores, const CircuitsOptions& options) {
  fmt::print("{} ({}): what replacing a part changes\n", scores.title(), scores.unit());
  Table table({{options.edges ? "edge" : "node"}, {"score", Align::right}});
  for (const GridCell& cell : scores.largest(static_cast<std::size_t>(options.top_k), LargestBy::size))
    table.add({place_text(cell), fmt::format("{:.4f}", unsigned_nan(cell.value))});
  table.print();
}

void print_check(const AttributionCheck& check, const CircuitsOptions& options) {
  fmt::print("\n{} {} patched: correlation of scores and effects {:.3f}, missed {}\n", check.cells.size(),
             options.edges ? "edges" : "nodes", unsigned_nan(check.correlation), check.missed.size());
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
  fmt::print("\n");
  const auto number = [](double value) { return fmt::format("{:.4f}", unsigned_nan(value)); };
  print_fields({{"ablated parts become", source},
                {"whole model", number(judged.whole)},
                {"everything ablated", number(judged.none)},
                {"circuit alone", number(judged.circuit)},
                {"circuit ablated", number(judged.without)},
                {"faithfulness", number(judged.faithfulness)},
                {"completeness", number(judged.completeness)},
                {"incompleteness", number(judged.incompleteness)}});
  const auto others = judged.others.values().size(0);
  if (std::isfinite(judged.more_faithful)) {
    fmt::print("{} of {} {}sets of its size are at least as faithful\n",
               std::llround(judged.more_faithful * static_cast<double>(others)), others,
               judged.all_others ? "" : "random ");
  }
  fmt::print("\n");
  Table table({{"without"}, {"faithfulness lost", Align::right}});
  for (const GridCell& cell : judged.minimality.largest(judged.minimality.axes()[0].labels.size()))
    table.add({cell.labels[0], number(cell.value)});
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
    if (!found.complete) print_ended_early();
  }
  std::fflush(stdout);
  print_notes(found.notes);
  print_notes(finder.prompts().answer_notes());
  if (found.scores && !options.out.empty()) found.scores->save(options.out, overwrite_of(options.force));
  if (found.circuit && !options.save.empty()) found.circuit->save(options.save, overwrite_of(options.force));
}

}  // namespace hooked::cli
