// minGPT and nanoGPT (Karpathy).
#include <algorithm>
#include <array>

#include "families/shared/gpt2_layout.h"
#include "families/shared/karpathy_layout.h"

namespace hooked::families::karpathy {
namespace {

// minGPT (Karpathy 2020, rewritten 2022). Its files are bare state dicts; its config.json names a size, but
// neither vocabulary nor context.

constexpr std::string_view kMingptType = "mingpt";
constexpr std::string_view kEarly = "separate_projections";  // names of 2020; set below, in no file

/// The model sizes that minGPT has names for.
struct NamedSize {
  std::string_view name;
  std::int64_t n_layer, n_head, n_embd;
};
constexpr std::array<NamedSize, 9> kNamedSizes = {{{"openai-gpt", 12, 12, 768},
                                                   {"gpt2", 12, 12, 768},
                                                   {"gpt2-medium", 24, 16, 1024},
                                                   {"gpt2-large", 36, 20, 1280},
                                                   {"gpt2-xl", 48, 25, 1600},
                                                   {"gopher-44m", 8, 16, 512},
                                                   {"gpt-mini", 6, 6, 192},
                                                   {"gpt-micro", 4, 4, 128},
                                                   {"gpt-nano", 3, 3, 48}}};

bool is_set(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

// The keys of one `model` group, or of a config.json without the group; a named size is expanded.
Json given_keys(const Json& config) {
  const auto group = config.find("model");
  const bool grouped = group != config.end() && group->is_object();
  Json given = grouped ? *group : config;
  if (is_set(given, "n_head") || !is_set(given, "model_type") || !given["model_type"].is_string())
    return given;
  const auto name = given["model_type"].get<std::string>();
  const auto size = std::ranges::find(kNamedSizes, name, &NamedSize::name);
  if (size == kNamedSizes.end()) return given;
  given["n_layer"] = size->n_layer;
  given["n_head"] = size->n_head;
  given["n_embd"] = size->n_embd;
  return given;
}

std::optional<ConfigText> recognise_mingpt(const CheckpointTraits& seen) {
  const auto early = early_mingpt_shapes(seen);
  const auto shapes = early ? early : gpt_shapes(seen);
  const Json config = object_of(seen.config, seen.config_where);
  const bool of_transformer_lens = config.contains("d_model");
  if (!shapes || of_transformer_lens || model_args(seen)) return std::nullopt;
  const bool grouped = config.contains("model") && config["model"].is_object();
  const bool named = is_set(config, "model_type");
  Json given = given_keys(config);
  // Tensors with the names of 2022 alone may also be nanoGPT's, which computes another GELU.
  if (!is_set(given, "n_head") || (!early && !grouped && !named)) {
    refuse_without_heads(seen, early ? "\"mingpt\"" : "\"mingpt\" or \"nanogpt\"");
  }
  add_sizes(given, *shapes);
  given[kEarly] = early.has_value();
  return ConfigText{given.dump(), seen.config_where + (grouped ? ": model" : "")};
}

bool is_early(const HfConfig& hf) { return hf.json().boolean_or(kEarly, false); }

std::vector<TensorRecipe> mingpt_recipes(const ModelConfig& c, const HfConfig& hf) {
  return is_early(hf) ? early_mingpt_recipes(c) : gpt_recipes(c);
}

ModelConfig read_mingpt(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const bool early = is_early(hf);
  ModelConfig c = read_gpt_sizes(hf, /*tied=*/false, /*bias=*/true);
  c.activation = hf.activation("activation_function", early ? "gelu" : "gelu_new");
  json.ignore({"model_type", "embd_pdrop", "resid_pdrop", "attn_pdrop"});
  json.refuse_unread();
  return c;
}

constexpr std::string_view kMingptBuffers[] = {"h.*.attn.bias", "blocks.*.attn.mask"};

// nanoGPT (Karpathy 2022): GPT-2 whose checkpoints contain their config, `model_args`, with the tensors.

constexpr std::string_view kNanogptType = "nanogpt";

// Keys of config.json override those of model_args, so that it can add what the file cannot say.
std::optional<ConfigText> recognise_nanogpt(const CheckpointTraits& seen) {
  const Json given = object_of(seen.config, seen.config_where);
  const auto inside = model_args(seen);
  const bool named = given.contains("model_type") && given["model_type"] == kNanogptType;
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

ModelConfig read_nanogpt(HfConfig& hf) {
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

extern const Family kMingpt{
    .model_type = kMingptType,
    .read = read_mingpt,
    .recipes = mingpt_recipes,
    .prefix = "transformer.",
    .unembedding = "lm_head.weight",
    .buffers = kMingptBuffers,
    .recognise = recognise_mingpt,
    .recognised_by = "minGPT's names of tensors, with a number of heads in config.json"};

extern const Family kNanogpt{.model_type = kNanogptType,
                             .read = read_nanogpt,
                             .recipes = gpt_recipes,
                             .prefix = "transformer.",
                             .unembedding = "lm_head.weight",
                             .buffers = kGpt2Buffers,
                             .recognise = recognise_nanogpt,
                             .recognised_by = "'model_args' next to the tensors"};

}  // namespace hooked::families::karpathy
