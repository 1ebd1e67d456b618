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
  std::int64_t first = 0;  ///< those before it are remembered from earlier runs
  std::int64_t end = 0;    ///< length of the sequence with this run's columns
  /// The sequence is one that is being generated, and this is the length it may reach: indices of columns
  /// that another step computes are passed over. Without it they are errors.
  std::optional<std::int64_t> limit = std::nullopt;
  at::Tensor last = {};  ///< each row's last real column, [batch] int64; undefined: the last of all
  at::Tensor mask = {};  ///< [batch, end - first] bool, true for real tokens; undefined: all are

  /// Sets `mask`, and `last` by it; both stay undefined without a mask.
  void set_mask(const at::Tensor& real);
  TokenColumns tokens() const { return {.first = first, .end = end, .mask = mask}; }
};

/// What one run computes, of the part of the graph that its plan is about.
struct RunExtent {
  RunColumns columns = {};                           ///< of the stack that predicts
  std::optional<RunColumns> encoder = std::nullopt;  ///< what an encoder reads or has read
  /// The (absolute) positions whose logits are computed; absent: all.
  std::optional<std::vector<std::int64_t>> logit_positions = std::nullopt;
  /// Of rows that begin at columns of their own; null: at the same.
  std::shared_ptr<const RaggedRows> ragged = nullptr;
  bool ends_with_last_point = false;  ///< nobody asks for more than what is watched
  /// What is to be kept on another device stays where it is made: who runs this copies it there afterwards.
  bool keeps_here = false;
  /// Columns of a room that queries attend to as a whole, of which those before `columns.end` are filled; 0:
  /// they attend to the columns that are there. In a room edits of what has keys apply to the keys that
  /// put_keys() names (Note [Edits in a room]).
  std::int64_t room = 0;
};

/// What runs have in common when one recording serves all of them.
struct RecordingKey {
  /// The points, what is kept of them, and the kind of each edit, the shape of its value, its number, and its
  /// indices but for the places that follow.
  std::string text;
  /// Where the edits apply: the numbers on all axes that are indexed by one place or a list, in the order of
  /// points, edits and axes.
  std::vector<std::int64_t> places;
};

/// Thrown by the last watched point of a run that ends there, from the middle of the graph to its caller:
/// what comes after that point is not computed.
struct LastPointPassed {};

/// What becomes of a value of which a recipe is known.
enum class ValueIs : std::uint8_t {
  skipped,  ///< the run goes a shorter way without it
  at_hand,  ///< the run makes it in any case
};

/// What a point makes of a value that a hook or an edit has changed, before anybody else sees it.
using AfterChange = std::function<at::Tensor(at::Tensor)>;

