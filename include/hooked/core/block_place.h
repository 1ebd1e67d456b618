#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// Which stack of blocks something belongs to. Most models have one stack, `blocks`; encoder-decoders have
/// the other two.
enum class Stack : std::uint8_t { none, blocks, encoder, decoder };

/// Its name in the module graph and in weights: `blocks`; empty for none.
std::string_view stack_name(Stack stack) noexcept;

/// One block of a model.
struct BlockPlace {
  Stack stack = Stack::blocks;  ///< the stack it is in
  std::int64_t layer = 0;       ///< its layer in that stack, from 0

  /// Its path in the module graph and in the state dict: `encoder.3`.
  std::string path() const;

  auto operator<=>(const BlockPlace&) const = default;
};

}  // namespace hooked
