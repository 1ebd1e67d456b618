// BART and the encoder-decoders that are derived from fairseq's.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/shared/fairseq_layout.h"
#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::bart {
namespace {

/// Defaults of the families derived from fairseq's BART, if their config.json does not say otherwise.
struct BartDefaults {
  std::int64_t n_ctx = 1024;
  bool scale_embedding = false;
  std::string_view activation = "gelu";
  std::optional<std::int64_t> decoder_start = std::nullopt;  ///< none: bos_token_id, or none at all
};

/// Other names of the embedding.
constexpr std::string_view kBartEmbeddings[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};

void add_attention(Recipes& r, const std::string& theirs) {
  r.queries(theirs + ".q_proj");
  r.keys(theirs + ".k_proj");
  r.values(theirs + ".v_proj");
  r.attention_out(theirs + ".out_proj");
}

void add_block(Recipes& r, const std::string& mlp_norm) {
  r.norm("ln1", "self_attn_layer_norm");
  add_attention(r, "self_attn");
  r.norm(mlp_norm, "final_layer_norm");
  r.mlp_in("fc1");
  r.mlp_out("fc2");
}

// A key for the same size of both stacks; the graph requires equal sizes.
void require_alike(const HfConfig& hf, std::string_view of_encoder, std::string_view of_decoder) {
  const ConfigReader& json = hf.json();
  const std::int64_t size = hf.count(of_encoder);
  if (hf.count(of_decoder) == size) return;
  json.refuse(of_decoder,
              fmt::format("is not {}, and both stacks are made alike; expected {}", of_encoder, size));
}

// [n_ctx, d_model]: sines of frequencies from 1 down to 1/10000, then their cosines. Computed in float64, as
// in numpy, and stored in float32.
at::Tensor sinusoids(std::int64_t n_ctx, std::int64_t d_model) {
  const auto angles = [&](std::int64_t columns) {
    const at::Tensor powers = at::arange(columns, at::kDouble) * 2.0 / static_cast<double>(d_model);
    return at::arange(n_ctx, at::kDouble).unsqueeze(1) / at::pow(10000.0, powers);
  };
  const std::int64_t cosines = d_model / 2;
  return at::cat({at::sin(angles(d_model - cosines)), at::cos(angles(cosines))}, 1).to(at::kFloat);
}

// The token that the decoder's rows begin with. The family's own token belongs to the vocabulary that the
// model was published with.
void read_decoder_start(HfConfig& hf, ModelConfig& c, const BartDefaults& defaults) {
  const ConfigReader& json = hf.json();
  const bool named = json.has("decoder_start_token_id");
  const std::string_view key = named ? "decoder_start_token_id" : "bos_token_id";
  hf.comes_from("encoder.decoder_start_token", json.where(key));
  if (!named && defaults.decoder_start) {
    if (*defaults.decoder_start < c.d_vocab) c.encoder->decoder_start_token = defaults.decoder_start;
  } else if (json.has(key)) {
    c.encoder->decoder_start_token = json.integer(key);
  }
}

// The config of an encoder-decoder with norms before its sublayers and after each stack, positions added to
// the embedding in both, biases everywhere and one on the logits (`final_logits_bias`), under BART's keys.
// The config must say the same of both stacks. Throws ConfigError.
ModelConfig read_bart_config(HfConfig& hf, const BartDefaults& defaults) {
  const ConfigReader& json = hf.json();
  if (!json.boolean_or("is_encoder_decoder", true)) {
    json.refuse("is_encoder_decoder", "says that a stack is missing; expected a model with both");
  }
  hf.require_unset({"is_decoder"});
  ModelConfig c = hf.sizes({.n_layers = "encoder_layers",
                            .d_model = "d_model",
                            .n_heads = "encoder_attention_heads",
                            .n_kv_heads = {},
                            .d_head = {},
                            .d_mlp = "encoder_ffn_dim",
                            .n_ctx_fallback = defaults.n_ctx},
                           /*tied=*/true);
  c.encoder = Encoder{.n_layers = c.n_layers};
  if (json.has("num_hidden_layers"))
    require_alike(hf, "encoder_layers", "num_hidden_layers");  // its other name
  c.n_layers = hf.count("decoder_layers");
  require_alike(hf, "encoder_attention_heads", "decoder_attention_heads");
  require_alike(hf, "encoder_ffn_dim", "decoder_ffn_dim");
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = c.unembedding->bias = true;
  c.eps = 1e-5;
  c.activation = hf.activation("activation_function", defaults.activation);
  if (json.boolean_or("scale_embedding", defaults.scale_embedding)) {
    c.embedding_scale = std::sqrt(static_cast<double>(c.d_model));
  }
  read_decoder_start(hf, c, defaults);
  // What older files say about the architecture but transformers does not read.
  json.ignore({"normalize_before", "normalize_embedding", "add_bias_logits", "add_final_layer_norm",
               "static_position_embeddings", "extra_pos_embeddings", "pad_token_id"});
  return c;
}

// Norms after the additions (post-norm): a stack has no other norm after its last block.
ModelConfig with_post_norms(ModelConfig config) {
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  return config;
}

// The embedding that both stacks share, their blocks, their norms and the bias of the logits: everything
// except positions.
void add_bart_stacks(Recipes& r, const ModelConfig& config) {
  r.embedding("shared.weight");
  if (config.embedding_sum_norm) {
    r.norm("embed.ln", "encoder.layernorm_embedding");
    r.norm("decoder_embed.ln", "decoder.layernorm_embedding");
  }
  r.each_block(Stack::encoder, "encoder.layers.{}.", [&](std::int64_t) { add_block(r, "ln2"); });
  r.each_block(Stack::decoder, "decoder.layers.{}.", [&](std::int64_t) {
    add_block(r, "ln3");
    r.cross_attention([&] { add_attention(r, "encoder_attn"); });
    r.norm("ln2", "encoder_attn_layer_norm");
  });
  if (config.norm_place == NormPlace::pre) {
    r.norm("encoder_final_ln", "encoder.layer_norm");
    r.norm("decoder_final_ln", "decoder.layer_norm");
  }
  if (!config.tied_unembedding()) {
    r.turned("unembed.W_U", "lm_head.weight");
  }
  if (config.unembedding->bias) {
    // A part of the head, which has no prefix, although its name in files does not show that.
    TensorRecipe& bias =
        r.make("unembed.b_U", {"lm_head.bias"}, [](const auto& stored) { return stored[0].flatten(); });
    bias.alias = "final_logits_bias";
    bias.optional = true;
  }
}

// Learned positions of both stacks, each after `offset` rows that belong to no position.
void add_bart_positions(Recipes& r, std::int64_t offset) {
  r.positions("encoder.embed_positions.weight", offset);
  r.make("decoder_embed.W_pos", {"decoder.embed_positions.weight"},
         [offset](const auto& table) { return table[0].narrow(0, offset, table[0].size(0) - offset); });
}

// Positions of both stacks as sines and then cosines: computed, because Marian's files do not have them.
void add_sinusoidal_positions(Recipes& r, const ModelConfig& config) {
  for (const std::string_view table : {"pos_embed.W_pos", "decoder_embed.W_pos"}) {
    r.make(table, {}, [n_ctx = config.n_ctx, d_model = config.d_model](const auto&) {
      return sinusoids(n_ctx, d_model);
    });
  }
}

// The whole layout of BART: learned positions after fairseq's two rows, and both stacks.
std::vector<TensorRecipe> bart_recipes(const ModelConfig& config) {
  Recipes r(config);
  add_bart_positions(r, kFairseqPositionOffset);
  add_bart_stacks(r, config);
  return std::move(r).take();
}

// The same with positions from the first row on.
std::vector<TensorRecipe> bart_recipes_without_offset(const ModelConfig& c) {
  Recipes r(c);
  add_bart_positions(r, /*offset=*/0);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

/// The row of a family whose files use BART's names.
constexpr Family bart_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config),
                             FamilyRecipes recipes, std::span<const std::string_view> buffers = {}) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = "model.",
          .unembedding = "lm_head.weight",
          .embedding_copies = kBartEmbeddings,
          .buffers = buffers};
}

