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
  mxfp4,         ///< groups of 32 four-bit numbers (e2m1), two to a byte, and a power of two for each (e8m0)
  fp8,           ///< eight-bit numbers (e4m3), and a factor for the whole, for each row or for each block
  gptq,          ///< whole numbers packed down the columns, zero points and factors by group of rows
  awq,           ///< four-bit whole numbers packed along the rows in AWQ's order, likewise
  packed,        ///< whole numbers packed along the rows, factors by group of columns
  integers,      ///< whole numbers of a byte each, a factor for the whole, each row or each group of columns
  parts_of_127,  ///< whole numbers of a byte each, and for each row what 127 stands for
  levels,        ///< four-bit places in a table of 16 numbers, a factor for each stretch of them
};

/// A form in which checkpoints store a matrix otherwise than as floating point numbers: as several tensors
/// whose names begin alike.
struct StorageForm {
  NumberCode code;
  std::string_view name;  ///< for people: `MXFP4`
  /// The tensors that hold numbers, by the end of their names and their dtype in the file.
  std::string_view ending, dtype;
  std::string_view weight;  ///< what stands in place of that ending in the weight's name
  /// What stands there in the name of a weight's factors; the files have one of them.
  std::span<const std::string_view> factors;
  /// What stands there in the names of other tensors that a weight may have.
  std::span<const std::string_view> beside;
};

/// A method of quantisation, and the forms that its checkpoints have.
struct StorageMethod {
  std::string_view method;  ///< `quant_method` of config.json
  std::span<const StorageForm> forms;
  /// Reads the keys of the group, each honoured or refused.
  void (*read)(const ConfigReader& group, QuantisedStorage& storage);
};

/// How a checkpoint's matrices are stored.
struct QuantisedStorage {
  std::vector<const StorageForm*> forms = {};  ///< that its files have
  std::string name = {};                       ///< for notes: `GPTQ int4`
  std::string where;                           ///< its group in config.json, for errors
  // Which numbers of a matrix may have a factor in common.
  bool by_tensor = false, by_row = false;
  std::optional<std::array<std::int64_t, 2>> block = std::nullopt;  ///< rows and columns
  std::optional<std::int64_t> group = std::nullopt;                 ///< neighbours on the axis that is summed
  bool whole_axis = false;                                          ///< the axis that is summed is one group
  std::optional<int> bits = {};                                     ///< of a whole number
  bool zero_points = false;        ///< factors have whole numbers beside them that stand for zero
  bool zeros_less_one = false;     ///< which are stored less one
  bool middle_zeros = false;       ///< which all stand for the middle of the numbers, the config says
  bool any_order = false;          ///< which group a number is of stands in a tensor of its own
  bool rounds_to_factors = false;  ///< products are rounded to the dtype of the factors
  std::string levels = {};         ///< which table of 16 numbers: `nf4`
  std::vector<std::string> as_they_are =
      {};  ///< modules that are said to be stored as numbers; `*` is any text
};

/// config.json's group.
inline constexpr std::string_view kQuantisationKey = "quantization_config";

/// In alphabetical order.
std::span<const StorageMethod> storage_methods();

/// What the group of `config` says, or nothing where it is not set. Throws ConfigError for a method that is
/// not supported and for keys that are not honoured.
std::optional<QuantisedStorage> read_storage(const ConfigReader& config);

/// What that group says where it is a file of its own. Throws as read_storage().
QuantisedStorage read_storage_group(const ConfigReader& group);

}  // namespace hooked
