// The options of hooked report.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {

Reader define_report(CLI::App& app) {
  auto options = std::make_shared<ReportCommandOptions>();
  add_model_options(app, options->model);
  add_input_options(app, options->input);
  add_options(
      app, "What else is in the report",
      {{"--corrupted TEXT", options->corrupted,
        "the same prompt without what the answer depends on, of as many tokens: adds activation patching"},
       {"--corrupted-tokens IDS", options->corrupted_tokens, "the same as ids", excludes({"--corrupted"})}});
  add_dictionary_options(app, options->model);
  add_options(
      app, "What else is in the report",
      {{"--neurons", options->neurons,
        "an attribution graph over the neurons of plain MLPs; transcoders that --dictionary gives have "
        "theirs without it"}});
  add_token_choice(app, "answer", options->answers,
                   "the token whose logit is taken apart (default: the likeliest next one)");
  add_token_choice(app, "against", options->against, "subtracted from it");
  add_options(app, {{"--features N", options->features,
                     "how many features of each dictionary are shown (default: 20)", at_least_one},
                    {"--examples DIR", options->examples,
                     "a harvest with --examples of a dictionary: adds the tokens at which its features are "
                     "largest; may be repeated"},
                    {"--title TEXT", options->title, "the heading of the page (default: the model)"},
                    {"--out F", options->out, "the page: .html", required},
                    force_row(options->force, {"--out"}),
                    json_row(options->json)});
  return [&app, options] {
    require_one(app, input_names());
    require(options->answers.empty() == false || options->against.empty(),
            "--against is subtracted from an answer; expected --answer in addition");
    const bool pair = options->corrupted || !options->corrupted_tokens.empty();
    require(!pair || !options->answers.empty(),
            "--corrupted says what is patched, and no answer what is scored; expected --answer in addition");
    require_ending("--out", options->out, ".html");
    return *options;
  };
}

}  // namespace hooked::cli
