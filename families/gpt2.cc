// GPT, GPT-2 and the families that use its keys and names.
#include <algorithm>
#include <functional>
#include <string_view>

#include "families/shared/gpt2_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::gpt2 {
namespace {

constexpr std::string_view kGptjBuffers[] = {"h.*.attn.bias", "h.*.attn.masked_bias", "h.*.attn.causal_mask",
                                             "h.*.attn.embed_positions"};

// The tensors of GPT-J except queries, keys and values, which `add_qkv` adds block by block.
void add_gptj_parts(Recipes& r, const std::function<void()>& add_qkv) {
  r.embedding("wte.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    r.norm("ln1", "ln_1");
    add_qkv();
    r.attention_out("attn.out_proj");
    r.mlp_in("mlp.fc_in");
    r.mlp_out("mlp.fc_out");
  });
  r.norm("ln_final", "ln_f");
  r.unembedding("lm_head");
}

// The config keys of GPT-J, which CodeGen shares.
ModelConfig read_gptj(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes(gpt2_size_keys(json, 2048), /*tied=*/false);
  json.ignore({"n_ctx"});
  c.layout = BlockLayout::parallel_one_norm;
  c.mlp_bias = c.unembedding->bias = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", "gelu_new");
  const std::int64_t turned = hf.count_or("rotary_dim", 64);
  if (turned > c.d_head || turned % 2 != 0) {
    json.refuse("rotary_dim", "does not fit a head; expected an even number of its dimensions");
  }
  c.positions = RotaryPositions{.dim = turned == c.d_head ? 0 : turned, .adjacent_pairs = true};
  json.ignore({"scale_attn_weights", "rotary"});  // published configs state what is always so
  return c;
}

// CodeGen (Nijkamp et al. 2022): GPT-J with one projection for queries, values and keys, made for four
// devices.

// Each of four quarters has the queries, values and keys of a quarter of the heads.
FusedHeads quarters(const ModelConfig& c) {
  const std::int64_t local = c.n_heads / 4;
  FusedHeads heads;
  for (std::int64_t h = 0; h < c.n_heads; ++h) {
    const std::int64_t first = h / local * 3 * local + h % local;
    heads.q.push_back(first);
    heads.v.push_back(first + local);
    heads.k.push_back(first + 2 * local);
  }
  return heads;
}

std::vector<TensorRecipe> codegen_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gptj_parts(r, [&] { r.fused_qkv("attn.qkv_proj", quarters(c)); });
  return std::move(r).take();
}

ModelConfig read_codegen(HfConfig& hf) {
  ModelConfig c = read_gptj(hf);
  if (c.n_heads % 4 != 0) hf.json().refuse("n_head", "does not fit this layout; expected a multiple of 4");
  return c;
}

// What GPT-2 and GPTBigCode say of their blocks.
void read_gpt2_blocks(HfConfig& hf, ModelConfig& c, std::string_view usual_activation) {
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  c.activation = hf.activation("activation_function", usual_activation);
  if (!hf.json().boolean_or("scale_attn_weights", true)) c.attn_scale = 1.0;
  hf.require_unset({"add_cross_attention"});
}

// GPT-2 (Radford et al. 2019). Its Conv1D weights are stored [in, out].

std::vector<TensorRecipe> gpt2_recipes(const ModelConfig& c) {
  Recipes r(c, LinearLayout::in_out);
  add_gpt2_parts(r, [&] { add_gpt2_attention(r, FusedHeads::side_by_side(c)); });
  return std::move(r).take();
}

ModelConfig read_gpt2(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  SizeKeys keys = gpt2_size_keys(json, 1024);
  keys.n_ctx = json.first_of({keys.n_ctx, "n_ctx"});  // of the oldest configs
  ModelConfig c = hf.sizes(keys, /*tied=*/true);
  json.ignore({"n_ctx"});
  read_gpt2_blocks(hf, c, "gelu_new");
  c.scale_by_inverse_layer = json.boolean_or("scale_attn_by_inverse_layer_idx", false);
  if (json.boolean_or("reorder_and_upcast_attn", false)) {
    hf.note("reorder_and_upcast_attn changes rounding only and is not imitated");
  }
  return c;
}

