// The native folder: TransformerLens's config fields and state-dict names.
#include "families/family.h"
#include "families/shared/native_config.h"
#include "families/shared/native_layout.h"
#include "hooked/hooks/point_index.h"
#include "models/transformer.h"

namespace hooked {
namespace families::hooked_transformer {
namespace {

FamilyConfig read(const ConfigText& file) {
  NativeConfig parsed = read_native_config(file.text, file.where);
  std::vector<std::string> notes;
  if (parsed.processing_recorded) {
    notes.emplace_back(
        "config.json records how the weights were processed (hooked.processing): unless steps are asked for, "
        "they "
        "are loaded as they were saved");
  }
  return {.config = std::move(parsed.config),
          .recipes = native_recipes,
          .notes = std::move(notes),
          .ignored_keys = std::move(parsed.ignored_keys),
          .processing_recorded = parsed.processing_recorded};
}

// TransformerLens writes `_W_K` for `W_K` when n_key_value_heads is set, also when it equals n_heads.
std::string grouped_spelling(const std::string& name) {
  for (const char* ending : {"W_K", "W_V", "b_K", "b_V"}) {
    if (name.ends_with(std::string(".") + ending)) return name.substr(0, name.size() - 3) + "_" + ending;
  }
  return {};
}

// Where TransformerLens's HookedEncoder has what its HookedTransformer and this engine call by one name.
std::string encoder_spelling(const std::string& name, const ModelConfig& config) {
  return config.embedding_sum_norm && (name == "embed.W_E" || name == "pos_embed.W_pos") ? "embed." + name
                                                                                         : std::string();
}

}  // namespace

extern const Family kFamily{.model_type = "hooked_transformer", .buffers = kNativeBuffers, .read_all = read};

}  // namespace families::hooked_transformer

std::vector<TensorRecipe> native_recipes(const ModelConfig& config) {
  const PointIndex points(config);
  const Transformer graph(config, points, at::TensorOptions(config.dtype).device(at::kMeta));
  std::vector<TensorRecipe> recipes;
  for (const WeightSlot& slot : graph.slots()) {
    std::string alias = families::hooked_transformer::encoder_spelling(slot.name, config);
    if (alias.empty()) alias = families::hooked_transformer::grouped_spelling(slot.name);
    recipes.push_back({slot.name, {slot.name}, nullptr, slot.optional, std::move(alias)});
  }
  return recipes;
}

}  // namespace hooked
