#include "text/files/limited_files.h"

#include <fmt/format.h>

#include <stdexcept>
#include <system_error>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"

namespace hooked::text {

bool is_there(const std::filesystem::path& file) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(file, ignored));
}

std::string read_limited(const std::filesystem::path& file, std::uint64_t limit) {
  try {
    return read_text_file(file, limit);
  } catch (const CheckpointError& refused) {
    throw TokenizerError(refused.where(), refused.message());
  }
}

void require_utf8(std::string_view text, const std::string& where) {
  if (const auto byte = first_invalid_byte(text))
    throw TokenizerError(where, fmt::format("byte {} is not valid UTF-8; expected UTF-8 text", *byte));
}

Json read_object(std::string_view text, std::string_view name) {
  try {
    auto json = parse_python_json(text, {.bytes = kSideFileBytes});
    if (!json.is_object())
      throw std::invalid_argument(fmt::format("is {}; expected an object", json_kind(json)));
    return json;
  } catch (const std::invalid_argument& reason) {
    throw TokenizerError(printable(name), reason.what());
  }
}

}  // namespace hooked::text
