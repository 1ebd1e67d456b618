#include "options/shared_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "core/nearest.h"
#include "core/option_names.h"
#include "core/parse_integer.h"
#include "options/command.h"
#include "options/edit_text.h"

namespace hooked::cli {
namespace {

constexpr std::array<std::string_view, 4> kGridEndings{".csv", ".json", ".svg", kTensorEnding};

void require_one_of(std::string_view option, std::string_view file,
                    std::span<const std::string_view> endings) {
  const auto fits = [&](std::string_view ending) { return file.ends_with(ending); };
  if (file.empty() || std::ranges::any_of(endings, fits)) return;
  throw UsageError(
      fmt::format("{}: '{}' is of no kind that can be written; expected a name that ends in {}{}", option,
                  printable(file), endings.size() > 1 ? "one of " : "", fmt::join(endings, ", ")));
}

// Misspelled option values are usage errors, found while the command line is read. A common abbreviation of a
// dtype becomes its name.
std::string read_dtype(std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kAbbreviations[] = {
      {"fp32", "float32"}, {"f32", "float32"},  {"fp64", "float64"},  {"f64", "float64"},
      {"fp16", "float16"}, {"half", "float16"}, {"bf16", "bfloat16"}, {"f16", "float16"},
  };
  for (const auto& [abbreviation, whole] : kAbbreviations) {
    if (abbreviation == name) name = whole;
  }
  if (std::find(kFloatDtypeNames.begin(), kFloatDtypeNames.end(), name) != kFloatDtypeNames.end()) return {};
  return fmt::format("'{}' is not a dtype; expected float32, float64, bfloat16 or float16", name);
}

std::string check_step(const std::string& name) {
  const std::vector<std::string> names(kProcessingStepNames.begin(), kProcessingStepNames.end());
  if (std::find(names.begin(), names.end(), name) != names.end()) return {};
  return fmt::format("'{}' is not a processing step; expected some of {}; did you mean '{}'?", name,
                     fmt::join(names, ", "), nearest(name, names));
}

// A set of values as CLI11 writes those of its own checks: {a,b}. Help does not show it; completion reads it.
std::string set_text(const auto& values) { return fmt::format("{{{}}}", fmt::join(values, ",")); }

IntegerList read_integers(std::string_view text, std::string_view option) {
  IntegerList numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    auto part = text.substr(begin, end - begin);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    std::int64_t number = 0;
    const auto [rest, code] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (code != std::errc() || rest != part.data() + part.size()) {
      throw UsageError(fmt::format(
          "{}: '{}' is not a {}; expected whole numbers separated by commas, such as 1,2,3", option,
          printable(part), code == std::errc::result_out_of_range ? "64-bit number" : "number"));
    }
    numbers.push_back(number);
    begin = end + 1;
  }
  return numbers;
}

}  // namespace

CLI::Validator offering(const std::vector<std::string>& values) {
  return CLI::Validator([](const std::string&) { return std::string(); }, set_text(values));
}

void require_grid_file(std::string_view out) { require_one_of("--out", out, kGridEndings); }

void require_ending(std::string_view option, std::string_view file, std::string_view ending) {
  require_one_of(option, file, {&ending, 1});
}

CLI::Option* add_force_option(CLI::App& app, bool& force, const std::vector<CLI::Option*>& outs) {
  std::vector<std::string> names;
  for (const auto* out : outs) names.push_back(out->get_name());
  auto* option = app.add_flag(
      "--force", force,
      fmt::format(
          "replace whatever file {} names, not only one that hooked wrote as the same kind; never one "
          "that the command reads",
          fmt::join(names, " or ")));
  if (outs.size() == 1) option->needs(outs.front());
  return option;
}

CLI::Validator at_least_one() {
  return CLI::Validator(
      [](const std::string& text) {
        return parse_integer(text).value_or(0) >= 1
                   ? std::string()
                   : fmt::format("expected an integer from 1 on, got {}", text);
      },
      "");
}

CLI::Option* add_integers(CLI::App& app, const std::string& name, IntegerList& integers,
                          const std::string& text) {
  const auto read = [&integers, name](const std::string& value) { integers = read_integers(value, name); };
  return app.add_option_function<std::string>(name, read, text)->option_text("IDS");
}

CLI::Option* add_integer_rows(CLI::App& app, const std::string& name, std::vector<IntegerList>& rows,
                              const std::string& text) {
  const auto read = [&rows, name](const std::vector<std::string>& values) {
    for (const auto& value : values) rows.push_back(read_integers(value, name));
  };
  return app.add_option_function<std::vector<std::string>>(name, read, text)
      ->option_text("IDS")
      ->allow_extra_args(false);
}

