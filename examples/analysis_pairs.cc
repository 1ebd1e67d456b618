// Pairs of prompts from a file, scored and compared.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  hooked::write_prompt_pairs(folder / "pairs.jsonl",
                             {{.clean = "When John and Mary went to the shop, John gave a bag to",
                               .corrupted = "When John and Mary went to the shop, Mary gave a bag to",
                               .answers = {" Mary"},
                               .against = {" John"},
                               .places = {{"giver", {10, 10}}, {"shop", {"shop", "shop"}}}},
                              {.clean = "Then Mary and John went to the park, and Mary gave a book to",
                               .corrupted = "Then Mary and John went to the park, and John gave a book to",
                               .answers = {" John"},
                               .against = {" Mary"},
                               .places = {{"giver", {-5, -5}}, {"shop", {"park", "park"}}}}});
  const auto pairs = hooked::PromptPairs::load(model, folder / "pairs.jsonl");  // two padded batches

  // Each pair's own answers, at each row's last token.
  const auto difference = hooked::logit_difference(pairs.answers(), pairs.against());
  std::cout << difference.score(model, pairs.clean()) << difference.score(model, pairs.corrupted()) << '\n';

  // How far the corrupted run's prediction is from the clean one's, in nats.
  const auto reference = hooked::logits_at(model, pairs.clean());  // [pair, 1, vocab]
  std::cout << hooked::kl_divergence(reference).score(model, pairs.corrupted()) << '\n';

  // A score of activations: how much head 1.3 attends from the last token to the one who gives.
  const auto attends =
      hooked::attention(act::pattern(1).head(3), hooked::Position::last(), pairs.clean_place("giver"));
  std::cout << attends.score(model, pairs.clean()) << '\n';

  // The same metric differentiates: only the logits that it reads are computed.
  const auto run =
      model.run(pairs.clean(), {.gradients = hooked::GradientRequest{
                                    .of = act::resid_pre, .metric = difference.on(model, pairs.clean())}});
  std::cout << run.gradients[act::resid_pre(1)].norm() << '\n';
}
