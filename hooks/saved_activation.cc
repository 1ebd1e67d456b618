#include "hooked/hooks/saved_activation.h"

#include "hooks/cache_file.h"
#include "hooks/held_columns.h"

namespace hooked {

std::optional<ActivationCache> saved_activation(const SafetensorsFile& file, const std::string& key) {
  if (!is_saved_cache(file) || !ActivationName::try_parse(key)) return std::nullopt;
  return load_activations(file, {key});
}

at::Tensor block_of(const ActivationCache& one, const ActivationName& name, const AxisIndices& places,
                    const at::Tensor& last) {
  ActivationCache::Entry entry = *one.begin();
  entry.name = name;
  return HeldColumns(one, entry).block(places, last).clone();
}

}  // namespace hooked
