// EXAONE 4 (LG AI Research 2025): OLMo 2 with norms of each query and key; full layers know no positions.
#include "models/families/olmo2_layout.h"
#include "models/families/rope_config.h"

namespace hooked {
namespace {

FamilyConfig read(std::string_view text, std::string_view where) {
  const HfConfig hf(text, where);
  ModelConfig c = read_olmo2_config(hf, QkNorm::per_head);
  const ConfigReader& json = hf.json();
  const auto types = hf.windowed_by_layer_types(c);
  std::int64_t pattern = 4;  // a word such as "LLLG" beside layer_types says the same once more
  if (!types && json.is_null("sliding_window_pattern")) {
    pattern = 0;
  } else if (!types && json.has("sliding_window_pattern")) {
    pattern = hf.count("sliding_window_pattern");
  }
  json.ignore({"sliding_window_pattern"});
  const auto windowed = [&](std::int64_t l) {
    return types ? (*types)[static_cast<std::size_t>(l)] : pattern > 0 && (l + 1) % pattern != 0;
  };
  hf.set_windows(c, {"sliding_window", 4096}, windowed);
  read_rope(hf, c);
  if (!json.is_null("sliding_window")) hf.set_unrotated(c, [&](std::int64_t l) { return !windowed(l); });
  return hf.finish(std::move(c), olmo2_recipes);
}

}  // namespace

extern const Family kExaone4Family{.model_type = "exaone4",
                                   .read = read,
                                   .prefix = "model.",
                                   .unembedding = "lm_head.weight",
                                   .buffers = kLlamaBuffers};

}  // namespace hooked
