// Gemma 2 (Gemma Team 2024): soft caps, four norms a block, every other layer windowed.
#include "models/families/gemma_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_gemma_config(hf, "hidden_activation");
  read_gemma_caps(hf, c, {.scores = 50.0, .logits = 30.0});
  const auto types = hf.windowed_by_layer_types(c);
  hf.set_windows(c, {"sliding_window", 4096},
                 [&](std::int64_t l) { return types ? (*types)[static_cast<std::size_t>(l)] : l % 2 == 0; });
  hf.json().ignore({"sliding_window_size"});  // says sliding_window once more
  read_rope(hf, c);
  return hf.finish(std::move(c), gemma_two_norm_recipes);
}

}  // namespace

extern const Family kGemma2Family{.model_type = "gemma2",
                                  .read = read,
                                  .prefix = "model.",
                                  .unembedding = "lm_head.weight",
                                  .buffers = kLlamaBuffers};

}  // namespace hooked
