#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/loading/load_options.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

/// What loading a model would give, found without reading its weights.
struct ModelDescription {
  std::string family;       ///< `gpt2`, `hooked_transformer`, ...
  ModelConfig config;       ///< of the weights as they are in the files, in the dtype they would be loaded in
  std::int64_t parameters;  ///< tied matrices counted once
  std::int64_t bytes;       ///< of the parameters in that dtype
  /// What becomes of each processing step.
  std::vector<StepReport> processing;
  std::vector<std::string> notes;         ///< what a user should know, a sentence each
  std::vector<std::string> ignored_keys;  ///< keys of config.json that nothing reads
  /// Entries of the tokenizer's vocabulary; nothing without a tokenizer that can be used.
  std::optional<std::int64_t> tokenizer_pieces;
  /// Where the tokenizer's chat template was read from; nothing without one.
  std::optional<std::string> chat_template = std::nullopt;
};

/// Describes a model folder, a file of weights or `org/name[@revision]` in the local hub cache. Every name,
/// dtype and shape is checked as loading checks it, but only headers are read (and both matrices of a tied
/// model that holds two). Throws what HookedTransformer::load throws for the files.
ModelDescription describe(std::string_view model, const LoadOptions& options = {});

/// What a model is at a glance.
struct ModelOutline {
  std::string family;       ///< `gpt2`, `hooked_transformer`, ...
  std::int64_t parameters;  ///< of the files, before any processing
};

/// The outline of a model that describe() describes, without a look at its tokenizer, and without reading any
/// numbers: where a file holds two matrices for one, they are taken to be the same. Throws as describe()
/// does.
ModelOutline outline(std::string_view model);

/// The `model_type` in a model's config.json, of a family that is known or not; empty where none can be read.
/// Throws nothing that is about the model.
std::string named_model_type(std::string_view model);

/// The config of a model in the dtype it would be loaded in. Its weights may be missing; where there are
/// some, they tell whether the model has an unembedding. Throws ConfigError or IoError.
ModelConfig read_model_config(std::string_view model);

/// The `config.json` of a native folder for a model of that config. Throws ConfigError for one that
/// validate() refuses.
std::string config_json(const ModelConfig& config);

}  // namespace hooked
