#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/storage/slot_view.h"

namespace hooked {

/// Where one tensor of the state dict is in the packed parameters. Everything else about it is in the table
/// of weights (core/weight_table.h).
struct WeightSlot {
  std::string name;  ///< state-dict name: `blocks.0.attn.W_Q`
  SlotView view;     ///< in the state dict's shape; shares the packed parameter's memory
};

using WeightSlots = std::vector<WeightSlot>;

/// Adds a weight, or nothing if this model's is undefined.
inline void add_slot(WeightSlots& all, std::string name, const SlotView& view) {
  if (view.defined()) all.push_back({std::move(name), view});
}

/// Adds the slots of `module` at `path` in the state dict, or nothing if `module` is null.
template <class Module>
void add_slots(WeightSlots& all, const Module& module, const std::string& path) {
  if (!module) return;
  for (WeightSlot& slot : module->slots(path)) all.push_back(std::move(slot));
}

}  // namespace hooked
