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
#include "hooked/text/tokenizer.h"
#include "hooked/weights/processing.h"
#include "hooks/host_transport.h"
#include "io/files/replaceable.h"
#include "loading/config/token_rules.h"
#include "models/replay/key_rooms.h"
#include "models/replay/recordings.h"
#include "models/storage/storage.h"
#include "models/storage/weight_slot.h"
#include "models/storage/workspace.h"

namespace hooked {

class Transformer;

/// Everything that handles of one model share. Never moves: the graph refers to the config and the points.
struct LoadedModel {
  /// A graph with uninitialised weights.
  LoadedModel(ModelConfig model_config, Placement where, Storage wanted = Storage::fastest);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
  ~LoadedModel();

  const ModelConfig config;
  const PointIndex points;
  const Placement placement;
  const c10::Device device;  ///< the placement's entry: where tokens and masks go
  const Storage storage;     ///< of the matrices; never Storage::fastest, but what it stands for
  const std::shared_ptr<Transformer> graph;
  Workspace workspace;
  /// What takes kept activations to the host; null where they are made there.
  const std::shared_ptr<HostTransport> transport;
  std::unique_ptr<Recordings> recordings;  ///< null: runs on this device are not recorded
  std::string recording_problem;           ///< why; empty on the CPU
  std::unique_ptr<KeyRooms> key_rooms;     ///< of generations whose steps are recorded; null as those

  std::string id;        ///< that load_model was called with; empty for other models
  std::string revision;  ///< the commit, where it came from a hub cache
  ReadFrom read_from;    ///< what saving it leaves alone
  std::string family = "hooked_transformer";
  std::vector<std::string> notes;
  std::vector<std::string> ignored_keys;
  std::vector<StepReport> processing;
  std::vector<std::int64_t> stop_tokens;  ///< that end a generation unless it says otherwise
  TokenRules rules;                       ///< of its generations
  /// By which transformers counts its positions (FamilyConfig); inputs must leave that and the mask at one.
  std::optional<std::int64_t> padding_token;
  std::optional<Tokenizer> tokenizer;
  std::optional<TokenizerError> tokenizer_problem;  ///< why the tokenizer that is there cannot be used
  /// Name and content of the files the tokenizer was read from, for saving beside the model.
  std::map<std::string, std::string> tokenizer_files;

  /// Which model this is, made by the first call, which reads some numbers of each weight; any thread may
  /// call it. The name is `id`, which must not change after that.
  const std::shared_ptr<const ModelIdentity>& identity() const;
  /// The device of the first block that predicts, where what its stack reads is made.
  c10::Device main_device() const { return placement.of({config.main_stack(), 0}); }
  /// Every tensor of the state dict and where it lives in the graph.
  WeightSlots slots() const;
  /// A weight by its name in the state dict, undefined where the model has none: a view, or a copy where the
  /// storage is no view of it. Found in constant time, in an index that the first call makes; any thread may
  /// call it.
  at::Tensor weight(const std::string& name) const;
  /// Whether the model has a weight of that name; copies nothing.
  bool has_weight(const std::string& name) const;
  /// Where a weight that the model has lies; copies nothing.
  c10::Device weight_device(const std::string& name) const;
  std::vector<std::string> weight_names() const;

 private:
  const std::unordered_map<std::string, SlotView>& weight_index() const;

  mutable std::once_flag identified_;
  mutable std::shared_ptr<const ModelIdentity> identity_;
  mutable std::once_flag indexed_;
  mutable std::unordered_map<std::string, SlotView> by_name_;
};

/// Copies weights into the graph, dropping each from `weights` as it goes. Names and shapes have been
/// checked.
void fill(LoadedModel& model, StateDict weights);

/// The weights by TransformerLens's names, contiguous copies on the CPU.
StateDict copy_weights(const LoadedModel& model);

}  // namespace hooked
