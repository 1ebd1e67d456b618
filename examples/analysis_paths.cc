// Paths, virtual weights and directions from weights: docs/analysis/virtual-weights.md.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

using hooked::StreamMatrix;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";

  // How head 0.3 scores tokens by tokens that stand one before them: [vocab, vocab], in two thin factors.
  const auto mary = model.to_token(" Mary"), john = model.to_token(" John");
  const auto full = hooked::full_qk_circuit(model, {.layer = 0, .head = 3}, {.distance = 1});
  std::cout << "John looks at the Mary before it with " << full.at(john, mary).item<double>()
            << ", before any norm's scale\n";

  // How the values of head 1.3 read what head 0.1 writes, and what of it they see at all.
  const hooked::StreamPart writer{.matrix = StreamMatrix::head_out, .layer = 0, .index = 1};
  const hooked::StreamPart reader{.matrix = StreamMatrix::value, .layer = 1, .index = 3};
  const auto between = hooked::virtual_weights(model, writer, reader);  // [d_head, d_head]
  const auto overlap = hooked::subspace_overlap(model, writer, reader);
  std::cout << "virtual weights of norm " << between.norm().item<double>() << "; of what is written "
            << 100 * overlap.overlap << " % is read, by chance " << 100 * overlap.random << " %\n";

  // The answer by paths: direct, through one head, through two. MLPs are where paths begin.
  const auto run = model.run_with_cache("When John and Mary went to the shop, John gave a bag to");
  const auto paths = hooked::path_expansion(model, run.cache, {.answer = mary, .against = john, .order = 2});
  const auto all = paths.slice("row", 0).slice("pos", 0);  // [source, path]
  for (const auto& cell : all.largest(5, hooked::LargestBy::size))
    std::cout << cell.labels[0] << " by " << cell.labels[1] << ": " << cell.value << '\n';
  all.save(folder / "paths.svg");

  // What head 1.3 writes, direction by direction, as tokens.
  std::cout << hooked::singular_directions(model, {.layer = 1, .index = 3, .directions = 3, .top_k = 3});

  // How neurons' outputs share the stream.
  const auto neurons = hooked::stream_matrix(model, {.matrix = StreamMatrix::mlp_out, .layer = 1});
  const auto packed = hooked::superposition(neurons);
  std::cout << neurons.size(0) << " neurons in " << neurons.size(1)
            << " dimensions: the closest two have a cosine of " << packed.largest_cosine
            << ", no arrangement less than " << packed.welch_bound << '\n';
}
