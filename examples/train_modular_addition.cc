// Trains the model of examples/modular_addition/model on a + b mod 67, until it has grokked: first it knows
// the pairs that it sees by heart, and after more steps, with weight decay, it finds a rule and knows all
// others too (Power et al. 2022, Nanda et al. 2023).
//
//   train_modular_addition --out FOLDER [--steps N] [--seed S]
//
// The folder must be new or empty.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "examples/modular_addition/addition_task.h"
#include "examples/training/half_model.h"
#include "examples/training/training_options.h"
#include "hooked/hooked.h"

namespace {

constexpr std::int64_t kModulus = 67;

/// One block without norms, so that whatever reads the stream is linear in it.
hooked::ModelConfig addition_config() {
  hooked::ModelConfig config;
  config.n_layers = 1;
  config.d_model = 64;
  config.n_ctx = 3;
  config.n_heads = config.n_kv_heads = 2;
  config.d_head = 32;
  config.attn_scale = std::sqrt(32.0);
  config.d_mlp = 192;
  config.activation = hooked::Activation::relu;
  config.norm = config.final_norm = hooked::NormKind::none;
  config.qkv_bias = config.attn_out_bias = false;
  config.d_vocab = kModulus + 1;  // the numbers, and "="
  config.unembedding = hooked::Unembedding{.d_vocab = kModulus, .bias = false};
  config.default_prepend_bos = false;
  return config;
}

void train(const hooked::TrainableTransformer& model, const training::Options& options) {
  const auto all = addition::all_pairs(kModulus);
  const auto is_seen = addition::seen_in_training(kModulus);
  const auto seen = addition::chosen(all, is_seen), others = addition::chosen(all, is_seen.logical_not());
  constexpr double kRate = 1e-3;
  torch::optim::AdamW optimizer(model.parameters(),
                                torch::optim::AdamWOptions(kRate).betas({0.9, 0.98}).weight_decay(1.0));
  const std::int64_t every = std::max<std::int64_t>(1, options.steps / 20);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const double warm_up = std::min(1.0, static_cast<double>(step + 1) / 10);
    for (auto& group : optimizer.param_groups()) group.options().set_lr(kRate * warm_up);
    optimizer.zero_grad();
    const auto loss = at::cross_entropy_loss(model.forward(seen.tokens).select(1, -1), seen.sums);
    loss.backward();
    optimizer.step();
    if ((step + 1) % every != 0 && step != 0) continue;
    const auto logits = addition::sum_logits(model.freeze(), others);
    fmt::print(stderr, "step {:>5}/{}  loss: seen {:.2e}, others {:.2e} nats  others right: {:.2f} %\n",
               step + 1, options.steps, loss.item<double>(),
               at::cross_entropy_loss(logits, others.sums).item<double>(),
               100 * addition::accuracy(logits, others.sums));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const auto options = training::read_options(argc, argv, 9001);
  training::train_half_model(addition_config(), options, train);
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
