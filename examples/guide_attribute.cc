// Where does a prediction come from? What each head wrote to a logit difference, and when the answer appears.
#include <hooked/hooked.h>

#include <iostream>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to");

  // [row, part, pos]: what each part wrote to the logit difference at the last token.
  const auto parts = hooked::direct_logit_attribution(
      model, run.cache,
      {.answer = model.to_token(" Mary"), .against = model.to_token(" John"), .grain = hooked::Grain::head});
  for (const auto& part : parts.largest(5, hooked::LargestBy::size))
    std::cout << part.labels[1] << "  " << part.value << " logits\n";
  std::cout << "all parts together  " << parts.values().sum().item<double>() << " logits\n\n";

  // The stream after each block, read as if it were the last one.
  std::cout << hooked::logit_lens(model, run.cache, {.top_k = 3});
}
