// Which heads carry the answer? Activation patching, averaged over several pairs of prompts.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

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
  const auto metric = hooked::logit_difference(pairs.answers(), pairs.against());
  const auto patched = hooked::sweep(model, {.site = act::z,
                                             .over = {hooked::Axis::layer, hooked::Axis::head},
                                             .from = model.run_with_cache(pairs.clean(), act::z).cache,
                                             .into = pairs.corrupted(),
                                             .metric = metric});  // [row, layer, head]
  // 0: as wrong as the corrupted run, 1: as right as the clean one; each pair on its own scale.
  const auto mean =
      patched
          .rescaled(hooked::scores(model, pairs.corrupted(), metric),
                    hooked::scores(model, pairs.clean(), metric), "share of the answer that comes back")
          .mean("row");
  std::cout << mean;
  mean.save(folder / "heads.svg");
}
