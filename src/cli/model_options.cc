#include "cli/model_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "engine/identify.h"
#include "engine/weight_source.h"
#include "hooked/core/error.h"
#include "hooked/core/parse_integer.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/checkpoint_reader.h"
#include "hooked/io/model_folder.h"

namespace hooked::cli {
namespace {

// Wrong spellings of option values are errors of usage, found while the command line is read.
std::string check_dtype(const std::string& name) {
  if (parse_float_dtype(name)) return {};
  return fmt::format("'{}' is no dtype; expected float32, float64, bfloat16 or float16", name);
}

std::string check_step(const std::string& name) {
  try {
    parse_processing_step(name);
    return {};
  } catch (const ConfigError& error) {
    return error.what();
  }
}

HookedTransformer load_with(const ModelOptions& options, const std::optional<WeightProcessing>& processing) {
  if (options.threads > 0) at::set_num_threads(options.threads);
  LoadOptions load;
  load.device = options.device;
  if (!options.dtype.empty()) load.dtype = parse_float_dtype(options.dtype);
  load.processing = processing;
  return HookedTransformer::load(options.model, load);
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

HookedTransformer ModelOptions::load() const { return load_with(*this, processing()); }

HookedTransformer ModelOptions::load_raw() const { return load_with(*this, WeightProcessing::none()); }

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

FamilyConfig read_model_config(const std::string& model) {
  const auto place = locate_model(model);
  auto [family, read, config] = identify(place);
  if (family.head.empty()) return read;
  try {
    // Whether there is a head stands in the weights.
    for (auto& note : settle_head(open_checkpoint(place).names(), family, read)) {
      read.notes.push_back(std::move(note));
    }
  } catch (const CheckpointError&) {  // no weights that can be read: the config is all there is
  }
  return read;
}

}  // namespace hooked::cli
