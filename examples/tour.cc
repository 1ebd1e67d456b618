// One task, one call: docs/tour.md shows these lines, task by task.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>
#include <string>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const std::string toy = argc > 1 ? argv[1] : "examples/toy_model";
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const auto shipped = [&](const char* name) {
    return (std::filesystem::path(toy).parent_path() / name).string();
  };

  const auto model = hooked::HookedTransformer::load(toy);
  const auto prompt = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto other = model.to_tokens("When John and Mary went to the shop, Mary gave a bag to");
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");

  const auto [probability, id] = at::topk(at::softmax(model(prompt).index({0, -1}), -1), 5);
  std::cout << id << probability << '\n';

  const auto made = model.generate(prompt, {.max_new_tokens = 8, .sampling = {.greedy = true}});
  std::cout << made.texts.front() << '\n';

  const auto [logits, cache] = model.run_with_cache(prompt);
  const auto stream = cache[act::resid_post(1)];  // [batch, pos, d_model]
  std::cout << stream.sizes() << '\n';

  const auto lens = hooked::logit_lens(model, cache, {.tokens = {mary}});
  std::cout << lens.probabilities;

  const auto parts = hooked::direct_logit_attribution(
      model, cache, {.answer = mary, .against = john, .grain = hooked::Grain::head});
  std::cout << parts;

  const auto sources = hooked::source_attribution(model, cache, {.answer = mary, .against = john});
  std::cout << sources.largest(1).front().labels[3] << '\n';

  hooked::attention_grid(model, cache, act::pattern(1).head(3)).save(folder / "attention.svg");

  const auto twice = hooked::repeated_random_tokens(hooked::repeated_tokens_of(model));
  const auto patterns = model.run_with_cache(twice, act::pattern).cache;
  const auto induction = hooked::head_scores(patterns, hooked::HeadScore::induction, {.tokens = twice});
  std::cout << induction;

  const auto without = model.run(prompt, {.edits = hooked::zero(act::z(1).head(3))});
  std::cout << without.logits().sizes() << '\n';

  const auto halved =
      model.run_with_hooks(prompt, hooked::Hook("z1", [](const at::Tensor& z) { return z * 0.5; }));
  std::cout << halved.logits().sizes() << '\n';

  const hooked::SweepOptions pair{
      .from = cache, .into = other, .metric = hooked::logit_difference(mary, john)};
  hooked::sweep(model, hooked::patching_preset("resid_pre"), pair).save(folder / "patching.svg");

  const auto pairs = hooked::PromptPairs::load(model, shipped("pairs.jsonl"));
  const hooked::SweepOptions many{.from = model.run_with_cache(pairs.clean()).cache,
                                  .into = pairs.corrupted(),
                                  .metric = hooked::logit_difference(pairs.answers(), pairs.against())};
  const auto heads = hooked::sweep(model, hooked::patching_preset("attn_head_out_all_pos"), many).mean("row");
  std::cout << heads;

  const auto estimates = hooked::node_attribution(model, {.sweep = many}).mean("row");
  std::cout << estimates.largest(1).front().labels[0] << '\n';

  const auto circuit = hooked::choose_circuit(model, estimates, {.count = 4});
  const auto judged = hooked::judge_circuit(model, circuit, {.sweep = many, .sets = 20});
  std::cout << judged.faithfulness << '\n';

  const auto copying = hooked::copying_scores(model);
  std::cout << copying.eigenvalues;

  const auto rows = at::cat({prompt, other}).repeat({20, 1});
  const auto report = hooked::fit_probes(model, rows, at::arange(40) % 2);
  std::cout << report.accuracy;

  const auto steered = model.generate(prompt, {.edits = report.probes.back().steer(model, 2)});
  std::cout << steered.texts.front() << '\n';

  const auto sae = hooked::Dictionary::load(shipped("toy_sae"));
  const auto raw = hooked::HookedTransformer::load(toy, {.processing = hooked::WeightProcessing::none()});
  const auto spliced = raw.with_dictionary(sae, {.with_error = true});
  const auto features = act::sae_acts_post(act::resid_post(0));
  const auto firing = hooked::firing_features(spliced.run_with_cache(prompt, features).cache, features);
  std::cout << firing.size() << '\n';

  const auto transcoders = hooked::DictionarySet::load(shipped("toy_transcoders"));
  const auto graph = hooked::pruned(hooked::attribute_graph(raw, transcoders.members(), prompt));
  const auto paths = hooked::strongest_paths(graph);
  std::cout << paths.size() << '\n';
}
