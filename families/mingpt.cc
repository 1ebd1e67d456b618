// minGPT (Karpathy 2020, rewritten 2022). Its files are bare state dicts; its config.json names a size, but
// neither vocabulary nor context.
#include <algorithm>
#include <array>

#include "families/shared/karpathy_layout.h"

namespace hooked::families::mingpt {
namespace {

constexpr std::string_view kModelType = "mingpt";
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

std::optional<ConfigText> recognise(const CheckpointTraits& seen) {
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

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  return is_early(hf) ? early_mingpt_recipes(c) : gpt_recipes(c);
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const bool early = is_early(hf);
  ModelConfig c = read_gpt_sizes(hf, /*tied=*/false, /*bias=*/true);
  c.activation = hf.activation("activation_function", early ? "gelu" : "gelu_new");
  json.ignore({"model_type", "embd_pdrop", "resid_pdrop", "attn_pdrop"});
  json.refuse_unread();
  return c;
}

constexpr std::string_view kBuffers[] = {"h.*.attn.bias", "blocks.*.attn.mask"};

}  // namespace

extern const Family kFamily{
    .model_type = kModelType,
    .read = read,
    .recipes = recipes,
    .prefix = "transformer.",
    .unembedding = "lm_head.weight",
    .buffers = kBuffers,
    .recognise = recognise,
    .recognised_by = "minGPT's names of tensors, with a number of heads in config.json"};

}  // namespace hooked::families::mingpt
