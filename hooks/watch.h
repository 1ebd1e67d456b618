#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/hooks/activation_cache.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"
#include "hooked/hooks/point_index.h"

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

/// What one run computes: the part of the graph, and the columns.
struct RunExtent {
  Reach reach;
  RunColumns columns = {};                           ///< of the stack that predicts
  std::optional<RunColumns> encoder = std::nullopt;  ///< what an encoder reads or has read
  /// The (absolute) positions whose logits are computed; absent: all.
  std::optional<std::vector<std::int64_t>> logit_positions = std::nullopt;
};

/// How much of each captured activation is kept, and where.
struct Kept {
  std::optional<AxisIndex> positions = std::nullopt;  ///< these only, along the pos or query axis
  std::optional<c10::Device> device = std::nullopt;   ///< absent: where the activation is made
};

/// What one run watches: for each point the hooks, edits and captures that apply there, in that order.
///
/// Built before the run from resolved selections, so that every miss is an error before anything is computed,
/// and a point that nobody watches costs one branch.
class Watch {
 public:
  Watch(const PointIndex& points, RunExtent extent, Kept kept = {});

  // Building, in the order of firing. All throw HookError for selections that this model cannot honour.
  void add_hook(const Hook& hook);
  void add_edit(const Edit& edit);
  void add_capture(const Selection& selection);
  void add_gradients(const Selection& selection);

  bool watches(std::size_t point) const { return plan_of_[point] != kUnwatched; }
  /// Whether something at this point may change its value.
  bool may_change(std::size_t point) const;
  /// Whether the gradient at this point is asked for.
  bool wants_gradient(std::size_t point) const;
  bool gradients() const noexcept { return gradients_; }
  /// Watched points in ascending order.
  std::vector<std::size_t> watched_points() const;
  const PointIndex& points() const noexcept { return points_; }

  /// Lets everything at `point` see `value` and returns what downstream sees. Throws HookError for a hook
  /// that returns another shape, dtype or device or writes in place, and for an edit that does not fit.
  at::Tensor fire(std::size_t point, at::Tensor value);

  /// The kept activations. Views that pin far more memory than they show are compacted.
  ActivationCache take_cache();
  /// The gradients of `metric` (a scalar) at the points asked for; zeros where it does not depend on them.
  ActivationCache take_gradients(const at::Tensor& metric);

 private:
  static constexpr std::uint32_t kUnwatched = 0xffffffff;

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

  struct PreparedEdit {
    EditKind kind;
    AxisIndices indices;
    std::variant<double, at::Tensor> value;
  };
  struct Plan {
    std::vector<HookFunction> forward;
    std::vector<HookFunction> backward;
    std::vector<PreparedEdit> edits;
    bool capture = false;
    bool gradient = false;
    at::Tensor
        seen;  // the value downstream saw, kept for its gradient and so that backward hooks are reached
  };

  /// Indices into the value that a point holds, and the rows' last columns there.
  struct Places {
    AxisIndices indices;
    at::Tensor last;
  };

  Plan& plan(std::size_t point);
  /// What an axis of a point counts: the run's own columns, or those that an encoder reads.
  const RunColumns& columns_of(const ActivationName& name, Axis axis) const;
  /// The absolute positions that a point's columns stand for; nothing when column and position are the same.
  std::optional<std::vector<std::int64_t>> positions_of(const ActivationName& name) const;
  /// Where absolute indices lie in this run's value; nothing when another step computes all of them.
  std::optional<Places> places_of(const AxisIndices& indices, const ActivationName& name) const;
  at::Tensor call_hook(const HookFunction& hook, const at::Tensor& value, std::size_t point) const;
  /// `in_place`: into `value` itself, where the edit has an address.
  at::Tensor apply_edit(const PreparedEdit& edit, const at::Tensor& value, std::size_t point,
                        bool in_place) const;
  /// A cache that knows the columns of this run.
  ActivationCache empty_cache() const;
  /// What the cache keeps of a value; nothing when another step computes all positions that are asked for.
  std::optional<ActivationCache::Entry> kept(std::size_t point, const at::Tensor& value) const;

  const PointIndex& points_;
  RunExtent extent_;
  Kept kept_;
  std::vector<std::uint32_t> plan_of_;
  std::vector<Plan> plans_;
  ActivationCache cache_;
  RegisteredHooks backward_hooks_;
  bool gradients_ = false;
};

}  // namespace hooked
