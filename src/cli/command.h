#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string_view>

namespace CLI {
class App;
}

namespace hooked::cli {

/// What a command does once its options are read.
using Action = std::function<void()>;

/// One command of the program.
struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view example;  ///< command lines for `--help`, one a line
  /// Adds the command's options to its part of the parser.
  Action (*define)(CLI::App& app);
};

/// All commands, in the order in which `--help` lists them.
std::span<const Command> commands();

Action define_info(CLI::App& app);
Action define_names(CLI::App& app);
Action define_tokenize(CLI::App& app);
Action define_run(CLI::App& app);
Action define_cache(CLI::App& app);
Action define_generate(CLI::App& app);
Action define_save(CLI::App& app);
Action define_bench(CLI::App& app);

/// The command line itself is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hooked::cli
