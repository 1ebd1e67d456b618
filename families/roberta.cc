// RoBERTa (Liu et al. 2019): BERT whose positions count from pad_token_id + 1, as fairseq's do. The
// activation of the head is exact GELU, whatever hidden_act says.
#include <fmt/format.h>

#include "families/shared/bert_layout.h"

namespace hooked {
namespace {

RecipeMaker recipes(std::int64_t offset) {
  return [offset](const ModelConfig& c) {
    Recipes r(c);
    add_bert_body(r, offset);
    r.mlm_head("lm_head.dense", "lm_head.layer_norm");
    r.unembedding("lm_head.decoder", "lm_head");
    return std::move(r).take();
  };
}

FamilyConfig read(std::string_view text, std::string_view where) {
  HfConfig hf(text, where);
  const ConfigReader& json = hf.json();
  ModelConfig c = read_bert_config(hf);
  const std::int64_t offset = json.integer_or("pad_token_id", 1) + 1;
  if (offset < 1 || offset >= c.n_ctx) {
    json.refuse("pad_token_id", fmt::format("is out of range: positions are counted from the row behind it; "
                                            "expected 0 to {}",
                                            c.n_ctx - 2));
  }
  c.n_ctx -= offset;
  return hf.finish(std::move(c), recipes(offset));
}

constexpr std::string_view kBuffers[] = {"embeddings.position_ids", "embeddings.token_type_ids",
                                         "lm_head.bias", "lm_head.decoder.bias"};

}  // namespace

extern const Family kRobertaFamily{.model_type = "roberta",
                                   .read = read,
                                   .prefix = "roberta.",
                                   .unembedding = "lm_head.decoder.weight",
                                   .head = "lm_head.",
                                   .buffers = kBuffers};

}  // namespace hooked
