#include "cli/model_options.h"

#include <ATen/Parallel.h>

#include <optional>
#include <vector>

#include "cli/progress_bar.h"
#include "hooked/core/tensor_text.h"

namespace hooked::cli {
namespace {

// Nothing if the command line does not say it.
std::optional<WeightProcessing> processing(const ModelOptions& options) {
  if (options.no_processing) return WeightProcessing::none();
  if (options.process.empty()) return std::nullopt;
  std::vector<ProcessingStep> steps;
  for (const auto& name : options.process) steps.push_back(parse_processing_step(name));
  return WeightProcessing::only(steps);
}

}  // namespace

LoadOptions load_options(const ModelOptions& options) {
  LoadOptions load;
  load.device = options.device;
  if (!options.dtype.empty()) load.dtype = parse_float_dtype(options.dtype);
  load.processing = processing(options);
  return load;
}

HookedTransformer load_model(const ModelOptions& options) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  ProgressBar bar("loading");
  LoadOptions load = load_options(options);
  load.progress = bar.progress();
  return HookedTransformer::load(options.model, load);
}

}  // namespace hooked::cli
