// RoBERTa (Liu et al. 2019): BERT whose positions count from pad_token_id + 1, as fairseq's do. The
// activation of the head is exact GELU, whatever hidden_act says.
#include <fmt/format.h>

#include "families/shared/bert_layout.h"

namespace hooked::families::roberta {
namespace {

// Rows of the position table before that of the first token.
std::int64_t position_offset(const HfConfig& hf) { return hf.json().integer_or("pad_token_id", 1) + 1; }

std::vector<TensorRecipe> recipes(const ModelConfig& c, const HfConfig& hf) {
  Recipes r(c);
  add_bert_body(r, position_offset(hf));
  r.mlm_head("lm_head.dense", "lm_head.layer_norm");
  r.unembedding("lm_head.decoder", "lm_head");
  return std::move(r).take();
}

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_bert_config(hf);
  const std::int64_t offset = position_offset(hf);
  if (offset < 1 || offset >= c.n_ctx) {
    json.refuse("pad_token_id", fmt::format("is out of range: positions are counted from the row behind it; "
                                            "expected 0 to {}",
                                            c.n_ctx - 2));
  }
  c.n_ctx -= offset;
  return c;
}

constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                         "lm_head.bias", "lm_head.decoder.bias"};

}  // namespace

extern const Family kFamily{.model_type = "roberta",
                            .read = read,
                            .recipes = recipes,
                            .prefix = "roberta.",
                            .unembedding = "lm_head.decoder.weight",
                            .optional_part = masked_lm_head("lm_head."),
                            .buffers = kBuffers};

}  // namespace hooked::families::roberta
