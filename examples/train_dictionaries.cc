// Trains the dictionaries of examples/toy_sae and examples/toy_transcoders on the activations of the toy
// model: a sparse autoencoder of the residual stream after block 0, and a transcoder of each block's MLP.
//
//   train_dictionaries --model examples/toy_model --out FOLDER [--steps N] [--seed S]
//
// FOLDER/toy_sae and FOLDER/toy_transcoders are written in SAELens's form. FOLDER must be new or empty.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/optim/adam.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "examples/toy_task/toy_task.h"
#include "examples/training/training_options.h"
#include "hooked/hooked.h"

namespace {

/// What the model computes at some points on sentences and repeats, [token, width] for each point.
std::vector<at::Tensor> activations(const hooked::HookedTransformer& model, toy::Task& task,
                                    const std::vector<std::string>& points) {
  std::vector<std::vector<at::Tensor>> parts(points.size());
  const auto collect = [&](const hooked::Input& input) {
    std::string names;
    for (const std::string& point : points) names += (names.empty() ? "" : ",") + point;
    const auto run = model.run(input, {.capture = names, .output = hooked::Output::none});
    for (std::size_t i = 0; i < points.size(); ++i) {
      const at::Tensor value = run.cache[hooked::Address(points[i])];
      const at::Tensor mask = input.attention_mask;
      parts[i].push_back(mask.defined() ? value.index({mask.to(at::kBool)}) : value.flatten(0, 1));
    }
  };
  for (int batch = 0; batch < 40; ++batch) {
    const auto sentences = task.sentences(64, toy::Pairs::training);
    collect({sentences.tokens, {.attention_mask = sentences.mask}});
    collect(task.repeats(8, task.draw(4, 31)));
  }
  std::vector<at::Tensor> all;
  for (const auto& part : parts) all.push_back(at::cat(part));
  return all;
}

/// How a dictionary is trained.
struct Training {
  hooked::DictionaryConfig config;
  std::int64_t steps;
  /// Of the codes' size in the loss; 0 for those that keep the k largest, which are sparse already.
  double sparsity;
};

/// Minimises the squared error of what is decoded, in units of the targets' variance. Decoder rows keep
/// length 1.
hooked::Dictionary trained(const Training& training, const at::Tensor& inputs, const at::Tensor& targets) {
  const hooked::DictionaryConfig& c = training.config;
  at::Tensor decoder = at::randn({c.features, c.d_out});
  decoder /= decoder.norm(2, 1, true);
  // Features begin as directions of the data, read and written alike where both are one space.
  at::Tensor encoder =
      (c.transcodes ? at::randn({c.d_in, c.features}) / std::sqrt(c.d_in) : decoder.t().clone());
  std::vector<at::Tensor> parameters = {encoder, at::zeros({c.features}), decoder, targets.mean(0)};
  for (at::Tensor& parameter : parameters) parameter.requires_grad_(true);
  const auto dictionary = [&] {
    return hooked::Dictionary(c, {.W_enc = parameters[0],
                                  .b_enc = parameters[1],
                                  .W_dec = parameters[2],
                                  .b_dec = parameters[3],
                                  .threshold = {},
                                  .W_skip = {},
                                  .b_gate = {},
                                  .b_mag = {},
                                  .r_mag = {}});
  };
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-3).betas({0.9, 0.999}));
  const double variance = targets.var(0).sum().item<double>();
  for (std::int64_t step = 0; step < training.steps; ++step) {
    const double left = 1.0 - static_cast<double>(step) / static_cast<double>(training.steps);
    for (auto& group : optimizer.param_groups()) group.options().set_lr(2e-3 * std::min(1.0, 4 * left));
    const at::Tensor some = at::randint(inputs.size(0), {1024}, at::kLong);
    const at::Tensor x = inputs.index_select(0, some), y = targets.index_select(0, some);
    const hooked::Dictionary now = dictionary();
    const at::Tensor codes = now.encode(x);
    const at::Tensor error = (now.decode(codes, x) - y).square().sum(1).mean() / variance;
    const at::Tensor size = codes.sum(1).mean() / std::sqrt(variance);
    optimizer.zero_grad();
    (error + training.sparsity * size).backward();
    optimizer.step();
    const at::NoGradGuard no_grad;
    parameters[2].div_(parameters[2].norm(2, 1, true).clamp_min(1e-8));
    if ((step + 1) % 1000 == 0) {
      fmt::print(stderr, "{}: step {}, unexplained {:.4f}, {:.1f} features a token, {} dead\n", c.output,
                 step + 1, error.item<double>(), codes.ne(0).sum(1).to(at::kFloat).mean().item<double>(),
                 codes.ne(0).sum(0).eq(0).sum().item<std::int64_t>());
    }
  }
  for (at::Tensor& parameter : parameters) parameter = parameter.detach();
  return dictionary();
}

void train(const std::string& from, const training::Options& options) {
  at::manual_seed(options.seed);
  at::set_num_threads(1);  // small matrices gain nothing from more
  const auto model = hooked::HookedTransformer::load(from, {.processing = hooked::WeightProcessing::none()});
  toy::Task task(options.seed);
  const std::string stream = "blocks.0.hook_resid_post";
  std::vector<std::string> points = {stream};
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    points.push_back(fmt::format("blocks.{}.mlp.hook_in", layer));
    points.push_back(fmt::format("blocks.{}.hook_mlp_out", layer));
  }
  const std::vector<at::Tensor> values = activations(model, task, points);

  hooked::DictionaryConfig config;
  config.d_in = config.d_out = model.config().d_model;
  config.model_name = "toy_model";
  config.features = 384;
  config.activation = hooked::CodeActivation::top_k;
  config.k = 8;
  config.subtracts_decoder_bias = true;
  config.input = config.output = stream;
  config.layer = 0;
  trained({config, options.steps, 0}, values[0], values[0]).save(options.out / "toy_sae");

  config.features = 256;
  config.activation = hooked::CodeActivation::relu;
  config.k = 0;
  config.subtracts_decoder_bias = false;
  config.transcodes = true;
  for (std::int64_t layer = 0; layer < model.config().n_layers; ++layer) {
    const auto first = static_cast<std::size_t>(1 + 2 * layer);
    config.input = points[first];
    config.output = points[first + 1];
    config.layer = layer;
    trained({config, options.steps, 0.08}, values[first], values[first + 1])
        .save(options.out / "toy_transcoders" / fmt::format("layer_{}", layer));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string model = "examples/toy_model";
    const auto options = training::read_options(argc, argv, 4000, {{"--model", model}});
    train(model, options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
