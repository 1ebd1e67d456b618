#include "cli/caption.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <filesystem>
#include <variant>
#include <vector>

#include "cli/json_output.h"

namespace hooked::cli {
namespace {

constexpr std::size_t kPromptLetters = 60, kTokenLetters = 20;

std::string beginning(std::string text, std::size_t most) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (!begins || characters++ < most) continue;
    text.replace(i, std::string::npos, "…");
    break;
  }
  return text;
}

std::string quoted(const std::string& text, std::size_t most) {
  return fmt::format("“{}”", beginning(text, most));
}

// The last part of a path, or the name of a model in the hub cache.
std::string short_name(const std::string& given) {
  std::error_code ignored;
  if (!std::filesystem::exists(given, ignored)) return given;
  const auto path = std::filesystem::absolute(given, ignored).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

}  // namespace

std::string prompt_words(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return quoted(*text, kPromptLetters);
  return beginning(fmt::format("{}", fmt::join(std::get<std::vector<std::int64_t>>(prompt), " ")),
                   kPromptLetters);
}

std::string prompt_words(const GivenInput& given) {
  if (given.texts.size() == 1) return quoted(given.texts.front(), kPromptLetters);
  if (!given.texts.empty()) return fmt::format("{} texts", given.texts.size());
  if (given.input.batch() > 1)
    return fmt::format("{} rows of {} tokens", given.input.batch(), given.input.length());
  const Json ids = rows_json(given.input.tokens, given.input.attention_mask)[0];
  return prompt_words(Prompt(ids.get<std::vector<std::int64_t>>()));
}

std::string any_of_words(const std::vector<PromptToken>& tokens) {
  std::vector<std::string> each;
  for (const PromptToken& token : tokens) {
    const auto* text = std::get_if<std::string>(&token);
    each.push_back(text != nullptr ? quoted(*text, kTokenLetters)
                                   : std::to_string(std::get<std::int64_t>(token)));
  }
  return fmt::format("{}", fmt::join(each, " or "));
}

std::string answer_words(const std::vector<PromptToken>& answers, const std::vector<PromptToken>& against) {
  std::string words;
  if (!answers.empty()) words += fmt::format(", {}", any_of_words(answers));
  if (!against.empty()) words += fmt::format(" against {}", any_of_words(against));
  return words;
}

std::vector<PromptToken> tokens_of(const TokenChoice& choice) {
  std::vector<PromptToken> tokens(choice.texts.begin(), choice.texts.end());
  tokens.insert(tokens.end(), choice.ids.begin(), choice.ids.end());
  return tokens;
}

Grid captioned(const Grid& grid, const Caption& caption) {
  return Grid(grid.values(), grid.axes(),
              {.title = fmt::format("{}: {}", short_name(caption.model), grid.title()),
               .unit = caption.of.empty() ? grid.unit() : fmt::format("{} · {}", grid.unit(), caption.of)});
}

}  // namespace hooked::cli
