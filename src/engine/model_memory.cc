#include "engine/model_memory.h"

namespace hooked {
namespace {

// Whether there was any memory to free.
bool let_go(const LoadedModel& model, const OutOfMemory& said) {
  if (!said.of_host) {
    bool any = model.transport != nullptr && model.transport->let_go();
    if (model.recordings != nullptr) {
      any = model.recordings->release() || any;
      any = model.key_rooms->release() || any;
    }
    return any;
  }
  const std::size_t before = model.workspace.mapped_bytes();
  model.workspace.trim();
  return model.workspace.mapped_bytes() < before;
}

}  // namespace

MemoryUse memory_of(const LoadedModel& model, const Door& door, Again again) {
  return {.where = door.name,
          .cure = door.cure,
          .devices = model.placement.devices(),
          .make_room = [&model, again](const OutOfMemory& said) {
            return let_go(model, said) && again == Again::allowed;
          }};
}

}  // namespace hooked
