// Keep what a run computed, look at an attention pattern, and switch heads off one by one.
#include <hooked/hooked.h>

#include <cstdint>
#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto prompt = "When John and Mary went to the shop, John gave a bag to";
  const auto answer = model.to_token(" Mary");
  const auto probability = [&](const at::Tensor& logits) {  // of the answer after the last token
    return at::softmax(logits.index({0, -1}), -1)[answer].item<double>();
  };

  const auto [logits, cache] = model.run_with_cache(prompt, "pattern");
  std::cout << "the answer has probability " << probability(logits) << '\n';

  // What head 3 of layer 1 looks at from the last token, strongest first.
  const auto words = model.to_str_tokens(model.to_tokens(prompt));
  const auto [weights, keys] = at::topk(cache["pattern1[head=3,pos=last]"][0], 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto key = keys[i].item<std::int64_t>();
    std::cout << "  head 1.3 looks at '" << words.at(static_cast<std::size_t>(key)) << "' with "
              << weights[i].item<double>() << '\n';
  }

  for (std::int32_t layer = 0; layer < model.config().n_layers; ++layer) {
    for (std::int64_t head = 0; head < model.config().n_heads; ++head) {
      const auto without = model.run(prompt, {.edits = {hooked::zero(act::z(layer).head(head))}});
      std::cout << "without head " << layer << '.' << head << ": " << probability(without.logits()) << '\n';
    }
  }
}
