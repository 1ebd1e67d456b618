// Which heads carry the answer? Activation patching, averaged over several pairs of prompts.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>
#include <optional>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const hooked::PromptPairs pairs(model,
                                  {{.clean = "When John and Mary went to the shop, John gave a bag to",
                                    .corrupted = "When John and Mary went to the shop, Mary gave a bag to",
                                    .answers = {" Mary"},
                                    .against = {" John"}},
                                   {.clean = "When Mary and John went to the shop, Mary gave a bag to",
                                    .corrupted = "When Mary and John went to the shop, John gave a bag to",
                                    .answers = {" John"},
                                    .against = {" Mary"}}});
  const auto answers = pairs.answers(), against = pairs.against();
  const auto clean = model.run_with_cache(pairs.clean(), act::z);

  at::Tensor sum;
  std::optional<hooked::Grid> one;
  for (std::int64_t pair = 0; pair < pairs.size(); ++pair) {
    const auto metric = hooked::logit_difference(answers.of_rows({pair}), against.of_rows({pair}));
    const auto corrupted = pairs.corrupted().tokens[pair];
    const auto patched = hooked::sweep(model, {.site = act::z,
                                               .over = {hooked::Axis::layer, hooked::Axis::head},
                                               .from = clean.cache.row(pair),
                                               .into = corrupted,
                                               .metric = metric});
    // 0: as wrong as the corrupted run, 1: as right as the clean one.
    one = patched.rescaled(metric.score(model, corrupted).item<double>(),
                           metric.score(model, pairs.clean().tokens[pair]).item<double>(),
                           "share of the answer that comes back");
    sum = sum.defined() ? sum + one->values() : one->values();
  }
  const hooked::Grid mean(sum / static_cast<double>(pairs.size()), one->axes(),
                          {.title = "Patching the heads of two pairs", .unit = one->unit()});
  std::cout << mean;
  mean.save(folder / "heads.svg");
}
