// Where does a prediction come from? What each head wrote to a logit difference, and when the answer appears.
#include <hooked/hooked.h>

#include <algorithm>
#include <cmath>
#include <iostream>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to");

  auto parts = hooked::direct_logit_attribution(
      model, run.cache,
      {.answer = model.to_token(" Mary"), .against = model.to_token(" John"), .grain = hooked::Grain::head});
  double sum = 0.0;
  for (const auto& part : parts) sum += part.logits;
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return std::abs(a.logits) > std::abs(b.logits); });
  for (std::size_t i = 0; i < 5 && i < parts.size(); ++i)
    std::cout << parts[i].part << "  " << parts[i].logits << " logits\n";
  std::cout << "all parts together  " << sum << " logits\n\n";

  // The stream after each block, read as if it were the last one.
  for (const auto& row : hooked::logit_lens(model, run.cache, {.position = -1, .top_k = 3}))
    std::cout << row << '\n';
}
