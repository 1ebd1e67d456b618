#pragma once

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

namespace hooked {

struct Finished {
  int status;
  std::string output;  ///< stdout and stderr
};

/// Runs one of the built programs with arguments as a shell reads them.
inline Finished run_program(const std::string& name, const std::string& arguments) {
  const auto program = std::filesystem::path(HOOKED_BINARY_DIR) / "bin" / name;
  const std::string command = "\"" + program.string() + "\" " + arguments + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  Finished finished{-1, {}};
  if (pipe == nullptr) return finished;
  std::array<char, 4096> chunk;
  for (std::size_t n = 0; (n = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    finished.output.append(chunk.data(), n);
  finished.status = pclose(pipe);
  return finished;
}

}  // namespace hooked
