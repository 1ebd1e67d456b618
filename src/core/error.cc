#include "hooked/core/error.h"

#include <fmt/format.h>

#include "core/utf8.h"

namespace hooked {
namespace {

// Messages quote names and texts of files and callers. Their control characters would break the line, or
// say something to a terminal, and bytes that are not UTF-8 break what prints it.
std::string in_one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size();) i += append_shown(line, text.substr(i));
  return line;
}

}  // namespace

Error::Error(std::string_view where, std::string_view message)
    : std::runtime_error(fmt::format("[{}] {}", in_one_line(where), in_one_line(message))),
      where_(in_one_line(where)) {}

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
