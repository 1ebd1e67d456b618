// Which parts matter, by gradients, and a circuit of them: docs/analysis/attribution-patching.md.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto pairs = hooked::PromptPairs::load(model, argc > 3 ? argv[3] : "examples/pairs.jsonl");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";

  // Clean prompts are run; each part is replaced by its value in the corrupted run.
  const hooked::SweepOptions sweep{.from = model.run_with_cache(pairs.corrupted(), act::defaults).cache,
                                   .into = pairs.clean(),
                                   .metric = hooked::logit_difference(pairs.answers(), pairs.against())};

  // 1. Every head and MLP by one gradient, and what that predicts of exact patching.
  const auto nodes = hooked::node_attribution_report(model, {.sweep = sweep, .check = 5});
  const auto scores = nodes.grid.mean("row");  // [node]
  for (const auto& cell : scores.largest(4, hooked::LargestBy::size))
    std::cout << cell.labels[0] << ": " << cell.value << " logits\n";
  std::cout << "correlation with patching: " << nodes.check->correlation << ", missed "
            << nodes.check->missed.size() << " of " << nodes.check->cells.size() << '\n';

  // 2. Every edge: what each part reads of each other, averaged over runs between the two prompts'
  // embeddings.
  const auto edges = hooked::edge_attribution(
      model, {.sweep = sweep, .integration = {.over = hooked::IntegrateOver::inputs, .steps = 5}});
  edges.mean("row").save(folder / "edges.svg");  // [writer, reader]

  // 3. The circuit of the largest nodes, alone, ablated, and compared with other sets of that size.
  const auto circuit = hooked::choose_circuit(model, scores, {.count = 4});
  circuit.save(folder / "circuit.json");
  const auto judged = hooked::judge_circuit(model, circuit, {.sweep = sweep, .sets = 60});
  std::cout << circuit.size() << " nodes: faithfulness " << judged.faithfulness << ", completeness "
            << judged.completeness << ", as faithful are " << judged.more_faithful * 100
            << " % of other sets\n"
            << judged.minimality;

  // 4. A single path: from the strongest head straight to the logits.
  const auto strongest = *nodes.grid.mean("row").largest(1, hooked::LargestBy::size).front().place;
  const auto direct = hooked::path_patching(model, {.senders = {strongest}, .sweep = sweep});
  std::cout << "straight to the logits: " << direct.mean("row").at({}) << '\n';
}
