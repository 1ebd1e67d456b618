// What the stream predicts at every layer and token, and which parts wrote an answer.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const auto batch = model.to_token_batch({"When John and Mary went to the shop, John gave a bag to",
                                           "Then Mary and John went to the park, and Mary gave a book to"});
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");
  const auto run = model.run_with_cache(batch);

  // The likeliest tokens at each row's last token, and the probability of two tokens everywhere.
  std::cout << hooked::logit_lens(model, run.cache, {.top_k = 2});
  const auto lens = hooked::logit_lens(model, run.cache, {.positions = {}, .tokens = {mary, john}});
  const auto picture = lens.probabilities.slice("row", 1).slice("token", 1);  // [point, pos]
  picture.save(folder / "lens.svg");

  // Each row has an answer of its own; a part that is an activation has its address.
  const auto parts = hooked::direct_logit_attribution(model, run.cache,
                                                      {.answer = hooked::Answers::by_row({mary, john}),
                                                       .against = hooked::Answers::by_row({john, mary}),
                                                       .grain = hooked::Grain::head});
  for (const auto& part : parts.mean("row").largest(3)) {
    std::cout << part.labels[0] << ' ' << part.value << " logits";
    if (part.place) std::cout << ", " << *part.place;
    std::cout << '\n';
  }
}
