// The options of `hooked run`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_run(CLI::App& app) {
  auto options = std::make_shared<RunCommandOptions>();
  add_model_options(app, options->model);
  const auto inputs = add_input_options(app, options->input);
  add_edit_option(app, options->edits);
  app.add_option("--top-k", options->top_k, "how many next tokens (default: 10)")
      ->option_text("K")
      ->check(at_least_one());
  add_integers(app, "--positions", options->positions,
               "positions such as 0,5,-1 whose next tokens are shown (default: each row's last real token)")
      ->option_text("P");
  add_token_choice(
      app, "answer", options->answers,
      "a token whose rank, logit and probability are shown as well, such as \" Mary\"; repeatable");
  app.add_flag("--json", options->json, "one JSON object on stdout");
  return [options, inputs] {
    require_one(inputs);
    return *options;
  };
}

}  // namespace hooked::cli
