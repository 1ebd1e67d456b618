// OLMo 2 (OLMo Team 2024): outputs of sublayers are normed; one norm over all heads of queries and of keys.
#include "families/shared/olmo2_layout.h"
#include "families/shared/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_olmo2_config(hf, QkNorm::whole_projection);
  c.qkv_bias = c.attn_out_bias = hf.json().boolean_or("attention_bias", false);
  read_rope(hf, c);
  return hf.finish(std::move(c), olmo2_recipes);
}

}  // namespace

extern const Family kOlmo2Family = llama_family("olmo2", read);

}  // namespace hooked
