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
#include "hooked/engine/generate_options.h"
#include "hooked/engine/hook_handle.h"
#include "hooked/engine/input.h"
#include "hooked/engine/run_options.h"
#include "hooked/engine/run_result.h"
#include "hooked/engine/save_options.h"
#include "hooked/engine/text_options.h"
#include "hooked/engine/weight_view.h"
#include "hooked/io/provenance.h"
#include "hooked/loading/load_options.h"
#include "hooked/weights/processing.h"

namespace HOOKED_EXPORT hooked {

struct LoadedModel;
class ScopedHooks;

/// A transformer with every activation named, hookable and cacheable.
///
/// A cheap handle on weights that never change, plus this handle's own scoped hooks. Copies share the
/// weights, not the hooks. `run` may be called from several threads, where hooks that are attached hold in
/// the runs of all of them; a thread that attaches hooks of its own copies the handle. A handle that was
/// moved from throws an Error when it is used.
class HookedTransformer {
 public:
  /// Loads a model folder, a file of weights (`.gguf` too), a LoRA adapter whose base is local, or
  /// `org/name[@revision]` from the local hub cache (docs/loading.md); never downloads.
  /// Throws CheckpointError, ConfigError, IoError, MemoryError.
  static HookedTransformer load(std::string_view model, const LoadOptions& options = {});

  /// A model with fresh random weights, raw (no processing). Throws ConfigError, MemoryError.
  static HookedTransformer create(const ModelConfig& config, const CreateOptions& options = {});

  /// A model from weights under TransformerLens's names. Throws CheckpointError listing missing, extra and
  /// misshapen tensors, MemoryError.
  static HookedTransformer from_state_dict(StateDict weights, const ModelConfig& config,
                                           const LoadOptions& options = {});

  HookedTransformer(const HookedTransformer& other);
  HookedTransformer& operator=(const HookedTransformer& other);
  HookedTransformer(HookedTransformer&&) noexcept;
  HookedTransformer& operator=(HookedTransformer&&) noexcept;
  ~HookedTransformer();

  /// Gives the memory for activations that no tensor is in back to the system. Runs keep it mapped for one
  /// another, at most twice what was lately in use at a time.
  void trim() const;

  /// The config of the weights as they are now (after processing).
  const ModelConfig& config() const&;
  /// The same of a temporary, as a copy.
  ModelConfig config() const&& { return config(); }
  /// What a user should know about how this model was loaded, one sentence each.
  const std::vector<std::string>& notes() const&;
  /// The same of a temporary, as a copy.
  std::vector<std::string> notes() const&& { return notes(); }
  /// Each processing step with "applied" or the reason it was not.
  const std::vector<StepReport>& processing() const&;
  /// The same of a temporary, as a copy.
  std::vector<StepReport> processing() const&& { return processing(); }
  /// Keys of the model's config.json that nothing read.
  const std::vector<std::string>& ignored_keys() const&;
  /// The same of a temporary, as a copy.
  std::vector<std::string> ignored_keys() const&& { return ignored_keys(); }
  /// The checkpoint family: `gpt2`, `hooked_transformer`, ...
  const std::string& family() const&;
  /// The same of a temporary, as a copy.
  std::string family() const&& { return family(); }
  /// Which model this is: by its name and a fingerprint of config and weights. What it makes carries it.
  std::shared_ptr<const ModelIdentity> identity() const;
  /// Where this model comes from, to be saved with what it computes; `edits` and the input are for the caller
  /// to add. Of a model that was not loaded from files: all but its name.
  Provenance provenance() const;
  /// Where the weights are; of a model that is spread over devices the first of them, where its tokens go.
  c10::Device device() const;
  /// Which part of the model lies on which device.
  const Placement& placement() const&;
  /// The same of a temporary, as a copy.
  Placement placement() const&& { return placement(); }
  /// What they are: the config's dtype.
  at::ScalarType dtype() const { return config().dtype; }
  /// Every activation this model has, in the order of the table.
  const std::vector<ActivationName>& names() const&;
  /// The same of a temporary, as a copy.
  std::vector<ActivationName> names() const&& { return names(); }

  /// Runs an input: tokens int64 [batch, pos] or [pos], a text, or what Input says besides. Throws ShapeError
  /// and HookError before anything runs, TokenizerError for a text, MemoryError where memory runs out; what a
  /// hook throws passes through.
  RunResult run(const Input& input, const RunOptions& options = {}) const;

