#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "options/command.h"

namespace hooked::cli {

/// The whole command line of the program: its commands and all their options.
struct Parser {
  /// Help shows its examples with the path of this folder, in which toy_model is.
  explicit Parser(const std::filesystem::path& examples);
  Parser(const Parser&) = delete;  // the parts refer to the options
  Parser& operator=(const Parser&) = delete;

  CLI::App app;
  bool as_json = false;                             ///< --json in front of a command
  std::vector<std::pair<CLI::App*, Reader>> parts;  ///< of each command, in the order of commands()
};

/// What help says about the program as a whole, a paragraph each.
std::vector<std::string> program_notes();

/// A command's examples, or the program's own for an empty name, with the path of the folder of examples.
std::string examples_text(std::string_view command, const std::filesystem::path& examples);

}  // namespace hooked::cli
