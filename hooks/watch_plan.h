#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "hooked/core/placement.h"
#include "hooked/hooks/edit.h"
#include "hooked/hooks/hook.h"
#include "hooked/hooks/point_index.h"
#include "hooks/mounted_dictionary.h"

namespace hooked {

class HostTransport;

/// How much of each captured activation is kept, and where.
struct Kept {
  std::optional<AxisIndex> positions = std::nullopt;  ///< only these, along the pos or query axis
  std::optional<c10::Device> device = std::nullopt;   ///< absent: where the activation is computed
  /// Takes what is kept on the host there in few pieces; null: each activation is sent separately.
  std::shared_ptr<HostTransport> transport = nullptr;
  bool attached = false;  ///< in autograd's graph; otherwise without history
  /// Positions that a run skips because no logit depends on them are kept as zeros; otherwise nothing that is
  /// kept is skipped.
  bool unread_as_zeros = false;
};

/// Which device a point's activations are on.
c10::Device device_of(const ActivationName& name, const Placement& placement);

/// The points at which an edit applies in a run of that part of a model. Throws HookError if there are none:
/// the target is missing.
std::vector<std::size_t> edited_points(const EditTarget& target, const PointIndex& points,
                                       const Reach& reach);

/// What is done at the points of a model: at each point the hooks, edits and captures that apply there, in
/// that order.
///
/// Made from selections, so that a selection that matches nothing is an error before anything is computed.
/// Constant from then on: it does not depend on lengths, rows or columns, so a generation makes one for all
/// steps, and runs on several threads may read it. What a run adds is its Watch.
class WatchPlan {
 public:
  /// An edit whose address fits the point.
  struct PointEdit {
    EditKind kind;
    AxisIndices indices;
    std::variant<double, at::Tensor> value;
  };
  /// What is done at one point.
  struct PointPlan {
    std::size_t point;
    std::vector<HookFunction> forward = {};
    std::vector<HookFunction> backward = {};
    std::vector<PointEdit> edits = {};
    bool capture = false;
    bool gradient = false;
    bool reading = false;                        ///< what is differentiated reads it
    std::optional<std::size_t> dictionary = {};  ///< the one that stands here
    std::vector<std::size_t> read_by = {};       ///< the dictionaries that read here and stand elsewhere

    bool may_change() const noexcept { return !forward.empty() || !edits.empty() || dictionary; }
    bool only_kept() const noexcept {
      return capture && !may_change() && !wants_gradient() && read_by.empty();
    }
    bool wants_gradient() const noexcept { return gradient || reading || !backward.empty(); }
    /// The tensor by which the first action replaces the whole value, whatever that is; null if it does not.
    const at::Tensor* replacement() const;
  };

  /// For the part of a model that `reach` gives. The points must outlive the plan. If a model is spread over
  /// devices, edits' values may be on any of them: they are copied to their layers' devices.
  WatchPlan(const PointIndex& points, Reach reach, Kept kept = {},
            const Placement& placement = Placement(at::kCPU));

  // Building, in the order of firing. All throw HookError for selections that this model cannot honour.
  void add_hook(const Hook& hook);
  void add_edit(const Edit& edit);
  void add_capture(const Selection& selection);
  void add_gradients(const Selection& selection);
  void add_readings(const Selection& selection);
  /// Those that stand in the part of the model that runs. Throws HookError for one whose input is outside.
  void add_dictionaries(const MountedDictionaries& dictionaries);

  const PointIndex& points() const noexcept { return points_; }
  const Kept& kept() const noexcept { return kept_; }
  const MountedDictionaries& dictionaries() const noexcept { return dictionaries_; }
  /// Whether other dictionaries decode the features of this one.
  bool lends_features(std::size_t dictionary) const;

  /// What is done at a point; null if nothing is.
  const PointPlan* find(std::size_t point) const {
    return place_of_[point] == kUnwatched ? nullptr : &plans_[place_of_[point]];
  }
  /// The index of a watched point's plan in plans().
  std::size_t place_of(std::size_t point) const { return place_of_[point]; }
  /// The plans of the watched points, in the order in which they were first added.
  const std::vector<PointPlan>& plans() const noexcept { return plans_; }
  /// Watched points in ascending order.
  std::vector<std::size_t> watched_points() const;
  /// Whether anything is kept.
  bool captures() const;
  /// Whether anything is done at the points after `first` and before `end`.
  bool watches_between(std::size_t first, std::size_t end) const;
  /// Whether anything after `point` is watched in all columns, also in those whose logits nobody asks for.
  bool watches_all_columns_behind(std::size_t point) const;
  /// Whether zeros are fine for a plan in columns whose logits nobody asks for.
  bool may_skip_unread(const PointPlan& plan) const;
  /// Whether anything after the last block is watched.
  bool watches_exit() const;

 private:
  static constexpr std::uint32_t kUnwatched = 0xffffffff;

  PointPlan& plan(std::size_t point);

  const PointIndex& points_;
  Reach reach_;
  Kept kept_;
  Placement placement_;
  std::vector<std::uint32_t> place_of_;
  std::vector<PointPlan> plans_;
  MountedDictionaries dictionaries_;
};

}  // namespace hooked
