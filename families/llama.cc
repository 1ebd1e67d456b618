// Llama, and families that differ from it in some options.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log1p.h>
#include <fmt/format.h>

#include <tuple>

#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::llama {
namespace {

// Apertus (Swiss AI Initiative 2025): xIELU without a gate, norms of each query and key.

// Softplus in the wider of the stored precision and the model's; stored numbers may lack an axis.
at::Tensor softplus(const at::Tensor& x, at::ScalarType dtype) {
  return at::log1p(at::exp(x.to(c10::promoteTypes(x.scalar_type(), dtype)))).view({1});
}

void add_xielu(Recipes& r, const ModelConfig& c) {
  using Tensors = std::vector<at::Tensor>;
  const auto number = [](const Tensors& theirs) { return theirs[0].view({1}); };
  r.make("mlp.xielu.alpha_p", {"mlp.act_fn.alpha_p"},
         [dtype = c.dtype](const Tensors& theirs) { return softplus(theirs[0], dtype); });
  r.make("mlp.xielu.alpha_n", {"mlp.act_fn.alpha_n", "mlp.act_fn.beta"},
         [dtype = c.dtype](const Tensors& theirs) { return softplus(theirs[0], dtype) + theirs[1]; });
  r.make("mlp.xielu.beta", {"mlp.act_fn.beta"}, number);
  r.make("mlp.xielu.eps", {"mlp.act_fn.eps"}, number);
}

std::vector<TensorRecipe> apertus_recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "attention_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "feedforward_layernorm");
    add_llama_mlp(r, c);
    if (c.activation.kind() == Activation::xielu) add_xielu(r, c);
  });
}

ModelConfig read_apertus(HfConfig& hf) {
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 65536, .eps = 1e-5, .mlp = MlpKind::plain, .activation = "xielu"});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.qk_norm = QkNorm{.span = QkNorm::per_head};
  hf.json().ignore({"post_norm", "qk_norm"});
  read_rope(hf, c,
            {.theta = 12e6, .group = R"({"rope_type": "llama3", "rope_theta": 12000000.0, "factor": 8.0,
                          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192})"});
  return c;
}

// AFM (Arcee 2025): Llama with a squared ReLU and no gate.
ModelConfig read_arcee(HfConfig& hf) {
  ModelConfig c =
      read_llama_config(hf, {.n_ctx = 4096, .eps = 1e-5, .mlp = MlpKind::plain, .activation = "relu2"});
  read_llama_biases(hf, c);
  read_rope(hf, c);
  return c;
}

// CWM, the Code World Model (FAIR 2025): Llama with three of four layers windowed.
ModelConfig read_cwm(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = 128, .eps = 1e-5});
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  hf.set_windows(c, {"sliding_window", 8192},
                 hf.layers_of_type(c, [](std::int64_t l) { return l % 4 != 0; }));
  read_rope(hf, c, {.theta = 1e6, .group = R"({"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0,
                          "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8192})"});
  return c;
}

// Helium (Kyutai 2025): Llama with adjacent rotary pairs.
ModelConfig read_helium(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096, .n_kv_heads = 20, .d_head = 128, .eps = 1e-8});
  c.qkv_bias = hf.json().boolean_or("attention_bias", false);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  read_rope(hf, c, {.theta = 1e5, .adjacent_pairs = true});
  return c;
}

// InternLM 3 (Shanghai AI Laboratory 2025): Llama with different names for the biases.
ModelConfig read_internlm3(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const std::int64_t d_head = json.is_null("head_dim") ? 0 : 128;  // null: d_model / n_heads
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 2, .d_head = d_head, .eps = 1e-5});
  const std::string_view of_heads = json.first_of({"qkv_bias", "attention_bias"});
  const std::string_view of_mlps = json.first_of({"bias", "mlp_bias"});
  c.qkv_bias = c.attn_out_bias = json.boolean_or(of_heads, false);
  c.mlp_bias = json.boolean_or(of_mlps, false);
  if (c.qkv_bias != c.mlp_bias) {  // refused by transformers: one flag is for all linear maps
    json.refuse(of_heads, "differs from the MLPs' bias; expected the same value for both");
  }
  read_rope(hf, c);
  return c;
}

// IQuest-Coder (IQuestLab 2026): Llama with 8 key/value heads.
ModelConfig read_iquestcoder(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const std::int64_t d_head = json.is_null("head_dim") ? 0 : 128;  // null: d_model / n_heads
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = d_head, .eps = 1e-5});
  read_llama_biases(hf, c);
  hf.require_unset({"clip_qkv", "use_sliding_window"});
  json.ignore({"sliding_window", "max_window_layers"});  // without effect while use_sliding_window is not set
  read_rope(hf, c);
  return c;
}

