#include "hooked/core/block_place.h"

namespace hooked {

std::string_view stack_name(Stack stack) noexcept {
  constexpr std::string_view kNames[] = {"", "blocks", "encoder", "decoder"};
  return kNames[static_cast<std::size_t>(stack)];
}

std::string BlockPlace::path() const { return std::string(stack_name(stack)) + '.' + std::to_string(layer); }

}  // namespace hooked
