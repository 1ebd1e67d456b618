#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/config_reader.h"
#include "hooked/core/model_config.h"

namespace hooked {

/// How one of our tensors is made from one of theirs.
struct TensorRecipe {
  std::string target;  ///< our state-dict name
  std::string source;  ///< their tensor, without prefix
  /// Renamed, split or transposed, as a view where possible. Runs on meta tensors too, so that shapes are
  /// checked before anything is read. Null: taken as it is.
  std::function<at::Tensor(const at::Tensor&)> make = nullptr;
  bool optional = false;   ///< absent means zeros
  std::string alias = {};  ///< another name that files have for `source`
};

/// A config in our terms, and what a user should know about how it was read.
struct FamilyConfig {
  ModelConfig config;
  std::vector<std::string> notes;
  std::vector<std::string> ignored_keys;
};

/// One checkpoint layout: which config keys mean what, and where our tensors are in its files.
///
/// A family is one file in models/families/ and one row of the table.
struct Family {
  std::string_view model_type;
  /// Prefix that all weight names may have (`transformer.`), or empty.
  std::string_view prefix;
  /// `text` is config.json, `where` its path for errors. Throws ConfigError.
  FamilyConfig (*config)(std::string_view text, std::string_view where);
  std::vector<TensorRecipe> (*recipes)(const ModelConfig&);
  /// Globs of tensors that files carry and no model needs (mask buffers, second copies of tied weights).
  std::span<const std::string_view> buffers;
};

/// All families, in alphabetical order.
std::span<const Family> families();

/// The family of a `model_type`. Throws ConfigError listing the supported ones.
const Family& family_of(std::string_view model_type, std::string_view where);

/// The native folder: our own tensors by their own names.
extern const Family kNativeFamily;
extern const Family kGpt2Family;

}  // namespace hooked
