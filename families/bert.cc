// BERT, RoBERTa and their relatives.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "families/shared/hf_config.h"
#include "families/shared/recipes.h"

namespace hooked::families::bert {
namespace {

constexpr std::string_view kBertBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                             "cls.predictions.bias", "cls.predictions.decoder.bias"};

// What such encoders share, whatever their keys: norms, biases, direction, the head with its activation.
ModelConfig as_encoder(ModelConfig config, Activation head) {
  config.direction = AttentionDirection::bidirectional;
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  config.embedding_sum_norm = true;
  config.mlp_bias = config.qkv_bias = config.attn_out_bias = config.unembedding->bias = true;
  config.unembedding->mlm_head = head;
  return config;
}

// The config of an encoder with norms after the additions (post-norm), a normed sum of embeddings and a
// masked-LM head, under BERT's keys.
ModelConfig read_bert_config(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = as_encoder(hf.sizes({.n_kv_heads = {}, .d_head = {}, .n_ctx_fallback = 512}, /*tied=*/true),
                             Activation::gelu);
  if (json.boolean_or("is_decoder", false)) c.direction = AttentionDirection::causal;
  c.activation = hf.activation("hidden_act", "gelu");
  c.eps = hf.positive_or("layer_norm_eps", 1e-12);
  c.token_types = hf.count_or("type_vocab_size", 2);
  if (json.text_or("position_embedding_type", "absolute") != "absolute") {
    json.refuse("position_embedding_type", "is not supported; expected absolute, or no such key");
  }
  hf.require_unset({"add_cross_attention"});
  // About a pooler that masked language models do not have.
  json.ignore({"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
               "pooler_type", "directionality"});
  return c;
}

// BERT's embeddings; `add_positions` adds the positions.
void add_bert_embeddings(Recipes& r, const std::function<void()>& add_positions) {
  r.embedding("embeddings.word_embeddings.weight");
  add_positions();
  r.copy("embed.token_type_embed.W_token_type", "embeddings.token_type_embeddings.weight");
  r.norm("embed.ln", "embeddings.LayerNorm");
}

// The same; `offset` rows at the start of the position table belong to no position.
void add_bert_embeddings(Recipes& r, std::int64_t offset) {
  add_bert_embeddings(r, [&] { r.positions("embeddings.position_embeddings.weight", offset); });
}

void add_bert_attention(Recipes& r) {
  r.queries("attention.self.query");
  r.keys("attention.self.key");
  r.values("attention.self.value");
  r.attention_out("attention.output.dense");
}

void add_bert_mlp(Recipes& r) {
  r.mlp_in("intermediate.dense");
  r.mlp_out("output.dense");
}

// BERT's blocks, with norms after the additions.
void add_bert_blocks(Recipes& r) {
  r.each_block("encoder.layer.{}.", [&](std::int64_t) {
    add_bert_attention(r);
    r.norm("ln1", "attention.output.LayerNorm");
    add_bert_mlp(r);
    r.norm("ln2", "output.LayerNorm");
  });
}

void add_bert_head(Recipes& r) {
  r.mlm_head("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm");
  r.unembedding("cls.predictions.decoder", "cls.predictions");
}

/// The row of a family whose files name the masked-LM head as BERT's do.
constexpr Family bert_family(std::string_view model_type, std::string_view prefix,
                             ModelConfig (*read)(HfConfig& config), FamilyRecipes recipes) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = prefix,
          .unembedding = "cls.predictions.decoder.weight",
          .optional_part = masked_lm_head("cls.predictions."),
          .buffers = kBertBuffers};
}

constexpr std::string_view kRobertaBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                                "lm_head.bias", "lm_head.decoder.bias"};

// Number of rows of the position table before the first token's.
std::int64_t roberta_position_offset(const HfConfig& hf) {
  return hf.json().integer_or("pad_token_id", 1) + 1;
}

// The config of RoBERTa under its own keys: BERT's, but positions are counted from pad_token_id + 1 as in
// fairseq. Throws ConfigError if the padding token leaves no positions.
ModelConfig read_roberta_config(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  const std::int64_t offset = roberta_position_offset(hf);
  if (offset < 1 || offset >= c.n_ctx) {
    hf.json().refuse(
        "pad_token_id",
        fmt::format("is out of range: positions are counted from the row after it; expected 0 to {}",
                    c.n_ctx - 2));
  }
  c.n_ctx -= offset;
  hf.positions_count_without(offset - 1);
  return c;
}

// RoBERTa's masked-LM head. Its activation is exact GELU, whatever hidden_act says.
void add_roberta_head(Recipes& r) {
  r.mlm_head("lm_head.dense", "lm_head.layer_norm");
  r.unembedding("lm_head.decoder", "lm_head");
}

