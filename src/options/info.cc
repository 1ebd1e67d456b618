// The options of `hooked info`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_info(CLI::App& app) {
  auto options = std::make_shared<InfoOptions>();
  add_model_options(app, options->model);
  app.add_flag(
      "--check-processing", options->check_processing,
      "load the model with and without its weight processing, run both on a few random tokens and say by "
      "how much their log-probabilities differ");
  add_json_option(app, options->json);
  return [options] { return *options; };
}

}  // namespace hooked::cli
