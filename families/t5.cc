// T5 and its relatives.
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::t5 {
namespace {

/// Files also have the shared embedding under each stack's name; an encoder's may have no other.
constexpr std::string_view kT5Embeddings[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};

/// A table in old files that nothing reads.
constexpr std::string_view kT5Buffers[] = {
    "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};

void add_t5_attention(Recipes& r, const std::string& theirs) {
  r.queries(theirs + ".q");
  r.keys(theirs + ".k");
  r.values(theirs + ".v");
  r.attention_out(theirs + ".o");
}

// The parts of blocks in both stacks; `mlp` is the place of the MLP's layer.
void add_t5_block(Recipes& r, const ModelConfig& c, const std::string& mlp_norm, const std::string& mlp) {
  add_t5_attention(r, "layer.0.SelfAttention");
  if (c.holds_relative(r.layer())) {
    r.copy("attn.rel_pos_bias.weight", "layer.0.SelfAttention.relative_attention_bias.weight");
  }
  r.norm("ln1", "layer.0.layer_norm");
  r.norm(mlp_norm, mlp + ".layer_norm");
  const std::string maps = mlp + ".DenseReluDense.";
  if (c.mlp == MlpKind::gated) r.mlp_gate(maps + "wi_0");
  r.mlp_in(maps + (c.mlp == MlpKind::gated ? "wi_1" : "wi"));
  r.mlp_out(maps + "wo");
}

// Both stacks, or only the encoder.
std::vector<TensorRecipe> t5_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("shared.weight");
  const Stack encoder = c.has_encoder() ? Stack::encoder : Stack::blocks;
  r.each_block(encoder, "encoder.block.{}.", [&](std::int64_t) { add_t5_block(r, c, "ln2", "layer.1"); });
  r.norm(c.has_encoder() ? "encoder_final_ln" : "ln_final", "encoder.final_layer_norm");
  if (!c.has_encoder()) return std::move(r).take();
  r.each_block(Stack::decoder, "decoder.block.{}.", [&](std::int64_t) {
    add_t5_block(r, c, "ln3", "layer.2");
    r.cross_attention([&] { add_t5_attention(r, "layer.1.EncDecAttention"); });
    r.norm("ln2", "layer.1.layer_norm");
  });
  if (c.final_norm != NormKind::none) r.norm("decoder_final_ln", "decoder.final_layer_norm");
  r.unembedding("lm_head");
  return std::move(r).take();
}

// `relu`, or `gated-gelu`, whose gelu is the one by tanh. Files may also state what follows from it.
void read_t5_mlp(HfConfig& hf, ModelConfig& c, std::string_view usually) {
  const ConfigReader& json = hf.json();
  const std::string text = json.text_or("feed_forward_proj", usually);
  constexpr std::string_view kGated = "gated-";
  const bool gated = text.starts_with(kGated);
  const std::string function = gated ? text.substr(kGated.size()) : text;
  const auto activation = parse_activation(text == "gated-gelu" ? "gelu_new" : function);
  if (!activation) {
    json.refuse("feed_forward_proj",
                "is not supported; expected an activation such as relu, or gated- and one");
  }
  c.mlp = json.boolean_or("is_gated_act", gated) ? MlpKind::gated : MlpKind::plain;
  c.activation = json.has("dense_act_fn") ? hf.activation("dense_act_fn", "relu") : *activation;
}

// The config of T5 and its relatives with both stacks, without the factors of their outputs. `usual_mlp` is
// the `feed_forward_proj` of files that do not name one.
ModelConfig read_t5_config(HfConfig& hf, std::string_view usual_mlp) {
  const ConfigReader& json = hf.json();
  if (json.boolean_or("is_decoder", false)) {
    json.refuse("is_decoder",
                "says that the encoder is missing; expected a model with both stacks, or the encoder alone");
  }
  ModelConfig c = hf.sizes({.n_layers = "num_layers",
                            .d_model = "d_model",
                            .n_heads = "num_heads",
                            .n_kv_heads = {},
                            .d_head = "d_kv",
                            .d_head_fallback = 64,
                            .d_mlp = "d_ff",
                            .n_ctx = {},
                            .n_ctx_fallback = kUnlimitedContext},
                           /*tied=*/true);
  c.encoder = Encoder{.n_layers = c.n_layers};
  if (json.has("num_decoder_layers")) c.n_layers = hf.count("num_decoder_layers");
  c.norm = c.final_norm = NormKind::rms_norm;
  c.least_dtypes.mlp_out = KeptInFloat32::in_float16;  // trained in bfloat16, it overflows there
  c.eps = hf.positive_or("layer_norm_epsilon", 1e-6);
  c.attn_scale = 1.0;
  read_t5_mlp(hf, c, usual_mlp);
  c.positions = RelativePositions{};
  constexpr std::string_view kBuckets = "relative_attention_num_buckets";
  constexpr std::string_view kDistance = "relative_attention_max_distance";
  if (json.has(kBuckets)) c.relative()->buckets = hf.count(kBuckets);
  if (json.has(kDistance)) c.relative()->max_distance = hf.count(kDistance);
  hf.comes_from("relative.buckets", json.where(kBuckets));
  hf.comes_from("relative.max_distance", json.where(json.has(kDistance) ? kDistance : kBuckets));
  const std::string_view start = json.first_of({"decoder_start_token_id", "pad_token_id"});
  if (json.has(start)) c.encoder->decoder_start_token = json.integer(start);
  hf.comes_from("encoder.decoder_start_token", json.where(start));
  json.ignore({"n_positions", "output_past", "pad_token_id"});
  return c;
}

// Whether the unembedding's input is scaled by d_model^-1/2: `scale_decoder_outputs`, or in older configs
// `tie_word_embeddings`.
void read_t5_output_scale(const HfConfig& hf, ModelConfig& config) {
  if (!hf.json().boolean_or("scale_decoder_outputs", config.tied_unembedding())) return;
  config.unembedding->in_scale = 1.0 / std::sqrt(static_cast<double>(config.d_model));
}

// That config, or only its encoder if the file says so.
ModelConfig t5_stacks(const HfConfig& hf, ModelConfig whole) {
  return hf.json().boolean_or("is_encoder_decoder", true) ? whole : encoder_alone(std::move(whole));
}

/// The row of a family whose files use T5's names.
constexpr Family t5_family(std::string_view model_type, ModelConfig (*read)(HfConfig& config)) {
  return {
      .model_type = model_type,
      .read = read,
      .recipes = t5_recipes,
      .unembedding = "lm_head.weight",
      .optional_part = {.name = "decoder",
                        .tensors = "decoder.",
                        .in = [](const ModelConfig& c) { return c.has_encoder(); },
                        .without = encoder_alone,
                        .what_is_left = "the model is the encoder, which ends with its final norm and has "
                                        "no logits"},
      .embedding_copies = kT5Embeddings,
      .buffers = kT5Buffers};
}

// mT5 (Xue et al. 2021): T5 1.1 over another vocabulary. The unembedding's input is not scaled.
ModelConfig read_mt5(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "gated-gelu");
  // Whatever `tie_word_embeddings` says: the files decide, as in transformers.
  c.unembedding->tied = true;
  return t5_stacks(hf, c);
}

// T5 1.0 and 1.1 (Raffel et al. 2020; gated MLPs: Shazeer 2020), both stacks or the encoder alone.
ModelConfig read_t5(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "relu");
  read_t5_output_scale(hf, c);
  return t5_stacks(hf, c);
}

// UMT5 (Chung et al. 2023): mT5 with separate relative positions in every block.
ModelConfig read_umt5(HfConfig& hf) {
  ModelConfig c = read_t5_config(hf, "gated-gelu");
  c.relative()->in_every_block = true;
  read_t5_output_scale(hf, c);
  // Whatever `tie_word_embeddings` says of the matrices: the files decide, as in transformers.
  c.unembedding->tied = true;
  return t5_stacks(hf, c);
}

}  // namespace

extern const Family kMt5 = t5_family("mt5", read_mt5);
extern const Family kT5 = t5_family("t5", read_t5);
extern const Family kUmt5 = t5_family("umt5", read_umt5);

}  // namespace hooked::families::t5
