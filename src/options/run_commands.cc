// The options of the commands that run a model on an input.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/parse_integer.h"
#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

std::vector<std::string> score_names() {
#define HOOKED_HEAD_SCORE(score, ...) #score,
  return {
#include "hooked/core/head_scores.inc"
  };
}

HeadsOfLayer read_heads_of_layer(std::string_view text) {
  const auto dot = text.find('.');
  const auto layer = parse_integer(text.substr(0, dot));
  const auto head = dot == std::string_view::npos ? std::nullopt : parse_integer(text.substr(dot + 1));
  if (layer && head.has_value() == (dot != std::string_view::npos)) return {*layer, head};
  throw UsageError(fmt::format(
      "--pattern: '{}' is neither a layer nor a head; expected LAYER such as 5, or LAYER.HEAD such as 5.3",
      printable(text)));
}

// A division by zero would be greedy decoding, which has a name of its own.
void above_zero(CLI::App&, CLI::Option& option) {
  option.check(
      [](const std::string& text) {
        double number = 0;
        // What is no number, or not finite, is refused as such.
        if (!CLI::detail::lexical_cast(text, number) || !(number <= 0)) return std::string();
        return fmt::format("expected a number above 0, got {}; --greedy takes the likeliest token", text);
      },
      "");
}

constexpr std::string_view kByFeature = "feature";

Trait a_grain() { return one_of({"layer", "head", "expert", "neuron", std::string(kByFeature)}); }

// Features are those of a dictionary.
void require_dictionary(const std::string& grain, std::string_view option, const ModelOptions& model) {
  require(grain != kByFeature || !model.dictionaries.empty(),
          fmt::format("{} feature splits what dictionaries write; expected --dictionary with it", option));
}

void require_one_token(const TokenChoice& choice, std::string_view option) {
  const auto given = choice.texts.size() + choice.ids.size();
  require(given == 1,
          fmt::format("--gradients is of one token and another; expected one {} or {}-token, got {}", option,
                      option, given));
}

}  // namespace

Reader define_run(CLI::App& app) {
  auto options = std::make_shared<RunCommandOptions>();
  add_run_options(app, *options);
  add_options(app, {{"--top-k K", options->top_k, "how many next tokens (default: 10)", at_least_one},
                    positions_row(options->positions, "whose next tokens are shown")});
  add_token_choice(app, "answer", options->answers,
                   "a token whose rank, logit and probability are shown as well, such as \" Mary\"");
  add_options(app, {json_row(options->json)});
  return [&app, options] {
    require_one(app, input_names());
    return *options;
  };
}

Reader define_cache(CLI::App& app) {
  auto options = std::make_shared<CacheOptions>();
  const auto not_empty = check(CLI::Validator(
      [](const std::string& text) {
        return text.empty()
                   ? std::string("no name is given; expected names or globs, or leave the option out")
                   : std::string();
      },
      "", "names"));
  add_run_options(app, *options);
  add_options(app,
              {{"--names GLOB", options->names,
                "names or globs, separated by commas; '*' is every point (default: all but the wide ones)",
                not_empty},
               {"--out F", options->out, "the file to write, which ends in .safetensors", required},
               force_row(options->force, {"--out"}),
               {"--stop-at-layer L", options->stop_at_layer, "end before this block; no logits then"},
               {"--gradients", options->gradients,
                "add grad.<name>: the gradient of the answer's logit minus the other's (row 0)"},
               {"--position P", options->position,
                "position of the two logits, such as 3, -1 or last (default: last, row 0's last token)",
                needs({"--gradients"})}});
  add_token_choice(app, "answer", options->answers, "with --gradients: the answer", Choose::one);
  add_token_choice(app, "against", options->against, "with --gradients: what it is held against",
                   Choose::one);
  add_options(app, {list_row(options->list), json_row(options->json)});
  return [&app, options] {
    require_one(app, input_names());
    require_ending("--out", options->out, kTensorEnding);
    require(options->gradients || (options->answers.empty() && options->against.empty()),
            "--answer and --against are what the gradients are of; expected --gradients with them");
    if (options->gradients) {
      require_one_token(options->answers, "--answer");
      require_one_token(options->against, "--against");
    }
    require(!options->gradients || !options->stop_at_layer,
            "--gradients needs logits, which a run with --stop-at-layer does not have; expected one of the "
            "two");
    return *options;
  };
}