// GPTBigCode, SantaCoder and StarCoder (Li et al. 2023): GPT-2 with linear layers and, usually, one key/value
// head.

std::vector<TensorRecipe> gpt_bigcode_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gpt2_parts(r, [&] { add_gpt2_attention(r, FusedHeads::by_group(c)); });
  return std::move(r).take();
}

ModelConfig read_gpt_bigcode(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = hf.sizes(gpt2_size_keys(json, 1024), /*tied=*/true);
  if (json.boolean_or("multi_query", true)) c.n_kv_heads = 1;
  read_gpt2_blocks(hf, c, "gelu_pytorch_tanh");
  json.ignore(
      {"attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "num_key_value_heads", "n_ctx"});
  return c;
}

// GPT-Neo (Black et al. 2021): scores are not scaled, layers with and without a window alternate.

std::vector<TensorRecipe> gpt_neo_recipes(const ModelConfig& c) {
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

ModelConfig read_gpt_neo(HfConfig& hf) {
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

constexpr std::string_view kGptNeoBuffers[] = {"h.*.attn.attention.bias", "h.*.attn.attention.masked_bias"};

// GPT-J (Wang and Komatsuzaki 2021): attention and MLP read one norm; rotary rotates adjacent pairs.

std::vector<TensorRecipe> gptj_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_gptj_parts(r, [&] {
    r.queries("attn.q_proj");
    r.keys("attn.k_proj");
    r.values("attn.v_proj");
  });
  return std::move(r).take();
}

// GPT (Radford et al. 2018): post-norm sublayers, learned positions.

std::vector<TensorRecipe> openai_gpt_recipes(const ModelConfig& c) {
  Recipes r(c, LinearLayout::in_out);
  r.embedding("tokens_embed.weight");
  r.positions("positions_embed.weight");
  r.each_block("h.{}.", [&](std::int64_t) {
    add_gpt2_attention(r, FusedHeads::side_by_side(c));
    r.norm("ln1", "ln_1");
    r.mlp_in("mlp.c_fc");
    r.mlp_out("mlp.c_proj");
    r.norm("ln2", "ln_2");
  });
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read_openai_gpt(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  SizeKeys keys = gpt2_size_keys(json, 512);
  keys.d_mlp = {};  // four times d_model, whatever the file says
  ModelConfig c = hf.sizes(keys, /*tied=*/true);
  json.ignore({"n_ctx"});
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = true;
  c.norm_place = NormPlace::post;
  c.final_norm = NormKind::none;
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-5);
  // It has fewer words for activations than other families, and its gelu is the one with tanh.
  const std::string activation = json.text_or("afn", "gelu");
  if (activation == "gelu") {
    c.activation = Activation::gelu_tanh;
  } else if (activation == "relu" || activation == "silu" || activation == "swish") {
    c.activation = hf.activation("afn", "gelu");
  } else {
    json.refuse("afn", "is not supported; expected gelu, relu, silu or swish");
  }
  return c;
}

}  // namespace

extern const Family kCodegen = transformer_family("codegen", read_codegen, codegen_recipes, kGptjBuffers);

extern const Family kGpt2{.model_type = "gpt2",
                          .read = read_gpt2,
                          .recipes = gpt2_recipes,
                          .prefix = "transformer.",
                          .unembedding = "lm_head.weight",
                          .conv1d = true,
                          .buffers = kGpt2Buffers};

extern const Family kGptBigcode =
    transformer_family("gpt_bigcode", read_gpt_bigcode, gpt_bigcode_recipes, kGpt2Buffers);
extern const Family kGptNeo = transformer_family("gpt_neo", read_gpt_neo, gpt_neo_recipes, kGptNeoBuffers);
extern const Family kGptj = transformer_family("gptj", read_gptj, gptj_recipes, kGptjBuffers);

extern const Family kOpenaiGpt{.model_type = "openai-gpt",
                               .read = read_openai_gpt,
                               .recipes = openai_gpt_recipes,
                               .prefix = "transformer.",
                               .unembedding = "lm_head.weight",
                               .conv1d = true,
                               .buffers = kGpt2Buffers};

}  // namespace hooked::families::gpt2
