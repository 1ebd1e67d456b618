#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hooked/core/export.h"
#include "hooked/core/model_config.h"
#include "hooked/core/model_identity.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/address.h"
#include "hooked/hooks/late_tensor.h"
#include "hooked/io/overwrite.h"
#include "hooked/io/provenance.h"

namespace HOOKED_EXPORT hooked {

class PointIndex;

/// The columns of tokens that a run computed, and which of them are padding. Positions are absolute.
struct TokenColumns {
  std::int64_t first = 0;  ///< those before it belong to a prefix
  std::int64_t end = 0;    ///< one past the last
  at::Tensor mask = {};    ///< [batch, end - first] bool, true for real tokens; undefined: all are
  at::Tensor ids = {};     ///< [batch, end - first] int64: the tokens; undefined: not known

  /// Each row's last real position, [batch] int64.
  at::Tensor last(std::int64_t batch) const;
  /// Whether the token at a position of a row is padding. Positions outside are not.
  bool is_padding(std::int64_t row, std::int64_t position) const;
};

/// A tensor that goes into a file with activations.
struct TensorBeside {
  std::string name;    ///< in the file
  at::Tensor value;    ///< of any shape and dtype that safetensors has
  AxisList axes = {};  ///< none: not recorded
};

/// What a cache is saved with. For designated initialisers.
struct SaveCacheOptions {
  Provenance provenance = {};  ///< what the file says about where it comes from
  /// Logits, tokens and the like, in front of the activations. A tensor named as the cache's own mask
  /// (`attention_mask`, in an encoder-decoder `decoder_attention_mask`) stands in its place.
  std::vector<TensorBeside> beside = {};
  Progress progress = nullptr;            ///< bytes of tensors written
  Overwrite overwrite = Overwrite::ours;  ///< what may be replaced; ours is a file that `save` wrote
};

/// Activations by name, in firing order, as downstream saw them (after hooks and edits).
///
/// Holds handles, not copies, and nothing in the engine writes in place behind it. What a run computed the
/// shorter way without (scores, patterns, normed inputs, neurons, each head's output) is made of other
/// activations when it is first read, and kept from then on. What is written into a cached tensor from
/// outside is found at the next read. Keeps no model alive, but of each layer whose `result` is not made yet
/// its W_O. Reading from several threads is fine. Knows which model made it: what takes a model and a cache
/// refuses that of another one, unless it was assigned_to() the model.
class ActivationCache {
 public:
  /// One activation and, when only some positions were kept, which (absolute, along its pos or query axis).
  struct Entry {
    ActivationName name;                       ///< its full name
    LateTensor held;                           ///< its axes are those of the site
    std::vector<std::int64_t> positions = {};  ///< empty: all
    /// [batch, pos] int64: each row's own, where positions were kept as `last`; else undefined.
    at::Tensor row_positions = {};

    /// The tensor, which is made here where nobody has read it before. Throws HookError when somebody has
    /// written into it since it was captured, or into what it is made of.
    const at::Tensor value() const { return held.value(name); }
  };

  ActivationCache() = default;
  /// What the stack and the layer of a name are resolved with.
  explicit ActivationCache(Stacks stacks) : stacks_(stacks) {}
  /// Of a model with one stack of so many blocks.
  explicit ActivationCache(std::int64_t n_layers) : stacks_{.n_layers = n_layers} {}
  /// As empty as it is for any run of that model.
  explicit ActivationCache(const PointIndex& points);

  /// The activation at an address; indices pick a block out of it (one number drops its axis). Positions are
  /// columns of the sequence, also where only some are held: negative ones count from its end, and `last` is
  /// each row's last real token. The block is a view of the tensor, or, where nobody has read all of it, made
  /// alone and not kept. Throws HookError with the nearest kept name when it was not kept, on indices out of
  /// range, for columns that are not held in a row that is asked for (it says which are), for the end of a
  /// sequence that the cache does not know, and when somebody has written into the tensor since it was
  /// captured. (Const, because assigning to a tensor that is returned by value would write into the cached
  /// memory.)
  const at::Tensor operator[](const Address& address) const;

  /// What is kept under a name: its full name, value and positions. Throws HookError as above.
  const Entry& entry(const ActivationName& name) const&;
  /// The same of a temporary, as a copy.
  Entry entry(const ActivationName& name) const&& { return entry(name); }
  /// Whether that activation was kept.
  bool contains(const ActivationName& name) const;
  /// How many activations there are.
  std::size_t size() const noexcept { return entries_.size(); }
  /// Whether there is none.
  bool empty() const noexcept { return entries_.empty(); }
  /// The first Entry, in firing order.
  auto begin() const& noexcept { return entries_.begin(); }
  void begin() const&& = delete;  ///< it would point into a temporary
  /// Behind the last Entry.
  auto end() const& noexcept { return entries_.end(); }
  void end() const&& = delete;  ///< it would point into a temporary
  /// The full name of each, in firing order.
  std::vector<ActivationName> names() const;
  /// Blocks of that stack; without its name, of the one that predicts.
  std::int64_t n_layers(Stack of = Stack::none) const { return stacks_.layers_of(of); }