// BART (Lewis et al. 2020): post-norm sublayers, learned positions after two unused rows, and a norm of the
// summed embeddings, in each stack.
ModelConfig read_bart(HfConfig& hf) {
  ModelConfig c = with_post_norms(read_bart_config(hf, {.decoder_start = 2}));
  c.embedding_sum_norm = true;
  return c;
}

// Blenderbot (Roller et al. 2021): pre-norm sublayers, learned positions, no norm of the embeddings.

ModelConfig read_blenderbot(HfConfig& hf) { return read_bart_config(hf, {.n_ctx = 128, .decoder_start = 1}); }

// M2M-100 (Fan et al. 2020) and NLLB-200 (NLLB Team 2022) except its mixtures: pre-norm sublayers, a scaled
// embedding, positions of sines and cosines that are counted from pad_token_id + 1 and not stored.

std::int64_t first_row(const HfConfig& hf) { return hf.json().integer_or("pad_token_id", 1) + 1; }

ModelConfig read_m2m_100(HfConfig& hf) {
  ModelConfig c = read_bart_config(hf, {.scale_embedding = true, .activation = "relu", .decoder_start = 2});
  c.unembedding->bias = false;
  if (c.d_model < 4)
    hf.json().refuse("d_model", "is too small for sinusoidal positions; expected at least 4");
  if (first_row(hf) < 1) hf.json().refuse("pad_token_id", "is negative; expected a token, or no such key");
  hf.positions_count_without(first_row(hf) - 1);
  return c;
}

