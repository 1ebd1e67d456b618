// InternLM 3 (Shanghai AI Laboratory 2025): Llama with different names for the biases.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::internlm3 {
namespace {

ModelConfig read(HfConfig& hf) {
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

}  // namespace

extern const Family kFamily = llama_family("internlm3", read, llama_recipes);

}  // namespace hooked::families::internlm3
