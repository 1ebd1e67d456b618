#include "hooked/core/error.h"

#include <fmt/format.h>

namespace hooked {

Error::Error(std::string_view where, std::string_view message)
    : std::runtime_error(fmt::format("[{}] {}", where, message)), where_(where) {}

// Defined here, so that only the library holds the classes' type information: a plug-in that catches an Error
// exports none of it.
Error::~Error() = default;
CheckpointError::~CheckpointError() = default;
ConfigError::~ConfigError() = default;
ShapeError::~ShapeError() = default;
HookError::~HookError() = default;
TokenizerError::~TokenizerError() = default;
IoError::~IoError() = default;
MemoryError::~MemoryError() = default;

std::string_view Error::message() const& noexcept {
  constexpr std::size_t kBrackets = std::string_view("[] ").size();
  return std::string_view(what()).substr(where_.size() + kBrackets);
}

}  // namespace hooked
