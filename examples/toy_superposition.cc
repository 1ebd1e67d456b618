// Why a model has more features than dimensions (Elhage et al. 2022, "Toy models of superposition"): small
// models x -> ReLU(W' W x + b) learn to pass 20 features through 5 dimensions, each for features that are
// zero more often.
//
//   toy_superposition [STEPS]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <hooked/hooked.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::stoll(argv[1]) : 2000;
  const std::int64_t features = 20, dimensions = 5, batch = 512;
  const std::vector<double> sparsities = {0, 0.7, 0.9, 0.97};
  const auto models = static_cast<std::int64_t>(sparsities.size());
  const auto sparsity = at::tensor(sparsities, at::kDouble).view({models, 1, 1});
  const auto importance =
      at::pow(0.9, at::arange(features, at::kDouble));  // of a feature's error, in the loss

  // All models are trained at once, in float64, so that every machine gets the same numbers.
  at::set_num_threads(1);
  at::manual_seed(0);
  auto directions = 0.2 * at::randn({models, features, dimensions}, at::kDouble);
  auto bias = at::zeros({models, 1, features}, at::kDouble);
  directions.requires_grad_(true);
  bias.requires_grad_(true);
  torch::optim::Adam optimizer({directions, bias});
  for (std::int64_t step = 0; step < steps; ++step) {
    const double left = 1 - static_cast<double>(step) / static_cast<double>(steps);
    for (auto& group : optimizer.param_groups()) group.options().set_lr(0.01 * std::min(1.0, 2 * left));
    const auto values = at::rand({models, batch, features}, at::kDouble);
    const auto active = at::rand({models, batch, features}, at::kDouble).ge(sparsity);
    const auto x = values * active;
    const auto y = at::relu(x.matmul(directions).matmul(directions.transpose(1, 2)) + bias);
    const auto error = (importance * (y - x).square() / (1 - sparsity)).mean();
    optimizer.zero_grad();
    error.backward();
    optimizer.step();
    if (step == 0 || step + 1 == steps)
      std::cout << fmt::format("step {}: error {:.4f}\n", step + 1, error.item<double>());
  }

  // A feature is represented if its direction has a length near 1; those of the others are near 0.
  std::vector<at::Tensor> represented;
  for (std::int64_t model = 0; model < models; ++model) {
    const auto rows = directions.detach()[model];
    represented.push_back(rows.index({rows.square().sum(1).gt(0.5)}));
    const auto& kept = represented.back();
    const double zero = sparsities[static_cast<std::size_t>(model)];
    const auto packed = hooked::superposition(kept);
    const auto noise = hooked::expected_interference(kept, {.sparsity = zero}).square.mean().item<double>();
    std::cout << fmt::format(
        "zero {:.0f} % of the time: {} features in {} dimensions, largest cosine {:.2f} (at least {:.2f}), "
        "expected interference {:.2f}\n",
        100 * zero, kept.size(0), dimensions, packed.largest_cosine, packed.welch_bound, noise);
  }
  // The same directions would disturb one another too much if features were dense.
  const auto dense = hooked::expected_interference(represented.back(), {.sparsity = 0}).square.mean();
  std::cout << fmt::format(
      "the last directions, for features that are never zero: expected interference {:.2f}\n",
      dense.item<double>());

  // The squared lengths of all directions, the most important feature first.
  for (std::int64_t model = 0; model < models; ++model) {
    std::cout << fmt::format("{:2.0f} %:", 100 * sparsities[static_cast<std::size_t>(model)]);
    const auto lengths = directions.detach()[model].square().sum(1);
    for (std::int64_t i = 0; i < features; ++i)
      std::cout << fmt::format(" {:.1f}", lengths[i].item<double>());
    std::cout << '\n';
  }
}
