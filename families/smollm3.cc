// SmolLM 3 (Hugging Face 2025): every fourth layer has no positions (NoPE).
#include "families/shared/llama_layout.h"
#include "families/shared/rope_config.h"

namespace hooked::families::smollm3 {
namespace {

ModelConfig read(HfConfig& hf) {
  const ConfigReader& json = hf.json();
  ModelConfig c = read_llama_config(hf, {.n_ctx = 32768, .n_kv_heads = 4, .tied = true});
  read_llama_biases(hf, c);
  const std::int64_t interval = json.has("no_rope_layer_interval") ? hf.count("no_rope_layer_interval") : 4;
  std::vector<std::int64_t>
      rotates;  // an entry of "no_rope_layers" is 1 if the layer has rotary, in spite of its name
  if (json.has("no_rope_layers")) rotates = json.integers("no_rope_layers");
  if (!rotates.empty() && static_cast<std::int64_t>(rotates.size()) != c.n_layers) {
    json.refuse("no_rope_layers",
                "does not say for every layer whether it is rotary; expected an entry for each");
  }
  const LayerFlags unrotated = flag_layers(c, [&](std::int64_t l) {
    return rotates.empty() ? (l + 1) % interval == 0 : rotates[static_cast<std::size_t>(l)] == 0;
  });
  // Named kinds of layers count, whatever the flag says.
  const bool windows = json.boolean_or("use_sliding_window", false) || json.has("layer_types");
  json.ignore({"sliding_window", "max_window_layers"});
  if (windows) {
    hf.set_windows(
        c, {.name = "sliding_window", .null_is_none = !json.has("layer_types")},
        hf.windowed_layers(c, [&](std::int64_t l) { return unrotated[static_cast<std::size_t>(l)]; }));
  }
  read_rope(hf, c, {.theta = 2e6});
  c.rotary()->unrotated_layers = none_if_all_false(unrotated);
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("smollm3", read, llama_recipes);

}  // namespace hooked::families::smollm3
