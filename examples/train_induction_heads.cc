// Trains the models of examples/induction_heads on random words that are repeated once: two layers of
// attention, with learned positions, which are added to the stream, or with shortformer's (Press et al.
// 2021), which only queries and keys read. All else is the same.
//
//   train_induction_heads --out FOLDER [--steps N] [--seed S] [--positions learned|shortformer]
//
// The folder must be new or empty.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <string>

#include "examples/training/half_model.h"
#include "examples/training/training_options.h"
#include "hooked/hooked.h"

namespace {

constexpr std::int64_t kWords = 64;

hooked::ModelConfig induction_config(const std::string& positions) {
  hooked::ModelConfig config;
  config.n_layers = 2;
  config.d_model = 48;
  config.n_ctx = 64;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 12;
  config.attn_scale = std::sqrt(12.0);
  config.mlp = hooked::MlpKind::none;
  if (positions == "shortformer") config.positions = hooked::ShortformerPositions{};
  config.d_vocab = kWords + 1;  // the words, and one that begins each row
  config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab};
  config.default_prepend_bos = false;
  return config;
}

/// Cross entropy in nats of what can be known: of the tokens from the second repeated one on.
at::Tensor repeat_loss(const at::Tensor& logits, const at::Tensor& tokens, std::int64_t half) {
  return at::cross_entropy_loss(logits.narrow(1, half + 1, half - 1).flatten(0, 1),
                                tokens.narrow(1, half + 2, half - 1).flatten());
}

void train(const hooked::TrainableTransformer& model, const training::Options& options) {
  constexpr double kRate = 2e-3;
  torch::optim::AdamW optimizer(model.parameters(),
                                torch::optim::AdamWOptions(kRate).betas({0.9, 0.98}).weight_decay(0.01));
  std::mt19937_64 random(options.seed);
  const std::int64_t every = std::max<std::int64_t>(1, options.steps / 20);
  const double steps = static_cast<double>(options.steps);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const double done = static_cast<double>(step) / steps;
    const double warm_up = std::min(1.0, static_cast<double>(step + 1) / std::min(100.0, steps / 4));
    for (auto& group : optimizer.param_groups())
      group.options().set_lr(kRate * warm_up * std::min(1.0, 4 * (1 - done)));
    const auto half = static_cast<std::int64_t>(4 + random() % 28);
    const auto tokens = hooked::repeated_random_tokens(
        {.rows = 64, .half = half, .vocab_end = kWords, .bos = kWords, .seed = random()});
    optimizer.zero_grad();
    const auto loss = repeat_loss(model.forward(tokens), tokens, half);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    if ((step + 1) % every == 0 || step == 0)
      fmt::print(stderr, "step {:>5}/{}  loss: {:.3f} nats\n", step + 1, options.steps, loss.item<double>());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  std::string positions = "learned";
  const auto options =
      training::read_options(argc, argv, 1500, {{"--positions", positions, {"learned", "shortformer"}}});
  training::train_half_model(induction_config(positions), options, train);
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
