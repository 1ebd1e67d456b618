// IQuest-Coder (IQuestLab 2026): Llama with 8 key/value heads.
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::iquestcoder {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  const std::int64_t d_head = json.is_null("head_dim") ? 0 : 128;  // null: d_model / n_heads
  ModelConfig c = read_llama_config(hf, {.n_ctx = 131072, .n_kv_heads = 8, .d_head = d_head, .eps = 1e-5});
  read_llama_biases(hf, c);
  hf.require_unset({"clip_qkv", "use_sliding_window"});
  json.ignore({"sliding_window", "max_window_layers"});  // without effect while use_sliding_window is not set
  read_rope(hf, c);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("iquestcoder", read, llama_recipes);

}  // namespace hooked::families::iquestcoder
