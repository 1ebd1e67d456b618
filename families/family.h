#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/storage.h"
#include "hooked/core/model_config.h"

namespace at {
class Tensor;
}

namespace hooked {

class HfConfig;
struct Composite;

/// How one of our tensors is built from some of theirs.
struct TensorRecipe {
  std::string target;                ///< our state-dict name
  std::vector<std::string> sources;  ///< their tensors, without prefix; none for a computed table
  /// Renamed, split, transposed or computed, as a view where possible. Runs on meta tensors too, so that
  /// shapes are checked before anything is read. Null: the one source is used unchanged.
  std::function<at::Tensor(const std::vector<at::Tensor>& theirs)> make = nullptr;
  bool optional = false;   ///< absent means zeros
  std::string alias = {};  ///< another name in files for the one source
  /// How it is built from files that have none of the sources, or null.
  std::shared_ptr<const TensorRecipe> otherwise = nullptr;
};

/// Where the tensors of a model of that config are. Since it was read, the config may have been given another
/// dtype, or been untied.
using RecipeMaker = std::function<std::vector<TensorRecipe>(const ModelConfig&)>;

/// A family's statement of where its tensors are: a function of the config in our terms. If only config.json
/// tells how weights are stored, it is a function of config.json as well.
struct FamilyRecipes {
  using OfConfig = std::vector<TensorRecipe> (*)(const ModelConfig&);
  using OfBoth = std::vector<TensorRecipe> (*)(const ModelConfig&, const HfConfig&);

  constexpr FamilyRecipes() = default;
  constexpr FamilyRecipes(OfConfig f) : of_config(f) {}  // NOLINT: a function is the recipes
  constexpr FamilyRecipes(OfBoth f) : of_both(f) {}      // NOLINT: a function is the recipes

