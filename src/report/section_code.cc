#include "report/section_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/json.h"
#include "core/shell_word.h"
#include "hooked/hooks/act.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

// A string of C++, Python and JSON has the same escapes but for characters that texts rarely have.
std::string in_source(const std::string& text) { return json_text(Json(text)); }

/// What is put around a text, as `form` says it in a language: ` --prepend-bos {}`. Empty by default and for
/// ids.
std::string around(const Prompt& prompt, const ReportOptions& options, std::string_view form) {
  if (!std::holds_alternative<std::string>(prompt)) return "";
  const auto with = [&](std::string_view word) { return fmt::format(fmt::runtime(form), word); };
  switch (options.prepend_bos) {
    case PrependBos::yes:
      return with("yes");
    case PrependBos::no:
      return with("no");
    case PrependBos::file:
      return with("file");
    case PrependBos::nothing:  // such texts were made ids
    case PrependBos::by_default:
      break;
  }
  return "";
}

std::string input_in_shell(const Prompt& prompt, std::string_view text, std::string_view tokens) {
  if (const auto* words = std::get_if<std::string>(&prompt))
    return fmt::format("{} {}", text, shell_word(*words));
  return fmt::format("{} {}", tokens, fmt::join(std::get<std::vector<std::int64_t>>(prompt), ","));
}

/// A prompt as source text: a quoted text in `of_text`, or ids in `of_ids`.
std::string in_source(const Prompt& prompt, std::string_view of_text, std::string_view of_ids,
                      std::string_view around = "") {
  if (const auto* words = std::get_if<std::string>(&prompt))
    return fmt::format(fmt::runtime(of_text), fmt::arg("text", in_source(*words)),
                       fmt::arg("around", around));
  return fmt::format(
      fmt::runtime(of_ids),
      fmt::arg("ids", fmt::format("{}", fmt::join(std::get<std::vector<std::int64_t>>(prompt), ", "))));
}

std::string in_source(const std::vector<PromptToken>& tokens) {
  if (tokens.empty()) return "";
  if (const auto* text = std::get_if<std::string>(&tokens.front())) return in_source(*text);
  return std::to_string(std::get<std::int64_t>(tokens.front()));
}

std::string tokens_in_shell(std::string_view option, const std::vector<PromptToken>& tokens) {
  std::string words;
  for (const PromptToken& token : tokens) {
    if (const auto* text = std::get_if<std::string>(&token))
      words += fmt::format(" --{} {}", option, shell_word(*text));
    else
      words += fmt::format(" --{}-token {}", option, std::get<std::int64_t>(token));
  }
  return words;
}

/// The options with which a model was loaded, as far as they are not those by default.
SectionCode how_loaded(const HookedTransformer& model) {
  SectionCode how;
  const std::string dtype = model.provenance().dtype;
  for (const auto& [word, in_cpp] : {std::pair{"float64", R"(at::kDouble)"},
                                     {"float16", R"(at::kHalf)"},
                                     {"bfloat16", R"(at::kBFloat16)"}}) {
    if (dtype != word) continue;
    how.cpp = fmt::format(".dtype = {}", in_cpp);
    how.python = fmt::format(", dtype=torch.{}", word);
  }
  const auto add_in_cpp = [&](const std::string& option) {
    how.cpp += fmt::format("{}{}", how.cpp.empty() ? "" : ", ", option);
  };
  std::vector<std::string> left_out, quoted;
  for (const StepReport& report : model.processing()) {
    if (report.outcome != "not requested" || !WeightProcessing().wants(report.step)) continue;
    const std::string name(processing_step_name(report.step));
    left_out.push_back(R"(hooked::ProcessingStep::)" + name);
    quoted.push_back(in_source(name));
  }
  if (!left_out.empty()) {
    add_in_cpp(fmt::format(".without = {{{}}}", fmt::join(left_out, ", ")));
    how.python += fmt::format(", without=[{}]", fmt::join(quoted, ", "));
  }
  if (model.weight_storage() == WeightStorage::stored) {
    add_in_cpp(R"(.weights = hooked::WeightStorage::stored)");
    how.python += R"(, weights="stored")";
  }
  if (!how.cpp.empty()) how.cpp = fmt::format(", {{{}}}", how.cpp);
  return how;
}

}  // namespace

CodeWriter::CodeWriter(const HookedTransformer& model, const Prompt& prompt, const ReportOptions& options)
    : model_(options.model_name.empty() ? model.identity()->name : options.model_name),
      how_(how_loaded(model)),
      prompt_(prompt),
      options_(options) {}

