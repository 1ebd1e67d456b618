#include "engine/make_watch.h"

#include <algorithm>

#include "engine/device.h"
#include "hooked/core/error.h"

namespace hooked {

Watch make_watch(const LoadedModel& model, const RunExtent& extent, const std::vector<Hook>& scoped,
                 const RunOptions& options) {
  Watch watch(model.points, extent.reach);
  watch.set_columns(extent.columns);
  if (extent.source_length) watch.set_source_length(*extent.source_length);
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
  if (options.positions) watch.keep_positions(*options.positions);
  if (!options.cache_device.empty()) watch.keep_on(open_device(options.cache_device));
  return watch;
}

bool watches_exit(const Watch& watch) {
  const std::vector<std::size_t> watched = watch.watched_points();
  return std::any_of(watched.begin(), watched.end(), [&](std::size_t point) {
    return row(watch.points().name(point).site).scope == SiteScope::exit;
  });
}

}  // namespace hooked
