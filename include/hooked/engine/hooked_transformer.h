#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/core/model_identity.h"
#include "hooked/core/placement.h"
#include "hooked/core/shared.h"
#include "hooked/core/state_dict.h"
#include "hooked/dictionaries/dictionary.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/engine/dictionary_place.h"
#include "hooked/engine/generate_options.h"
#include "hooked/engine/hook_handle.h"
#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooked/engine/run_result.h"
#include "hooked/engine/save_options.h"
#include "hooked/engine/text_options.h"
#include "hooked/engine/weight_view.h"
#include "hooked/hooks/point_index.h"
#include "hooked/io/provenance.h"
#include "hooked/loading/load_options.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

struct LoadedModel;
class ScopedHooks;

/// A transformer in which every activation is named, hookable and cacheable.
///
/// A cheap handle on weights that never change, plus this handle's own scoped hooks. Copies share the
/// weights, not the hooks. Several threads may call `run`; attached hooks apply to the runs of all of them. A
/// thread that attaches hooks of its own should copy the handle. Using a handle that was moved from throws an
/// Error.
class HookedTransformer {
 public:
  /// Loads a model folder, a file of weights (`.gguf` too), a LoRA adapter whose base is local, or
  /// `org/name[@revision]` from the local hub cache (docs/loading.md). Never downloads.
  /// Throws CheckpointError, ConfigError, IoError, MemoryError.
  static HookedTransformer load(std::string_view model, const LoadOptions& options = {});

  /// A model with fresh random weights, raw (no processing). Throws ConfigError, MemoryError.
  static HookedTransformer create(const ModelConfig& config, const CreateOptions& options = {});

  /// A model from weights under TransformerLens's names. Throws CheckpointError listing missing, extra and
  /// misshapen tensors, and MemoryError.
  static HookedTransformer from_state_dict(StateDict weights, const ModelConfig& config,
                                           const LoadOptions& options = {});

  HookedTransformer(const HookedTransformer& other);
  HookedTransformer& operator=(const HookedTransformer& other);
  HookedTransformer(HookedTransformer&&) noexcept;
  HookedTransformer& operator=(HookedTransformer&&) noexcept;
  ~HookedTransformer();

  /// Releases to the system the memory of activations that no tensor uses. Runs keep it mapped for later
  /// runs, at most twice what was recently in use at a time.
  void trim() const;

  /// The config of the weights as they are now (after processing).
  const ModelConfig& config() const&;
  /// The same for a temporary, as a copy.
  ModelConfig config() const&& { return config(); }
  /// What a user should know about how this model was loaded, one sentence each.
  const std::vector<std::string>& notes() const&;
  /// The same for a temporary, as a copy.
  std::vector<std::string> notes() const&& { return notes(); }
  /// Each processing step with "applied" or the reason why it was not.
  const std::vector<StepReport>& processing() const&;
  /// The same for a temporary, as a copy.
  std::vector<StepReport> processing() const&& { return processing(); }
  /// Keys of the model's config.json that nothing read.
  const std::vector<std::string>& ignored_keys() const&;
  /// The same for a temporary, as a copy.
  std::vector<std::string> ignored_keys() const&& { return ignored_keys(); }
  /// The checkpoint family: `gpt2`, `hooked_transformer`, ...
  const std::string& family() const&;
  /// The same for a temporary, as a copy.
  std::string family() const&& { return family(); }
  /// Which model this is: its name and a fingerprint of config and weights. Its results carry it.
  std::shared_ptr<const ModelIdentity> identity() const;
  /// Where this model comes from, to be saved with its results; the caller adds `edits` and the input. If the
  /// model was not loaded from files, everything except its name.
  Provenance provenance() const;
  /// The device of the weights; if the model is spread over devices, the first of them, where tokens go.
  c10::Device device() const;
  /// Which part of the model is on which device.
  const Placement& placement() const&;
  /// The same for a temporary, as a copy.
  Placement placement() const&& { return placement(); }
  /// The dtype of the weights: the config's dtype.
  at::ScalarType dtype() const { return config().dtype; }
  /// Whether the weights stay as they are stored (LoadOptions::weights).
  WeightStorage weight_storage() const;
  /// The points of this model, with those inside its dictionaries.
  const PointIndex& points() const&;
  /// The same for a temporary, as a copy.
  PointIndex points() const&& { return points(); }
  /// Every activation of this model, in the order of the table; those inside dictionaries come last.
  const std::vector<ActivationName>& names() const&;
  /// The same for a temporary, as a copy.
  std::vector<ActivationName> names() const&& { return names(); }

  /// Runs an input: tokens int64 [batch, pos] or [pos], a text, or what else Input allows. Throws ShapeError
  /// and HookError before anything runs, TokenizerError for a text, MemoryError if memory runs out; what a
  /// hook throws passes through (see Hook).
  RunResult run(const Input& input, const RunOptions& options = {}) const;

  /// `run` that also keeps `capture`: `act::pattern`, `"blocks.*.attn.hook_pattern"`.
  /// Returns its logits and its cache: `const auto [logits, cache] = model.run_with_cache(tokens);`
  CachedRun run_with_cache(const Input& input, const Selection& capture = act::defaults,
                           RunOptions options = {}) const;

  /// `run` with these hooks, only for this run.
  RunResult run_with_hooks(const Input& input, const Hooks& hooks, RunOptions options = {}) const;

