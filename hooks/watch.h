#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/model_config.h"
#include "hooked/hooks/activation_cache.h"
#include "hooks/ragged_rows.h"
#include "hooks/recipe.h"
#include "hooks/watch_plan.h"

namespace hooked {

/// The columns of a sequence that a run computes. Positions in addresses are absolute.
struct RunColumns {
  std::int64_t first = 0;  ///< earlier ones are remembered from previous runs
  std::int64_t end = 0;    ///< length of the sequence up to the end of this run's columns
  /// Set if the sequence is being generated: the length it may reach. Indices of columns that another step
  /// computes are then skipped; otherwise they are errors.
  std::optional<std::int64_t> limit = std::nullopt;
  bool after_prompt = false;  ///< a step of a generation that computes new tokens
  at::Tensor last = {};  ///< each row's last real column, [batch] int64; undefined: the last column of all
  at::Tensor mask = {};  ///< [batch, end - first] bool, true for real tokens; undefined: all are
  at::Tensor prefix_mask = {};  ///< [batch, columns of the prefix] bool; undefined: all are real

  /// Sets `mask`, and `last` from it; without a mask both stay undefined.
  void set_mask(const at::Tensor& real);
  TokenColumns tokens() const {
    return {.first = first, .end = end, .mask = mask, .prefix_mask = prefix_mask};
  }
};

/// What one run computes, within the part of the graph that its plan covers.
struct RunExtent {
  RunColumns columns = {};                           ///< of the stack that predicts
  std::optional<RunColumns> encoder = std::nullopt;  ///< what an encoder reads or has read
  /// The (absolute) positions whose logits are computed; absent: all.
  std::optional<std::vector<std::int64_t>> logit_positions = std::nullopt;
  /// For rows that begin at different columns; null: all begin at the same.
  std::shared_ptr<const RaggedRows> ragged = nullptr;
  bool ends_with_last_point = false;  ///< nobody asks for more than what is watched
  /// What is to be kept on another device stays where it was computed; the run's caller copies it afterwards.
  bool keeps_here = false;
  /// Columns of a preallocated KV room that queries attend to as a whole; only those before `columns.end` are
  /// filled. 0: queries attend to the existing columns. In a room, edits on a key axis apply to the keys that
  /// put_keys() gives (Note [Edits in a room]).
  std::int64_t room = 0;
  /// [batch, pos] int64: the ids of the columns of the stack that predicts, if a dictionary asks for them.
  at::Tensor tokens = {};
};

/// What runs have in common if one recording serves all of them.
struct RecordingKey {
  /// The points, what is kept of them, and for each edit its kind, its value's shape, its number, and its
  /// indices except the places that follow.
  std::string text;
  /// Where the edits apply: the indices on all axes that are indexed by one place or a list, in the order of
  /// points, edits and axes.
  std::vector<std::int64_t> places;
};

/// Thrown by the last watched point of a run that ends there, from the middle of the graph to its caller:
/// what comes after that point is not computed.
struct LastPointPassed {};

/// Whether the run needs a value that has a recipe.
enum class ValueIs : std::uint8_t {
  skipped,  ///< the run takes a fused path without it
  at_hand,  ///< the run computes it in any case
};

/// Applied by a point to a value that a hook or an edit has changed, before anybody else sees it.
using AfterChange = std::function<at::Tensor(at::Tensor)>;

/// The state of watching one run: its plan, its columns, and what it has kept so far. Used by one thread.
///
/// A point that nobody watches costs one branch.
class Watch {
 public:
  Watch(std::shared_ptr<const WatchPlan> plan, RunExtent extent);

  bool watches(std::size_t point) const { return plan_->find(point) != nullptr; }
  /// Whether something at this point may change its value.
  bool may_change(std::size_t point) const {
    const WatchPlan::PointPlan* plan = plan_->find(point);
    return plan != nullptr && plan->may_change();
  }
  /// Whether the gradient at this point is requested.
  bool wants_gradient(std::size_t point) const {
    const WatchPlan::PointPlan* plan = plan_->find(point);
    return plan != nullptr && plan->wants_gradient();
  }
  /// The tensor by which an edit replaces the whole value of a point, which has these sizes, whatever the
  /// value is, so that it need not be computed; undefined if no edit does. The point still fires, with this
  /// as its value.
  at::Tensor replacement(std::size_t point, at::IntArrayRef sizes, const at::TensorOptions& options) const;
  const WatchPlan& plan() const noexcept { return *plan_; }
  const PointIndex& points() const noexcept { return plan_->points(); }

