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
  std::int64_t first = 0;  ///< earlier ones belong to a prefix
  std::int64_t end = 0;    ///< one past the last
  at::Tensor mask = {};    ///< [batch, end - first] bool, true for real tokens; undefined: all are
  at::Tensor ids = {};     ///< [batch, end - first] int64: the tokens; undefined: not known
  /// [batch, columns of the prefix] bool, true for its real tokens; undefined: all are, or there is no
  /// prefix.
  at::Tensor prefix_mask = {};

  /// Each row's last real position, [batch] int64.
  at::Tensor last(std::int64_t batch) const;
  /// Whether the token at a position of a row is padding, in the prefix too. Positions outside are not.
  bool is_padding(std::int64_t row, std::int64_t position) const;
  /// Which rows have a token at a position, [batch] bool; undefined if all have, and for positions outside.
  at::Tensor rows_with_token(std::int64_t position) const;
};

/// A tensor that is saved to the same file as activations.
struct TensorBeside {
  std::string name;    ///< its name in the file
  at::Tensor value;    ///< of any shape and dtype that safetensors supports
  AxisList axes = {};  ///< none: not recorded in the file
};

/// How a cache is saved. For designated initialisers.
struct SaveCacheOptions {
  Provenance provenance = {};  ///< what the file says about its origin
  /// Logits, tokens and the like, written before the activations. A tensor named like the cache's own mask
  /// (`attention_mask`, in an encoder-decoder `decoder_attention_mask`) replaces it.
  std::vector<TensorBeside> beside = {};
  Progress progress = nullptr;            ///< bytes of tensors written
  Overwrite overwrite = Overwrite::ours;  ///< what may be replaced; ours: files that `save` wrote
};

/// Activations by name, in firing order, as downstream saw them (after hooks and edits).
///
/// Holds handles, not copies; the engine never writes into captured tensors. Activations that a fused path
/// did not compute (scores, patterns, normed inputs, neurons, each head's output) are computed from others at
/// the first read and then kept. Writes into a cached tensor from outside are detected at the next read. Does
/// not keep the model alive, only W_O of layers whose `result` is not yet computed. Several threads may read
/// at once. Knows which model made it: functions that take a model and a cache refuse a cache of another
/// model, unless it was assigned_to() this one.
class ActivationCache {
 public:
  /// One activation and, if only some positions were kept, which (absolute, along its pos or query axis).
  struct Entry {
    ActivationName name;                       ///< its full name
    LateTensor held;                           ///< the value; its axes are those of the site
    std::vector<std::int64_t> positions = {};  ///< empty: all
    /// [batch, pos] int64: each row's own positions, if they were kept as `last`; else undefined.
    at::Tensor row_positions = {};

    /// The tensor, computed here if nobody has read it before. Throws HookError if somebody has written into
    /// it since it was captured, or into what it is computed from.
    const at::Tensor value() const { return held.value(name); }
  };

  ActivationCache() = default;
  /// Resolves the stack and the layer of names with these stacks.
  explicit ActivationCache(Stacks stacks) : stacks_(stacks) {}
  /// For a model with one stack of `n_layers` blocks.
  explicit ActivationCache(std::int64_t n_layers) : stacks_{.n_layers = n_layers} {}
  /// The empty cache that any run of that model starts with.
  explicit ActivationCache(const PointIndex& points);

  /// The activation at an address; indices pick a block of it (a single number drops its axis). Positions are
  /// columns of the sequence, even if only some are held: negative ones count from its end, and `last` is
  /// each row's last real token. The block is a view of the tensor; if nobody has read the whole tensor, only
  /// the block is computed, and not kept. Throws HookError if the activation was not kept (with the nearest
  /// kept name), for indices out of range, for columns that are not held in a requested row (it lists those
  /// that are), for the end of a sequence that the cache does not know, and if somebody has written into the
  /// tensor since it was captured. (Const, because assigning to a tensor returned by value would write into
  /// the cached memory.)
  const at::Tensor operator[](const Address& address) const;

  /// What is kept under a name: its full name, value and positions. Throws HookError as operator[] does.
  const Entry& entry(const ActivationName& name) const&;
  /// The same for a temporary, as a copy.
  Entry entry(const ActivationName& name) const&& { return entry(name); }
  /// Whether that activation was kept.
  bool contains(const ActivationName& name) const;
  /// The number of activations.
  std::size_t size() const noexcept { return entries_.size(); }
  /// Whether there are none.
  bool empty() const noexcept { return entries_.empty(); }
  /// The first Entry, in firing order.
  auto begin() const& noexcept { return entries_.begin(); }
  void begin() const&& = delete;  ///< it would point into a temporary
  /// One past the last Entry.
  auto end() const& noexcept { return entries_.end(); }
  void end() const&& = delete;  ///< it would point into a temporary
  /// The full names, in firing order.
  std::vector<ActivationName> names() const;
  /// Blocks of that stack; by default, of the one that predicts.
  std::int64_t n_layers(Stack of = Stack::none) const { return stacks_.layers_of(of); }

