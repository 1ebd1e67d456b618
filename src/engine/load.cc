// Folder or state dict to model: a pipe of values (docs/architecture.md).
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "engine/device.h"
#include "engine/identify.h"
#include "engine/loaded_model.h"
#include "engine/recipe_reader.h"
#include "engine/streamed_model.h"
#include "engine/usual_processing.h"
#include "engine/weight_source.h"
#include "families/family.h"
#include "hooked/core/config_reader.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/checkpoint_reader.h"
#include "hooked/io/file.h"
#include "hooked/io/model_folder.h"

namespace hooked {
namespace {

constexpr std::uint64_t kTokenizerBytes = std::uint64_t{256} << 20;

void require_floating_point(at::ScalarType dtype, const std::string& name, const std::string& where) {
  if (at::isFloatingType(dtype)) return;
  const std::string held =
      dtype == at::ScalarType::Undefined ? "nothing" : fmt::format("{} numbers", dtype_text(dtype));
  throw CheckpointError(where,
                        fmt::format("tensor '{}' holds {}; expected floating point weights", name, held));
}

class CheckpointSource : public WeightSource {
 public:
  explicit CheckpointSource(const CheckpointReader& reader) : reader_(reader) {}

  std::vector<std::string> names() const override { return reader_.names(); }
  at::Tensor shape_of(const std::string& name) const override {
    const TensorInfo& info = reader_.info(name);
    if (info.dtype == at::ScalarType::Undefined) reader_.read(name);  // says which dtypes can be read
    require_floating_point(info.dtype, name, where(name));
    return at::empty(info.shape, at::TensorOptions(info.dtype).device(at::kMeta));
  }
  at::Tensor read(const std::string& name) override { return reader_.read(name); }
  std::optional<ElementReader> elements(const std::string& name) const override {
    if (!reader_.in_order(name)) return std::nullopt;
    return [this, name](std::int64_t first, const at::Tensor& into) {
      reader_.read_elements(name, first, into);
    };
  }
  std::string where(const std::string& name) const override { return reader_.file_of(name).string(); }

 private:
  const CheckpointReader& reader_;
};

// Tensors that the caller gave away go as they are used.
class StateDictSource : public WeightSource {
 public:
  explicit StateDictSource(StateDict weights) : weights_(std::move(weights)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : weights_) names.push_back(name);
    return names;
  }
  at::Tensor shape_of(const std::string& name) const override {
    const at::Tensor& tensor = weights_.at(name);
    require_floating_point(tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined, name,
                           where(name));
    return tensor.to(at::kMeta);
  }
  at::Tensor read(const std::string& name) override {
    auto node = weights_.extract(name);
    return std::move(node.mapped());
  }
  std::optional<ElementReader> elements(const std::string&) const override { return std::nullopt; }
  std::string where(const std::string&) const override { return "state dict"; }

 private:
  StateDict weights_;
};

// The processing, packing and placing that every door shares.
std::shared_ptr<LoadedModel> finish(WeightSource& source, const WeightPlan& plan, const std::string& device,
                                    const WeightProcessing& processing) {
  RecipeReader reader(source, plan.recipes);
  return streamed_model(reader, plan.config, open_device(device), processing);
}

// A model is useful without its tokenizer, so one that cannot be read is a note and not an error.
void load_tokenizer(LoadedModel& model, const std::filesystem::path& folder) {
  const std::vector<std::string> files = Tokenizer::files_in(folder);
  if (files.empty()) return;
  try {
    model.tokenizer = Tokenizer::load(folder);
  } catch (const TokenizerError& error) {
    model.tokenizer_problem = error;
    model.notes.push_back(fmt::format("text cannot be used with this model: {}", error.what()));
    return;
  }
  for (const std::string& name : files) {
    model.tokenizer_files.emplace(name, read_text_file(folder / name, kTokenizerBytes));
  }
  if (model.tokenizer->vocab_size() > model.config.d_vocab) {
    model.notes.push_back(
        fmt::format("the tokenizer knows {} pieces, the model only {}: ids from {} on are refused",
                    model.tokenizer->vocab_size(), model.config.d_vocab, model.config.d_vocab));
  }
}

// The tokens that end a generation, from the first that names some: generation_config.json, config.json
// (whose text is `config`), the tokenizer.
std::vector<std::int64_t> read_stop_tokens(const std::filesystem::path& folder, const std::string& config,
                                           const LoadedModel& model) {
  constexpr const char* kKey = "eos_token_id";
  const auto named_by = [&](const ConfigReader& reader) -> std::optional<std::vector<std::int64_t>> {
    if (!reader.has(kKey)) return std::nullopt;
    return reader.holds_list(kKey) ? reader.integers(kKey) : std::vector<std::int64_t>{reader.integer(kKey)};
  };
  const std::filesystem::path file = folder / "generation_config.json";
  if (std::filesystem::exists(file)) {
    if (auto tokens = named_by({read_text_file(file, kConfigBytes), file.string()}))
      return *std::move(tokens);
  }
  if (auto tokens = named_by({config, (folder / "config.json").string()})) return *std::move(tokens);
  if (model.tokenizer && model.tokenizer->eos_id()) return {*model.tokenizer->eos_id()};
  return {};
}

}  // namespace

HookedTransformer HookedTransformer::load(std::string_view id, const LoadOptions& options) {
  const std::filesystem::path place = locate_model(id);
  auto [family, read, config] = identify(place);
  read.config.dtype = options.dtype.value_or(read.config.dtype);

  const CheckpointReader reader = open_checkpoint(place);
  CheckpointSource source(reader);
  WeightPlan plan = plan_weights(source, family, read);
  const auto model =
      finish(source, plan, options.device, options.processing.value_or(usual_processing(read)));
  model->family = family.model_type;
  for (const std::vector<std::string>& notes : {read.notes, reader.notes(), plan.notes}) {
    model->notes.insert(model->notes.end(), notes.begin(), notes.end());
  }
  model->ignored_keys = std::move(read.ignored_keys);
  load_tokenizer(*model, folder_of_model(place));
  model->stop_tokens = read_stop_tokens(folder_of_model(place), config, *model);
  return HookedTransformer(model);
}

HookedTransformer HookedTransformer::from_state_dict(StateDict weights, const ModelConfig& config,
                                                     const LoadOptions& options) {
  ModelConfig chosen = config;
  chosen.dtype = options.dtype.value_or(config.dtype);
  chosen.validate();
  StateDictSource source(std::move(weights));
  WeightPlan plan =
      plan_weights(source, kNativeFamily, {.config = std::move(chosen), .recipes = native_recipes});
  const auto model =
      finish(source, plan, options.device, options.processing.value_or(WeightProcessing::all_that_apply()));
  model->notes = std::move(plan.notes);
  return HookedTransformer(model);
}

}  // namespace hooked