  /// For a run of `batch` rows. Nothing if functions watch, which cannot be recorded. Throws HookError as
  /// `fire` does, for edits of missing places.
  std::optional<RecordingKey> recording_key(const ModelConfig& config, std::int64_t batch) const;
  /// From now on edits apply at these places, in the order of the run's recording key: [place] int64 on the
  /// activations' device. The host does not read them.
  void put_places(const at::Tensor& places);

  // Note [Edits in a room]
  // In a room, scores and patterns have a column for every key that there may ever be. An edit means some of
  // the filled ones, which differ at every step. So it is computed for all keys, and applied to those that
  // numbers on the device select. The others keep their values: what is not filled stays masked.

  /// Whether an edit on a key axis can be applied this way: its numbers do not depend on the key.
  static bool fits_all_keys(const WatchPlan::PointEdit& edit, Site site);
  /// In a room: which keys each edit on a key axis means, [edit, key] bool on the host, in the order of
  /// points and edits; undefined without such edits. Throws HookError for keys that do not exist.
  at::Tensor keys_of_edits() const;
  /// From now on these edits apply to such keys, on the activations' device. The host does not read them.
  void put_keys(const at::Tensor& keys);

  /// Whether every watched point has fired, in a run that ends there.
  bool is_over() const noexcept { return waiting_ == 0 && extent_.ends_with_last_point; }

  /// Lets everything at `point` see `value` (for ragged rows: its tokens) and returns what downstream sees.
  /// Throws HookError for a hook that returns another shape, dtype or device or that writes in place, and for
  /// an edit that does not fit; LastPointPassed.
  at::Tensor fire(std::size_t point, at::Tensor value, const AfterChange& after_change = {});

  /// Whether what is kept at this point may be computed when it is read: it is only captured, on its own
  /// device, in a run that is not a step of a generation and records no gradients.
  bool may_keep_late(std::size_t point) const;
  /// Instead of `fire`: keeps the recipe of a value, or, if the recipe would hold more memory than the value,
  /// the computed value. False if the value is at hand and takes no more memory: then call `fire`. Throws
  /// what `fire` throws.
  bool keep_late(std::size_t point, Recipe recipe, ValueIs value);

  /// The kept activations. Views that pin far more memory than they show are compacted.
  ActivationCache take_cache();
  /// What the metric reads, as downstream saw it, with its autograd history: for the metric only.
  ActivationCache live() const;
  /// The gradients of `metric` (a scalar) at the requested points; zeros if it does not depend on them.
  ActivationCache take_gradients(const at::Tensor& metric);

 private:
  /// Backward hooks in the autograd graph. A metric may have kept the graph, so the hooks are removed at the
  /// end of their run.
  class RegisteredHooks {
   public:
    RegisteredHooks() = default;
    RegisteredHooks(RegisteredHooks&&) = default;
    RegisteredHooks& operator=(RegisteredHooks&&) = default;
    ~RegisteredHooks();
    void add(const at::Tensor& on, std::function<at::Tensor(const at::Tensor&)> hook);

   private:
    std::vector<std::pair<at::Tensor, unsigned>> places_;
  };

  /// Indices into the value that a point holds, and the rows' last columns in it.
  struct Places {
    AxisIndices indices;
    at::Tensor last;
  };

