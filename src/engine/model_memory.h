#pragma once

#include <cstdint>
#include <string_view>

#include "core/out_of_memory.h"
#include "loading/fill/loaded_model.h"

namespace hooked {

/// A way into the engine, as its errors name it, and what needs less memory there.
struct Door {
  std::string_view name, cure;
};
inline constexpr Door kRunDoor{"run", "give fewer rows or columns, or keep fewer points"};
inline constexpr Door kGenerateDoor{"generate", "give fewer rows or new tokens, or keep fewer points"};
inline constexpr Door kTrainDoor{"train", "give fewer rows or columns"};

/// Whether work may be retried: not if it may have called functions of the caller, which would see everything
/// twice.
enum class Again : std::uint8_t { allowed, refused };

/// The memory that a model's work needs. If it runs out, the model frees its recorded runs, or idle memory of
/// activations. The model must outlive the result.
MemoryUse memory_of(const LoadedModel& model, const Door& door, Again again);

}  // namespace hooked
