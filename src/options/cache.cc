// The options of `hooked cache`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_cache(CLI::App& app) {
  auto options = std::make_shared<CacheOptions>();
  add_model_options(app, options->model);
  const auto inputs = add_input_options(app, options->input);
  add_edit_option(app, options->edits);
  app.add_option("--names", options->names,
                 "names or globs, separated by commas; '*' is every point (default: all but the wide ones)")
      ->option_text("GLOB")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.empty()
                       ? std::string("no name is given; expected names or globs, or leave the option out")
                       : std::string();
          },
          "", "names"));
  auto* out = app.add_option("--out", options->out, "the file to write, which ends in .safetensors");
  out->option_text(kFileWord)->required();
  add_force_option(app, options->force, {out});
  app.add_option("--stop-at-layer", options->stop_at_layer, "end before this block; no logits then")
      ->option_text("L");
  auto* gradients =
      app.add_flag("--gradients", options->gradients,
                   "add grad.<name>: the gradient of the answer's logit minus the other's (row 0)");
  auto* answer = app.add_option("--answer-token", options->answer_token, "token id (or word) of the answer")
                     ->option_text("A")
                     ->needs(gradients);
  auto* against =
      app.add_option("--against-token", options->against_token, "token id (or word) it is held against")
          ->option_text("B")
          ->needs(gradients);
  gradients->needs(answer)->needs(against);
  app.add_option("--position", options->position,
                 "position of the two logits (default: row 0's last real token)")
      ->option_text("P")
      ->needs(gradients);
  add_list_option(app, options->list)->excludes(add_json_option(app, options->json));
  return [options, inputs] {
    require_one(inputs);
    require_ending("--out", options->out, kTensorEnding);
    if (options->gradients && options->stop_at_layer) {
      throw UsageError(
          "--gradients needs logits, which a run with --stop-at-layer does not have; expected one of the "
          "two");
    }
    return *options;
  };
}

}  // namespace hooked::cli
