// GPT-Neo (Black et al. 2021): scores are not scaled, layers with and without a window alternate.
#include <algorithm>

#include "families/shared/gpt2_layout.h"

namespace hooked::families::gpt_neo {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gpt2_parts(r, [&] {
    r.queries("attn.attention.q_proj");
    r.keys("attn.attention.k_proj");
    r.values("attn.attention.v_proj");
    r.attention_out("attn.attention.out_proj");
  });
  return std::move(r).take();
}

// `attention_layers` is a word per layer; `attention_types` lists repeated patterns: [[["global", "local"],
// 6]]. Without either, the pattern is that of the published models of 24 layers.
std::vector<std::string> layer_words(const ConfigReader& json) {
  if (json.has("attention_layers")) {
    json.ignore({"attention_types"});
    return json.texts("attention_layers");
  }
  std::vector<std::string> words;
  if (!json.has("attention_types")) {
    for (int i = 0; i < 12; ++i) words.insert(words.end(), {"global", "local"});
    return words;
  }
  const ConfigReader types = json.array("attention_types");
  for (const std::string& item : types.keys()) {
    const ConfigReader pattern = types.array(item);
    const std::vector<std::string> once = pattern.texts("0");
    const std::int64_t times = pattern.integer("1");
    if (times < 0 || times > 100'000)
      pattern.refuse("1", "is out of range; expected how often the pattern is repeated");
    for (std::int64_t i = 0; i < times; ++i) words.insert(words.end(), once.begin(), once.end());
  }
  return words;
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes({.n_layers = json.first_of({"num_layers", "num_hidden_layers"}),
                            .n_heads = json.first_of({"num_heads", "num_attention_heads"}),
                            .n_kv_heads = {},
                            .d_head = {},
                            .mlp_ratio = 4,
                            .n_ctx_fallback = 2048},
                           /*tied=*/true);
  c.mlp_bias = c.attn_out_bias = true;
  c.attn_scale = 1.0;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", "gelu_new");
  const std::vector<std::string> words = layer_words(json);
  const std::string_view key = json.first_of({"attention_layers", "attention_types"});
  if (static_cast<std::int64_t>(words.size()) != c.n_layers) {
    json.refuse(key,
                "does not say for every layer whether it is global or local; expected as many as num_layers");
  }
  if (!std::all_of(words.begin(), words.end(), [](const auto& w) { return w == "global" || w == "local"; })) {
    json.refuse(key, "has a kind of attention that is not supported; expected global and local");
  }
  hf.set_windows(c, {"window_size", 256}, flag_layers(c, [&](std::int64_t l) {
                   return words[static_cast<std::size_t>(l)] == "local";
                 }));
  return c;
}

constexpr std::string_view kBuffers[] = {"h.*.attn.attention.bias", "h.*.attn.attention.masked_bias"};

}  // namespace

extern const Family kFamily{.model_type = "gpt_neo",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "transformer.",
                            .unembedding = "lm_head.weight",
                            .buffers = kBuffers};

}  // namespace hooked::families::gpt_neo