Reader define_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateCommandOptions>();
  add_model_options(app, options->model);
  add_input_options(app, options->input);
  add_options(app, {{"--max-new-tokens N", options->max_new_tokens, "how many tokens at most (default: 16)",
                     at_least_one}});
  const auto draws = excludes({"--greedy"});
  add_options(
      app, "Sampling",
      {{"--greedy", options->greedy, "take the likeliest token instead of drawing one"},
       {"--temperature X", options->temperature, "logits are divided by it (default: 1)", draws, above_zero},
       {"--top-k X", options->top_k, "only the X likeliest tokens", draws},
       {"--top-p X", options->top_p, "only the likeliest tokens that reach this probability together", draws},
       {"--min-p X", options->min_p, "only tokens of at least X times the likeliest one's probability",
        draws},
       {"--seed X", options->seed, "of the draws (default: 0)", draws},
       {"--repetition-penalty X", options->repetition_penalty,
        "divides positive logits of tokens that occurred, multiplies negative ones"},
       {"--frequency-penalty X", options->frequency_penalty,
        "taken off a token's logit for each time it occurred"}});
  add_options(app, "Stopping",
              {{"--stop TEXT", options->stop_strings, "a text to stop before; repeatable"},
               {"--stop-tokens IDS", options->stop_tokens,
                "token ids to stop after (default: those that the model names)"},
               {"--no-stop-tokens", options->ignores_stop_tokens,
                "go on past the tokens that the model names", excludes({"--stop-tokens"})}});
  add_edit_options(app, options->edits);
  add_dictionary_options(app, options->model);
  add_options(
      app, {{"--prompt-edit E", options->prompt_edits, "as --edit, only while the prompt is run", edit_text},
            {"--new-token-edit E", options->new_token_edits, "as --edit, only in the columns of new tokens",
             edit_text},
            {"--capture GLOB", options->capture,
             "names or globs of activations to keep, separated by commas, over prompt and continuation",
             needs({"--out"})},
            {"--out F", options->out, "the file for them, which ends in .safetensors", needs({"--capture"})},
            force_row(options->force, {"--out"}),
            json_row(options->json)});
  return [&app, options] {
    require_one(app, input_names());
    require_ending("--out", options->out, kTensorEnding);
    return *options;
  };
}

Reader define_lens(CLI::App& app) {
  auto options = std::make_shared<LensOptions>();
  add_run_options(app, *options);
  add_options(
      app, {positions_row(options->positions, "where the stream is read"),
            {"--top-k K", options->top_k, "how many next tokens of each point (default: 3)", at_least_one}});
  add_token_choice(app, "answer", options->answers,
                   "a token whose rank and probability are shown at each point");
  add_options(
      app,
      {{"--mid", options->mid, "also the points between sublayers"},
       {"--parts,--grain GRAIN", options->parts,
        "what each layer, head, expert, neuron or feature of --dictionary wrote on its own, instead of the "
        "stream",
        a_grain(), excludes({"--mid"})},
       {"--maps F", options->maps,
        "read the stream through a tuned or a Jacobian lens, a file or the folder it is in",
        excludes({"--parts", "--mid"})},
       {"--out F", options->out,
        "writes the probabilities of the answers: .csv, .json, .svg or .safetensors"},
       force_row(options->force, {"--out"}),
       json_row(options->json)});
  return [&app, options] {
    require_one(app, input_names());
    require_grid_file(options->out);
    require(options->out.empty() || !options->answers.empty(),
            "--out holds the probabilities of chosen tokens; expected --answer or --answer-token");
    require_dictionary(options->parts, "--parts", options->model);
    return *options;
  };
}

