#pragma once

#include <filesystem>
#include <string>

#include "core/config_reader.h"
#include "core/json.h"
#include "hooked/dictionaries/dictionary_config.h"

namespace hooked {

// What readers of dictionaries do with their JSON files.

/// Largest value of a size in a config; what the weights say is compared with it.
inline constexpr std::int64_t kMostInConfig = std::int64_t{1} << 24;

/// The object in a file that Python's json module wrote. Throws ConfigError or IoError.
Json read_json_object(const std::filesystem::path& file);

/// A reader of it, whose errors name the file.
ConfigReader reader_of(Json document, const std::filesystem::path& file);

/// The dtype at a key: `float32`, or `torch.float32`. Throws ConfigError.
at::ScalarType dtype_at(const ConfigReader& reader, std::string_view key);

/// A dictionary's place and history from SAELens's metadata, which is kept as it is: names, layer, basis,
/// excluded tokens.
void take_metadata(Json metadata, const std::filesystem::path& file, DictionaryConfig& config);

/// Metadata of SAELens's form for a dictionary of another format; the config's own fields are added when it
/// is saved.
Json metadata_of(const DictionaryConfig& config);

}  // namespace hooked
