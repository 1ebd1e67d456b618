#include "families/shared/exaone_windows.h"

#include <utility>

#include "families/shared/rope_config.h"

namespace hooked {

void read_exaone_windows(HfConfig& hf, ModelConfig& c) {
  const ConfigReader& json = hf.json();
  const bool named = json.has("layer_types");
  std::int64_t pattern = 4;  // a word such as "LLLG" only repeats layer_types
  if (!named && json.is_null("sliding_window_pattern")) {
    pattern = 0;
  } else if (!named && json.has("sliding_window_pattern")) {
    pattern = hf.count("sliding_window_pattern");
  }
  json.ignore({"sliding_window_pattern"});
  LayerFlags windowed =
      hf.windowed_layers(c, [&](std::int64_t l) { return pattern > 0 && (l + 1) % pattern != 0; });
  hf.set_windows(c, {"sliding_window", 4096, /*null_is_none=*/!named}, windowed);
  read_rope(hf, c);
  windowed.flip();
  if (!json.is_null("sliding_window")) c.rotary()->unrotated_layers = none_if_all_false(std::move(windowed));
}

}  // namespace hooked
