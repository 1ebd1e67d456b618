#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <vector>

#include "hooked/analysis/attribution_graph.h"
#include "hooked/analysis/features.h"
#include "hooked/analysis/graph_interventions.h"
#include "hooked/report/report.h"
#include "tests/device/analysis_inputs.h"
#include "tests/support/page_data.h"
#include "tests/support/random_dictionaries.h"

// Dictionaries in runs, their features, and graphs of them.
namespace hooked::device_tests {
namespace dictionary_group {
namespace {

NamedTensors features(const Subject& s) {
  const auto sae = fitted_to(
      random_autoencoder("blocks.0.hook_resid_post", s.config().d_model, s.model.dtype()), s.config());
  const Address point = act::sae_acts_post(act::resid_post(0));
  NamedTensors all;
  for (const bool with_error : {false, true}) {
    const auto spliced = s.model.with_dictionary(sae, {.with_error = with_error});
    const auto run =
        spliced.run_with_cache(s.input(), "*.hook_sae_*",
                               s.options({.edits = {scale(point.feature(3), 2), zero(point.feature(5))}}));
    const std::string kind = with_error ? "with_error." : "";
    for (const auto& [name, value] : all_of(run)) all[kind + name] = value;
    std::vector<double> firing;
    for (const FiringFeature& each : firing_features(run.cache, point))
      firing.insert(firing.end(), {static_cast<double>(each.tokens), each.largest, each.mean});
    all[kind + "firing"] = at::tensor(firing, at::kDouble);
  }
  const auto spliced = s.model.with_dictionary(sae);
  all["gradients"] =
      logit_difference(1, 2).score(spliced, s.input(), {.edits = {add(point.feature(1), 0.5)}});
  return all;
}

NamedTensors measured(const Subject& s) {
  const auto sae = fitted_to(
      random_autoencoder("blocks.0.hook_resid_post", s.config().d_model, s.model.dtype()), s.config());
  const auto spliced = s.model.with_dictionary(sae);
  const Address point = act::sae_acts_post(act::resid_post(0));
  const auto quality = dictionary_quality(spliced, point, s.input());
  return {{"losses", at::tensor({quality.loss, quality.spliced_loss, quality.zero_loss, quality.l0,
                                 quality.explained_variance})},
          {"fired", quality.fired.to(at::kDouble)},
          {"logits", feature_logits(spliced, point, {0, 7})}};
}

std::vector<Dictionary> transcoders_of(const Subject& s) {
  std::vector<Dictionary> all;
  for (const Dictionary& each : random_transcoders(s.config(), {.skips = true}))
    all.push_back(fitted_to(each, s.config()));
  return all;
}

NamedTensors graphs(const Subject& s) {
  const auto transcoders = transcoders_of(s);
  const Input row(s.golden.tokens.narrow(0, 0, 1));
  const auto graph = attribute_graph(s.model, transcoders, row, {.logit_tokens = {1, 2}, .batch = 8});
  const std::int64_t last = std::ssize(graph.nodes) - 1, token = last - graph.logits;
  NamedTensors all{{"edges", graph.edges},
                   {"constants", graph.constants},
                   {"preactivations", graph.preactivations},
                   {"heads", numbers(edge_heads(s.model, transcoders, row, graph, {{token, last}}))}};
  if (graph.features == 0) return all;
  const GraphNode& some = graph.nodes[0];
  for (const auto& [name, hold] :
       {std::pair{"held", GraphHold::everything}, {"computed", GraphHold::nothing}}) {
    const auto effect =
        intervene(s.model, transcoders, row, graph, {{some.layer, some.pos, some.id, 2 * some.value}}, hold);
    all[name] = numbers(effect.preactivations);
    all[name + std::string(" logits")] = effect.logits;
  }
  return all;
}

/// What a report says comes next, and how many parts each of its sections has.
NamedTensors reports(const Subject& s) {
  const at::Tensor ids = s.golden.tokens[0].to(at::kCPU).contiguous();
  const auto* first = ids.const_data_ptr<std::int64_t>();
  const auto data = page_data(report(s.model, std::vector<std::int64_t>(first, first + ids.numel())).html());
  std::vector<double> parts, next;
  for (const auto& section : data["sections"]) {
    parts.push_back(static_cast<double>(section["parts"].size()));
    for (const auto& part : section["parts"]) {
      if (part["kind"] != "next") continue;
      for (const auto& after : part["top"]) next.push_back(after[0][0].get<double>());
    }
  }
  return {{"parts", at::tensor(parts, at::kDouble)}, {"next", at::tensor(next, at::kDouble)}};
}

bool has_graphs(const Subject& s) { return swept_here(s) && s.causal() && s.config().has_mlp(); }

constexpr std::array<Check, 4> kChecks{{
    {"features", swept_here, features},
    {"measured", [](const Subject& s) { return swept_here(s) && s.causal(); }, measured},
    {"graphs", has_graphs, graphs},
    {"reports", [](const Subject& s) { return s.one_stack() && s.predicts(); }, reports},
}};

}  // namespace
}  // namespace dictionary_group

std::span<const Check> dictionary_checks() { return dictionary_group::kChecks; }

}  // namespace hooked::device_tests
