// What you can do with a grid: slices, means, differences, the strongest cells, files.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

namespace act = hooked::act;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";
  const auto tokens = model.to_tokens("When John and Mary went to the shop, John gave a bag to");
  const auto cache = model.run_with_cache(tokens, act::pattern).cache;

  // [row, layer, head]; a mean leaves out what was not computed (NaN).
  const auto previous =
      hooked::head_scores(cache, hooked::HeadScore::previous_token, {.rows = hooked::HeadRows::each});
  const auto induction = hooked::head_scores(cache, hooked::HeadScore::induction,
                                             {.tokens = tokens, .rows = hooked::HeadRows::each});
  std::cout << previous.mean("row") << previous.slice("row", 0).slice("layer", "1");

  // Grids with the same axes, labels and unit subtract; the largest may be by value or by size.
  const auto difference = induction - previous;
  for (const auto& cell : difference.largest(3, hooked::LargestBy::size))
    std::cout << "layer " << cell.labels[1] << ", head " << cell.labels[2] << ": " << cell.value << '\n';

  difference.save(folder / "scores.csv");
  difference.save(folder / "scores.safetensors");
  const auto again = hooked::Grid::load(folder / "scores.csv");  // the same, to the last bit
  std::cout << again.title() << ": " << again.at({0, 1, 3}) << '\n';
}
