#include "hooked/engine/hooked_transformer.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/hash.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/out_of_memory.h"
#include "dictionaries/dictionary_data.h"
#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/model_files.h"
#include "io/files/replaceable.h"
#include "io/safetensors/safetensors_format.h"
#include "loading/config/generation_config.h"
#include "loading/fill/packed_file.h"
#include "loading/load/load.h"
#include "loading/load/read_from.h"

namespace hooked {
namespace {

// Where Hugging Face's folders say which tokens end a generation.
constexpr const char* kGenerationConfig = "generation_config.json";
// The weights of a model that is not packed.
constexpr const char* kPlainFile = "model.safetensors";

// Every file that a saved model can have.
std::set<std::string> saved_file_names() {
  std::set<std::string> names{kConfigFile, kGenerationConfig, kPlainFile, std::string(kPackedFile)};
  for (const std::string_view name : Tokenizer::file_names()) names.emplace(name);
  return names;
}

// Each is read when it is written, so that memory holds one of them in addition to the model.
void write_weights(AtomicFile& file, const LoadedModel& model, const Progress& progress) {
  const at::NoGradGuard no_grad;
  const WeightSlots slots = model.slots();
  std::map<std::string_view, const SlotView*> by_name;
  for (const WeightSlot& slot : slots) by_name.emplace(slot.name, &slot.view);
  SafetensorsList shapes;
  for (const auto& [name, view] : by_name)
    shapes.emplace_back(name, at::empty(view->sizes(), at::device(at::kMeta).dtype(view->dtype())));
  write_safetensors(file, shapes,
                    [&](std::size_t number) { return by_name.at(shapes[number].first)->read(); },
                    {.metadata = {{"format", "pt"}}, .progress = progress});
}

// A model whose weights have been read for its identity, which takes memory on their devices.
std::shared_ptr<LoadedModel> identified(std::shared_ptr<LoadedModel> model, std::string_view door) {
  with_memory(memory_of_weights(door, model->placement.devices()), [&] { model->identity(); });
  return model;
}

}  // namespace

HookedTransformer HookedTransformer::load(std::string_view model, const LoadOptions& options) {
  return HookedTransformer(identified(load_model(model, options), "load"));
}
HookedTransformer HookedTransformer::create(const ModelConfig& config, const CreateOptions& options) {
  return HookedTransformer(identified(create_model(config, options), "create"));
}
HookedTransformer HookedTransformer::from_state_dict(StateDict weights, const ModelConfig& config,
                                                     const LoadOptions& options) {
  return HookedTransformer(identified(load_state_dict(std::move(weights), config, options), "load"));
}

HookedTransformer::HookedTransformer(std::shared_ptr<const LoadedModel> model)
    : model_(std::move(model), "model"), hooks_(std::make_shared<ScopedHooks>(), "model") {
  model_->identity();  // reads the device; runs must not wait for that
}
HookedTransformer::HookedTransformer(const HookedTransformer& other) : HookedTransformer(other.loaded()) {}
HookedTransformer& HookedTransformer::operator=(const HookedTransformer& other) {
  return *this = HookedTransformer(other);
}
HookedTransformer::HookedTransformer(HookedTransformer&&) noexcept = default;
HookedTransformer& HookedTransformer::operator=(HookedTransformer&&) noexcept = default;
HookedTransformer::~HookedTransformer() = default;

void HookedTransformer::trim() const { model_->workspace.trim(); }

const ModelConfig& HookedTransformer::config() const& { return model_->config; }
const std::vector<std::string>& HookedTransformer::notes() const& { return model_->notes; }
const std::vector<StepReport>& HookedTransformer::processing() const& { return model_->processing; }
const std::vector<std::string>& HookedTransformer::ignored_keys() const& { return model_->ignored_keys; }
const std::string& HookedTransformer::family() const& { return model_->family; }
const PointIndex& HookedTransformer::points() const& { return model_->points; }
const std::vector<ActivationName>& HookedTransformer::names() const& { return model_->points.names(); }
std::shared_ptr<const ModelIdentity> HookedTransformer::identity() const { return model_->identity(); }
Provenance HookedTransformer::provenance() const {
  Provenance provenance;
  provenance.model = model_->id;
  provenance.revision = model_->revision;
  provenance.config_sha1 = c10::sha1(config_json(model_->config)).str();
  provenance.fingerprint = model_->identity()->fingerprint;
  provenance.dtype = dtype_text(model_->config.dtype);
  for (const StepReport& step : model_->processing)
    provenance.processing.emplace_back(processing_step_name(step.step), step.outcome);
  std::vector<std::string> dictionaries;
  for (const StandingDictionary& each : this->dictionaries()) {
    dictionaries.push_back(fmt::format("{} (fingerprint {}){}", each.output.to_string(),
                                       fingerprint_of(each.dictionary).substr(0, 8),
                                       each.with_error ? " with its error" : ""));
  }
  if (!dictionaries.empty())
    provenance.more["dictionaries"] = fmt::format("{}", fmt::join(dictionaries, ", "));
  return provenance;
}
c10::Device HookedTransformer::device() const { return model_->device; }
const Placement& HookedTransformer::placement() const& { return model_->placement; }
WeightStorage HookedTransformer::weight_storage() const {
  return model_->storage == Storage::codes ? WeightStorage::stored : WeightStorage::expanded;
}
StateDict HookedTransformer::state_dict() const { return copy_weights(*model_); }

Hooks HookedTransformer::hooks() const { return hooks_->snapshot(); }

HookHandle HookedTransformer::attach(Hook hook) {
  // Which layers a run reaches is not known yet, only whether the model has the points.
  hook.where.resolve(model_->points, Reach::everything(model_->points));
  return {hooks_.pointer(), hooks_->add(std::move(hook))};
}

void HookedTransformer::save(const std::filesystem::path& folder, const SaveOptions& options) const {
  OwnFolder saved(folder, native_folder(saved_file_names()), model_->read_from);
  if (options.packed) {
    const bool as_it_is = model_->device.is_cpu() && model_->storage != Storage::codes;
    write_packed(saved.add(std::string(kPackedFile)),
                 as_it_is ? *model_ : *copy_model(*model_, c10::Device(at::kCPU), Storage::fastest),
                 options.progress);
  } else {
    write_weights(saved.add(kPlainFile), *model_, options.progress);
  }
  saved.add(kConfigFile, config_json_of(*model_));
  for (const auto& [name, content] : model_->tokenizer_files) saved.add(name, content);
  const std::string generation = generation_config_json(model_->stop_tokens, model_->rules);
  if (!generation.empty()) saved.add(kGenerationConfig, generation);
  saved.commit();
}

void HookedTransformer::require_can_save(std::string_view model, const std::filesystem::path& folder) {
  require_own_folder(folder, native_folder(saved_file_names()), model_read_from(model));
}

}  // namespace hooked