  /// What a dictionary's features are in this run, and what they would be if nobody changed them there.
  struct Coded {
    at::Tensor features, unedited;
  };
  /// What goes on in the place of an activation at which a dictionary of the plan stands (Note [Dictionaries
  /// in a run]).
  at::Tensor through_dictionary(std::size_t number, const at::Tensor& activation);
  /// A value through one of a dictionary's points.
  at::Tensor pass_inside(const MountedDictionary& mounted, Site site, at::Tensor value);
  bool watches_inside(const MountedDictionary& mounted, Site site) const;
  bool changes_inside(const MountedDictionary& mounted, Site site) const;
  /// Whether something may change a dictionary's features.
  bool changes_features(const MountedDictionary& mounted) const;
  /// [batch, pos, 1] bool: where the activation stays as it is; undefined: nowhere.
  at::Tensor stays_at(const MountedDictionary& mounted, const at::Tensor& activation) const;
  /// What `fire` does with a value that has rows and columns.
  at::Tensor pass(std::size_t point, at::Tensor value, const AfterChange& after_change);
  /// Whether the tokens of ragged rows pass that point.
  bool passes_tokens(std::size_t point) const;
  /// What an axis of a point counts: the run's own columns, or those of the encoder's input.
  const RunColumns& columns_of(const ActivationName& name, Axis axis) const;
  /// Whether a point shows every key of a room.
  bool shows_room(const ActivationName& name) const;
  /// The edit's indices, without those on the keys of a room.
  AxisIndices indices_of(const WatchPlan::PointEdit& edit, const ActivationName& name) const;
  /// Where an edit applies, if the device reads that, by the axes of `indices`; empty if the host knows it.
  std::vector<std::pair<Axis, at::Tensor>> places_there(const WatchPlan::PointEdit& edit) const;
  /// Adds where an edit applies to the key.
  void add_places(const WatchPlan::PointEdit& edit, const ActivationName& name, const ModelConfig& config,
                  std::int64_t batch, RecordingKey& key) const;
  /// The absolute positions of a point's columns; nothing if column and position are the same.
  std::optional<std::vector<std::int64_t>> positions_of(const ActivationName& name) const;
  /// Absolute indices translated to this run's value; nothing if another step computes all of them.
  std::optional<Places> places_of(const AxisIndices& indices, const ActivationName& name) const;
  at::Tensor after_hook(const HookFunction& hook, const at::Tensor& value, std::size_t point) const;
  /// `in_place`: writes into `value` itself, if the edit has an address.
  at::Tensor apply_edit(const WatchPlan::PointEdit& edit, const at::Tensor& value, std::size_t point,
                        bool in_place) const;
  /// A cache that knows the columns of this run.
  ActivationCache empty_cache() const;
  /// What the cache keeps of a value; nothing if another step computes all requested positions.
  std::optional<ActivationCache::Entry> kept(std::size_t point, LateTensor value) const;
  /// A value with zeros at the positions that the run skipped because no logit depends on them.
  at::Tensor with_unread(const ActivationName& name, Axis axis, const at::Tensor& value) const;
  /// An entry at the positions to keep: each row's last, or given ones; nothing if this step of a generation
  /// computes none of them.
  std::optional<ActivationCache::Entry> at_last(ActivationCache::Entry entry, Axis axis) const;
  std::optional<ActivationCache::Entry> at_positions(ActivationCache::Entry entry, Axis axis) const;
  /// Puts the entry into the cache.
  void keep(ActivationCache::Entry entry);
  /// Sends what a cache holds on devices to the host, if that is requested.
  void send_to_host(ActivationCache& cache) const;
  /// Bytes that an entry holds and the cache does not hold already.
  std::size_t added_bytes(const ActivationCache::Entry& entry) const;
  /// Counts one more point as fired. Throws LastPointPassed.
  void pass_point();

  std::shared_ptr<const WatchPlan> plan_;
  RunExtent extent_;
  std::size_t waiting_;  ///< watched points that have not fired yet
  at::Tensor places_;    ///< what put_places() was given, or undefined
  std::map<const WatchPlan::PointEdit*, std::int64_t> first_place_;  ///< of each edit among these
  /// The keys of a room that an edit means.
  struct EditedKeys {
    at::Tensor meant;  ///< [key] bool
    bool one;          ///< a single key; the edit's value has no axis for it
  };
  std::map<const WatchPlan::PointEdit*, EditedKeys> keys_;  ///< what put_keys() was given
  ActivationCache cache_;
  std::set<std::pair<const void*, std::size_t>> held_;  ///< address and bytes of the tensors in it
  std::size_t to_send_ = 0;                             ///< bytes in it that are to go to the host
  /// What downstream saw at each plan's point, kept for its gradient and so that backward hooks are reached.
  std::vector<at::Tensor> seen_;
  std::vector<at::Tensor> read_;  ///< what each dictionary reads that reads elsewhere than where it stands
  std::vector<Coded> coded_;      ///< each dictionary's features, if they are made as a whole
  RegisteredHooks backward_hooks_;
};

}  // namespace hooked