  /// The columns that the run computed: of the stack that predicts, or of the encoder. Nothing where no run
  /// made the cache.
  const std::optional<TokenColumns>& tokens(Stack of = Stack::none) const&;
  /// The same of a temporary, as a copy.
  std::optional<TokenColumns> tokens(Stack of = Stack::none) const&& { return tokens(of); }
  /// Says which columns the cache covers. Used where activations are made.
  void set_tokens(TokenColumns columns, Stack of = Stack::none);

  /// The model that made it; null where that is not known, as of a cache that was put together by hand.
  const std::shared_ptr<const ModelIdentity>& model() const& noexcept { return model_; }
  /// The same of a temporary, as a copy.
  std::shared_ptr<const ModelIdentity> model() const&& { return model_; }
  /// Says which model made it. Used where activations are made.
  void set_model(std::shared_ptr<const ModelIdentity> model) { model_ = std::move(model); }
  /// The same activations as if this model (a HookedTransformer) had made them: says that values of another
  /// model are meant.
  ///
  ///     sweep(tuned, {.site = act::z, .over = {Axis::layer}, .from = base_cache.assigned_to(tuned), ...})
  ///
  /// Throws HookError for an activation that the model does not have or that has another shape there.
  template <class Model>
  ActivationCache assigned_to(const Model& model) const {
    return assigned(model.identity(), model.config());
  }

  /// Bytes of the distinct storages held, which grow when something is made that was not read before.
  std::size_t bytes() const;

  /// One layer after the other of a site, as a new first axis: [layer, ...]. Without the name of a stack the
  /// layers are those of the stack that predicts. Of a model that is spread over devices: on that of the
  /// first of these layers. Throws HookError when a layer misses.
  at::Tensor stack(act::BlockSite site, Stack of = Stack::none) const;

  /// Only row `index` of every activation, with the batch axis kept (size 1). Experts' activations, whose
  /// tokens are of all rows, are left out. Throws HookError out of range.
  ActivationCache row(std::int64_t index) const;

  /// One cache of what was computed in stretches of columns, from left to right, as of one run over all of
  /// them: each activation joined along its pos or query axis, or that of an expert's tokens (stretch by
  /// stretch, which is another order than one run's). Scores and patterns of earlier stretches end with -inf
  /// and 0 for the keys that they could not see yet.
  static ActivationCache join(const std::vector<ActivationCache>& stretches);

  /// Copies on another device (`"cpu"`, `"cuda:0"`).
  ActivationCache to(const c10::Device& device) const;

  /// The same with every tensor that it holds (values, and what values are made of) in the form that `form`
  /// gives it: in firing order, one call for each handle.
  ActivationCache in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const;

  /// Writes a safetensors file: each activation under its name, contiguous, with the names of its axes.
  ///
  ///     run.cache.save("run.safetensors", {.provenance = model.provenance()});
  ///
  /// Throws IoError for a name that does not end in `.safetensors` and for a file of that name that
  /// `overwrite` does not allow to replace; what save_safetensors throws; CheckpointError for keys of the
  /// provenance that are taken.
  void save(const std::filesystem::path& file, const SaveCacheOptions& options = {}) const;

  /// Throws what saving a cache as `file` would throw about the file: to be asked before long work.
  static void require_can_save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);

  /// Reads what `save`, `hooked cache` or `hooked generate --capture` wrote, leaving out what stands beside
  /// the activations; read_provenance() gives the rest. Throws CheckpointError, HookError for a key that is
  /// not an activation's name.
  static ActivationCache load(const std::filesystem::path& file);

  /// Adds or replaces an entry under its full name; the value is taken as it is. Used where activations are
  /// made.
  void insert(Entry entry);

 private:
  ActivationCache assigned(std::shared_ptr<const ModelIdentity> model, const ModelConfig& config) const;
  /// Nothing in it, for the same model and the same tokens.
  ActivationCache emptied() const;
  [[noreturn]] void refuse_missing(const ActivationName& resolved) const;

  std::vector<Entry> entries_;
  std::optional<TokenColumns> tokens_;  ///< of the stack that predicts
  std::optional<TokenColumns> encoder_tokens_;
  std::unordered_map<ActivationName, std::size_t> numbers_;
  Stacks stacks_;
  std::shared_ptr<const ModelIdentity> model_;
};

}  // namespace hooked
