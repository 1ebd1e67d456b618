// The options of `hooked show`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_show(CLI::App& app) {
  auto options = std::make_shared<ShowOptions>();
  app.add_option(kFileArgument, options->file, "a safetensors file, of activations or any other")->required();
  add_list_option(app, options->list)->excludes(add_json_option(app, options->json));
  return [options] { return *options; };
}

}  // namespace hooked::cli