std::vector<TensorRecipe> roberta_recipes(const ModelConfig& config, const HfConfig& hf) {
  Recipes r(config);
  add_bert_embeddings(r, roberta_position_offset(hf));
  add_bert_blocks(r);
  add_roberta_head(r);
  return std::move(r).take();
}

/// The row of a family whose files use RoBERTa's names.
constexpr Family roberta_family(std::string_view model_type, std::string_view prefix,
                                ModelConfig (*read)(HfConfig& config) = read_roberta_config,
                                FamilyRecipes recipes = roberta_recipes) {
  return {.model_type = model_type,
          .read = read,
          .recipes = recipes,
          .prefix = prefix,
          .unembedding = "lm_head.decoder.weight",
          .optional_part = masked_lm_head("lm_head."),
          .buffers = kRobertaBuffers};
}

// BERT (Devlin et al. 2019), with or without its masked-LM head; pooler and next-sentence head are not read.

std::vector<TensorRecipe> bert_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bert_embeddings(r, /*offset=*/0);
  add_bert_blocks(r);
  add_bert_head(r);
  return std::move(r).take();
}

ModelConfig read_bert(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.unembedding->mlm_head = c.activation;
  return c;
}

// DistilBERT (Sanh et al. 2019): no token types, and names of its own. Sinusoidal positions are stored like
// learned ones.

std::vector<TensorRecipe> distilbert_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embeddings.word_embeddings.weight");
  r.positions("embeddings.position_embeddings.weight");
  r.norm("embed.ln", "embeddings.LayerNorm");
  r.each_block("transformer.layer.{}.", [&](std::int64_t) {
    r.queries("attention.q_lin");
    r.keys("attention.k_lin");
    r.values("attention.v_lin");
    r.attention_out("attention.out_lin");
    r.norm("ln1", "sa_layer_norm");
    r.mlp_in("ffn.lin1");
    r.mlp_out("ffn.lin2");
    r.norm("ln2", "output_layer_norm");
  });
  r.mlm_head("vocab_transform", "vocab_layer_norm");
  r.unembedding("vocab_projector");
  return std::move(r).take();
}

ModelConfig read_distilbert(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const Activation activation = hf.activation("activation", "gelu");
  ModelConfig c = as_encoder(hf.sizes({.n_layers = json.first_of({"n_layers", "num_hidden_layers"}),
                                       .d_model = json.first_of({"dim", "hidden_size"}),
                                       .n_heads = json.first_of({"n_heads", "num_attention_heads"}),
                                       .n_kv_heads = {},
                                       .d_head = {},
                                       .d_mlp = "hidden_dim",
                                       .n_ctx_fallback = 512},
                                      /*tied=*/true),
                             activation);
  c.activation = activation;
  c.eps = 1e-12;
  json.ignore({"sinusoidal_pos_embds", "tie_weights_"});
  return c;
}

constexpr std::string_view kDistilbertBuffers[] = {"embeddings.position_ids"};

// ELECTRA (Clark et al. 2020): BERT, with or without the generator's head; the discriminator's head is not
// read.

std::vector<TensorRecipe> electra_recipes(const ModelConfig& c) {
  Recipes r(c);
  add_bert_embeddings(r, /*offset=*/0);
  add_bert_blocks(r);
  r.mlm_head("generator_predictions.dense", "generator_predictions.LayerNorm");
  r.unembedding("generator_lm_head");
  return std::move(r).take();
}

ModelConfig read_electra(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_bert_config(hf);  // the head's activation is exact GELU, whatever hidden_act says
  constexpr std::string_view kWidth = "embedding_size";
  if (const std::int64_t width = json.integer_or(kWidth, 128); width != c.d_model) {
    json.refuse(kWidth, fmt::format("is not hidden_size, and a projection after the normed sum of embeddings "
                                    "is not supported; expected {}",
                                    c.d_model));
  }
  // Of the sequence head.
  json.ignore({"summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"});
  return c;
}

constexpr std::string_view kElectraBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids"};

// ERNIE 1 to 3 (Sun et al. 2019): BERT, whose tokens may have a task in addition to their type. All tokens
// are treated as tokens of task 0, as in transformers if it is given none.

bool has_tasks(const HfConfig& hf) { return hf.json().boolean_or("use_task_id", false); }

std::int64_t tasks(const HfConfig& hf) {
  constexpr std::string_view kTasks = "task_type_vocab_size";
  return hf.count_or(kTasks, 3);
}

std::vector<TensorRecipe> ernie_recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  constexpr std::string_view kPositions = "embeddings.position_embeddings.weight";
  add_bert_embeddings(r, [&] {
    if (!has_tasks(hf)) return r.positions(kPositions);
    r.make("pos_embed.W_pos", {std::string(kPositions), "embeddings.task_type_embeddings.weight"},
           [tasks = tasks(hf)](const auto& theirs) -> at::Tensor {
             return theirs[0] + theirs[1].unflatten(0, {1, tasks}).select(0, 0).select(0, 0);
           });
  });
  add_bert_blocks(r);
  add_bert_head(r);
  return std::move(r).take();
}