// Jais 2 (Inception 2025): Llama with LayerNorms, biases, squared ReLU and no gate.
ModelConfig read_jais2(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 8192,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "relu2"});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", true);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", true);
  read_rope(hf, c);
  return c;
}

// Llama 1 to 3 (Touvron et al. 2023; Grattafiori et al. 2024).
ModelConfig read_llama(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf);
  read_llama_biases(hf, c);
  read_rope(hf, c);
  return c;
}

// nanochat (Karpathy 2025): norms without weights, one of them after the embedding and one on queries and
// keys after rotary, which rotates in the other direction; squared ReLU.

std::vector<TensorRecipe> nanochat_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.plain_norm("embed.ln");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.plain_norm("ln1");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    r.plain_qk_norm();
    r.attention_out("self_attn.o_proj");
    r.plain_norm("ln2");
    r.mlp_in("mlp.fc1");
    r.mlp_out("mlp.fc2");
  });
  r.plain_norm("ln_final");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read_nanochat(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 2048, .mlp = MlpKind::plain, .activation = "relu2"});
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  c.post_embedding_norm = true;
  c.embedding_norm = NormKind::rms_norm;
  c.qk_norm = QkNorm{.span = QkNorm::per_head, .after_rotary = true};
  if (!hf.json().is_null("final_logit_softcapping"))
    c.unembedding->soft_cap = hf.positive_or("final_logit_softcapping", 15.0);
  read_rope(hf, c);
  c.rotary()->reversed = true;
  return c;
}

// Nemotron 4 and Minitron (Parmar et al. 2024): LayerNorm weights stored as offsets from one, squared ReLU,
// no gate.
ModelConfig read_nemotron(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "relu2"});
  c.norm_offset = true;
  read_llama_biases(hf, c);
  read_rope(hf, c, {.partial = 0.5});
  hf.json().ignore({"rope_percent", "rope_percentage"});
  return c;
}

// Persimmon (Adept 2023): fused projections with biases, LayerNorms of queries and keys, squared ReLU.

std::vector<TensorRecipe> persimmon_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embed_tokens.weight");
  r.each_block("layers.{}.", [&](std::int64_t) {
    r.norm("ln1", "input_layernorm");
    r.fused_qkv("self_attn.query_key_value", FusedHeads::by_group(c));
    if (c.qk_norm) r.qk_norm("self_attn.q_layernorm", "self_attn.k_layernorm");
    r.attention_out("self_attn.dense");
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.dense_h_to_4h");
    r.mlp_out("mlp.dense_4h_to_h");
  });
  r.norm("ln_final", "final_layernorm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

ModelConfig read_persimmon(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 16384,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "relu2"});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = true;
  if (hf.json().boolean_or("qk_layernorm", true)) {
    c.qk_norm = QkNorm{.span = QkNorm::per_head, .kind = NormKind::layer_norm, .bias = true};
  }
  read_rope(hf, c, {.theta = 10000.0, .partial = 0.5});
  return c;
}

// Seed-OSS (ByteDance 2025): Llama with a separate key for the output bias.
ModelConfig read_seed_oss(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 524288, .n_kv_heads = 8, .d_head = 128});
  c.qkv_bias = hf.json().boolean_or("attention_bias", true);
  c.attn_out_bias = hf.json().boolean_or("attention_out_bias", false);
  c.mlp_bias = hf.json().boolean_or("mlp_bias", false);
  read_rope(hf, c);
  return c;
}

// SmolLM 3 (Hugging Face 2025): every fourth layer has no positions (NoPE).
ModelConfig read_smollm3(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 4, .tied = true});
  read_llama_biases(hf, c);
  LayerFlags unrotated = rotated_layers(hf, c);  // flipped next
  unrotated.flip();
  // Named kinds of layers count, whatever the flag says.
  const bool windows = json.boolean_or("use_sliding_window", false) || json.has("layer_types");
  json.ignore({"sliding_window", "max_window_layers"});
  if (windows) {
    hf.set_windows(
        c, {.name = "sliding_window", .null_is_none = !json.has("layer_types")},
        hf.layers_of_type(c, [&](std::int64_t l) { return unrotated[static_cast<std::size_t>(l)]; }));
  }
  read_rope(hf, c, {.theta = 2e6});
  c.rotary()->unrotated_layers = none_if_all_false(unrotated);
  return c;
}