CLI::Option* add_model(CLI::App& app, std::string& model) {
  return app
      .add_option(kModelWord, model,
                  "a model folder, a file of its weights, a LoRA adapter, or org/name[@revision] in the "
                  "local Hugging Face "
                  "cache")
      ->required();
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  add_model(app, options.model);
  app.add_option("--device", options.device,
                 "cpu, cuda or cuda:N (default: cpu); over several, as cuda:0,cuda:1 or cuda:all, the layers "
                 "are spread")
      ->option_text("D")
      ->check(offering({"cpu", "cuda"}));
  app.add_option("--dtype", options.dtype,
                 "float32, float64, bfloat16 or float16 (default: float32, or as saved)")
      ->option_text("T")
      ->transform(CLI::Validator(read_dtype, set_text(kFloatDtypeNames), "dtype"));
  app.add_option("--threads", options.threads, "threads of one run (default: all cores)")
      ->option_text("N")
      ->check(CLI::Range(1, 4096));
  auto* process =
      app.add_option(
             "--process", options.process,
             "exactly these weight processing steps, separated by commas (default: all that keep "
             "the function: fold_ln, center_writing_weights, center_unembed, fold_value_biases; a saved "
             "model as it was saved)")
          ->option_text("STEPS")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(CLI::Validator(check_step, set_text(kProcessingStepNames), "step"));
  app.add_flag("--no-processing", options.no_processing, "the weights as they are in the file")
      ->excludes(process);
}

OneOf add_input_options(CLI::App& app, InputOptions& options) {
  auto* text = app.add_option("--text", options.texts,
                              "text, for models with a tokenizer; - reads standard input; repeat for the "
                              "rows of a batch, shorter ones are padded");
  auto* lines = app.add_option("--text-file", options.text_file, "a text in each line, a row each");
  auto* tokens = add_integer_rows(app, "--tokens", options.token_rows,
                                  "token ids such as 1,2,3; repeat for the rows of a batch");
  auto* file =
      app.add_option("--tokens-file", options.tokens_file,
                     "safetensors file with `tokens` int64 [batch, pos] and, if wanted, `attention_mask`, "
                     "`token_type_ids`, `decoder_tokens` and `decoder_attention_mask`");
  text->option_text("T")->group(kInputGroup)->allow_extra_args(false);
  lines->option_text(kFileWord)->group(kInputGroup);
  tokens->group(kInputGroup);
  file->option_text(kFileWord)->group(kInputGroup);
  auto* bos = app.add_option(
      "--prepend-bos", options.prepend_bos,
      "yes or no: whether text gets a BOS token; file: what the model's files put around it, as "
      "AutoTokenizer does (default: that, and where they say nothing a BOS token for causal models)");
  bos->option_text("yes|no|file")->check(CLI::IsMember({"yes", "no", "file"}));
  add_chat_options(app, options.chat, {tokens, file, bos});
  add_integer_rows(
      app, "--token-types", options.token_type_rows,
      "types of the tokens such as 0,0,1, for models with token types; repeat for the rows of a batch "
      "(default: all 0)")
      ->option_text("TYPES");
  add_integer_rows(
      app, "--decoder-tokens", options.decoder_token_rows,
      "what the decoder of an encoder-decoder reads, its start token included, such as 0,5,7; repeat for "
      "the rows of a batch (default: its start token)");
  return {text, lines, tokens, file};
}

void add_chat_options(CLI::App& app, ChatTextOptions& options, const std::vector<CLI::Option*>& others) {
  auto* chat = app.add_flag(
      "--chat", options.chat,
      "a text is what a user says: the model's chat template makes the prompt for an answer of it");
  for (auto* other : others) chat->excludes(other);
  app.add_option("--system", options.system, "the system message before it")
      ->option_text("TEXT")
      ->needs(chat);
}

void add_edit_option(CLI::App& app, EditOptions& edits) {
  add_edit_option(app, edits.texts, "--edit",
                  "an intervention \"ADDRESS OP VALUE\", repeatable: name[axis=i|i:j|i+j,...] (globs "
                  "allowed), then zero, "
                  "set X, add X, scale X, replace FILE#KEY or project_out FILE#KEY; X a number or FILE#KEY");
  app.add_option("--from-model", edits.from_model,
                 "another model whose values FILE#KEY may hold, by the name or the fingerprint that `hooked "
                 "show` tells (default: those of the model that runs)")
      ->option_text("NAME");
}

void add_edit_option(CLI::App& app, std::vector<std::string>& edits, const std::string& name,
                     const std::string& text) {
  app.add_option(name, edits, text)
      ->option_text("E")
      ->allow_extra_args(false)
      ->each([](const std::string& edit) { read_edit_text(edit); });
}

void add_token_choice(CLI::App& app, const std::string& name, TokenChoice& choice, const std::string& text) {
  auto* texts = app.add_option("--" + name, choice.texts, text + "; repeat for several")
                    ->option_text("T")
                    ->allow_extra_args(false);
  add_integers(app, "--" + name + "-token", choice.ids, "the same as ids")
      ->option_text("LIST")
      ->excludes(texts);
}

CLI::Option* add_list_option(CLI::App& app, bool& list) {
  return app.add_flag("--list", list, "every tensor: name, axes with their sizes, dtype");
}

CLI::Option* add_json_option(CLI::App& app, bool& json) {
  return app.add_flag("--json", json, "one JSON object on stdout");
}

}  // namespace hooked::cli