ModelConfig read_ernie(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.unembedding->mlm_head = c.activation;
  if (has_tasks(hf)) {
    tasks(hf);  // refused here if it is not a number
    hf.note("each token is taken for one of task 0, whose embedding is added to those of positions");
  }
  hf.json().ignore({"task_type_vocab_size"});
  return c;
}

// Megatron-BERT (Shoeybi et al. 2019): BERT with its norms before the sublayers and one at the end, and none
// for the summed embeddings.

std::vector<TensorRecipe> megatron_bert_recipes(const ModelConfig& c) {
  Recipes r(c);
  r.embedding("embeddings.word_embeddings.weight");
  r.positions("embeddings.position_embeddings.weight");
  r.copy("embed.token_type_embed.W_token_type", "embeddings.token_type_embeddings.weight");
  r.each_block("encoder.layer.{}.", [&](std::int64_t) {
    r.norm("ln1", "attention.ln");
    add_bert_attention(r);
    r.norm("ln2", "ln");
    add_bert_mlp(r);
  });
  r.norm("ln_final", "encoder.ln");
  add_bert_head(r);
  return std::move(r).take();
}

ModelConfig read_megatron_bert(HfConfig& hf) {
  ModelConfig c = read_bert_config(hf);
  c.norm_place = NormPlace::pre;
  c.final_norm = NormKind::layer_norm;
  c.embedding_sum_norm = false;
  c.unembedding->mlm_head = c.activation;
  return c;
}

constexpr std::string_view kMegatronBertBuffers[] = {"embeddings.position_ids", "cls.predictions.bias",
                                                     "cls.predictions.decoder.bias"};

// RoBERTa with pre-norm sublayers (Ott et al. 2019 for fairseq; Wettig et al. 2023).

ModelConfig read_roberta_prelayernorm(HfConfig& hf) {
  ModelConfig c = read_roberta_config(hf);
  c.norm_place = NormPlace::pre;
  c.final_norm = NormKind::layer_norm;
  return c;
}

std::vector<TensorRecipe> roberta_prelayernorm_recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  add_bert_embeddings(r, roberta_position_offset(hf));
  r.each_block("encoder.layer.{}.", [&](std::int64_t) {
    add_bert_attention(r);
    r.norm("ln1", "attention.LayerNorm");
    r.norm("ln2", "intermediate.LayerNorm");
    add_bert_mlp(r);
  });
  if (c.final_norm != NormKind::none) r.norm("ln_final", "LayerNorm");
  add_roberta_head(r);
  return std::move(r).take();
}

}  // namespace

extern const Family kBert = bert_family("bert", "bert.", read_bert, bert_recipes);

extern const Family kDistilbert{.model_type = "distilbert",
                                .read = read_distilbert,
                                .recipes = distilbert_recipes,
                                .prefix = "distilbert.",
                                .unembedding = "vocab_projector.weight",
                                .optional_part = masked_lm_head("vocab_"),
                                .buffers = kDistilbertBuffers};

extern const Family kElectra{.model_type = "electra",
                             .read = read_electra,
                             .recipes = electra_recipes,
                             .prefix = "electra.",
                             .unembedding = "generator_lm_head.weight",
                             .optional_part = masked_lm_head("generator_"),
                             .buffers = kElectraBuffers};

extern const Family kErnie = bert_family("ernie", "ernie.", read_ernie, ernie_recipes);

extern const Family kMegatronBert{.model_type = "megatron-bert",
                                  .read = read_megatron_bert,
                                  .recipes = megatron_bert_recipes,
                                  .prefix = "bert.",
                                  .unembedding = "cls.predictions.decoder.weight",
                                  .optional_part = masked_lm_head_behind_norm("cls.predictions."),
                                  .buffers = kMegatronBertBuffers};

// CamemBERT (Martin et al. 2020): RoBERTa for French.
extern const Family kCamembert = roberta_family("camembert", "roberta.");

// data2vec for text (Baevski et al. 2022): RoBERTa trained on its own representations.
extern const Family kData2vecText = roberta_family("data2vec-text", "data2vec_text.");

// RoBERTa (Liu et al. 2019): BERT whose positions are counted from pad_token_id + 1, as in fairseq. The
// head's activation is exact GELU, whatever hidden_act says.
extern const Family kRoberta = roberta_family("roberta", "roberta.");

extern const Family kRobertaPrelayernorm = roberta_family(
    "roberta-prelayernorm", "roberta_prelayernorm.", read_roberta_prelayernorm, roberta_prelayernorm_recipes);

// XLM-RoBERTa (Conneau et al. 2020): RoBERTa for a hundred languages, and many sentence models.
extern const Family kXlmRoberta = roberta_family("xlm-roberta", "roberta.");

}  // namespace hooked::families::bert
