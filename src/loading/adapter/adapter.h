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

/// A number for the modules whose path ends with what an expression says.
struct ModulePattern {
  std::shared_ptr<const text::Regex> module;
  double value;
};

/// A folder of PEFT's that changes a base model by low-rank products (LoRA): what its config says, and the
/// headers of its tensors. The base model is found, not read.
struct Adapter {
  std::filesystem::path folder;
  std::string base;                  ///< as adapter_config.json names it, with `@revision` where that counts
  std::filesystem::path base_place;  ///< where that is, as locate_model says
  std::string config_where;          ///< adapter_config.json, for errors
  std::int64_t rank;                 ///< of modules that no pattern names
  double alpha;                      ///< likewise
  std::vector<ModulePattern> ranks, alphas;  ///< the first that fits counts
  bool rank_stabilised;  ///< products are multiplied by alpha / sqrt(rank), not alpha / rank
  bool dora;             ///< each output's weights then get a length of their own
  bool bias;             ///< products have a bias, too
  CheckpointReader reader;

  /// The rank of a module, by its path in the base model.
  std::int64_t rank_of(std::string_view module) const;
  /// What the module's product is multiplied by, which has that rank.
  double scale_of(std::string_view module, std::int64_t rank_there) const;
};

/// Whether a located model (locate_model) is an adapter: a folder with adapter_config.json and without
/// weights of a whole model.
bool is_adapter(const std::filesystem::path& located);

/// Whether it is a whole model with an adapter beside it, which is not read.
bool has_adapter_beside(const std::filesystem::path& located);

/// The adapter that a located model is, or nothing. Its base model is looked up as a folder below the
/// adapter's, then as locate_model does. Throws ConfigError for a key that is not honoured and for a base
/// that is not there, CheckpointError and IoError.
std::optional<Adapter> read_adapter(const std::filesystem::path& located);

/// The located model, or that which the adapter is for: where config.json is.
std::filesystem::path base_of(const std::filesystem::path& located);

}  // namespace hooked
