// The code of the README, compiled and run by the tests so that it stays true.

#include <ATen/ops/tensor.h>
#include <hooked/hooked.h>

#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "examples/toy_model";
  auto model =
      hooked::HookedTransformer::load(folder, {.device = "cpu"});  // folder, or org/name in the hub cache
  const auto clean = "When John and Mary went to the shop, John gave a bag to";
  const auto corrupted = model.to_tokens("When John and Mary went to the shop, Mary gave a bag to");

  const auto run = model.run_with_cache(clean);                                      // every default point
  const auto slim = model.run_with_cache(clean, act::pattern | act::resid_post(1));  // only these are kept
  const auto pattern = run.cache[act::pattern(1)];  // [batch, head, query, key]

  {
    const auto ablate = model.hook(act::z(1), [](const at::Tensor& z) {  // [batch, pos, head, d_head]
      return z.index_fill(2, at::tensor({3}, at::kLong), 0.0);
    });
    model(clean);
  }  // gone here, also if the run threw

  const auto edited = model.run(clean, {.edits = {hooked::zero(act::z(1).head(3))}});  // the same, as data

  const auto metric = hooked::logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  const auto map = hooked::sweep(model, {.site = act::resid_pre,
                                         .over = {hooked::Axis::layer, hooked::Axis::pos},
                                         .from = run.cache,
                                         .into = corrupted,
                                         .metric = metric});
  map.save(argc > 2 ? argv[2] : "resid_pre.svg");
  std::cout << map;

  std::cout << hooked::logit_lens(model, run.cache, {.top_k = 3});
  std::cout << hooked::direct_logit_attribution(
      model, run.cache,
      {.answer = model.to_token(" Mary"), .against = model.to_token(" John"), .grain = hooked::Grain::head});

  model.generate(clean, {.max_new_tokens = 20,
                         .sampling = {.temperature = 0.7, .seed = 1},
                         .on_text = [](std::string_view text) {
                           std::cout << text << std::flush;
                           return true;
                         }});
  std::cout << '\n';
}
