#include "families/shared/bart_layout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "families/shared/fairseq_layout.h"

namespace hooked {
namespace {

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

}  // namespace

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

ModelConfig with_post_norms(ModelConfig config) {
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  return config;
}

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

void add_bart_positions(Recipes& r, std::int64_t offset) {
  r.positions("encoder.embed_positions.weight", offset);
  r.make("decoder_embed.W_pos", {"decoder.embed_positions.weight"},
         [offset](const auto& table) { return table[0].narrow(0, offset, table[0].size(0) - offset); });
}

void add_sinusoidal_positions(Recipes& r, const ModelConfig& config) {
  for (const std::string_view table : {"pos_embed.W_pos", "decoder_embed.W_pos"}) {
    r.make(table, {}, [n_ctx = config.n_ctx, d_model = config.d_model](const auto&) {
      return sinusoids(n_ctx, d_model);
    });
  }
}

std::vector<TensorRecipe> bart_recipes(const ModelConfig& config) {
  Recipes r(config);
  add_bart_positions(r, kFairseqPositionOffset);
  add_bart_stacks(r, config);
  return std::move(r).take();
}

}  // namespace hooked
