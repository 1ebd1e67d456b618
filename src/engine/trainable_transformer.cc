#include "hooked/engine/trainable_transformer.h"

#include <c10/core/GradMode.h>

#include <utility>

#include "engine/device.h"
#include "engine/initialise.h"
#include "engine/loaded_model.h"
#include "engine/loss.h"
#include "engine/run_input.h"
#include "models/transformer.h"

namespace hooked {
namespace {

void require_gradients(LoadedModel& model) {
  for (at::Tensor& parameter : model.graph->parameters()) parameter.requires_grad_(true);
}

// A model of its own with the same weights and everything that goes with them.
std::shared_ptr<LoadedModel> copy_of(const LoadedModel& model) {
  auto copy = std::make_shared<LoadedModel>(model.config, model.device);
  copy->family = model.family;
  copy->notes = model.notes;
  copy->processing = model.processing;
  copy->tokenizer = model.tokenizer;
  copy->tokenizer_files = model.tokenizer_files;
  fill(*copy, copy_weights(model));
  return copy;
}

RunOptions run_options(const BesideTokens& beside) {
  return {.attention_mask = beside.attention_mask,
          .token_types = beside.token_types,
          .decoder_tokens = beside.decoder_tokens,
          .decoder_attention_mask = beside.decoder_attention_mask};
}

at::Tensor logits_of(const LoadedModel& model, const RunInput& input) {
  const Reach reach = Reach::everything(model.points);
  Run run(model.config, Watch(model.points, reach),
          {.own = {input.batch(), input.length(), input.attention_mask, model.device},
           .token_types = input.token_types,
           .source = input.source_of_run()});
  if (input.source) model.graph->encode(input.source->tokens, reach, run);
  return model.graph->unembed(model.graph->blocks(model.graph->embed(input.tokens, run), reach, run), run);
}

}  // namespace

TrainableTransformer::TrainableTransformer(std::shared_ptr<LoadedModel> model) : model_(std::move(model)) {
  require_gradients(*model_);
}
TrainableTransformer::TrainableTransformer(TrainableTransformer&&) noexcept = default;
TrainableTransformer& TrainableTransformer::operator=(TrainableTransformer&&) noexcept = default;
TrainableTransformer::~TrainableTransformer() = default;

TrainableTransformer TrainableTransformer::create(const ModelConfig& config, const CreateOptions& options) {
  auto model = std::make_shared<LoadedModel>(config_to_create(config, options), open_device(options.device));
  initialise(*model, options);
  model->processing = plan_processing(model->config, WeightProcessing::none());
  return TrainableTransformer(std::move(model));
}

TrainableTransformer TrainableTransformer::from(const HookedTransformer& model) {
  return TrainableTransformer(copy_of(*model.loaded()));
}

const ModelConfig& TrainableTransformer::config() const noexcept { return model_->config; }

std::vector<std::pair<std::string, at::Tensor>> TrainableTransformer::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : model_->graph->named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

std::vector<at::Tensor> TrainableTransformer::parameters() const { return model_->graph->parameters(); }

at::Tensor TrainableTransformer::forward(const at::Tensor& tokens, const BesideTokens& beside) const {
  return logits_of(*model_, check_input(*model_, tokens, run_options(beside)));
}

at::Tensor TrainableTransformer::loss(const at::Tensor& tokens, const BesideTokens& beside) const {
  RunOptions options = run_options(beside);
  options.output = Output::loss;
  const RunInput input = check_input(*model_, tokens, options);
  return next_token_loss(logits_of(*model_, input), input.targets, input.attention_mask, LossReduction::mean);
}

HookedTransformer TrainableTransformer::freeze() const { return HookedTransformer(copy_of(*model_)); }

}  // namespace hooked
