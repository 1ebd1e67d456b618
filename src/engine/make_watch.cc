#include "engine/make_watch.h"

#include <algorithm>
#include <utility>

#include "hooked/core/error.h"
#include "loading/device.h"

namespace hooked {

Watch make_watch(const LoadedModel& model, const RunExtent& extent, const std::vector<Hook>& scoped,
                 const RunOptions& options) {
  Kept kept{.positions = options.keep.positions};
  if (!options.keep.device.empty()) kept.device = open_device(options.keep.device);
  Watch watch(model.points, extent, std::move(kept));
  for (const std::vector<Hook>* hooks : {&scoped, &options.hooks}) {
    for (const Hook& hook : *hooks) {
      if (hook.direction == HookDirection::backward && !options.gradients) {
        throw HookError("hooks",
                        "a backward hook needs a metric to differentiate; expected RunOptions::gradients");
      }
      watch.add_hook(hook);
    }
  }
  for (const Edit& edit : options.edits) watch.add_edit(edit);
  watch.add_capture(options.capture);
  if (options.gradients) watch.add_gradients(options.gradients->of);
  return watch;
}

bool watches_exit(const Watch& watch) {
  const std::vector<std::size_t> watched = watch.watched_points();
  return std::any_of(watched.begin(), watched.end(), [&](std::size_t point) {
    return row(watch.points().name(point).site).scope == SiteScope::exit;
  });
}

}  // namespace hooked
