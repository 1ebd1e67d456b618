// Mistral (Jiang et al. 2023): Llama with a window on every layer.
#include "models/families/llama_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_llama_config(hf);
  const auto types = hf.windowed_by_layer_types(c);
  hf.set_windows(c, {"sliding_window", 4096},
                 [&](std::int64_t l) { return !types || (*types)[static_cast<std::size_t>(l)]; });
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
