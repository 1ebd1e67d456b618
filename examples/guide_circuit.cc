// Which parts give the answer? Mean ablation, the paths between heads, and a circuit that is judged.
#include <hooked/hooked.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");

  // Prompts of one template, so that a column is the same place in all of them; each name is the answer once.
  std::vector<hooked::PromptPair> list;
  for (const auto& [one, two] : std::vector<std::pair<std::string, std::string>>{
           {"John", "Mary"}, {"Mary", "John"}, {"James", "Anna"}, {"Anna", "James"}}) {
    const auto prompt = [&](const std::string& giver) {
      return "When " + one + " and " + two + " went to the shop, " + giver + " gave a bag to";
    };
    list.push_back({.clean = prompt(one),
                    .corrupted = prompt(two),
                    .answers = {" " + two},  // what follows a word begins with a blank
                    .against = {" " + one}});
  }
  const hooked::PromptPairs pairs(model, list);
  const auto metric = hooked::logit_difference(pairs.answers(), pairs.against());
  std::cout << "logit difference: " << hooked::scores(model, pairs.clean(), metric).mean("row").at({})
            << "\n\n";

  // 1. Mean ablation: each head becomes its mean over both kinds of prompts, at each position its own.
  const auto both = at::cat({pairs.clean().tokens, pairs.corrupted().tokens});
  const auto data = model.run_with_cache(both, act::z | act::mlp_out).cache;
  const auto mean = hooked::PatchSource::mean(data, hooked::MeanOver::rows);
  const hooked::SweepOptions ablated{.from = mean, .into = pairs.clean(), .metric = metric};
  auto heads = ablated;
  heads.site = act::z;
  heads.over = {hooked::Axis::layer, hooked::Axis::head};
  const auto by_head = hooked::sweep(model, heads).mean("row");
  std::cout << by_head << '\n';

  // 2. Path patching: what layer 1's queries and the logits read of heads 0.2 and 0.3.
  std::vector<hooked::Address> receivers;
  for (std::int64_t head = 0; head < model.config().n_heads; ++head)
    receivers.push_back(act::q(1).head(head));
  receivers.push_back(act::resid_post(-1));
  std::cout << hooked::path_patching(model, {.senders = {act::z(0).head(2), act::z(0).head(3)},
                                             .receivers = receivers,
                                             .through = hooked::PathThrough::mlps,
                                             .cells = hooked::PathCells::each_receiver,
                                             .sweep = {.from = model.run_with_cache(pairs.corrupted()).cache,
                                                       .into = pairs.clean(),
                                                       .metric = metric}})
                   .mean("row")
            << '\n';

  // 3. A circuit, alone: all other heads and MLPs are mean-ablated.
  const auto circuit = hooked::Circuit::of_nodes(model, {"head 0.2", "head 0.3", "mlp 0", "mlp 1"});
  const auto judged = hooked::judge_circuit(model, circuit, {.sweep = ablated, .sets = 40});
  std::cout << "whole model " << judged.whole << ", everything ablated " << judged.none << ", circuit "
            << judged.circuit << ", the rest " << judged.without << "\nfaithfulness " << judged.faithfulness
            << ", completeness " << judged.completeness << "\n\n"
            << judged.minimality;

  // 4. The four heads whose ablation changes the score most, next to that circuit; no name is spelled.
  const auto change = by_head - hooked::scores(model, pairs.clean(), metric).mean("row").at({});
  const auto largest = hooked::Circuit::of_cells(model, change.largest(4, hooked::LargestBy::size));
  std::cout << '\n' << hooked::run_circuits(model, {circuit, largest}, ablated).mean("row");

  // The circuit alone once more, as a set of places that are ablated.
  const auto rest = hooked::parts_besides(model, circuit.places(model));
  const auto alone = hooked::ablate(model, {.sets = {rest}, .sweep = ablated}).mean("row").at({0});
  std::cout << '\n'
            << rest.size() << " of " << hooked::model_parts(model).size() << " parts ablated: " << alone
            << '\n';
}
