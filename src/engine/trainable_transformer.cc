#include "hooked/engine/trainable_transformer.h"

#include <utility>

#include "engine/model_memory.h"
#include "engine/run_input.h"
#include "hooked/engine/loss.h"
#include "loading/load/load.h"
#include "models/transformer/transformer.h"

namespace hooked {
namespace {

void require_gradients(LoadedModel& model) {
  for (at::Tensor& parameter : model.graph->parameters()) parameter.requires_grad_(true);
}

at::Tensor logits_of(const LoadedModel& model, const Input& input) {
  const Reach reach = reach_of(model, input);
  Run run{.watch = Watch(std::make_shared<const WatchPlan>(model.points, reach), {}),
          .sequence = Sequence(model.config, model.config.main_stack(),
                               {.batch = input.batch(),
                                .length = input.length(),
                                .attention_mask = input.main_mask(),
                                .device = model.main_device()}),
          .encoder_sequence = encoder_sequence(model, input),
          .token_types = input.token_types};
  return model.graph->forward(graph_input(input), reach, run);
}

}  // namespace

TrainableTransformer::TrainableTransformer(std::shared_ptr<LoadedModel> model)
    : model_(std::move(model), "model") {
  require_gradients(*model_);
}
TrainableTransformer::TrainableTransformer(TrainableTransformer&&) noexcept = default;
TrainableTransformer& TrainableTransformer::operator=(TrainableTransformer&&) noexcept = default;
TrainableTransformer::~TrainableTransformer() = default;

TrainableTransformer TrainableTransformer::create(const ModelConfig& config, const CreateOptions& options) {
  return TrainableTransformer(create_model(config, options, Storage::plain));
}

TrainableTransformer TrainableTransformer::from(const HookedTransformer& model) {
  const LoadedModel& loaded = *model.loaded();
  return with_memory(memory_of(loaded, kTrainDoor, Again::allowed),
                     [&] { return TrainableTransformer(copy_model(loaded, Storage::plain)); });
}

const ModelConfig& TrainableTransformer::config() const& { return model_->config; }

std::vector<std::pair<std::string, at::Tensor>> TrainableTransformer::named_parameters() const {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : model_->graph->named_parameters()) named.emplace_back(item.key(), item.value());
  return named;
}

std::vector<at::Tensor> TrainableTransformer::parameters() const { return model_->graph->parameters(); }

at::Tensor TrainableTransformer::forward(const Input& input) const {
  require_output(model_->config, {});
  return with_memory(memory_of(*model_, kTrainDoor, Again::allowed),
                     [&] { return logits_of(*model_, check_input(*model_, input)); });
}

at::Tensor TrainableTransformer::loss(const Input& given) const {
  const RunOptions options{.output = Output::loss};
  require_output(model_->config, options);
  return with_memory(memory_of(*model_, kTrainDoor, Again::allowed), [&] {
    const Input input = check_input(*model_, given);
    const at::Tensor targets = check_targets(*model_, input, options);
    return next_token_loss(logits_of(*model_, input), targets, input.main_mask());
  });
}

HookedTransformer TrainableTransformer::freeze() const {
  return with_memory(memory_of(*model_, kTrainDoor, Again::allowed),
                     [&] { return HookedTransformer(copy_model(*model_)); });
}

}  // namespace hooked
