// Features that matter, and the graph of how they come about: docs/analysis/attribution-graphs.md.
#include <hooked/hooked.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const std::string toy = argc > 1 ? argv[1] : "examples/toy_model";
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const auto shipped = [&](const char* name) {
    return (std::filesystem::path(toy).parent_path() / name).string();
  };
  const auto clean = "When John and Mary went to the shop, John gave a bag to";
  const auto corrupted = "When Mary and John went to the shop, Mary gave a bag to";

  // 1. On which feature of the stream does the answer depend? Each one that fires is ablated alone.
  const auto sae = hooked::Dictionary::load(shipped("toy_sae"));
  const auto raw = hooked::HookedTransformer::load(toy, {.processing = hooked::WeightProcessing::none()});
  const auto model = raw.with_dictionary(sae, {.with_error = true});
  const auto tokens = model.to_tokens(clean);
  const auto metric = hooked::logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  const hooked::Address features = act::sae_acts_post(act::resid_post(0));
  const auto run = model.run_with_cache(tokens, act::sae_acts_post);
  const auto score = metric.score(model, tokens).item().toDouble();
  std::vector<std::pair<double, std::int64_t>> lost;
  for (const auto& firing : hooked::firing_features(run.cache, features, {.count = 0})) {
    const auto ablated =
        metric.score(model, tokens, {.edits = hooked::zero(features.feature(firing.feature))});
    lost.emplace_back(score - ablated.item().toDouble(), firing.feature);
  }
  std::ranges::sort(lost, std::ranges::greater());
  std::cout << "without feature " << lost[0].second << " the logit difference of " << score << " loses "
            << lost[0].first << ", without the median of " << lost.size() << " features "
            << lost[lost.size() / 2].first << '\n';

  // 2. Which features lead to the answer? Transcoders stand in the place of the MLPs.
  const auto transcoders = hooked::DictionarySet::load(shipped("toy_transcoders")).members();
  const auto graph = hooked::attribute_graph(raw, transcoders, tokens);
  const auto scores = hooked::graph_scores(graph);
  const auto pruned = hooked::pruned(graph);
  std::cout << graph.features << " features, replacement score " << scores.replacement << ", "
            << pruned.features << " after pruning\n";
  hooked::save_graph(pruned, folder / "graph.json");

  // 3. The strongest path that passes an MLP, and what carries its first edge through the layers.
  const auto paths = hooked::strongest_paths(pruned);
  const auto& path = *std::ranges::find_if(paths, [&](const auto& each) {
    return pruned.nodes[each.nodes[each.nodes.size() - 2]].kind == hooked::GraphNodeKind::feature;
  });
  for (const auto node : path.nodes) std::cout << hooked::node_name(pruned.nodes[node]) << '\n';
  std::cout << hooked::edge_heads(raw, transcoders, tokens, pruned, {{path.nodes[0], path.nodes[1]}});

  // 4. Patching finds the same parts: the clean run's outputs, put into the run of the other prompt.
  const hooked::SweepOptions pair{
      .from = raw.run_with_cache(tokens).cache, .into = raw.to_tokens(corrupted), .metric = metric};
  for (const auto* name : {"attn_head_out_all_pos", "mlp_out"}) {
    const auto best = hooked::sweep(raw, hooked::patching_preset(name), pair).largest(1).at(0);
    std::cout << best.place->to_string() << ": " << best.value << '\n';
  }
}
