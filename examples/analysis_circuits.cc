// Circuits of heads from weights only: docs/analysis/weight-circuits.md.
#include <hooked/hooked.h>

#include <filesystem>
#include <iostream>

using hooked::HeadInput;

int main(int argc, char** argv) {
  const auto model = hooked::HookedTransformer::load(argc > 1 ? argv[1] : "examples/toy_model");
  const std::filesystem::path folder = argc > 2 ? argv[2] : ".";

  // What head 0.3 writes of what it reads: a d_model x d_model matrix of rank d_head that is never made.
  const auto ov = hooked::ov_circuits(model);  // [layer, head, d_model, d_model]
  const auto head = ov[0][3];
  const auto [U, S, V] = head.svd();
  std::cout << "rank " << S.size(0) << ", norm " << head.norm().item<double>() << ", largest singular value "
            << S[0].item<double>() << '\n';

  // What seeing each token does to the logits of all tokens, still in two thin factors.
  const auto w = model.weights();
  const auto full = hooked::matmul(hooked::matmul(w.W_E(), head), w.W_U());  // [vocab, vocab]
  const auto mary = model.to_token(" Mary");
  std::cout << "Mary raises Mary by " << full.at(mary, mary).item<double>() << " logits before any norm\n";

  // Which heads of layer 1 read what heads of layer 0 write, compared with random weights.
  const auto keys = hooked::composition_scores(model, HeadInput::key);
  const auto layer_1 = keys.scores.slice("layer", 0).slice("to_layer", 1);  // [head, to_head]
  std::cout << layer_1 << "random heads: " << keys.random_mean << " +- " << keys.random_deviation << '\n';
  layer_1.save(folder / "composition.svg");

  // Which heads copy: 1 where every eigenvalue of the full circuit is positive.
  const auto copying = hooked::copying_scores(model, {.top_k = 5});
  std::cout << copying.eigenvalues << copying.top_k;
}
