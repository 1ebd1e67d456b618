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
  add_json_option(app, options->json);
  return [options] { return *options; };
}

}  // namespace hooked::cli
