#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hooked {

class ConfigReader;
struct QuantisedStorage;

/// What a weight is made of.
enum class NumberCode : std::uint8_t {
  mxfp4,  ///< groups of 32 four-bit numbers (e2m1), two to a byte, and a power of two for each group (e8m0)
  fp8,    ///< eight-bit numbers (e4m3), and a factor for the whole, for each row or for each block
};

/// A form in which checkpoints store matrices otherwise than as floating point numbers: a row of the table in
/// storage.cc.
struct StorageFormat {
  std::string_view method;  ///< `quant_method` of config.json
  std::string_view name;    ///< for notes: `MXFP4`
  NumberCode code;
  /// The tensors that hold numbers, by the end of their names and their dtype in the file. What is left of
  /// the name is the weight's.
  std::string_view ending, dtype;
  /// What the name of a weight's factors ends with, behind its own name; the files have one of them.
  std::span<const std::string_view> factors;
  /// Reads the keys of the group, each honoured or refused.
  void (*read)(const ConfigReader& group, QuantisedStorage& storage);
};

/// How a checkpoint's matrices are stored.
struct QuantisedStorage {
  const StorageFormat* format = nullptr;
  std::string where;  ///< its group in config.json, for errors
  // Which numbers of a matrix may have a factor in common.
  bool by_tensor = false, by_row = false;
  std::optional<std::array<std::int64_t, 2>> block = std::nullopt;  ///< rows and columns
  std::vector<std::string> as_they_are =
      {};  ///< modules that are said to be stored as numbers; `*` is any text
};

/// config.json's group.
inline constexpr std::string_view kQuantisationKey = "quantization_config";

std::span<const StorageFormat> storage_formats();

/// What the group of `config` says, or nothing where it is not set. Throws ConfigError for a method that is
/// not supported and for keys that are not honoured.
std::optional<QuantisedStorage> read_storage(const ConfigReader& config);

}  // namespace hooked
