#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/model_config.h"

namespace hooked {

/// A config read from a native folder, and the keys that nothing reads.
struct NativeConfig {
  ModelConfig config;
  std::vector<std::string> ignored_keys;
  bool processing_recorded = false;  ///< the file records the applied steps, even if there were none
  std::optional<std::int64_t> padding_token = std::nullopt;  ///< as in FamilyConfig
};

/// Reads the native `config.json`: TransformerLens's config fields, and what those cannot express in a group
/// `hooked`. `where` names the file in errors. A field that is absent or null has TransformerLens's default
/// (except that null for normalization_type means no norms). `dtype` is the one recorded in the group
/// `hooked`, else float32, whatever TransformerLens's own dtype field says: that field describes the run it
/// was dumped from. Throws ConfigError. Validates.
NativeConfig read_native_config(std::string_view text, std::string_view where);

/// The native `config.json` (`"model_type": "hooked_transformer"`), from which read_native_config reads an
/// equal config. Throws ConfigError for a config that validate() refuses.
std::string write_native_config(const ModelConfig& config,
                                std::optional<std::int64_t> padding_token = std::nullopt);

}  // namespace hooked
