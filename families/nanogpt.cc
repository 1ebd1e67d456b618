// nanoGPT (Karpathy 2022): GPT-2 whose checkpoints contain their config, `model_args`, with the tensors.
#include "families/shared/gpt2_layout.h"
#include "families/shared/karpathy_layout.h"

namespace hooked::families::nanogpt {
namespace {

constexpr std::string_view kModelType = "nanogpt";

// Keys of config.json override those of model_args, so that it can add what the file cannot say.
std::optional<ConfigText> recognise(const CheckpointTraits& seen) {
  const Json given = object_of(seen.config, seen.config_where);
  const auto inside = model_args(seen);
  const bool named = given.contains("model_type") && given["model_type"] == kModelType;
  if (!inside && !named) return std::nullopt;
  Json config = inside.value_or(Json::object());
  for (const auto& [key, value] : given.items()) config[key] = value;
  if (const auto shapes = gpt_shapes(seen); shapes && !inside) {
    add_sizes(config, *shapes);
    if (!config.contains("bias")) config["bias"] = shapes->bias;
    if (!config.contains("n_head")) refuse_without_heads(seen, "\"nanogpt\"");
  }
  return ConfigText{config.dump(), inside ? seen.weights_where + ": model_args" : seen.config_where};
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const bool has_bias_option = json.has("bias");
  ModelConfig c = read_gpt_sizes(hf, /*tied=*/true, json.boolean_or("bias", true));
  // The option is from January 2023, the exact GELU from May 2023; no file says which GELU the model was
  // trained with.
  c.activation = hf.activation("activation_function", has_bias_option ? "gelu" : "gelu_new");
  if (has_bias_option && !json.has("activation_function")) {
    hf.note(
        "nanoGPT computed the tanh approximation of GELU before 17 May 2023, which its files do not say; the "
        "exact GELU was taken: \"activation_function\": \"gelu_new\" in a config.json next to the file "
        "changes it");
  }
  json.ignore({"model_type", "dropout"});
  json.refuse_unread();
  return c;
}

}  // namespace

extern const Family kFamily{.model_type = kModelType,
                            .read = read,
                            .recipes = gpt_recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .buffers = kGpt2Buffers,
                            .recognise = recognise,
                            .recognised_by = "'model_args' next to the tensors"};

}  // namespace hooked::families::nanogpt
