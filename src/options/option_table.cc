#include "options/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "core/nearest.h"
#include "core/option_names.h"
#include "core/parse_integer.h"
#include "core/split.h"
#include "options/command.h"
#include "options/edit_text.h"

namespace hooked::cli {
namespace {

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
  return fmt::format("'{}' is not a processing step; expected some of {}{}", name, fmt::join(names, ", "),
                     nearest_text(kDidYouMean, name, names));
}

// A set of values as CLI11 writes those of its own checks: {a,b}. Help does not show it; completion reads it.
std::string set_text(const auto& values) { return fmt::format("{{{}}}", fmt::join(values, ",")); }

// The first name of `--positions,--position`.
std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

// `a position` of `--positions`.
std::string what_is_counted(std::string_view option) {
  option.remove_prefix(std::string_view("--").size());
  if (option.ends_with('s')) option.remove_suffix(1);
  return fmt::format("a {}", option);
}

// The parts of a list, without the blanks around them.
std::vector<std::string_view> parts_of_list(std::string_view text) {
  std::vector<std::string_view> parts = split(text, ',');
  for (std::string_view& part : parts) {
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
  }
  return parts;
}

IntegerList read_integers(std::string_view text, std::string_view option) {
  IntegerList numbers;
  for (const std::string_view part : parts_of_list(text)) {
    std::int64_t number = 0;
    const auto [rest, code] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (code != std::errc() || rest != part.data() + part.size()) {
      throw UsageError(fmt::format(
          "{}: '{}' is not a {}; expected whole numbers separated by commas, such as 1,2,3", option,
          printable(part), code == std::errc::result_out_of_range ? "64-bit number" : "number"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

void required(CLI::App&, CLI::Option& option) { option.required(); }

void listed(CLI::App&, CLI::Option& option) { option.delimiter(','); }

void at_least_one(CLI::App&, CLI::Option& option) {
  option.check(
      [](const std::string& text) {
        return parse_integer(text).value_or(0) >= 1
                   ? std::string()
                   : fmt::format("expected an integer from 1 on, got {}", text);
      },
      "");
}

void edit_text(CLI::App&, CLI::Option& option) {
  option.each([](const std::string& edit) { read_edit_text(edit); });
}

Trait check(CLI::Validator validator) {
  return [validator](CLI::App&, CLI::Option& option) { option.check(validator); };
}

Trait one_of(const std::vector<std::string>& values) {
  const auto find = [values](const std::string& word) {
    if (std::ranges::find(values, word) != values.end()) return std::string();
    return fmt::format("'{}' is not one of {}{}", printable(word), fmt::join(values, ", "),
                       nearest_text(kDidYouMean, word, values));
  };
  return [find, values](CLI::App&, CLI::Option& option) {
    option.check(CLI::Validator(find, set_text(values)));
    if (option.get_option_text().find('|') != std::string::npos) return;  // its word says them
    option.description(fmt::format("{}; {} of {}", option.get_description(),
                                   option.get_delimiter() == ',' ? "some, separated by commas," : "one",
                                   fmt::join(values, ", ")));
  };
}

Trait offering(const std::vector<std::string>& values) {
  return check(CLI::Validator([](const std::string&) { return std::string(); }, set_text(values)));
}

Trait needs(const std::vector<std::string>& others) {
  return [others](CLI::App& app, CLI::Option& option) {
    for (const auto& other : others) option.needs(app.get_option(other));
  };
}

Trait excludes(const std::vector<std::string>& others) {
  return [others](CLI::App& app, CLI::Option& option) {
    for (const auto& other : others) option.excludes(app.get_option(other));
  };
}

CLI::Option* add_field(CLI::App& app, const std::string& name, IntegerList& integers) {
  return app.add_option_function<std::string>(
      name, [&integers, option = first_name(name)](const std::string& value) {
        integers = read_integers(value, option);
      });
}

CLI::Option* add_field(CLI::App& app, const std::string& name, std::vector<IntegerList>& rows) {
  const auto read = [&rows, name](const std::vector<std::string>& values) {
    for (const auto& value : values) rows.push_back(read_integers(value, name));
  };
  return app.add_option_function<std::vector<std::string>>(name, read)->allow_extra_args(false);
}

CLI::Option* add_field(CLI::App& app, const std::string& name, PlaceList& places) {
  return app.add_option_function<std::string>(name, [&places,
                                                     option = first_name(name)](const std::string& value) {
    places.clear();
    for (const std::string_view part : parts_of_list(value)) {
      const auto read = part == kAllPositions ? std::optional(IndexText()) : read_index(part);
      if (!read) {
        throw UsageError(fmt::format("{}: '{}' is not {}; expected {}, or {}, such as 0,-1,2:5", option,
                                     printable(part), what_is_counted(option), kIndexForms, kAllPositions));
      }
      places.push_back(*read);
    }
  });
}

CLI::Option* add_field(CLI::App& app, const std::string& name, std::optional<IndexText>& place) {
  return app.add_option_function<std::string>(
      name, [&place, option = first_name(name)](const std::string& value) {
        place = read_index(value);
        if (place && (place->kind == IndexText::Kind::one || place->kind == IndexText::Kind::last)) return;
        throw UsageError(fmt::format("{}: '{}' is not {}; expected one such as 3 or -1, or last", option,
                                     printable(value), what_is_counted(option)));
      });
}

CLI::Option* add_field(CLI::App& app, const std::string& name, std::vector<std::string>& texts) {
  return app.add_option(name, texts)->allow_extra_args(false);
}

CLI::Option* add_field(CLI::App& app, const std::string& name, bool& flag) {
  return app.add_flag(name, flag);
}

CLI::Option* Row::add(CLI::App& app) const {
  auto* option = add_(app, name_)->description(text_);
  if (!word_.empty()) option->option_text(word_);
  return option;
}

void add_options(CLI::App& app, const std::vector<Row>& rows) { add_options(app, "", rows); }

void add_options(CLI::App& app, const std::string& heading, const std::vector<Row>& rows) {
  std::vector<CLI::Option*> added;
  for (const Row& row : rows) {
    added.push_back(row.add(app));
    if (!heading.empty()) added.back()->group(heading);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const Trait& say : rows[i].traits()) say(app, *added[i]);
  }
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Row model_row(std::string& model) { return {kModelWord, model, std::string(kModelForms), required}; }

Row prepend_bos_row(std::string& prepend_bos) {
  return {"--prepend-bos yes|no|file", prepend_bos,
          "yes or no: whether a text gets a BOS token; file: what the model's files put around it, as "
          "AutoTokenizer does (default: that, and where they say nothing a BOS token for causal models)",
          one_of({"yes", "no", "file"})};
}

Row json_row(bool& json) { return {"--json", json, "one JSON object on stdout"}; }

Row list_row(bool& list) {
  return {"--list", list, "every tensor: name, axes with their sizes, dtype", excludes({"--json"})};
}

Row force_row(bool& force, const std::vector<std::string>& outs) {
  const auto text = fmt::format(
      "replace whatever file {} names, not only one that hooked wrote as the same kind; never one that the "
      "command reads",
      fmt::join(outs, " or "));
  return outs.size() == 1 ? Row("--force", force, text, needs(outs)) : Row("--force", force, text);
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  const auto dtype = [](CLI::App&, CLI::Option& option) {
    option.transform(CLI::Validator(read_dtype, set_text(kFloatDtypeNames), "dtype"));
  };
  add_options(app, {model_row(options.model)});
  add_options(
      app, kCommonHeading,
      {{"--device D", options.device,
        "cpu, cuda or cuda:N (default: cpu); over several, as cuda:0,cuda:1 or cuda:all, the layers are "
        "spread",
        offering({"cpu", "cuda"})},
       {"--dtype T", options.dtype,
        "float32, float64, bfloat16 or float16, or for short f32, f64, bf16, f16, fp32, fp64, fp16, half "
        "(default: float32, or as saved)",
        dtype},
       {"--threads N", options.threads, "threads of one run (default: all cores)",
        check(CLI::Range(1, 4096))},
       {"--process STEPS", options.process,
        "exactly these weight processing steps, separated by commas (default: all that keep the function: "
        "fold_ln, center_writing_weights, center_unembed, fold_value_biases; a saved model as it was saved)",
        listed, check(CLI::Validator(check_step, set_text(kProcessingStepNames), "step"))},
       {"--no-processing", options.no_processing, "the weights as they are in the file",
        excludes({"--process"})},
       {"--weights W", options.weights,
        "quantised weights in memory: as numbers, or as they are stored, without processing, "
        "on the CPU (default: expanded)",
        one_of({"expanded", "stored"})}});
}

void require_one(const CLI::App& app, const OneOf& options) {
  std::vector<std::string> given;
  std::ranges::copy_if(options, std::back_inserter(given),
                       [&](const std::string& name) { return app.count(name) > 0; });
  if (given.size() == 1) return;
  throw UsageError(fmt::format("expected one of {}, got {}", fmt::join(options, ", "),
                               given.empty() ? "none" : fmt::format("{}", fmt::join(given, " and "))));
}

OneOf input_names() { return {"--text", "--text-file", "--tokens", "--tokens-file"}; }

void add_input_options(CLI::App& app, InputOptions& options) {
  add_options(
      app, kInputHeading,
      {{"--text T", options.texts,
        "text, for models with a tokenizer; - reads standard input; repeat for the rows of a batch, "
        "shorter ones are padded"},
       {"--text-file F", options.text_file, "a text in each line, a row each; - reads standard input"},
       {"--tokens IDS", options.token_rows, "token ids such as 1,2,3; repeat for the rows of a batch"},
       {"--tokens-file F", options.tokens_file,
        "safetensors file with `tokens` int64 [batch, pos] and, if wanted, `attention_mask`, "
        "`token_type_ids`, `decoder_tokens` and `decoder_attention_mask`"}});
  add_options(app, kCommonHeading, {prepend_bos_row(options.prepend_bos)});
  add_chat_options(app, options.chat, {"--tokens", "--tokens-file", "--prepend-bos"});
  add_options(
      app, kCommonHeading,
      {{"--token-types TYPES", options.token_type_rows,
        "types of the tokens such as 0,0,1, for models with token types; repeat for the rows of a batch "
        "(default: all 0)"},
       {"--decoder-tokens IDS", options.decoder_token_rows,
        "what the decoder of an encoder-decoder reads, its start token included, such as 0,5,7; repeat for "
        "the rows of a batch (default: its start token)"}});
}

void add_chat_options(CLI::App& app, ChatTextOptions& options, const std::vector<std::string>& others) {
  add_options(app, kCommonHeading,
              {{"--chat", options.chat,
                "a text is what a user says: the model's chat template makes the prompt for an answer of it",
                excludes(others)},
               {"--system TEXT", options.system, "the system message before it", needs({"--chat"})}});
}

void add_edit_options(CLI::App& app, EditOptions& edits) {
  add_options(
      app, kCommonHeading,
      {{"--edit E", edits.texts,
        "an intervention \"ADDRESS OP VALUE\", repeatable: name[axis=i|i:j|i+j,...] (globs allowed), then "
        "zero, set X, add X, scale X, replace FILE#KEY or project_out FILE#KEY; X a number or FILE#KEY; "
        "KEY a tensor's name, or places of an activation such as resid_post2[pos=3,batch=0]",
        edit_text},
       {"--from-model NAME", edits.from_model,
        "another model whose values FILE#KEY may hold, by the name or the fingerprint that `hooked show` "
        "tells (default: those of the model that runs)"}});
}

void add_dictionary_options(CLI::App& app, ModelOptions& model) {
  add_options(
      app, kCommonHeading,
      {{"--dictionary D", model.dictionaries,
        "a sparse autoencoder or transcoder, FOLDER[@ACTIVATION], repeatable: its reconstruction takes the "
        "activation's place (default: where its files say), its points are edited and shown as others are, "
        "and processing steps that would change what it was fitted to are left out"},
       {"--with-error", model.with_error,
        "the activation goes on as it is, plus what edits of features change", needs({"--dictionary"})}});
}

Row positions_row(PlaceList& positions, std::string_view text) {
  return {
      "--positions,--position P", positions,
      fmt::format("{}: columns and ranges of the tokens such as 0,5,-1 or 2:5 (its end is left out), last "
                  "or all (default: each row's last real token)",
                  text)};
}

void add_run_options(CLI::App& app, InputCommandOptions& options) {
  add_model_options(app, options.model);
  add_input_options(app, options.input);
  add_edit_options(app, options.edits);
  add_dictionary_options(app, options.model);
}

void add_token_choice(CLI::App& app, const std::string& name, TokenChoice& choice, const std::string& text,
                      Choose count) {
  const std::string texts = "--" + name;
  const auto ids = check(CLI::Validator(
      [texts](const std::string& given) {
        const bool letters = given.find_first_not_of("0123456789+-, ") != std::string::npos;
        return letters ? fmt::format("'{}' is no id; expected ids such as 1,2; {} takes a text",
                                     printable(given), texts)
                       : std::string();
      },
      ""));
  const bool one = count == Choose::one;
  add_options(app, {{texts + " T", choice.texts, one ? text : text + "; repeat for several"},
                    {texts + (one ? "-token ID" : "-token IDS"), choice.ids,
                     one ? "the same as an id" : "the same as ids", excludes({texts}), ids}});
}

void require(bool holds, const std::string& sentence) {
  if (!holds) throw UsageError(sentence);
}

void require_each_once(const std::vector<std::string>& words, std::string_view option,
                       std::string_view what) {
  for (const std::string& word : words) {
    require(std::ranges::count(words, word) == 1,
            fmt::format("{}: {} occurs twice; expected each {} once", option, word, what));
  }
}

void require_grid_file(std::string_view out) {
  constexpr std::array<std::string_view, 4> kEndings{".csv", ".json", ".svg", kTensorEnding};
  require_one_of("--out", out, kEndings);
}

void require_ending(std::string_view option, std::string_view file, std::string_view ending) {
  require_one_of(option, file, {&ending, 1});
}

}  // namespace hooked::cli
