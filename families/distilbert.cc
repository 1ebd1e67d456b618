// DistilBERT (Sanh et al. 2019): no token types, and names of its own. Sinusoidal positions are stored like
// learned ones.
#include "families/shared/bert_layout.h"

namespace hooked::families::distilbert {
namespace {

std::vector<TensorRecipe> recipes(const ModelConfig& c) {
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

ModelConfig read(HfConfig& hf) {
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

constexpr std::string_view kBuffers[] = {"embeddings.position_ids"};

}  // namespace

extern const Family kFamily{.model_type = "distilbert",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "distilbert.",
                            .unembedding = "vocab_projector.weight",
                            .optional_part = masked_lm_head("vocab_"),
                            .buffers = kBuffers};

}  // namespace hooked::families::distilbert
