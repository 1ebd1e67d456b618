// Mistral (Jiang et al. 2023): Llama with a window on every layer.
#include "models/families/llama_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf);
  hf.set_windows(c, "sliding_window", [](std::int64_t) { return true; });
  read_rope(hf, c);
  return hf.finish(std::move(c), llama_recipes);
}

}  // namespace

extern const Family kMistralFamily{.model_type = "mistral",
                                   .read = read,
                                   .prefix = "model.",
                                   .unembedding = "lm_head.weight",
                                   .buffers = kLlamaBuffers};

}  // namespace hooked