Reader define_attribute(CLI::App& app) {
  auto options = std::make_shared<AttributeOptions>();
  add_run_options(app, *options);
  add_token_choice(app, "answer", options->answers, "the token whose logit is taken apart");
  add_token_choice(app, "against", options->against, "the token whose logit is subtracted");
  add_options(app,
              {positions_row(options->positions, "whose logits are taken apart"),
               {"--grain,--parts GRAIN", options->grain,
                "what has a part of its own (default: layer); feature: those of --dictionary", a_grain()},
               {"--value-biases-apart", options->value_biases_apart,
                "heads without their value biases, which count as the attention's bias"},
               {"--sources", options->sources, "heads by the token that they read",
                excludes({"--grain", "--value-biases-apart"})},
               {"--largest,--top-k N", options->top_k, "how many parts are shown, the largest (default: 20)",
                at_least_one},
               {"--out F", options->out, "writes all parts: .csv, .json, .svg or .safetensors"},
               force_row(options->force, {"--out"}),
               json_row(options->json)});
  return [&app, options] {
    require_one(app, input_names());
    require_grid_file(options->out);
    require(!options->answers.empty(),
            "nothing says which logit is taken apart; expected --answer or --answer-token");
    require_dictionary(options->grain, "--grain", options->model);
    return *options;
  };
}

Reader define_heads(CLI::App& app) {
  auto options = std::make_shared<HeadsOptions>();
  const auto pattern = std::make_shared<std::string>();
  add_model_options(app, options->model);
  add_input_options(app, options->input);
  add_options(app, kInputHeading,
              {{"--half N", options->half,
                "N random tokens instead, repeated once: what shows induction heads; also how well the model "
                "repeats them",
                at_least_one}});
  add_options(app, {{"--rows N", options->rows, "rows of random tokens (default: 8)", at_least_one},
                    {"--seed X", options->seed, "of random tokens (default: 0)"}});
  add_edit_options(app, options->edits);
  add_dictionary_options(app, options->model);
  add_options(
      app,
      {{"--pattern L[.H]", *pattern,
        "the attention itself instead of scores: of one head, or of all heads of a layer",
        excludes({"--half"})},
       {"--score LIST", options->scores,
        "what heads are scored by (default: previous_token, current_token and first_token; with --half "
        "previous_token, duplicate_token and induction)",
        listed, one_of(score_names()), excludes({"--pattern"})},
       {"--measure M", options->measure,
        "share: of the attention of the tokens that have such a key (default); mul and abs are "
        "TransformerLens's",
        one_of({"share", "mul", "abs"}), excludes({"--pattern"})},
       {"--exclude-bos", options->exclude_bos, "attention to each row's first token does not count",
        excludes({"--pattern"})},
       {"--exclude-current-token", options->exclude_current_token,
        "attention of a token to itself does not count", excludes({"--pattern"})},
       {"--of STACK", options->of, "of an encoder-decoder: the encoder's heads, or those of cross-attention",
        one_of({"encoder", "cross"})},
       {"--per-row", options->per_row, "the scores of each row instead of all rows together",
        excludes({"--pattern"})},
       {"--out F", options->out,
        "writes the scores or the attention: .csv, .json, .svg or .safetensors; of several scores or rows "
        "each has a file, F with its name before the ending"},
       force_row(options->force, {"--out"}),
       json_row(options->json)});
  return [&app, options, pattern] {
    auto inputs = input_names();
    inputs.emplace_back("--half");
    require_one(app, inputs);
    if (!pattern->empty()) options->pattern = read_heads_of_layer(*pattern);
    require_grid_file(options->out);
    require_each_once(options->scores, "--score", "score");
    require(options->half > 0 || app.count("--rows") + app.count("--seed") == 0,
            "--rows and --seed are of random tokens; expected --half with them");
    require(options->half != 1, "--half: one token has none after it to be predicted; expected at least 2");
    require(options->half == 0 || options->of.empty(),
            "--half repeats tokens for one stack; expected a text or tokens with --of");
    return *options;
  };
}

}  // namespace hooked::cli
