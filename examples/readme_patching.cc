// The README's example of activation patching, compiled and run by the tests so that it stays true.

#include <hooked/hooked.h>

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const auto pairs = hooked::PromptPairs::load(model, argc > 2 ? argv[2] : "examples/pairs.jsonl");
  const hooked::Metrics metrics{hooked::logit_difference(pairs.answers(), pairs.against()),
                                hooked::probability(pairs.answers())};
  const auto heads = hooked::sweep(model, hooked::patching_preset("attn_head_out_all_pos"),
                                   {.from = model.run_with_cache(pairs.clean(), hooked::act::z).cache,
                                    .into = pairs.corrupted(),
                                    .metric = metrics});  // [metric, row, layer, head]
  const auto wrong = hooked::scores(model, pairs.corrupted(), metrics);
  const auto right = hooked::scores(model, pairs.clean(), metrics);
  heads.rescaled(wrong, right, "share of the answer").mean("row").save(argc > 3 ? argv[3] : "heads.svg");
}
