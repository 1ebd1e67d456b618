// The options of `hooked list`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "hooked/io/hub_cache.h"
#include "options/command.h"

namespace hooked::cli {
namespace {

// Possible values of MODEL, one on each line.
std::string cached_names() {
  std::string lines;
  for (const auto& model : cached_models()) {
    if (model.problem.empty()) lines += model.id + "\n";
  }
  return lines;
}

}  // namespace

Reader define_list(CLI::App& app) {
  auto options = std::make_shared<ListOptions>();
  auto quiet = std::make_shared<bool>(false);
  auto* names = app.add_flag("--quiet", *quiet, "only the names, one a line, without a look into the files");
  app.add_flag("--json", options->json, "one JSON object on stdout")->excludes(names);
  return [options, quiet]() -> Request {
    if (*quiet) return cached_names();
    return *options;
  };
}

}  // namespace hooked::cli
