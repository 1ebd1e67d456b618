// hooked save: the loaded model as a native folder.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/actions.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "core/json.h"
#include "hooked/core/tensor_text.h"

namespace hooked::cli {

void perform(const SaveOptions& options) {
  HookedTransformer::require_can_save(options.model.model, options.out);
  const auto model = load_model(options.model);
  {
    ProgressBar bar("saving");
    model.save(options.out, {.progress = bar.progress(), .packed = options.packed});
  }
  const auto& config = model.config();
  if (options.json) {
    return print_json({{"out", options.out},
                       {"parameters", config.parameter_count()},
                       {"dtype", dtype_text(config.dtype)},
                       {"packed", options.packed},
                       {"processing", config.processing}});
  }
  fmt::print("{}: {} parameters as {}{}\n", options.out, grouped(config.parameter_count()),
             dtype_text(config.dtype), options.packed ? ", packed" : "");
  Table steps({{}, {}});
  for (const auto& step : model.processing()) {
    steps.add({std::string(processing_step_name(step.step)), step.outcome});
  }
  steps.print("  ");
}

}  // namespace hooked::cli
