#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/loading/load_options.h"
#include "hooked/text/tokenizer.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

/// Tensors of a checkpoint's files that are stored in the same way.
struct StoredTensors {
  std::string dtype;  ///< as the files spell it: `BF16`
  /// `numbers`; `blocks`, which are quantised numbers in a GGUF file; or the form of weights that are stored
  /// as several tensors: `MXFP4`.
  std::string form;
  std::int64_t tensors;  ///< how many
  std::int64_t bytes;    ///< in the files
};

/// Tensors of a checkpoint that belong to models other than the loaded one.
struct UnreadPart {
  std::string name;      ///< `vision_tower`
  std::int64_t tensors;  ///< how many
  std::int64_t bytes;    ///< in the files
};

/// An adapter that is merged into its base model on loading.
struct AdapterDescription {
  std::string base;         ///< the base model, as adapter_config.json names it
  std::string base_folder;  ///< its location
  std::int64_t tensors;     ///< of the adapter
  std::int64_t bytes;       ///< of those, in its file
};

/// What loading a model would give, determined without reading all of its weights.
struct ModelDescription {
  std::string family;       ///< `gpt2`, `hooked_transformer`, ...
  ModelConfig config;       ///< of the weights as stored, in the dtype they would be loaded in
  std::int64_t parameters;  ///< tied matrices counted once
  std::int64_t bytes;       ///< of the weights in memory: in that dtype, or in codes where they stay in them
  WeightStorage weights;    ///< whether they stay as they are stored
  /// The outcome of each processing step.
  std::vector<StepReport> processing;
  std::vector<std::string> notes;         ///< what a user should know, one sentence each
  std::vector<std::string> ignored_keys;  ///< keys of config.json that nothing reads
  /// Entries of the tokenizer's vocabulary; nothing without a usable tokenizer.
  std::optional<std::int64_t> tokenizer_pieces;
  /// What it was read from, as Tokenizer::form() says, or that it is in a GGUF file; empty without one.
  std::string tokenizer_form;
  std::string tokenizer_kind;          ///< `BPE`, `Unigram`, ...; empty without a usable one
  std::optional<Tokenizer> tokenizer;  ///< nothing without a usable one
  /// The tokens that are put around a text by default, and why; nothing without a
  /// tokenizer.
  std::optional<TokensAround> tokens_around;
  /// Where the tokenizer's chat template was read from; nothing without one.
  std::optional<std::string> chat_template;
  std::string tokenizer_problem;  ///< why there is no usable tokenizer; empty if there is one
  /// The most tokens of a run; nothing for a model with unlimited positions.
  std::optional<std::int64_t> context;
  /// How the tensors of the files are stored, largest number of bytes first. An adapter's are not included.
  std::vector<StoredTensors> storage;
  std::int64_t stored_bytes;  ///< of all those
  /// The same for all shards, if an index states it and some of them are missing.
  std::optional<std::int64_t> stated_bytes;
  std::vector<std::string> missing_files;  ///< shards that the index names but that do not exist
  std::string fetch;                       ///< the command that downloads those; empty if none is known
  std::vector<UnreadPart> unread_parts;    ///< other models of the checkpoint, by name
  /// Other files of weights in the folder and its subfolders, which are not read.
  std::vector<std::string> ignored_files;
  std::optional<AdapterDescription> adapter;  ///< nothing for a whole model
};

/// Describes a model folder, a file of weights, an adapter or `org/name[@revision]` in the local hub cache.
/// Every name, dtype and shape is checked as loading checks it. Only these are read: headers, the numbers
/// that weight processing looks at (the unembedding, norms, value biases and a sample of other matrices), and
/// both matrices of a tied model that has two. If shards are missing, the others and config.json are
/// described, and nothing is checked. Throws what HookedTransformer::load throws for the files.
ModelDescription describe(std::string_view model, const LoadOptions& options = {});

/// A model at a glance.
struct ModelOutline {
  std::string family;       ///< `gpt2`, `hooked_transformer`, ...
  std::int64_t parameters;  ///< of the files, before any processing
};

/// The outline of a model that describe() describes, without reading its tokenizer or any
/// numbers: if a file has two matrices for one, they are assumed to be equal. Throws as
/// describe() does.
ModelOutline outline(std::string_view model);

/// The `model_type` in a model's config.json, whether its family is known or not; empty if none can be read.
/// Throws nothing about the model.
std::string named_model_type(std::string_view model);

/// The tokenizer that belongs to a model, without reading its weights: the one inside a GGUF file, or that of
/// the model's folder, or for an adapter without its own, that of the base model. `model` may also be a
/// folder with only a tokenizer, or one file as Tokenizer::load() takes it. Throws CheckpointError for a
/// missing model, TokenizerError if there is no tokenizer or none that can be used.
Tokenizer load_tokenizer(std::string_view model);

/// The files that a model is read from, including those of its config and tokenizer, and its base model's if
/// it is an adapter. Paths are absolute, and some of them need not exist. Throws as describe() does.
std::vector<std::filesystem::path> files_read(std::string_view model);

/// The config of a model in the dtype it would be loaded in. Its weights may be missing; if there are some,
/// they tell whether the model has an unembedding. Throws ConfigError or IoError.
ModelConfig read_model_config(std::string_view model);

/// The `config.json` of a native folder for a model of that config. Throws ConfigError for a config that
/// validate() refuses.
std::string config_json(const ModelConfig& config);

}  // namespace hooked
