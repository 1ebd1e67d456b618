#include "io/files/name_ending.h"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "hooked/core/error.h"
#include "io/files/path_text.h"

namespace hooked {

void refuse_ending(const std::filesystem::path& file, std::string_view what, std::string_view endings) {
  std::error_code ignored;
  const std::string ending = path_text(file.extension());
  throw IoError(
      path_text(file),
      fmt::format("{}; expected {} in a file whose name ends in {}, got {}",
                  std::filesystem::exists(file, ignored) ? "the name does not say how the file is read"
                                                         : "there is no such file",
                  what, endings, ending.empty() ? "no ending" : fmt::format("'{}'", ending)));
}

}  // namespace hooked
