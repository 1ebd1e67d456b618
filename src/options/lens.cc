// The options of `hooked lens` and `hooked attribute`.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

void add_positions(CLI::App& app, IntegerList& positions) {
  add_integers(app, "--positions", positions,
               "positions such as 0,5,-1 (default: each row's last real token)")
      ->option_text("P");
}

CLI::Option* add_grain(CLI::App& app, const char* name, std::string& grain, const std::string& text) {
  return app.add_option(name, grain, text)
      ->option_text("GRAIN")
      ->check(CLI::IsMember({"layer", "head", "expert", "neuron"}));
}

/// A token as text or as id; both may be sets.
}  // namespace

Reader define_lens(CLI::App& app) {
  auto options = std::make_shared<LensOptions>();
  add_model_options(app, options->model);
  const auto inputs = add_input_options(app, options->input);
  add_edit_option(app, options->edits);
  add_positions(app, options->positions);
  app.add_option("--top-k", options->top_k, "how many next tokens of each point (default: 3)")
      ->option_text("K")
      ->check(at_least_one());
  add_token_choice(app, "answer", options->answers,
                   "a token whose rank and probability are shown at each point");
  auto* mid = app.add_flag("--mid", options->mid, "also the points between sublayers");
  auto* parts = add_grain(app, "--parts", options->parts,
                          "what each layer, head, expert or neuron wrote on its own, instead of the stream");
  auto* maps =
      app.add_option("--maps", options->maps,
                     "read the stream through a tuned or a Jacobian lens, a file or the folder it is in");
  maps->option_text(kFileWord)->excludes(parts)->excludes(mid);
  parts->excludes(mid);
  auto* out = app.add_option("--out", options->out,
                             "writes the probabilities of the answers: .csv, .json, .svg or .safetensors");
  out->option_text(kFileWord);
  add_force_option(app, options->force, {out});
  add_json_option(app, options->json);
  return [options, inputs] {
    require_one(inputs);
    require_grid_file(options->out);
    if (!options->out.empty() && options->answers.empty())
      throw UsageError("--out holds the probabilities of chosen tokens; expected --answer or --answer-token");
    return *options;
  };
}

Reader define_attribute(CLI::App& app) {
  auto options = std::make_shared<AttributeOptions>();
  add_model_options(app, options->model);
  const auto inputs = add_input_options(app, options->input);
  add_edit_option(app, options->edits);
  add_token_choice(app, "answer", options->answers, "the token whose logit is taken apart");
  add_token_choice(app, "against", options->against, "the token whose logit is subtracted");
  add_positions(app, options->positions);
  auto* grain = add_grain(app, "--grain", options->grain, "what has a part of its own (default: layer)");
  auto* biases = app.add_flag("--value-biases-apart", options->value_biases_apart,
                              "heads without their value biases, which count as the attention's bias");
  app.add_flag("--sources", options->sources, "heads by the token that they read")
      ->excludes(grain)
      ->excludes(biases);
  app.add_option("--top-k", options->top_k, "how many parts are shown, the largest (default: 20)")
      ->option_text("K")
      ->check(at_least_one());
  auto* out = app.add_option("--out", options->out, "writes all parts: .csv, .json, .svg or .safetensors");
  out->option_text(kFileWord);
  add_force_option(app, options->force, {out});
  add_json_option(app, options->json);
  return [options, inputs] {
    require_one(inputs);
    require_grid_file(options->out);
    if (options->answers.empty())
      throw UsageError("nothing says which logit is taken apart; expected --answer or --answer-token");
    return *options;
  };
}

}  // namespace hooked::cli
