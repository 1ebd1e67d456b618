#include "cli/model_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked::cli {
namespace {

// Wrong spellings of option values are errors of usage, found while the command line is read.
std::string check_dtype(const std::string& name) {
  if (parse_float_dtype(name)) return {};
  return fmt::format("'{}' is not a dtype; expected float32, float64, bfloat16 or float16", name);
}

std::string check_step(const std::string& name) {
  try {
    parse_processing_step(name);
    return {};
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

std::optional<WeightProcessing> ModelOptions::processing() const {
  if (no_processing) return WeightProcessing::none();
  if (process.empty()) return std::nullopt;
  std::vector<ProcessingStep> steps;
  for (const auto& name : process) steps.push_back(parse_processing_step(name));
  return WeightProcessing::only(steps);
}

CLI::Validator at_least_one() {
  return CLI::Validator(
      [](const std::string& text) {
        return parse_integer(text).value_or(0) >= 1
                   ? std::string()
                   : fmt::format("expected an integer from 1 on, got {}", text);
      },
      "");
}

LoadOptions ModelOptions::load_options() const {
  LoadOptions load;
  load.device = device;
  if (!dtype.empty()) load.dtype = parse_float_dtype(dtype);
  load.processing = processing();
  return load;
}

HookedTransformer ModelOptions::load() const {
  if (threads > 0) at::set_num_threads(threads);
  return HookedTransformer::load(model, load_options());
}

CLI::Option* add_model(CLI::App& app, std::string& model) {
  return app
      .add_option(
          "MODEL", model,
          "a model folder, a file of its weights, or org/name[@revision] in the local Hugging Face cache")
      ->required();
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  add_model(app, options.model);
  app.add_option("--device", options.device, "cpu, cuda or cuda:N (default: cpu)")->option_text("D");
  app.add_option("--dtype", options.dtype,
                 "float32, float64, bfloat16 or float16 (default: float32, or as saved)")
      ->option_text("T")
      ->check(CLI::Validator(check_dtype, "", "dtype"));
  app.add_option("--threads", options.threads, "threads of one run (default: all cores)")
      ->option_text("N")
      ->check(CLI::Range(1, 4096));
  auto* process =
      app.add_option(
             "--process", options.process,
             "exactly these weight processing steps, separated by commas (default: all that keep "
             "the function: fold_ln, center_writing_weights, center_unembed, fold_value_biases; a saved "
             "model as it was saved)")
          ->option_text("STEPS")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Validator(check_step, "", "step"));
  app.add_flag("--no-processing", options.no_processing, "the weights as they are in the file")
      ->excludes(process);
}

}  // namespace hooked::cli
