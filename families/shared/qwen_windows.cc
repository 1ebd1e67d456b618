#include "families/shared/qwen_windows.h"

namespace hooked {

void refuse_windows_without_use(HfConfig& hf, const LayerFlags& windowed) {
  if (none_if_all_false(windowed).empty()) return;
  hf.json().refuse("layer_types",
                   "has windowed layers, and use_sliding_window says that there are none; expected only "
                   "full_attention, or use_sliding_window = true");
}

void read_qwen_windows(HfConfig& hf, ModelConfig& config, std::int64_t first) {
  const ConfigReader& json = hf.json();
  const bool used = json.boolean_or("use_sliding_window", false);
  first = json.integer_or("max_window_layers", first);
  LayerFlags windowed = hf.windowed_layers(config, [&](std::int64_t l) { return l >= first; });
  json.ignore({"sliding_window"});
  const bool named = json.has("layer_types");
  if (used) {
    hf.set_windows(config, {"sliding_window", 4096, /*null_is_none=*/!named}, std::move(windowed));
  } else if (named) {
    refuse_windows_without_use(hf, windowed);
  }
}

}  // namespace hooked