/// What watching one run means: its plan, its columns, and what it has kept so far. Used by one thread.
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
  /// Whether the gradient at this point is asked for.
  bool wants_gradient(std::size_t point) const {
    const WatchPlan::PointPlan* plan = plan_->find(point);
    return plan != nullptr && plan->wants_gradient();
  }
  /// Whether anything is watched at the points after `first` and before `end`.
  bool watches_between(std::size_t first, std::size_t end) const {
    return plan_->watches_between(first, end);
  }
  /// Whether anything behind `point` is watched in all columns, also in those whose logits nobody asks for.
  bool watches_all_columns_behind(std::size_t point) const {
    return plan_->watches_all_columns_behind(point);
  }
  /// What an edit puts in place of the whole value of a point that is a tensor of these sizes, whatever the
  /// value is, so that it need not be computed; undefined where there is no such edit. The point fires all
  /// the same, with this for its value.
  at::Tensor replacement(std::size_t point, at::IntArrayRef sizes, const at::TensorOptions& options) const;
  const PointIndex& points() const noexcept { return plan_->points(); }

  /// Of a run of `batch` rows. Nothing where functions watch, which cannot be recorded. Throws HookError as
  /// `fire`, for edits of places that are not there.
  std::optional<RecordingKey> recording_key(const ModelConfig& config, std::int64_t batch) const;
  /// Edits apply at these places from now on, which the recording key of such a run names: [place] int64 on
  /// the activations' device. The host does not look at them.
  void put_places(const at::Tensor& places);

  // Note [Edits in a room]
  // In a room scores and patterns have a column for every key that there may ever be. An edit means some of
  // those that are there, which are others at every step; so it is made of all, and taken for the keys that
  // numbers on the device name. The rest keeps its value: what is not filled stays masked.

  /// Whether an edit of what has keys can be made so: by numbers that do not depend on the key.
  static bool fits_all_keys(const WatchPlan::PointEdit& edit, Site site);
  /// In a room: which keys each edit of what has keys means, [edit, key] bool on the host, in the order of
  /// points and edits; undefined where there is no such edit. Throws HookError for keys that are not there.
  at::Tensor keys_of_edits() const;
  /// These edits apply to such keys from now on, on the activations' device. The host does not look at them.
  void put_keys(const at::Tensor& keys);

  /// Whether every watched point has fired, in a run that ends there.
  bool is_over() const noexcept { return waiting_ == 0 && extent_.ends_with_last_point; }

  /// Lets everything at `point` see `value` (of ragged rows: its tokens) and returns what downstream sees.
  /// Throws HookError for a hook that returns another shape, dtype or device or writes in place, and for an
  /// edit that does not fit; LastPointPassed.
  at::Tensor fire(std::size_t point, at::Tensor value, const AfterChange& after_change = {});

  /// Whether what is kept at this point may be made when it is read: it is only captured, where it is made,
  /// in a run that is no step of a generation and records no gradients.
  bool may_keep_late(std::size_t point) const;
  /// In place of `fire`: keeps the recipe of a value, or, where that would hold more than the value takes,
  /// what it makes. False where the value is at hand and takes no more memory: it is to be fired. Throws as
  /// `fire`.
  bool keep_late(std::size_t point, Recipe recipe, ValueIs value);

  /// The kept activations. Views that pin far more memory than they show are compacted.
  ActivationCache take_cache();
  /// What the metric reads, as downstream saw it, with what it was made of: for the metric alone.
  ActivationCache live() const;
  /// The gradients of `metric` (a scalar) at the points asked for; zeros where it does not depend on them.
  ActivationCache take_gradients(const at::Tensor& metric);

 private:
  /// Backward hooks in the autograd graph. A metric may have kept the graph, so they are taken off with the
  /// run that they belong to.
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

  /// Indices into the value that a point holds, and the rows' last columns there.
  struct Places {
    AxisIndices indices;
    at::Tensor last;
  };

  /// What `fire` does to a value with rows and columns.
  at::Tensor pass(std::size_t point, at::Tensor value, const AfterChange& after_change);
  /// Whether the tokens of ragged rows pass that point.
  bool passes_tokens(std::size_t point) const;
  /// What an axis of a point counts: the run's own columns, or those that an encoder reads.
  const RunColumns& columns_of(const ActivationName& name, Axis axis) const;
  /// Whether a point shows every key of a room.
  bool shows_room(const ActivationName& name) const;
  /// The edit's indices, without those of the keys of a room.
  AxisIndices indices_of(const WatchPlan::PointEdit& edit, const ActivationName& name) const;
  /// Where an edit applies as far as the device knows, by the axes of `indices`; none where the host does.
  std::vector<std::pair<Axis, at::Tensor>> places_there(const WatchPlan::PointEdit& edit) const;
  /// Adds to the key where an edit applies.
  void add_places(const WatchPlan::PointEdit& edit, const ActivationName& name, const ModelConfig& config,
                  std::int64_t batch, RecordingKey& key) const;
  /// The absolute positions that a point's columns stand for; nothing when column and position are the same.
  std::optional<std::vector<std::int64_t>> positions_of(const ActivationName& name) const;
  /// Where absolute indices lie in this run's value; nothing when another step computes all of them.
  std::optional<Places> places_of(const AxisIndices& indices, const ActivationName& name) const;
  at::Tensor call_hook(const HookFunction& hook, const at::Tensor& value, std::size_t point) const;
  /// `in_place`: into `value` itself, where the edit has an address.
  at::Tensor apply_edit(const WatchPlan::PointEdit& edit, const at::Tensor& value, std::size_t point,
                        bool in_place) const;
  /// A cache that knows the columns of this run.
  ActivationCache empty_cache() const;
  /// What the cache keeps of a value; nothing when another step computes all positions that are asked for.
  std::optional<ActivationCache::Entry> kept(std::size_t point, LateTensor value) const;
  /// A value with zeros at the positions that the run left out because no logit depends on them.
  at::Tensor with_unread(const ActivationName& name, Axis axis, const at::Tensor& value) const;
  /// An entry at the positions that are to be kept: each row's last, or numbers; nothing where this step of a
  /// generation computes none of them.
  std::optional<ActivationCache::Entry> at_last(ActivationCache::Entry entry, Axis axis) const;
  std::optional<ActivationCache::Entry> at_positions(ActivationCache::Entry entry, Axis axis) const;
  /// Puts it into the cache.
  void keep(ActivationCache::Entry entry);
  /// Sends what a cache holds on devices to the host, where that is asked for.
  void send_to_host(ActivationCache& cache) const;
  /// Bytes of what an entry holds that the cache does not hold already.
  std::size_t added_bytes(const ActivationCache::Entry& entry) const;
  /// One more point has fired. Throws LastPointPassed.
  void pass_point();

  std::shared_ptr<const WatchPlan> plan_;
  RunExtent extent_;
  std::size_t waiting_;  ///< watched points that have not fired
  at::Tensor places_;    ///< what put_places() was given, or undefined
  std::map<const WatchPlan::PointEdit*, std::int64_t> first_place_;  ///< of each edit among these
  /// The keys of a room that an edit means.
  struct EditedKeys {
    at::Tensor meant;  ///< [key] bool
    bool one;          ///< a single key, whose axis the edit's value does not have
  };
  std::map<const WatchPlan::PointEdit*, EditedKeys> keys_;  ///< what put_keys() was given
  ActivationCache cache_;
  std::set<std::pair<const void*, std::size_t>> held_;  ///< address and bytes of the tensors in it
  std::size_t to_send_ = 0;                             ///< bytes in it that are to go to the host
  /// What downstream saw at each plan's point, kept for its gradient and so that backward hooks are reached.
  std::vector<at::Tensor> seen_;
  RegisteredHooks backward_hooks_;
};

}  // namespace hooked
