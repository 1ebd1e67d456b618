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

/// Tensors of a checkpoint's files that are stored alike.
struct StoredTensors {
  std::string dtype;  ///< as the files spell it: `BF16`
  /// `numbers`, or the storage of several tensors to a weight that they are parts of: `MXFP4`.
  std::string form;
  std::int64_t tensors;  ///< how many
  std::int64_t bytes;    ///< in the files
};

/// Tensors of a checkpoint that belong to another model than the one that is loaded.
struct UnreadPart {
  std::string name;      ///< `vision_tower`
  std::int64_t tensors;  ///< how many
  std::int64_t bytes;    ///< in the files
};

/// An adapter that is merged into its base model on loading.
struct AdapterDescription {
  std::string base;         ///< the base model, as adapter_config.json names it
  std::string base_folder;  ///< where it is
  std::int64_t tensors;     ///< of the adapter
  std::int64_t bytes;       ///< of those, in its file
};

/// What loading a model would give, found without reading all of its weights.
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
  std::string tokenizer_form;  ///< which files it was read from, as Tokenizer::form() says; empty without one
  std::string tokenizer_kind;  ///< `BPE`, `Unigram`, ...; empty without one that can be used
  std::optional<Tokenizer> tokenizer;  ///< nothing without one that can be used
  /// The tokens that stand around a text unless something else is asked for, and why; nothing without a
  /// tokenizer.
  std::optional<TokensAround> tokens_around;
  /// Where the tokenizer's chat template was read from; nothing without one.
  std::optional<std::string> chat_template;
  std::string tokenizer_problem;  ///< why there is none that can be used; empty where there is one
  /// The most tokens of a run; nothing for a model whose positions have no end.
  std::optional<std::int64_t> context;
  /// How the tensors of the files are stored, the most bytes first. An adapter's are not among them.
  std::vector<StoredTensors> storage;
  std::int64_t stored_bytes;  ///< of all those
  /// The same for all shards, where an index says and some of them are missing.
  std::optional<std::int64_t> stated_bytes;
  std::vector<std::string> missing_files;  ///< shards that the index names and that are not there
  std::string fetch;                       ///< the command that downloads those; empty where none is known
  std::vector<UnreadPart> unread_parts;    ///< other models of the checkpoint, by name
  /// Other files of weights in the folder and the folders in it, which are not read.
  std::vector<std::string> ignored_files;
  std::optional<AdapterDescription> adapter;  ///< nothing for a whole model
};

/// Describes a model folder, a file of weights, an adapter or `org/name[@revision]` in the local hub cache.
/// Every name, dtype and shape is checked as loading checks it, but only headers are read, the numbers that
/// weight processing looks at (the unembedding, norms, value biases and a sample of other matrices), and both
/// matrices of a tied model that holds two. Where shards are missing, what is there and config.json are
/// described, and nothing is checked. Throws what HookedTransformer::load throws for the files.
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

/// The tokenizer that goes with a model, without a look at its weights: the one inside a GGUF file, or the
/// one of the model's folder, or that of the base model for an adapter without its own. `model` may also be
/// a folder with nothing but a tokenizer, or one file as Tokenizer::load() takes it. Throws CheckpointError
/// for a model that is not there, TokenizerError where there is no tokenizer or none that can be used.
Tokenizer load_tokenizer(std::string_view model);

/// The files that a model is read from, those of its config and tokenizer included, and its base model's if
/// it is an adapter; absolute paths, of which some need not be there. Throws as describe() does.
std::vector<std::filesystem::path> files_read(std::string_view model);

/// The config of a model in the dtype it would be loaded in. Its weights may be missing; where there are
/// some, they tell whether the model has an unembedding. Throws ConfigError or IoError.
ModelConfig read_model_config(std::string_view model);

/// The `config.json` of a native folder for a model of that config. Throws ConfigError for one that
/// validate() refuses.
std::string config_json(const ModelConfig& config);

}  // namespace hooked
