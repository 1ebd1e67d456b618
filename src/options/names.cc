// The options of `hooked names`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_names(CLI::App& app) {
  auto options = std::make_shared<NamesOptions>();
  add_model(app, options->model);
  app.add_option("--names", options->names, "names or globs, separated by commas (default: every point)")
      ->option_text("GLOB");
  app.add_option("--tokens-length", options->tokens_length,
                 "tokens in a row, for the shapes (default: left open)")
      ->option_text("N")
      ->check(at_least_one());
  app.add_flag("--json", options->json, "one JSON array on stdout");
  return [options] { return *options; };
}

}  // namespace hooked::cli
