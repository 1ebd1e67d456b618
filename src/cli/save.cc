// hooked save: the loaded model as a native folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "core/json.h"
#include "hooked/core/tensor_text.h"

namespace hooked::cli {
namespace {

struct SaveOptions {
  ModelOptions model;
  std::string out;
  bool json = false;
};

void save(const SaveOptions& options) {
  const auto model = options.model.load();
  model.save(options.out);
  const auto& config = model.config();
  if (options.json) {
    return print_json({{"out", options.out},
                       {"parameters", config.parameter_count()},
                       {"dtype", dtype_text(config.dtype)},
                       {"processing", config.processing}});
  }
  fmt::print("{}: {} parameters as {}\n", options.out, grouped(config.parameter_count()),
             dtype_text(config.dtype));
  Table steps({{}, {}});
  for (const auto& step : model.processing()) {
    steps.add({std::string(processing_step_name(step.step)), step.outcome});
  }
  steps.print("  ");
}

}  // namespace

Action define_save(CLI::App& app) {
  auto options = std::make_shared<SaveOptions>();
  add_model_options(app, options->model);
  app.add_option("--out", options->out, "the folder to write")->option_text("DIR")->required();
  app.add_flag("--json", options->json, "one JSON object on stdout");
  return [options] { save(*options); };
}

}  // namespace hooked::cli