  /// The columns that the run computed, in the stack that predicts or in the encoder. Nothing if the cache
  /// was not made by a run.
  const std::optional<TokenColumns>& tokens(Stack of = Stack::none) const&;
  /// The same for a temporary, as a copy.
  std::optional<TokenColumns> tokens(Stack of = Stack::none) const&& { return tokens(of); }
  /// Says which columns the cache covers. Used by the code that computes activations.
  void set_tokens(TokenColumns columns, Stack of = Stack::none);

  /// The model that made it; null if unknown, for instance for a cache that was assembled by hand.
  const std::shared_ptr<const ModelIdentity>& model() const& noexcept { return model_; }
  /// The same for a temporary, as a copy.
  std::shared_ptr<const ModelIdentity> model() const&& { return model_; }
  /// Says which model made it. Used by the code that computes activations.
  void set_model(std::shared_ptr<const ModelIdentity> model) { model_ = std::move(model); }
  /// The same activations as if this model (a HookedTransformer) had made them: declares that using another
  /// model's values is intended.
  ///
  ///     sweep(tuned, {.site = act::z, .over = {Axis::layer}, .from = base_cache.assigned_to(tuned), ...})
  ///
  /// Throws HookError for an activation that the model does not have, or has with another shape.
  template <class Model>
  ActivationCache assigned_to(const Model& model) const {
    return assigned(model.identity(), model.config());
  }

  /// Bytes of the distinct storages held. They grow when an activation is computed at its first read.
  std::size_t bytes() const;

  /// A site's activations of all layers, stacked along a new first axis: [layer, ...]. By default the layers
  /// are those of the stack that predicts. If the model is spread over devices, the result is on that of the
  /// first of these layers. Throws HookError if a layer is missing.
  at::Tensor stack(act::BlockSite site, Stack of = Stack::none) const;

  /// Only row `index` of every activation, with the batch axis kept (size 1). Leaves out experts'
  /// activations, whose tokens come from all rows. Throws HookError if out of range.
  ActivationCache row(std::int64_t index) const;

  /// One cache from stretches of columns that were computed from left to right, as if one run had computed
  /// all of them. Each activation is joined along its pos or query axis; an expert's along its tokens
  /// (stretch by stretch, which is another order than that of one run). In scores and patterns of earlier
  /// stretches, keys that they could not see yet are -inf and 0.
  static ActivationCache join(const std::vector<ActivationCache>& stretches);

  /// Copies everything to another device (`"cpu"`, `"cuda:0"`).
  ActivationCache to(const c10::Device& device) const;

  /// The same with every tensor that it holds (values, and what values are computed from) passed through
  /// `form`: in firing order, one call per handle.
  ActivationCache in_form(const std::function<at::Tensor(const at::Tensor&)>& form) const;

  /// Writes a safetensors file: each activation under its name, contiguous, with the names of its axes.
  ///
  ///     run.cache.save("run.safetensors", {.provenance = model.provenance()});
  ///
  /// Throws IoError if the file's name does not end in `.safetensors`, or if the file exists and `overwrite`
  /// does not allow replacing it; what save_safetensors throws; CheckpointError if a key of the provenance is
  /// already taken.
  void save(const std::filesystem::path& file, const SaveCacheOptions& options = {}) const;

  /// Throws what saving a cache as `file` would throw about the file: call it before long work.
  static void require_can_save(const std::filesystem::path& file, Overwrite overwrite = Overwrite::ours);

  /// Reads what `save`, `hooked cache` or `hooked generate --capture` wrote, except the other tensors of the
  /// file; read_provenance() returns the rest. Throws CheckpointError, and HookError for a key that is not an
  /// activation's name.
  static ActivationCache load(const std::filesystem::path& file);

  /// Adds or replaces an entry under its full name; the value is stored unchanged. Used by the code that
  /// computes activations.
  void insert(Entry entry);

 private:
  ActivationCache assigned(std::shared_ptr<const ModelIdentity> model, const ModelConfig& config) const;
  /// An empty cache for the same model and the same tokens.
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
