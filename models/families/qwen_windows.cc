#include "models/families/qwen_windows.h"

namespace hooked {

void read_qwen_windows(const HfConfig& hf, ModelConfig& config) {
  const ConfigReader& json = hf.json();
  const bool used = json.boolean_or("use_sliding_window", false);
  const std::int64_t first = json.integer_or("max_window_layers", 28);
  LayerFlags windowed = hf.windowed_layers(config, [&](std::int64_t l) { return l >= first; });
  json.ignore({"sliding_window"});
  if (used) hf.set_windows(config, {"sliding_window", 4096}, std::move(windowed));
}

}  // namespace hooked
