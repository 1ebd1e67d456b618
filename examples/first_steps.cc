// The first lines a newcomer writes: load a model, run it with a cache, read an attention pattern, switch a
// head off.

#include <hooked/hooked.h>

#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto prompt = "When John and Mary went to the shop, John gave a bag to";
  const auto run = model.run_with_cache(prompt);
  const auto pattern = run.cache[act::pattern(1)];  // [batch, head, query, key]
  const auto ablated = model.run(prompt, {.edits = {hooked::zero(act::z(1).head(3))}});
  const auto mary = model.to_token(" Mary");
  std::cout << "layer 1, head 3 looks most at token " << pattern[0][3][-1].argmax().item<int64_t>() << "\n"
            << "logit of Mary " << run.logits()[0][-1][mary].item<float>() << ", without that head "
            << ablated.logits()[0][-1][mary].item<float>() << "\n";
}
