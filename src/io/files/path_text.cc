#include "io/files/path_text.h"

#include <algorithm>

#include "core/json.h"
#include "core/utf8.h"

namespace hooked {

std::string path_text(const std::filesystem::path& path) {
  const auto& text = path.native();
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  const bool plain = std::none_of(text.begin(), text.end(), control) && !first_invalid_byte(text);
  return plain ? text : printable(text);
}

}  // namespace hooked
