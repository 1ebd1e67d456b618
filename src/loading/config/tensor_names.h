#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "families/family.h"

namespace hooked {

/// The part of the family's prefix that `name`, of a tensor or a module, has: all of it, the part after one
/// of its dots, or nothing.
std::string_view prefix_of(std::string_view name, const Family& family);

/// The other model of the checkpoint that a tensor belongs to (`vision_tower`), or nothing.
std::optional<std::string_view> other_model_of(std::string_view name, const Family& family);

}  // namespace hooked
