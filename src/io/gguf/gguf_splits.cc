#include "io/gguf/gguf_splits.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "hooked/core/error.h"

namespace hooked {
std::vector<std::string> gguf_split_names(const std::string& file_name, const GgufMetadata& metadata,
                                          const std::string& where) {
  const auto number = [&](std::string_view key) -> std::int64_t {
    const GgufValue* value = find_value(metadata, key);
    if (value == nullptr) return 0;
    const auto got = value->is_array() ? std::nullopt : value->integer();
    if (got && *got >= 0 && *got <= 99'999) return *got;
    throw CheckpointError(
        where, fmt::format("metadata '{}' is not a number of files; expected 0 to 99999, got {}", key,
                           got ? std::to_string(*got) : value->type_text()));
  };
  const std::int64_t count = number("split.count"), index = number("split.no");
  if (count <= 1) return {file_name};
  const std::string ending = fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
  if (!file_name.ends_with(ending)) {
    throw CheckpointError(
        where,
        fmt::format("the file is one of {}, and its name does not say which; expected one that ends in "
                    "'{}'; give it the name that it had",
                    count, ending));
  }
  const std::string stem = file_name.substr(0, file_name.size() - ending.size());
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= count; ++i)
    names.push_back(fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, count));
  if (index != 0) {
    throw CheckpointError(where, fmt::format("the file is number {} of {}; expected the first; give '{}'",
                                             index + 1, count, names.front()));
  }
  return names;
}

void check_gguf_split(const GgufMetadata& metadata, std::size_t index, std::size_t count,
                      const std::string& where) {
  const auto no = find_integer(metadata, "split.no"), of = find_integer(metadata, "split.count");
  if (no == static_cast<std::int64_t>(index) && of == static_cast<std::int64_t>(count)) return;
  throw CheckpointError(
      where, fmt::format("the file is not the one that its name says; expected metadata 'split.no' {} and "
                         "'split.count' {}, got {} and {}; fetch it again",
                         index, count, no ? std::to_string(*no) : "none", of ? std::to_string(*of) : "none"));
}

}  // namespace hooked
