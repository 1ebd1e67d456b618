#include "hooked/engine/hooked_transformer.h"

#include <c10/util/hash.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "engine/scoped_hooks.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "hooked/loading/describe.h"
#include "loading/load.h"
#include "loading/packed_file.h"

namespace hooked {
namespace {

// Where Hugging Face's folders say which tokens end a generation.
constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kPlainFile = "model.safetensors";
constexpr const char* kPackedFile = "packed.safetensors";

// Files that saving would leave beside the new ones and loading would read with them.
void require_no_other_model(const std::filesystem::path& folder, const LoadedModel& model, bool packed) {
  std::vector<std::string> leftovers{"model.safetensors.index.json", packed ? kPlainFile : kPackedFile};
  if (model.stop_tokens.empty()) leftovers.emplace_back(kGenerationConfig);
  for (const std::string_view name : Tokenizer::file_names()) {
    if (!model.tokenizer_files.contains(std::string(name))) leftovers.emplace_back(name);
  }
  for (const std::string& name : leftovers) {
    if (!std::filesystem::exists(folder / name)) continue;
    throw IoError(folder.string(),
                  fmt::format("the folder holds '{}' of another model; expected an empty or new "
                              "folder; choose another or remove that file",
                              name));
  }
}

// The weights alone.
std::shared_ptr<LoadedModel> on_cpu(const LoadedModel& model) {
  auto copy = std::make_shared<LoadedModel>(model.config, c10::Device(at::kCPU));
  fill(*copy, copy_weights(model));
  return copy;
}

}  // namespace

HookedTransformer HookedTransformer::load(std::string_view model, const LoadOptions& options) {
  return HookedTransformer(load_model(model, options));
}
HookedTransformer HookedTransformer::create(const ModelConfig& config, const CreateOptions& options) {
  return HookedTransformer(create_model(config, options));
}
HookedTransformer HookedTransformer::from_state_dict(StateDict weights, const ModelConfig& config,
                                                     const LoadOptions& options) {
  return HookedTransformer(load_state_dict(std::move(weights), config, options));
}

HookedTransformer::HookedTransformer(std::shared_ptr<const LoadedModel> model)
    : model_(std::move(model), "model"), hooks_(std::make_shared<ScopedHooks>(), "model") {}
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
const std::vector<ActivationName>& HookedTransformer::names() const& { return model_->points.names(); }
Provenance HookedTransformer::provenance() const {
  Provenance provenance;
  provenance.model = model_->id;
  provenance.revision = model_->revision;
  provenance.config_sha1 = c10::sha1(config_json(model_->config)).str();
  provenance.dtype = dtype_text(model_->config.dtype);
  for (const StepReport& step : model_->processing)
    provenance.processing.emplace_back(processing_step_name(step.step), step.outcome);
  return provenance;
}
c10::Device HookedTransformer::device() const { return model_->device; }
const Placement& HookedTransformer::placement() const& { return model_->placement; }
StateDict HookedTransformer::state_dict() const { return copy_weights(*model_); }

std::vector<Hook> HookedTransformer::hooks() const { return hooks_->snapshot(); }

HookHandle HookedTransformer::attach(Hook hook) {
  // Which layers a run reaches is not known yet, only whether the model has the points.
  hook.where.resolve(model_->points, Reach::everything(model_->points));
  return {hooks_.pointer(), hooks_->add(std::move(hook))};
}

void HookedTransformer::save(const std::filesystem::path& folder, const SaveOptions& options) const {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw IoError(folder.string(), fmt::format("the folder could not be made ({})", failed.message()));
  require_no_other_model(folder, *model_, options.packed);
  if (options.packed) {
    save_packed(folder / kPackedFile, model_->device.is_cpu() ? *model_ : *on_cpu(*model_), options.progress);
  } else {
    const StateDict weights = copy_weights(*model_);
    save_safetensors(folder / kPlainFile, {weights.begin(), weights.end()},
                     {.metadata = {{"format", "pt"}}, .progress = options.progress});
  }
  write_file(folder / "config.json", config_json(model_->config));
  for (const auto& [name, content] : model_->tokenizer_files) write_file(folder / name, content);
  if (!model_->stop_tokens.empty()) {
    write_file(folder / kGenerationConfig,
               fmt::format("{{\"eos_token_id\": [{}]}}\n", fmt::join(model_->stop_tokens, ", ")));
  }
}

}  // namespace hooked