  /// `run` that keeps `capture` too: `act::pattern`, `"blocks.*.attn.hook_pattern"`.
  /// Gives back its logits and its cache: `const auto [logits, cache] = model.run_with_cache(tokens);`
  CachedRun run_with_cache(const Input& input, const Selection& capture = act::defaults,
                           RunOptions options = {}) const;

  /// `run` with these hooks, for this run only.
  RunResult run_with_hooks(const Input& input, std::vector<Hook> hooks, RunOptions options = {}) const;

  /// Continues a prompt token by token. Hooks, edits and captures work as in a run, at every step. Throws
  /// ShapeError, ConfigError and HookError before anything runs, where the model's context is too short for
  /// prompt and continuation as well, MemoryError where memory runs out; what a hook or callback throws
  /// passes through.
  GenerateResult generate(const Input& prompt, const GenerateOptions& options = {}) const;

  /// The logits, [batch, pos, vocab].
  at::Tensor operator()(const Input& input) const { return run(input).logits(); }

  /// Attaches a hook to this handle until the returned guard goes. Throws HookError for names this model
  /// lacks, and while a hook of another thread is attached: each would run in the other's runs.
  template <HookCallable F>
  HookHandle hook(Selection where, F function, HookDirection direction = HookDirection::forward) {
    return attach(Hook(std::move(where), std::move(function), direction));
  }

  /// The hooks that are attached to this handle, in order of attachment.
  std::vector<Hook> hooks() const;

  /// The weights, as views.
  WeightView weights() const { return WeightView(loaded()); }
  /// The weights by TransformerLens's names, contiguous copies.
  StateDict state_dict() const;
  /// Writes a native folder (config.json, model.safetensors or packed.safetensors, and the tokenizer if there
  /// is one) that loads bit-identically, as a whole: after an error the folder is as it was. It may be new,
  /// be empty, or hold nothing but a model that was saved before, which goes. Throws IoError, also for a
  /// folder that holds anything else, that this model was read from, or that is in a hub cache.
  void save(const std::filesystem::path& folder, const SaveOptions& options = {}) const;
  /// Throws what loading `model` and saving it to `folder` would throw about the folder, and CheckpointError
  /// where there is no such model.
  static void require_can_save(std::string_view model, const std::filesystem::path& folder);

  /// Whether the model came with a tokenizer. Without one the text functions throw TokenizerError.
  bool has_tokenizer() const;
  /// Throws TokenizerError with the reason where there is none, or none that can be used.
  Tokenizer tokenizer() const;
  /// The tokens that stand around a text with these options, and why: which file and key say so. Throws
  /// TokenizerError.
  TokensAround tokens_around(const TextOptions& options = {}) const;
  /// Ids of a text with those around it, [1, pos] int64 on the model's device. Throws TokenizerError.
  at::Tensor to_tokens(std::string_view text, const TextOptions& options = {}) const;
  /// Ids of several texts and their mask, with padding where they differ in length. Throws TokenizerError.
  Input to_token_batch(const std::vector<std::string>& texts, const TextOptions& options = {}) const;
  /// Ids of a conversation, [1, pos] int64 on the model's device: Tokenizer::to_chat_tokens(). The template
  /// says which special tokens there are, and none is put around it. Throws TokenizerError.
  at::Tensor to_chat_tokens(const std::vector<ChatMessage>& messages, const ChatOptions& options = {}) const;
  /// The tokens of a text one by one, with their places in it; `padding_side` has no meaning here.
  std::vector<TextPiece> to_pieces(std::string_view text, const TextOptions& options = {}) const;
  /// The one id of a text that is exactly one token. Throws TokenizerError otherwise.
  std::int64_t to_token(std::string_view text) const;
  std::string to_string(const at::Tensor& ids) const;  ///< [pos] or [1, pos]
  /// What each id adds to a text, for people to read: control characters and bytes of unfinished characters
  /// are escaped. `ids` is [pos] or [1, pos].
  std::vector<std::string> to_str_tokens(const at::Tensor& ids) const;

  /// For rooms above: the shared, immutable model.
  std::shared_ptr<const LoadedModel> loaded() const { return model_.pointer(); }
  /// A handle on that model, without hooks.
  explicit HookedTransformer(std::shared_ptr<const LoadedModel> model);

 private:
  HookHandle attach(Hook hook);
  /// `run` and `generate`, which throw what was thrown where memory ran out.
  RunResult run_once(const Input& input, const RunOptions& options) const;
  GenerateResult generate_once(const Input& prompt, const GenerateOptions& options) const;

  Shared<const LoadedModel> model_;
  Shared<ScopedHooks> hooks_;
};

}  // namespace hooked
