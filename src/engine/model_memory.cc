#include "engine/model_memory.h"

namespace hooked {
namespace {

// Whether there was any to let go.
bool let_go(const LoadedModel& model, const OutOfMemory& said) {
  if (!said.of_host) {
    if (model.recordings == nullptr) return false;
    const bool recorded = model.recordings->release();
    return model.key_rooms->release() || recorded;
  }
  const std::size_t before = model.workspace.mapped_bytes();
  model.workspace.trim();
  return model.workspace.mapped_bytes() < before;
}

}  // namespace

MemoryUse memory_of(const LoadedModel& model, const Door& door, Again again) {
  return {.where = door.name,
          .cure = door.cure,
          .device = model.device,
          .make_room = [&model, again](const OutOfMemory& said) {
            return let_go(model, said) && again == Again::allowed;
          }};
}

}  // namespace hooked
