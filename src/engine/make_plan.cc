#include "engine/make_plan.h"

#include <utility>

#include "hooked/core/error.h"
#include "hooks/model_of.h"
#include "loading/fill/device.h"

namespace hooked {

std::shared_ptr<const WatchPlan> make_plan(const LoadedModel& model, const Reach& reach,
                                           const std::vector<Hook>& scoped, const RunOptions& options) {
  Kept kept{.positions = options.keep.positions,
            .unread_as_zeros = options.gradients && options.gradients->skip_unread};
  if (!options.keep.device.empty()) kept.device = open_device(options.keep.device);
  if (kept.device && kept.device->is_cpu()) kept.transport = model.transport;
  auto plan = std::make_shared<WatchPlan>(model.points, reach, std::move(kept), model.placement);
  for (const std::vector<Hook>* hooks : {&scoped, &options.hooks}) {
    for (const Hook& hook : *hooks) {
      if (hook.direction == HookDirection::backward && !options.gradients) {
        throw HookError("hooks",
                        "a backward hook needs a metric to differentiate; expected RunOptions::gradients");
      }
      plan->add_hook(hook);
    }
  }
  const ReadingModel own{model.identity(), model.config};
  for (const Edit& edit : options.edits) {
    if (edit.source) {
      for (const std::size_t point : edited_points(edit.target, model.points, reach))
        require_own(own, *edit.source, model.points.name(point));
    }
    plan->add_edit(edit);
  }
  plan->add_capture(options.capture);
  if (options.gradients) {
    plan->add_gradients(options.gradients->of);
    plan->add_readings(options.gradients->of_run.reads);
  }
  return plan;
}

}  // namespace hooked
