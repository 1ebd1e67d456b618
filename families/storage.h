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

/// The encoding of a weight's numbers.
enum class NumberCode : std::uint8_t {
  mxfp4,         ///< groups of 32 four-bit numbers (e2m1), two to a byte, and a power of two for each (e8m0)
  fp8,           ///< eight-bit numbers (e4m3), and a factor for the whole, for each row or for each block
  gptq,          ///< integers packed down the columns, zero points and factors by group of rows
  awq,           ///< four-bit integers packed along the rows in AWQ's order, likewise
  packed,        ///< integers packed along the rows, factors by group of columns
  integers,      ///< one-byte integers, a factor for the whole, each row or each group of columns
  parts_of_127,  ///< one-byte integers, and for each row the value of 127
  levels,        ///< four-bit indices into a table of 16 numbers, a factor for each stretch of them
};

/// A form in which checkpoints store a matrix other than as floating point numbers: as several tensors whose
/// names begin with the same stem.
struct StorageForm {
  NumberCode code;
  std::string_view name;  ///< for people: `MXFP4`
  /// The tensors of the encoded numbers, by the ending of their names and their dtype in the file.
  std::string_view ending = {}, dtype;
  std::string_view weight = {};  ///< replaces that ending in the weight's name
  /// Possible endings of the name of a weight's factors; the files have one of them.
  std::span<const std::string_view> factors;
  /// Endings of the names of other tensors that a weight may have.
  std::span<const std::string_view> beside = {};
};

/// A method of quantisation, and the forms in its checkpoints.
struct StorageMethod {
  std::string_view method;  ///< `quant_method` of config.json
  std::span<const StorageForm> forms;
  /// Reads the keys of the group, each honoured or refused.
  void (*read)(const ConfigReader& group, QuantisedStorage& storage);
};

/// How a checkpoint's matrices are stored.
struct QuantisedStorage {
  std::vector<const StorageForm*> forms = {};  ///< that occur in its files
  std::string name = {};                       ///< for notes: `GPTQ int4`
  std::string where;                           ///< its group in config.json, for errors
  // Which numbers of a matrix may share a factor.
  bool by_tensor = false, by_row = false;
  std::optional<std::array<std::int64_t, 2>> block = std::nullopt;  ///< rows and columns
  std::optional<std::int64_t> group = std::nullopt;                 ///< neighbours on the axis that is summed
  bool whole_axis = false;                                          ///< the summed axis is one group
  std::optional<int> bits = {};                                     ///< of an integer
  bool zero_points = false;        ///< factors come with integers that represent zero
  bool zeros_less_one = false;     ///< which are stored minus one
  bool middle_zeros = false;       ///< which all equal the middle of the numbers, by the config
  bool any_order = false;          ///< a separate tensor has each number's group
  bool rounds_to_factors = false;  ///< products are rounded to the dtype of the factors
  std::string levels = {};         ///< which table of 16 numbers: `nf4`
  std::vector<std::string> as_they_are =
      {};  ///< modules that are said to be stored unquantised; `*` is any text
};

/// config.json's group.
inline constexpr std::string_view kQuantisationKey = "quantization_config";

/// In alphabetical order.
std::span<const StorageMethod> storage_methods();

/// The content of the group of `config`, or nothing if it is not set. Throws ConfigError for an unsupported
/// method and for keys that are not honoured.
std::optional<QuantisedStorage> read_storage(const ConfigReader& config);

/// The content of that group in a separate file. Throws as read_storage().
QuantisedStorage read_storage_group(const ConfigReader& group);

}  // namespace hooked
