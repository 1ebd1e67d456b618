// The pictures of docs/figures.md: figures [MODEL [FOLDER]].
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <hooked/hooked.h>

#include <filesystem>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const auto clean = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto corrupted = model.to_tokens("When John and Mary went to the shop, Mary gave a bag to");
  const auto run = model.run_with_cache(clean);

  // Attention: shares, so the scale runs from 0; keys after the query stay blank.
  hooked::attention_grid(model, run.cache, act::pattern(1)).save(folder / "attention.svg");

  // Patching: what changes nothing is white, because the corrupted run's score is the centre.
  const auto metric = hooked::logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  const auto before = metric.score(model, corrupted);
  const auto patched = hooked::sweep(model, {.site = act::resid_pre,
                                             .over = {hooked::Axis::layer, hooked::Axis::pos},
                                             .from = run.cache,
                                             .into = corrupted,
                                             .metric = metric});
  patched.save(folder / "resid_pre.svg", {.centre = before.item<double>()});

  // Any numbers: how alike the streams of two tokens are; the half above the diagonal says the same again.
  const auto stream = run.cache[act::resid_post(1)][0];  // [pos, d_model]
  const auto unit = stream / stream.norm(2, -1, true);
  const auto n_tokens = clean.size(1);
  const hooked::Grid alike(unit.matmul(unit.t()),
                           {hooked::token_axis(model, clean), hooked::token_axis(model, clean, "other pos")},
                           {.title = "Streams after layer 1", .unit = "cosine"});
  alike.save(folder / "cosine.svg", {.palette = "PRGn",
                                     .low = -1,
                                     .high = 1,
                                     .blank = at::ones({n_tokens, n_tokens}, at::kBool).triu(1),
                                     .cell = 24});

  // Lines: how likely " Mary" is to come next, read after each layer and at each token.
  const auto lens =
      hooked::logit_lens(model, run.cache, {.positions = {}, .tokens = {model.to_token(" Mary")}});
  const auto after_layers = lens.probabilities.slice("row", 0).slice("token", 0);  // [point, pos]
  hooked::write_file(folder / "logit_lens.svg", hooked::line_plot_svg(after_layers));
}
