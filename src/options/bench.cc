// The options of `hooked bench`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  add_model_options(app, options->model);
  app.add_option("--batch", options->batch, "rows (default: 1)")->option_text("B")->check(at_least_one());
  app.add_option("--length", options->length,
                 "tokens in a row (default: 128, or what the context has room for)")
      ->option_text("T")
      ->check(at_least_one());
  app.add_option("--iterations", options->iterations, "timed runs of each kind (default: 20)")
      ->option_text("N")
      ->check(at_least_one());
  app.add_option("--seed", options->seed, "seed of the random tokens (default: 0)")->option_text("S");
  add_json_option(app, options->json);
  return [options] { return *options; };
}

}  // namespace hooked::cli
