// Checkpoints written by TransformerLens and the scripts around it: its config fields without a model_type,
// its own tensor names or those of earlier training code.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/weight_table.h"
#include "families/shared/karpathy_layout.h"
#include "families/shared/native_config.h"
#include "families/shared/native_layout.h"

namespace hooked::families::transformer_lens {
namespace {

constexpr std::string_view kModelType = "transformer_lens";
constexpr std::string_view kOldSolu = "neel-solu-old";
constexpr std::string_view kMingpt = "mingpt";

// Fields of every TransformerLens config. A config with only some of them has mistakes.
constexpr std::array<const char*, 6> kUsualFields = {"n_layers", "d_model", "n_ctx",
                                                     "d_head",   "d_vocab", "act_fn"};
constexpr int kEnoughFields = 3;

// Names in configs of training runs, and TransformerLens's names for them.
constexpr std::pair<const char*, const char*> kTrainingNames[] = {
    {"normalization", "normalization_type"}, {"ln_eps", "eps"}, {"architecture", "original_architecture"}};

// The first SoLU models name norms like this, and all else as TransformerLens does.
bool has_old_solu_names(const CheckpointTraits& seen) {
  return seen.shapes.contains("norm.w") || seen.shapes.contains("blocks.0.norm1.w");
}

std::optional<ConfigText> recognise(const CheckpointTraits& seen) {
  Json config = object_of(seen.config, seen.config_where);
  const bool named = config.contains("model_type") && config["model_type"] == kModelType;
  const auto fields = std::count_if(kUsualFields.begin(), kUsualFields.end(),
                                    [&](const char* field) { return config.contains(field); });
  if (!named && fields < kEnoughFields) return std::nullopt;
  config.erase("model_type");
  for (const auto& [theirs, ours] : kTrainingNames) {
    if (!config.contains(theirs)) continue;
    if (!config.contains(ours)) config[ours] = config[theirs];
    config.erase(theirs);
  }
  if (const auto shortformer = config.find("shortformer_pos"); shortformer != config.end()) {
    if (*shortformer == true) config["positional_embedding_type"] = "shortformer";
    if (shortformer->is_boolean()) config.erase("shortformer_pos");
  }
  if (has_old_solu_names(seen)) config["original_architecture"] = kOldSolu;
  if (early_mingpt_shapes(seen)) config["original_architecture"] = kMingpt;
  return ConfigText{config.dump(), seen.config_where};
}

bool is_bias(std::string_view name) {
  const auto* row = find_weight_row(name);
  return row != nullptr && (row->is_bias() || row->kind == WeightKind::shift);
}

// TransformerLens fills in biases that a file lacks.
std::vector<TensorRecipe> lenient_recipes(const ModelConfig& config) {
  auto recipes = native_recipes(config);
  for (TensorRecipe& recipe : recipes) recipe.optional = recipe.optional || is_bias(recipe.target);
  return recipes;
}

std::string with_old_norm_names(std::string name) {
  if (name.starts_with("ln_final.")) return "norm." + name.substr(9);
  for (const char* part : {".ln1.", ".ln2.", ".ln."}) {
    if (const auto at = name.find(part); at != std::string::npos) return name.replace(at + 1, 2, "norm");
  }
  return name;
}

// The first SoLU models store W_pos transposed up to 8 layers, and all matrices up to 6.
std::vector<TensorRecipe> old_solu_recipes(const ModelConfig& config) {
  auto recipes = lenient_recipes(config);
  for (TensorRecipe& recipe : recipes) {
    const std::string name = recipe.target;
    const bool is_positions = name == "pos_embed.W_pos";
    const bool is_matrix = name.find("W_") != std::string::npos;
    recipe.sources = {with_old_norm_names(name)};
    recipe.alias = name;
    if (is_matrix && config.n_layers <= (is_positions ? 8 : 6)) {
      recipe.make = [](const std::vector<at::Tensor>& theirs) { return theirs[0].transpose(-2, -1); };
    }
  }
  return recipes;
}

FamilyConfig read(const ConfigText& file) {
  const ConfigReader json(file.text, file.where);
  const auto architecture = json.text_or("original_architecture", "");
  NativeConfig parsed = read_native_config(file.text, file.where);
  RecipeMaker recipes = lenient_recipes;
  if (architecture == kOldSolu) recipes = old_solu_recipes;
  if (architecture == kMingpt) {
    if (parsed.config.unembedding) parsed.config.unembedding->bias = false;
    recipes = early_mingpt_recipes;
  }
  return {std::move(parsed.config), std::move(recipes), {}, std::move(parsed.ignored_keys)};
}

}  // namespace

extern const Family kTransformerLens{
    .model_type = kModelType,
    .buffers = kNativeBuffers,
    .recognise = recognise,
    .recognised_by = "config fields of TransformerLens (n_layers, d_model, n_ctx, d_head, d_vocab, act_fn)",
    .read_all = read};

}  // namespace hooked::families::transformer_lens
