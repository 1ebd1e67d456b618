#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint/checkpoint_reader.h"

namespace hooked {

namespace text {
class Regex;
}

/// A number for the modules whose path ends with a match of an expression.
struct ModulePattern {
  std::shared_ptr<const text::Regex> module;
  double value;
};

/// A PEFT folder that changes a base model by low-rank products (LoRA): its config, and the headers of its
/// tensors. The base model is located, not read.
struct Adapter {
  std::filesystem::path folder;
  std::string base;                          ///< as adapter_config.json names it, with `@revision` if given
  std::filesystem::path base_place;          ///< its location, as locate_model says
  std::string config_where;                  ///< adapter_config.json, for errors
  std::int64_t rank;                         ///< of modules that no pattern matches
  double alpha;                              ///< likewise
  std::vector<ModulePattern> ranks, alphas;  ///< the first that matches counts
  bool rank_stabilised;  ///< products are multiplied by alpha / sqrt(rank), not alpha / rank
  bool dora;             ///< each output's weights are then rescaled to a length of their own
  bool bias;             ///< products have a bias, too
  CheckpointReader reader;

  /// The rank of a module, by its path in the base model.
  std::int64_t rank_of(std::string_view module) const;
  /// The factor of the product of that module, which has that rank.
  double scale_of(std::string_view module, std::int64_t rank_there) const;
};

/// Whether a located model (locate_model) is an adapter: a folder that has adapter_config.json and does not
/// have the weights of a whole model.
bool is_adapter(const std::filesystem::path& located);

/// Whether it is a whole model whose folder also has an adapter, which is not read.
bool has_adapter_beside(const std::filesystem::path& located);

/// The adapter that a located model is, or nothing. Its base model is looked up as a folder below the
/// adapter's, then as locate_model does. Throws ConfigError for an unsupported key and for a missing base,
/// CheckpointError and IoError.
std::optional<Adapter> read_adapter(const std::filesystem::path& located);

/// The located model, or the base model of an adapter: where config.json is.
std::filesystem::path base_of(const std::filesystem::path& located);

}  // namespace hooked
