#include "report/section_code.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "core/json.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

// For a POSIX shell.
std::string in_shell(std::string_view text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:@-").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

// A string of C++, Python and JSON has the same escapes but for characters that texts rarely have.
std::string in_source(const std::string& text) { return json_text(Json(text)); }

std::string input_in_shell(const Prompt& prompt, std::string_view text, std::string_view tokens) {
  if (const auto* words = std::get_if<std::string>(&prompt))
    return fmt::format("{} {}", text, in_shell(*words));
  return fmt::format("{} {}", tokens, fmt::join(std::get<std::vector<std::int64_t>>(prompt), ","));
}

/// A prompt as source text: a quoted text in `of_text`, or ids in `of_ids`.
std::string in_source(const Prompt& prompt, std::string_view of_text, std::string_view of_ids) {
  if (const auto* words = std::get_if<std::string>(&prompt))
    return fmt::format(fmt::runtime(of_text), fmt::arg("text", in_source(*words)));
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
      words += fmt::format(" --{} {}", option, in_shell(*text));
    else
      words += fmt::format(" --{}-token {}", option, std::get<std::int64_t>(token));
  }
  return words;
}

}  // namespace

CodeWriter::CodeWriter(std::string model, const Prompt& prompt, const ReportOptions& options)
    : model_(std::move(model)), prompt_(prompt), options_(options) {}

std::string CodeWriter::filled(std::string_view text, const StandingDictionary* standing) const {
  const std::string answer = in_source(options_.answers), against = in_source(options_.against);
  const bool with_error = standing != nullptr && standing->with_error;
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
      fmt::arg("features",
               standing == nullptr ? "" : act::sae_acts_post(Address(standing->output)).to_string()));
}

std::string CodeWriter::command_line(const std::string& command, const std::string& input,
                                     bool dictionaries) const {
  const std::size_t end = std::min(command.find(' '), command.size());
  std::string options;
  for (const std::string* more : {&options_.shell_options, &options_.shell_dictionaries}) {
    if (!more->empty() && (more != &options_.shell_dictionaries || dictionaries)) options += ' ' + *more;
  }
  return fmt::format("hooked {} {} {}{}{}", command.substr(0, end), in_shell(model_), input, options,
                     command.substr(end));
}

SectionCode CodeWriter::of_prompt(const SectionSource& source, const StandingDictionary* standing,
                                  bool dictionaries) const {
  const auto load = [&](std::string_view lines, std::string_view ids) {
    return fmt::format(fmt::runtime(lines), fmt::arg("model", in_source(model_)),
                       fmt::arg("tokens", in_source(prompt_, kTextTokens, ids)));
  };
  return {.shell = command_line(filled(source.command), input_in_shell(prompt_, "--text", "--tokens"),
                                dictionaries),
          .cpp = load(kLoadInCpp, kIdsInCpp) + filled(source.cpp, standing),
          .python = load(kLoadInPython, kIdsInPython) + filled(source.python, standing)};
}

SectionCode CodeWriter::of_pair(const SectionSource& source) const {
  const Prompt& other = options_.corrupted.value();
  const auto load = [&](std::string_view lines, std::string_view ids) {
    return fmt::format(fmt::runtime(lines), fmt::arg("model", in_source(model_)),
                       fmt::arg("clean", in_source(prompt_, "{text}", ids)),
                       fmt::arg("corrupted", in_source(other, "{text}", ids)));
  };
  return {.shell = command_line(filled(source.command),
                                input_in_shell(prompt_, "--clean", "--clean-tokens") + ' ' +
                                    input_in_shell(other, "--corrupted", "--corrupted-tokens"),
                                true),
          .cpp = load(kPairInCpp, kIdListInCpp) + filled(source.cpp),
          .python = load(kPairInPython, kIdListInPython) + filled(source.python)};
}

}  // namespace hooked
