// The options of `hooked generate`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {

Reader define_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommandOptions>();
  add_model_options(app, options->model);
  const auto inputs = add_input_options(app, options->input);
  app.add_option("--max-new-tokens", options->max_new_tokens, "how many tokens at most (default: 16)")
      ->option_text("N")
      ->check(at_least_one());

  static constexpr auto* kSampling = "Sampling";
  auto* greedy = app.add_flag("--greedy", options->greedy, "take the likeliest token instead of drawing one");
  greedy->group(kSampling);
  const auto number = [&](const char* name, auto& value, const char* text) {
    return app.add_option(name, value, text)->option_text("X")->group(kSampling);
  };
  for (auto* drawing :
       {number("--temperature", options->temperature, "logits are divided by it (default: 1)"),
        number("--top-k", options->top_k, "only the X likeliest tokens"),
        number("--top-p", options->top_p, "only the likeliest tokens that reach this probability together"),
        number("--min-p", options->min_p, "only tokens of at least X times the likeliest one's probability"),
        number("--seed", options->seed, "of the draws (default: 0)")}) {
    drawing->excludes(greedy);
  }
  number("--repetition-penalty", options->repetition_penalty,
         "divides positive logits of tokens that occurred, multiplies negative ones");
  number("--frequency-penalty", options->frequency_penalty,
         "taken off a token's logit for each time it occurred");

  static constexpr auto* kStopping = "Stopping";
  app.add_option("--stop", options->stop_strings, "a text to stop before; repeatable")
      ->option_text("TEXT")
      ->allow_extra_args(false)
      ->group(kStopping);
  auto* stop_tokens = add_integers(app, "--stop-tokens", options->stop_tokens,
                                   "token ids to stop after (default: those that the model names)");
  stop_tokens->group(kStopping);
  app.add_flag("--no-stop-tokens", options->ignores_stop_tokens, "go on past the tokens that the model names")
      ->excludes(stop_tokens)
      ->group(kStopping);

  add_edit_option(app, options->edits);
  add_edit_option(app, options->prompt_edits, "--prompt-edit", "as --edit, only while the prompt is run");
  add_edit_option(app, options->new_token_edits, "--new-token-edit",
                  "as --edit, only in the columns of new tokens");
  auto* capture =
      app.add_option("--capture", options->capture,
                     "names or globs of activations to keep, separated by commas, over prompt and "
                     "continuation")
          ->option_text("GLOB");
  auto* out = app.add_option("--out", options->out, "the file for them, which ends in .safetensors")
                  ->option_text(kFileWord);
  add_force_option(app, options->force, {out});
  capture->needs(out);
  out->needs(capture);
  app.add_flag("--json", options->json, "one JSON object on stdout when all is there");
  return [options, inputs] {
    require_one(inputs);
    require_ending("--out", options->out, kTensorEnding);
    return *options;
  };
}

}  // namespace hooked::cli