// StableLM 2 (Bellagente et al. 2024): LayerNorms, partial rotary, norms of queries and keys with weights per
// head.

// One norm module for each head; ours is one weight [head, d_head].
void add_head_norms(Recipes& r, const ModelConfig& c) {
  for (const auto& [ours, theirs, heads] : {std::tuple{"attn.q_norm.w", "q_layernorm", c.n_heads},
                                            std::tuple{"attn.k_norm.w", "k_layernorm", c.n_kv_heads}}) {
    std::vector<std::string> names;
    for (std::int64_t h = 0; h < heads; ++h)
      names.push_back(fmt::format("self_attn.{}.norms.{}.weight", theirs, h));
    r.make(ours, names, [](const std::vector<at::Tensor>& weights) { return at::cat(weights); });
  }
}

std::vector<TensorRecipe> stablelm_recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    r.queries("self_attn.q_proj");
    r.keys("self_attn.k_proj");
    r.values("self_attn.v_proj");
    if (c.qk_norm) add_head_norms(r, c);
    r.attention_out("self_attn.o_proj");
    if (!c.parallel()) r.norm("ln2", "post_attention_layernorm");
    add_llama_mlp(r, c);
  });
}

ModelConfig read_stablelm(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096,
                                         .n_kv_heads = 32,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "layer_norm_eps",
                                         .eps = 1e-5});
  c.qkv_bias = json.boolean_or("use_qkv_bias", false);
  if (json.boolean_or("use_parallel_residual", false)) c.layout = BlockLayout::parallel_one_norm;
  if (json.boolean_or("qk_layernorm", false)) {
    c.qk_norm = QkNorm{.span = QkNorm::each_head, .kind = NormKind::layer_norm};
  }
  read_rope(hf, c, {.partial = 0.25});
  json.ignore({"rope_pct", "rotary_scaling_factor"});  // of the older models' own code
  return c;
}

// StarCoder 2 (Lozhkov et al. 2024): LayerNorms with bias, rotary positions, no gate.

std::vector<TensorRecipe> starcoder2_recipes(const ModelConfig& c) {
  return llama_stack(c, [&](Recipes& r) {
    r.norm("ln1", "input_layernorm");
    add_llama_attention(r, c);
    r.norm("ln2", "post_attention_layernorm");
    r.mlp_in("mlp.c_fc");
    r.mlp_out("mlp.c_proj");
  });
}

ModelConfig read_starcoder2(HfConfig& hf) {
  ModelConfig c = read_llama_config(hf, {.n_ctx = 4096,
                                         .n_kv_heads = 2,
                                         .tied = true,
                                         .norm = NormKind::layer_norm,
                                         .eps_key = "norm_epsilon",
                                         .eps = 1e-5,
                                         .mlp = MlpKind::plain,
                                         .activation = "gelu_pytorch_tanh"});
  c.qkv_bias = c.attn_out_bias = c.mlp_bias = hf.json().boolean_or("use_bias", true);
  hf.json().ignore({"norm_type", "mlp_type"});
  hf.set_windows(c, {.name = "sliding_window", .null_is_none = true}, LayerFlags(c.n_layers, true));
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kApertus = llama_family("apertus", read_apertus, apertus_recipes);
extern const Family kArcee = llama_family("arcee", read_arcee, llama_recipes);
extern const Family kCwm = llama_family("cwm", read_cwm, llama_recipes);
extern const Family kHelium = llama_family("helium", read_helium, llama_recipes);
extern const Family kInternlm3 = llama_family("internlm3", read_internlm3, llama_recipes);
extern const Family kIquestcoder = llama_family("iquestcoder", read_iquestcoder, llama_recipes);
extern const Family kJais2 = llama_family("jais2", read_jais2, llama_recipes);
extern const Family kLlama = llama_family("llama", read_llama, llama_recipes);
extern const Family kNanochat = llama_family("nanochat", read_nanochat, nanochat_recipes);
extern const Family kNemotron = llama_family("nemotron", read_nemotron, llama_recipes);
extern const Family kPersimmon = llama_family("persimmon", read_persimmon, persimmon_recipes);
extern const Family kSeedOss = llama_family("seed_oss", read_seed_oss, llama_recipes);
extern const Family kSmollm3 = llama_family("smollm3", read_smollm3, llama_recipes);
extern const Family kStablelm = llama_family("stablelm", read_stablelm, stablelm_recipes);
extern const Family kStarcoder2 = llama_family("starcoder2", read_starcoder2, starcoder2_recipes);

}  // namespace hooked::families::llama
