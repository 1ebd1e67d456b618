#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace hooked::cli {

/// What is wrong with the arguments that a command's parser could not place, and what to type instead.
std::string unplaced_arguments(const CLI::App& command);

/// The same for a word in the place of a command; empty: there is none.
std::string unknown_command(std::string_view word);

}  // namespace hooked::cli