std::string CodeWriter::filled(std::string_view text, const StandingDictionary* standing,
                               const std::filesystem::path& examples) const {
  const std::string answer = in_source(options_.answers), against = in_source(options_.against);
  const bool with_error = standing != nullptr && standing->with_error;
  const std::string features =
      standing == nullptr ? "" : act::sae_acts_post(Address(standing->output)).to_string();
  const auto with_examples = [&](std::string_view line) {
    return examples.empty()
               ? std::string()
               : fmt::format(fmt::runtime(line), fmt::arg("folder", in_source(path_text(examples))),
                             fmt::arg("features", features));
  };
  return fmt::format(
      fmt::runtime(text), fmt::arg("answer", answer),
      fmt::arg("answers_in_shell",
               tokens_in_shell("answer", options_.answers) + tokens_in_shell("against", options_.against)),
      fmt::arg("against_in_cpp", against.empty() ? "" : ", .against = " + against),
      fmt::arg("against_in_python", against.empty() ? "" : ", against=" + against),
      fmt::arg("metric", against.empty() ? fmt::format("logit({})", answer)
                                         : fmt::format("logit_difference({}, {})", answer, against)),
      fmt::arg("with_error_in_cpp", with_error ? ", {.with_error = true}" : ""),
      fmt::arg("with_error_in_python", with_error ? ", with_error=True" : ""),
      fmt::arg("place", standing == nullptr ? "" : standing->output.to_string()),
      fmt::arg("examples_in_cpp", with_examples(kExamplesInCpp)),
      fmt::arg("examples_in_python", with_examples(kExamplesInPython)), fmt::arg("features", features));
}

std::string CodeWriter::command_line(const std::string& command, const std::string& input,
                                     bool dictionaries) const {
  const std::size_t end = std::min(command.find(' '), command.size());
  std::string options;
  for (const std::string* more : {&options_.shell_options, &options_.shell_dictionaries}) {
    if (!more->empty() && (more != &options_.shell_dictionaries || dictionaries)) options += ' ' + *more;
  }
  return fmt::format("hooked {} {} {}{}{}", command.substr(0, end), shell_word(model_), input, options,
                     command.substr(end));
}

SectionCode CodeWriter::of_prompt(const SectionSource& source, const StandingDictionary* standing,
                                  bool dictionaries, const std::filesystem::path& examples) const {
  const auto load = [&](std::string_view lines, std::string_view how, std::string_view ids,
                        std::string_view around_form) {
    return fmt::format(
        fmt::runtime(lines), fmt::arg("model", in_source(model_)), fmt::arg("how", how),
        fmt::arg("tokens", in_source(prompt_, kTextTokens, ids, around(prompt_, options_, around_form))));
  };
  return {.shell = command_line(
              filled(source.command),
              input_in_shell(prompt_, "--text", "--tokens") + around(prompt_, options_, kAroundInShell),
              dictionaries),
          .cpp = load(kLoadInCpp, how_.cpp, kIdsInCpp, kAroundInCpp) + filled(source.cpp, standing, examples),
          .python = load(kLoadInPython, how_.python, kIdsInPython, kAroundInPython) +
                    filled(source.python, standing, examples)};
}

SectionCode CodeWriter::of_pair(const SectionSource& source) const {
  const Prompt& other = options_.corrupted.value();
  const auto load = [&](std::string_view lines, std::string_view how, std::string_view ids,
                        std::string_view around_form) {
    return fmt::format(fmt::runtime(lines), fmt::arg("model", in_source(model_)), fmt::arg("how", how),
                       fmt::arg("clean", in_source(prompt_, "{text}", ids)),
                       fmt::arg("corrupted", in_source(other, "{text}", ids)),
                       fmt::arg("around", around(prompt_, options_, around_form)));
  };
  return {
      .shell = command_line(filled(source.command),
                            input_in_shell(prompt_, "--clean", "--clean-tokens") + ' ' +
                                input_in_shell(other, "--corrupted", "--corrupted-tokens") +
                                around(prompt_, options_, kAroundInShell),
                            true),
      .cpp = load(kPairInCpp, how_.cpp, kIdListInCpp, kAroundInCpp) + filled(source.cpp),
      .python = load(kPairInPython, how_.python, kIdListInPython, kAroundInPython) + filled(source.python)};
}

}  // namespace hooked