  /// Continues a prompt token by token. Hooks, edits and captures work as in a run, at every step. Throws
  /// ShapeError, ConfigError and HookError before anything runs, also if the model's context is too short
  /// for prompt and continuation; MemoryError if memory runs out. What a hook or callback throws passes
  /// through.
  GenerateResult generate(const Input& prompt, const GenerateOptions& options = {}) const;

  /// The logits, [batch, pos, vocab].
  at::Tensor operator()(const Input& input) const { return run(input).logits(); }

  /// Attaches a hook to this handle until the returned guard is destroyed. Throws HookError for names this
  /// model lacks, and while a hook of another thread is attached: each would run in the other's runs.
  template <HookCallable F>
  HookHandle hook(Selection where, F function, HookDirection direction = HookDirection::forward) {
    return attach(Hook(std::move(where), std::move(function), direction));
  }

  /// This model with a dictionary that stands in every run, in addition to those that stand there already.
  /// Its points are below the activation whose place it takes, under SAELens's names
  /// (`blocks.1.hook_resid_post.hook_sae_acts_post`, docs/dictionaries.md); they are captured, hooked and
  /// edited as others are, and kept only on request. The new handle shares the weights and has no hooks.
  ///
  ///     const auto spliced = model.with_dictionary(Dictionary::load("sae"), {.with_error = true});
  ///     spliced.run(tokens, {.edits = zero(act::sae_acts_post(act::resid_post(1)).feature(17))});
  ///
  /// Throws HookError for a place that the model does not have or where a dictionary stands, ShapeError for
  /// another width, ConfigError for a dictionary that was fitted to values which this model, as its weights
  /// were processed, does not compute.
  HookedTransformer with_dictionary(const Dictionary& dictionary, const DictionaryPlace& place = {}) const;
  /// The same with a dictionary for each of several layers, where their files say; a layer of a cross-layer
  /// transcoder writes what the features of all layers before it add there.
  HookedTransformer with_dictionaries(const DictionarySet& set, bool with_error = false) const;
  /// The dictionaries of this model, in the order in which they were given.
  std::vector<StandingDictionary> dictionaries() const;
  /// This model without the dictionary that stands at that activation, or the set that it is a layer of if
  /// that crosses layers. Throws HookError if none does.
  HookedTransformer without_dictionary(const ActivationName& place) const;

  /// The hooks attached to this handle, in the order of attachment.
  Hooks hooks() const;

  /// The weights, as views.
  WeightView weights() const { return WeightView(loaded()); }
  /// The weights by TransformerLens's names, as contiguous copies.
  StateDict state_dict() const;
  /// Writes a native folder (config.json, model.safetensors or packed.safetensors, and the tokenizer if there
  /// is one) that loads bit-identically. All or nothing: after an error the folder is as it was. It may be
  /// new, be empty, or hold only a model that was saved before, which is replaced. Throws IoError, also for a
  /// folder that holds anything else, that this model was read from, or that is in a hub cache.
  void save(const std::filesystem::path& folder, const SaveOptions& options = {}) const;
  /// Throws what loading `model` and saving it to `folder` would throw about the folder, and CheckpointError
  /// if the model does not exist.
  static void require_can_save(std::string_view model, const std::filesystem::path& folder);

  /// Whether the model came with a tokenizer. Without one, the text functions throw TokenizerError.
  bool has_tokenizer() const;
  /// The tokenizer. Throws TokenizerError with the reason if there is none that can be used.
  Tokenizer tokenizer() const;
  /// The tokens put around a text with these options, and why: which file and key say so. Throws
  /// TokenizerError.
  TokensAround tokens_around(const TextOptions& options = {}) const;
  /// Ids of a text with those around it, [1, pos] int64 on the model's device. Throws TokenizerError.
  at::Tensor to_tokens(std::string_view text, const TextOptions& options = {}) const;
  /// Ids of several texts and their mask, padded if they differ in length. Throws TokenizerError.
  Input to_token_batch(const std::vector<std::string>& texts, const TextOptions& options = {}) const;
  /// Ids of a conversation, [1, pos] int64 on the model's device: Tokenizer::to_chat_tokens(). The template
  /// writes the special tokens; none are added around it. Throws TokenizerError.
  at::Tensor to_chat_tokens(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;
  /// The tokens of a text one by one, with their places in it; `padding_side` is ignored here.
  std::vector<TextPiece> to_pieces(std::string_view text, const TextOptions& options = {}) const;
  /// The id of a text that is exactly one token. Throws TokenizerError otherwise.
  std::int64_t to_token(std::string_view text) const;
  std::string to_string(const at::Tensor& ids) const;  ///< [pos] or [1, pos]
  /// What each id adds to a text, in readable form: control characters and bytes of incomplete characters are
  /// escaped. `ids` is [pos] or [1, pos].
  std::vector<std::string> to_str_tokens(const at::Tensor& ids) const;

  /// For the rest of the library: the shared, immutable model.
  std::shared_ptr<const LoadedModel> loaded() const { return model_.pointer(); }
  /// A handle on that model, without hooks.
  explicit HookedTransformer(std::shared_ptr<const LoadedModel> model);

 private:
  HookHandle attach(Hook hook);
  /// `run` and `generate` without the retry when memory runs out: they throw what was thrown.
  RunResult run_once(const Input& input, const RunOptions& options) const;
  GenerateResult generate_once(const Input& prompt, const GenerateOptions& options) const;

  Shared<const LoadedModel> model_;
  Shared<ScopedHooks> hooks_;
};

}  // namespace hooked
