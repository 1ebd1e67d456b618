#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// What the programs that train the models of the examples have in common.
namespace training {

struct Options {
  std::int64_t steps = 0;
  std::uint64_t seed = 1;
  std::filesystem::path out;
};

/// An option that only one program has.
struct OwnOption {
  std::string name;                     ///< `--positions`
  std::string& value;                   ///< becomes what is given; what it is before is the default
  std::vector<std::string> words = {};  ///< that it can be; empty: any
};

/// Reads `--out FOLDER [--steps N] [--seed S]` and a program's own options. Throws std::invalid_argument with
/// the usage for anything else, and for a folder that holds something: now, and not when the model is trained
/// and saving it is refused.
Options read_options(int argc, char** argv, std::int64_t steps, const std::vector<OwnOption>& own = {});

}  // namespace training
