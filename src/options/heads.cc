// The options of `hooked heads`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "options/command.h"
#include "options/shared_options.h"

namespace hooked::cli {
namespace {

#define HOOKED_HEAD_SCORE(score, ...) #score,
constexpr std::array kScoreNames{
#include "hooked/core/head_scores.inc"
};

void require_fit(const HeadsOptions& options, bool draws) {
  require_grid_file(options.out);
  for (const std::string& score : options.scores) {
    if (std::count(options.scores.begin(), options.scores.end(), score) > 1)
      throw UsageError(fmt::format("--score: {} occurs twice; expected each score once", score));
  }
  if (draws && options.half == 0)
    throw UsageError("--rows and --seed are of random tokens; expected --half with them");
  if (options.half == 1)
    throw UsageError("--half: one token has none after it to be predicted; expected at least 2");
  if (options.half > 0 && !options.of.empty())
    throw UsageError("--half repeats tokens for one stack; expected a text or tokens with --of");
}

}  // namespace

Reader define_heads(CLI::App& app) {
  auto options = std::make_shared<HeadsOptions>();
  add_model_options(app, options->model);
  auto inputs = add_input_options(app, options->input);
  inputs.push_back(app.add_option("--half", options->half,
                                  "N random tokens instead, said twice: what shows induction heads; also how "
                                  "well the model repeats them")
                       ->option_text("N")
                       ->check(at_least_one())
                       ->group(kInputGroup));
  auto* rows = app.add_option("--rows", options->rows, "rows of random tokens (default: 8)");
  rows->option_text("N")->check(at_least_one());
  auto* seed = app.add_option("--seed", options->seed, "of random tokens (default: 0)")->option_text("X");
  add_edit_option(app, options->edits);
  const std::vector<std::string> names(kScoreNames.begin(), kScoreNames.end());
  app.add_option(
         "--score", options->scores,
         fmt::format("separated by commas: {} (default: previous_token, current_token and first_token; "
                     "with --half previous_token, duplicate_token and induction)",
                     fmt::join(names, ", ")))
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(names));
  app.add_option(
         "--measure", options->measure,
         "share of the attention of the tokens that have such a key (default), or TransformerLens's mul "
         "and abs")
      ->option_text("M")
      ->check(CLI::IsMember({"share", "mul", "abs"}));
  app.add_flag("--exclude-bos", options->exclude_bos, "attention to each row's first token does not count");
  app.add_flag("--exclude-current-token", options->exclude_current_token,
               "attention of a token to itself does not count");
  app.add_option("--of", options->of,
                 "of an encoder-decoder: the encoder's heads, or those of cross-attention")
      ->option_text("STACK")
      ->check(CLI::IsMember({"encoder", "cross"}));
  app.add_flag("--per-row", options->per_row, "the scores of each row instead of all rows together");
  auto* out = app.add_option(
      "--out", options->out,
      "writes the scores: .csv, .json, .svg or .safetensors; of several each has a file, F with the "
      "score's name before the ending");
  out->option_text(kFileWord);
  add_force_option(app, options->force, {out});
  add_json_option(app, options->json);
  return [options, inputs, rows, seed] {
    require_one(inputs);
    require_fit(*options, rows->count() + seed->count() > 0);
    return *options;
  };
}

}  // namespace hooked::cli
