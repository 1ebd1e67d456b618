#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

namespace act = hooked::act;
using hooked::Grain;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto run = model.run_with_cache(tokens);
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");

  // The parts of the last token's stream: [row, part, pos, d_model], all parts add up to the stream.
  const auto parts = hooked::residual_parts(model, run.cache, {.grain = Grain::head});
  std::cout << parts.axis("part").labels.size() << " places: " << parts.title() << '\n';

  // The same along directions, without any part as a vector: every neuron along the two answers.
  const auto answers =
      model.weights().W_U().t().index_select(0, at::tensor({mary, john}));  // [direction, d_model]
  const auto neurons = hooked::residual_parts(
      model, run.cache, {.of = act::ln_final_normalized, .grain = Grain::neuron, .along = answers});
  for (const auto& cell : neurons.slice("direction", 0).largest(3))
    std::cout << cell.labels[1] << ' ' << cell.value << '\n';

  // The stream as it grows, and how the logit difference grows with it.
  const auto points = hooked::accumulated_residual(model, run.cache, {.mid = true});
  const hooked::AttributionOptions difference{.answer = mary, .against = john};
  std::cout << hooked::direct_logit_attribution(model, run.cache, points, difference);

  // From which tokens the heads brought it, and why the strongest one looks there.
  const auto sources = hooked::source_attribution(model, run.cache, {.answer = mary, .against = john});
  const auto best = sources.largest(1).front();
  std::cout << best.labels[1] << " from " << best.labels[3] << ": " << best.value << " logits\n";
  sources.slice("row", 0).slice("pos", 0).save(folder / "sources.svg");  // [part, key]
  const auto scores = hooked::score_attribution(
      model, run.cache, {.scores = act::attn_scores(1).head(3), .grain = Grain::head, .keys = {3, 10}});
  for (const auto& cell : scores.largest(3, hooked::LargestBy::size))
    std::cout << cell.labels[1] << " x " << cell.labels[2] << " at key " << cell.labels[4] << ": "
              << cell.value << '\n';

  // A token's rank, through the layers, and what heads say by themselves.
  std::cout << hooked::logit_lens(model, run.cache, {.tokens = {mary}, .mid = true}).ranks.slice("row", 0)
            << hooked::logit_lens(model, run.cache, {.top_k = 1, .parts = Grain::layer});
}
