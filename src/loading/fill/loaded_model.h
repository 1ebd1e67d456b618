#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/core/model_config.h"
#include "hooked/core/model_identity.h"
#include "hooked/core/placement.h"
#include "hooked/core/state_dict.h"
#include "hooked/hooks/point_index.h"
#include "hooked/io/file.h"
#include "hooked/text/tokenizer.h"
#include "hooked/weights/processing.h"
#include "hooks/host_transport.h"
#include "hooks/mounted_dictionary.h"
#include "io/files/replaceable.h"
#include "loading/config/token_rules.h"
#include "models/replay/key_rooms.h"
#include "models/replay/recordings.h"
#include "models/storage/matrix.h"
#include "models/storage/weight_slot.h"
#include "models/storage/workspace.h"

namespace hooked {

class Transformer;

/// What is known about a model in addition to its config and weights.
struct ModelFacts {
  std::string id;                           ///< the argument of load_model; empty for other models
  std::string revision;                     ///< the commit, if it came from a hub cache
  ReadFrom read_from;                       ///< what saving it must not overwrite
  std::shared_ptr<const InputFile> mapped;  ///< the file whose pages are the weights; null: none
  std::string family = "hooked_transformer";
  std::vector<std::string> notes;
  std::string note_of_codes;  ///< the one of `notes` that says how many matrices stay in codes, or empty
  std::vector<std::string> ignored_keys;
  std::vector<StepReport> processing;
  std::vector<std::int64_t> stop_tokens;  ///< that end a generation by default
  TokenRules rules;                       ///< of its generations
  /// transformers counts positions by it (FamilyConfig); inputs must leave that and the mask at one.
  std::optional<std::int64_t> padding_token;
  std::optional<Tokenizer> tokenizer;
  std::optional<TokenizerError> tokenizer_problem;  ///< why the existing tokenizer cannot be used
  /// Name and content of the files the tokenizer was read from, for saving with the model.
  std::map<std::string, std::string> tokenizer_files;
};

/// Everything that the handles of one model share. Never moves: the graph refers to config and points.
struct LoadedModel : ModelFacts {
  /// A graph with uninitialised weights.
  LoadedModel(ModelConfig model_config, Placement where, Storage wanted = Storage::fastest);
  /// That model with dictionaries in addition to its own. It shares graph and weights, and its runs are not
  /// recorded.
  LoadedModel(std::shared_ptr<const LoadedModel> base, const MountedDictionaries& more);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
  ~LoadedModel();

  const std::shared_ptr<const LoadedModel> base;  ///< the model without dictionaries; null: this one
  const ModelConfig config;
  const MountedDictionaries dictionaries;
  const PointIndex points;  ///< with those inside the dictionaries
  const Placement placement;
  const c10::Device device;  ///< placement.entry(): where tokens and masks go
  const Storage storage;     ///< of the matrices; Storage::fastest has been resolved
  const std::shared_ptr<Transformer> graph;
  Workspace workspace;
  /// Copies kept activations to the host; null if they are computed there.
  const std::shared_ptr<HostTransport> transport;
  std::unique_ptr<Recordings> recordings;  ///< null: runs on this device are not recorded
  std::string recording_problem;           ///< why; empty on the CPU
  std::unique_ptr<KeyRooms> key_rooms;     ///< of generations with recorded steps; null without recordings

  /// Throws IoError if the file of a mapped model has changed: what was cut off would read as zeros, or end
  /// the process.
  void require_mapped_file() const {
    if (mapped) mapped->read(0, {});
  }

  /// The model's identity, computed by the first call, which reads some numbers of each weight; any thread
  /// may call it. The name is `id`, which must not change after that.
  const std::shared_ptr<const ModelIdentity>& identity() const;
  /// The size of an axis of one of its activations; negative if it depends on the input.
  std::int64_t size_of_axis(const ActivationName& name, Axis axis) const;
  /// The device of the first block that predicts, where its stack's input is computed.
  c10::Device main_device() const { return placement.of({config.main_stack(), 0}); }
  /// Every tensor of the state dict and its place in the graph.
  WeightSlots slots() const;
  /// A weight by its name in the state dict, undefined if the model has none: a view, or a copy if the
  /// storage does not allow a view. Found in constant time, in an index that the first call builds; any
  /// thread may call it.
  at::Tensor weight(const std::string& name) const;
  /// Whether the model has a weight of that name; copies nothing.
  bool has_weight(const std::string& name) const;
  /// The device of a weight that the model has; copies nothing.
  c10::Device weight_device(const std::string& name) const;
  std::vector<std::string> weight_names() const;

 private:
  const std::unordered_map<std::string, SlotView>& weight_index() const;

  mutable std::once_flag identified_;
  mutable std::shared_ptr<const ModelIdentity> identity_;
  mutable std::once_flag indexed_;
  mutable std::unordered_map<std::string, SlotView> by_name_;
};

/// The weights by TransformerLens's names, contiguous copies on the CPU.
StateDict copy_weights(const LoadedModel& model);

}  // namespace hooked
