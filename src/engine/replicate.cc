#include "hooked/engine/replicate.h"

#include <memory>

#include "core/out_of_memory.h"
#include "loading/fill/device.h"
#include "loading/load/load.h"

namespace hooked {

std::vector<HookedTransformer> replicate(const HookedTransformer& model, const DeviceNames& devices) {
  const LoadedModel& own = *model.loaded();
  std::vector<HookedTransformer> replicas;
  for (const c10::Device& device : open_devices(devices)) {
    if (!own.placement.spread() && device == own.device) {
      replicas.emplace_back(model.loaded());
      continue;
    }
    const MemoryUse memory{.where = "replicate", .cure = "name fewer devices", .devices = {device}};
    const auto copy = with_memory(memory, [&] { return copy_model(own, Placement(device)); });
    copy->id = own.id;
    copy->revision = own.revision;
    copy->ignored_keys = own.ignored_keys;
    copy->stop_tokens = own.stop_tokens;
    copy->rules = own.rules;
    copy->tokenizer_problem = own.tokenizer_problem;
    with_memory(memory, [&] { copy->identity(); });
    replicas.emplace_back(copy);
  }
  return replicas;
}

}  // namespace hooked