  OfConfig of_config = nullptr;
  OfBoth of_both = nullptr;
};

/// A config in our terms, where its tensors are, and what a user should know about how it was read.
struct FamilyConfig {
  ModelConfig config;
  RecipeMaker recipes;
  std::vector<std::string> notes = {};
  std::vector<std::string> ignored_keys = {};
  bool processing_recorded = false;  ///< the weights are a saved model's, processed as recorded
  /// The classes in config.json's `architectures`, which say which head the checkpoint has.
  std::vector<std::string> architectures = {};
  /// The token by which transformers counts positions, whatever the mask says: a token's position is the
  /// number of tokens before it that are not this one. None: by the mask.
  std::optional<std::int64_t> padding_token = std::nullopt;
  /// The form in which matrices are stored, if not as numbers.
  std::optional<QuantisedStorage> storage = std::nullopt;
};

/// What a checkpoint shows in addition to a `model_type`: enough to recognise a family that no file names.
struct CheckpointTraits {
  std::string config;  ///< config.json, or `{}` if there is none
  std::string config_where;
  std::string values;  ///< JSON object: the plain values stored in one file with its tensors
  std::string weights_where;
  std::map<std::string, std::vector<std::int64_t>, std::less<>> shapes;  ///< of all tensors, by their names
};

/// A config as JSON, and its place in errors.
struct ConfigText {
  std::string text;
  std::string where;
  std::string group = {};  ///< the key of the object that is the config; empty: the whole text is
};

/// A part that checkpoints of a family are published with and without. The files decide: if they have no
/// tensor of the part, the model is one without it.
struct OptionalPart {
  std::string_view name = {};     ///< `masked-LM head`
  std::string_view tensors = {};  ///< prefix of its tensors' names; empty for no such part
  bool (*in)(const ModelConfig& config) = nullptr;
  ModelConfig (*without)(ModelConfig whole) = nullptr;
  std::string_view what_is_left = {};  ///< of the model without it, for messages
};

/// The head of an encoder, which includes the unembedding.
constexpr OptionalPart masked_lm_head(std::string_view tensors) {
  return {.name = "masked-LM head",
          .tensors = tensors,
          .in = [](const ModelConfig& config) { return config.has_unembedding(); },
          .without = without_unembedding,
          .what_is_left = "the model ends with its stream and has no logits"};
}

/// The same for an encoder whose stream ends with a norm, which is its output without the head.
constexpr OptionalPart masked_lm_head_behind_norm(std::string_view tensors) {
  OptionalPart part = masked_lm_head(tensors);
  part.without = [](ModelConfig whole) {
    const NormKind final_norm = whole.final_norm;
    ModelConfig rest = without_unembedding(std::move(whole));
    rest.final_norm = final_norm;
    return rest;
  };
  part.what_is_left = "the model ends with its final norm and has no logits";
  return part;
}

/// One checkpoint layout: what each config key means, and where our tensors are in the files.
///
/// A family is a constant in the file of its lineage in families/, and one row of table.inc.
struct Family {
  std::string_view model_type;
  /// The config in our terms. Unread keys and the validity of the config are checked afterwards. Throws
  /// ConfigError.
  ModelConfig (*read)(HfConfig& config) = nullptr;
  FamilyRecipes recipes = {};
  /// Prefix that all weight names but the unembedding's may have, either whole or from one of its dots on
  /// (`model.decoder.`: also `decoder.`), or empty.
  std::string_view prefix = {};
  /// Their unembedding matrix, [vocab, d_model], which never has the prefix. In files of tied models it may
  /// be missing, a second copy of the embedding, or the only copy.
  std::string_view unembedding = {};
  /// Whether the matrices of its blocks are transformers' Conv1D, stored [in, out]: then an adapter's
  /// products must be transposed.
  bool conv1d = false;
  /// A part that files may lack as a whole; its tensors never have the prefix either.
  OptionalPart optional_part = {};
  /// Other names under which files have the embedding again, or only there. The copies must agree.
  std::span<const std::string_view> embedding_copies = {};
  /// Globs of tensors in files that no model needs (mask buffers, frequencies).
  std::span<const std::string_view> buffers = {};
  /// For families whose files do not name them or lack a config: the config to read, or nothing if the
  /// checkpoint is not of this family. If config.json names the family, this is called as well and adds what
  /// the file lacks. Null: config.json as it is, and only by its `model_type`.
  std::optional<ConfigText> (*recognise)(const CheckpointTraits& seen) = nullptr;
  /// What `recognise` looks at, for messages and docs: `'model_args' next to the tensors`.
  std::string_view recognised_by = {};
  /// Replaces `read` and `recipes` for configs without the keys that all of transformers' configs have.
  FamilyConfig (*read_all)(const ConfigText& config) = nullptr;
  /// The checkpoint of several models that this one is a part of (families/composite.h), which then gives the
  /// prefixes of its tensors' names; null for a model alone.
  const Composite* inside = nullptr;
};

/// All families, in alphabetical order.
std::span<const Family> all_families();

/// The family of a `model_type`. Throws ConfigError listing the supported ones.
const Family& family_of(std::string_view model_type, std::string_view where);

/// Reads a config of that family. Throws ConfigError if it is not valid, or if it has a key that changes what
/// the model computes and that the family does not honour.
FamilyConfig read_family_config(const Family& family, const ConfigText& config);

/// A family and the config to read with it.
struct RecognisedFamily {
  Family family;
  ConfigText config;
};

/// The family that a config's `model_type` names, or that of its text part. Throws ConfigError for an
/// unsupported name.
RecognisedFamily named_family(const ConfigText& config);

/// The family of a checkpoint: the one that config.json names, else the first that recognises it, else
/// nothing. Throws ConfigError for an unsupported name, and if a family lacks a required key.
std::optional<RecognisedFamily> recognise_family(const CheckpointTraits& seen);

/// Throws ConfigError about a config.json that names no family, listing what else is recognised.
[[noreturn]] void refuse_unnamed_family(std::string_view config_where);

/// The native folder: our own tensors by their own names (families/shared/native_layout.h).
const Family& native_family();

}  // namespace hooked
