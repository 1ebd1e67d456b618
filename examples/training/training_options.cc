#include "training_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace training {
namespace {

template <typename Number>
void read_number(std::string_view name, std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("{} {}: expected a whole number", name, text));
}

}  // namespace

Options read_options(int argc, char** argv, std::int64_t steps, const std::vector<OwnOption>& own) {
  std::string usage = fmt::format("usage: {} --out FOLDER [--steps N] [--seed S]",
                                  std::filesystem::path(argv[0]).filename().string());
  for (const OwnOption& option : own) {
    usage += option.words.empty() ? fmt::format(" [{} ...]", option.name)
                                  : fmt::format(" [{} {}]", option.name, fmt::join(option.words, "|"));
  }
  Options options{.steps = steps, .out = {}};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], value = argv[i + 1];
    const auto option = std::ranges::find(own, name, &OwnOption::name);
    if (name == "--steps") {
      read_number(name, value, options.steps);
    } else if (name == "--seed") {
      read_number(name, value, options.seed);
    } else if (name == "--out") {
      options.out = value;
    } else if (option != own.end() &&
               (option->words.empty() || std::ranges::find(option->words, value) != option->words.end())) {
      option->value = value;
    } else {
      throw std::invalid_argument(fmt::format("'{} {}' is not known; {}", name, value, usage));
    }
  }
  if (argc % 2 == 0 || options.out.empty() || options.steps < 1) throw std::invalid_argument(usage);
  if (std::filesystem::exists(options.out) && !std::filesystem::is_empty(options.out))
    throw std::invalid_argument(
        fmt::format("{} holds something; expected a new or empty folder", options.out.string()));
  return options;
}

}  // namespace training
