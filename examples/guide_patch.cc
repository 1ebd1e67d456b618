// Which heads carry the answer? Activation patching, averaged over several pairs of prompts.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace act = hooked::act;

struct Pair {
  std::string clean, corrupted;  // of the same number of tokens
  std::string answer, against;   // what the clean prompt asks for, and the corrupted one
};

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const std::vector<Pair> pairs = {
      {"When John and Mary went to the shop, John gave a bag to",
       "When John and Mary went to the shop, Mary gave a bag to", " Mary", " John"},
      {"When Mary and John went to the shop, Mary gave a bag to",
       "When Mary and John went to the shop, John gave a bag to", " John", " Mary"},
  };

  at::Tensor sum;
  std::optional<hooked::Grid> one;
  for (const auto& pair : pairs) {
    const auto metric = hooked::logit_difference(model.to_token(pair.answer), model.to_token(pair.against));
    const auto score = [&](const std::string& prompt) {
      return metric(model.run(prompt, {.logit_positions = metric.positions()}).logits()).item<double>();
    };
    const auto patched = hooked::sweep(model, {.site = act::z,
                                               .over = {hooked::Axis::layer, hooked::Axis::head},
                                               .from = model.run_with_cache(pair.clean, act::z).cache,
                                               .into = model.to_tokens(pair.corrupted),
                                               .metric = metric});
    // 0: as wrong as the corrupted run, 1: as right as the clean one.
    one = patched.rescaled(score(pair.corrupted), score(pair.clean), "share of the answer that comes back");
    sum = sum.defined() ? sum + one->values() : one->values();
  }
  const hooked::Grid mean(sum / static_cast<double>(pairs.size()), one->axes(),
                          {.title = "Patching the heads of two pairs", .unit = one->unit()});
  std::cout << mean;
  mean.save(folder / "heads.svg");
}
