#pragma once

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "options/command_options.h"

namespace CLI {
class App;
}

namespace hooked::cli {

/// What is to be done: a text to print, if no engine is needed, or the options for the engine.
using Request = std::variant<std::string, CommandOptions>;

/// A command's options once they are parsed. Throws UsageError if they do not fit together.
using Reader = std::function<Request()>;

/// One command of the program.
struct Command {
  std::string_view name;
  std::string_view summary;
  /// Command lines for `--help`, one on each line or continued as in a shell. They run in the folder that
  /// holds examples/; an installed program's help shows them with the path of its own examples. A test runs
  /// both.
  std::string_view examples;
  /// Adds the command's options to its part of the parser.
  Reader (*define)(CLI::App& app);
  /// Ctrl-C ends it after the current step, and what was computed is shown or written.
  bool ends_early = false;
};

/// All commands, in the order in which `--help` lists them.
std::span<const Command> commands();

Reader define_list(CLI::App& app);
Reader define_info(CLI::App& app);
Reader define_names(CLI::App& app);
Reader define_tokenize(CLI::App& app);
Reader define_run(CLI::App& app);
Reader define_cache(CLI::App& app);
Reader define_show(CLI::App& app);
Reader define_generate(CLI::App& app);
Reader define_lens(CLI::App& app);
Reader define_attribute(CLI::App& app);
Reader define_heads(CLI::App& app);
Reader define_patch(CLI::App& app);
Reader define_circuits(CLI::App& app);
Reader define_weights(CLI::App& app);
Reader define_sae(CLI::App& app);
Reader define_graph(CLI::App& app);
Reader define_harvest(CLI::App& app);
Reader define_report(CLI::App& app);
Reader define_save(CLI::App& app);
Reader define_bench(CLI::App& app);
Reader define_completion(CLI::App& app);

/// The command line itself is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hooked::cli