std::vector<TensorRecipe> m2m_100_recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  const auto positions = [c, first = first_row(hf)](const auto&) { return fairseq_sinusoids(c, first); };
  r.make("pos_embed.W_pos", {}, positions);
  r.make("decoder_embed.W_pos", {}, positions);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

constexpr std::string_view kM2m100Buffers[] = {"*embed_positions.weights"};

// Marian (Junczys-Dowmunt et al. 2018), the translators of OPUS-MT: norms after the additions, positions of
// sines and cosines.

ModelConfig read_marian(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = with_post_norms(read_bart_config(hf, {.decoder_start = 58100}));
  if (!json.boolean_or("share_encoder_decoder_embeddings", true)) {
    json.refuse("share_encoder_decoder_embeddings",
                "says that each stack has a vocabulary of its own; expected true: one for both");
  }
  json.ignore({"decoder_vocab_size"});  // of vocabularies that are not shared
  return c;
}

std::vector<TensorRecipe> marian_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_sinusoidal_positions(r, c);
  add_bart_stacks(r, c);
  return std::move(r).take();
}

constexpr std::string_view kMarianBuffers[] = {"*embed_positions.weight"};

// mBART (Liu et al. 2020) and mBART-50: BART with norms before its sublayers and after each stack.
ModelConfig read_mbart(HfConfig& hf) {
  ModelConfig c = read_bart_config(hf, {});
  c.embedding_sum_norm = true;
  return c;
}

// PEGASUS (Zhang et al. 2020): pre-norm sublayers, positions of sines and cosines, stored in files.

ModelConfig read_pegasus(HfConfig& hf) { return read_bart_config(hf, {.decoder_start = 0}); }

// PLBART (Ahmad et al. 2021): BART for programs, with a scaled embedding.
ModelConfig read_plbart(HfConfig& hf) {
  ModelConfig c = with_post_norms(read_bart_config(hf, {.scale_embedding = true, .decoder_start = {}}));
  c.embedding_sum_norm = true;
  return c;
}

}  // namespace

extern const Family kBart = bart_family("bart", read_bart, bart_recipes);
extern const Family kBlenderbot = bart_family("blenderbot", read_blenderbot, bart_recipes_without_offset);
extern const Family kM2m100 = bart_family("m2m_100", read_m2m_100, m2m_100_recipes, kM2m100Buffers);
extern const Family kMarian = bart_family("marian", read_marian, marian_recipes, kMarianBuffers);
extern const Family kMbart = bart_family("mbart", read_mbart, bart_recipes);
extern const Family kPegasus = bart_family("pegasus", read_pegasus, bart_recipes_without_offset);
extern const Family kPlbart = bart_family("plbart", read_plbart, bart_recipes);

}  // namespace hooked::families::bart
