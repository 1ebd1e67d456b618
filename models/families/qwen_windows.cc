#include "models/families/qwen_windows.h"

namespace hooked {

void read_qwen_windows(const HfConfig& hf, ModelConfig& config) {
  const ConfigReader& json = hf.json();
  const bool used = json.boolean_or("use_sliding_window", false);
  const std::int64_t first = json.integer_or("max_window_layers", 28);
  const auto types = hf.windowed_by_layer_types(config);
  json.ignore({"sliding_window"});
  if (!used) return;
  hf.set_windows(config, {"sliding_window", 4096},
                 [&](std::int64_t l) { return types ? (*types)[static_cast<std::size_t>(l)] : l >= first; });
}

}  // namespace hooked
