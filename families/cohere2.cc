// Command R7B and Command A (Cohere 2025): Command R with windowed layers; full layers have no positions.
#include "families/shared/cohere_layout.h"

namespace hooked::families::cohere2 {
namespace {

ModelConfig read(HfConfig& hf) {
  ModelConfig c = read_cohere_config(hf, 1e4);
  const ConfigReader& json = hf.json();
  const std::int64_t pattern = json.has("sliding_window_pattern") ? hf.count("sliding_window_pattern") : 4;
  json.ignore(
      {"_sliding_window_pattern", "rotary_pct", "order_of_interleaved_layers", "position_embedding_type"});
  LayerFlags windowed = hf.windowed_layers(c, [&](std::int64_t l) { return (l + 1) % pattern != 0; });
  hf.set_windows(c, {"sliding_window", 4096}, windowed);
  windowed.flip();
  c.rotary()->unrotated_layers = none_if_all_false(std::move(windowed));
  return c;
}

}  // namespace

extern const Family kFamily = llama_family("cohere2", read, llama_recipes);

}  // namespace hooked::families::cohere2
