#include "cli/processing_check.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/model_options.h"
#include "hooked/analysis/repetition.h"
#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/loading/describe.h"

namespace hooked::cli {
namespace {

constexpr std::int64_t kRows = 4, kMostHalf = 8;
constexpr double kLeast = -100.0;

Input random_input(const ModelConfig& config) {
  const std::int64_t vocab = std::min(config.d_vocab, config.d_vocab_out());
  const std::int64_t half = std::min({kMostHalf, config.n_ctx / 2, vocab});
  const auto tokens = [&](std::uint64_t seed) {
    return repeated_random_tokens({.rows = kRows,
                                   .half = std::max<std::int64_t>(1, half),
                                   .vocab_begin = 0,
                                   .vocab_end = vocab,
                                   .seed = seed});
  };
  if (!config.has_encoder()) return Input(tokens(0));
  return Input(tokens(0), {.decoder = {.tokens = tokens(1)}});
}

at::Tensor log_probabilities(const ModelOptions& options, std::optional<WeightProcessing> processing,
                             const Input& input) {
  LoadOptions load = load_options(options);
  if (processing) load.processing = std::move(processing);
  const auto model = HookedTransformer::load(options.model, load);
  return at::log_softmax(model.run(input).logits().to(at::kCPU, at::kDouble), -1);
}

}  // namespace

ProcessingCheck check_processing(const ModelOptions& options) {
  const ModelConfig config = describe(options.model, load_options(options)).config;
  if (!config.has_unembedding()) {
    throw ConfigError("--check-processing",
                      "the model has no unembedding and predicts nothing; expected one whose "
                      "log-probabilities can be compared");
  }
  const Input input = random_input(config);
  const at::Tensor raw = log_probabilities(options, WeightProcessing::none(), input);
  const at::Tensor processed = log_probabilities(options, std::nullopt, input);
  const at::Tensor apart = (raw - processed).abs().masked_fill((raw >= kLeast).logical_not(), 0.0);
  return {
      .largest = apart.max().item<double>(), .tokens = input.main_tokens().numel(), .dtype = config.dtype};
}

}  // namespace hooked::cli
