// What somebody meant who wrote what the parser cannot place.
#include "options/suggestions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/nearest.h"
#include "options/command.h"
#include "options/option_table.h"

namespace hooked::cli {
namespace {

// Words that other programs have for our options. The first one that a command has is suggested.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOthersWords{{
    {"--prompt", "--text"},
    {"--prompt", "--clean"},
    {"--input", "--text"},
    {"--text", "--clean"},
    {"--output", "--out"},
    {"-o", "--out"},
    {"--max-tokens", "--max-new-tokens"},
    {"--max-length", "--max-new-tokens"},
    {"--n-predict", "--max-new-tokens"},
    {"--precision", "--dtype"},
    {"--layer", "--layers"},
    {"--position", "--positions"},
}};

// What an argument without an option in front may be, and the options that take it.
struct Bare {
  bool (*is_it)(std::string_view word);
  std::vector<std::string_view> options;
};

bool is_ids(std::string_view word) {
  return word.find_first_not_of("0123456789,- ") == std::string_view::npos;
}

const std::vector<Bare>& kinds_of_bare() {
  static const std::vector<Bare> kKinds{
      {is_ids, {"--tokens", "--decode", "--clean-tokens"}},
      {[](std::string_view word) { return word.ends_with(".safetensors"); }, {"--tokens-file"}},
      {[](std::string_view word) { return word.ends_with(".jsonl") || word.ends_with(".csv"); }, {"--pairs"}},
      {[](std::string_view word) { return word.ends_with(".txt"); }, {"--text-file"}},
      {[](std::string_view) { return true; }, {"--text", "--clean"}},
  };
  return kKinds;
}

bool has(const CLI::App& command, std::string_view option) {
  return command.get_option_no_throw(std::string(option)) != nullptr;
}

std::string in_quotes(std::string_view word) {
  const bool plain = word.find_first_of(" \"'$`\\;&|<>()*?") == std::string_view::npos;
  return plain ? std::string(word) : fmt::format("\"{}\"", word);
}

std::string about_option(const CLI::App& command, std::string_view word) {
  if (word == "--model") return "there is no option --model; MODEL is the first argument, without an option";
  for (const auto& [others, own] : kOthersWords) {
    if (others == word && has(command, own))
      return fmt::format("there is no option {}; did you mean '{}'?", word, own);
  }
  return fmt::format("there is no option {}{}", printable(word),
                     nearest_text(kDidYouMean, word, option_names(command)));
}

// The words of a text that was not quoted are one argument each.
std::string about_words(const CLI::App& command, const std::vector<std::string>& words) {
  const std::string all = fmt::format("{}", fmt::join(words, " "));
  const std::string what = fmt::format("{} has no option in front", in_quotes(printable(all)));
  if (words.size() == 2 && has(command, "--corrupted"))
    return fmt::format("{}; did you mean --clean {} --corrupted {}?", what, in_quotes(printable(words[0])),
                       in_quotes(printable(words[1])));
  for (const Bare& kind : kinds_of_bare()) {
    if (!kind.is_it(all)) continue;
    for (const std::string_view option : kind.options) {
      if (has(command, option))
        return fmt::format("{}; did you mean {} {}?", what, option, in_quotes(printable(all)));
    }
  }
  return fmt::format("{} is one argument too many", in_quotes(printable(words.front())));
}

}  // namespace

std::string unplaced_arguments(const CLI::App& command) {
  std::vector<std::string> words;
  for (const std::string& argument : command.remaining(true)) {
    // A negative number is a value.
    if (argument.starts_with('-') && argument.size() > 1 && !is_ids(argument))
      return about_option(command, std::string_view(argument).substr(0, argument.find('=')));
    words.push_back(argument);
  }
  return about_words(command, words);
}

std::string unknown_command(std::string_view word) {
  std::vector<std::string> known;
  for (const Command& command : commands()) known.emplace_back(command.name);
  if (word.empty()) return fmt::format("which command? Expected one of {}", fmt::join(known, ", "));
  for (const char* option : {"version", "help"}) {
    if (word == option) return fmt::format("there is no command '{}'; did you mean '--{}'?", word, option);
  }
  const std::string near = nearest_text(kDidYouMean, word, known);
  return fmt::format("there is no command '{}'{}", printable(word),
                     near.empty() ? fmt::format("; expected one of {}", fmt::join(known, ", ")) : near);
}

}  // namespace hooked::cli
