#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace hooked {

struct Finished {
  int status;
  std::string output;  ///< stdout and stderr
};

/// Runs a command as a shell reads it.
inline Finished run_command(const std::string& line) {
  const std::string command = line + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  Finished finished{-1, {}};
  if (pipe == nullptr) return finished;
  std::array<char, 4096> chunk;
  for (std::size_t n = 0; (n = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    finished.output.append(chunk.data(), n);
  finished.status = pclose(pipe);
  return finished;
}

/// Runs one of the built programs with arguments as a shell reads them.
inline Finished run_program(const std::string& name, const std::string& arguments) {
  return run_command("\"" HOOKED_BINARY_DIR "/bin/" + name + "\" " + arguments);
}

/// The same for a program that only tests need, with `environment` in front (`NAME='value'`).
inline Finished run_test_program(const std::string& name, const std::string& arguments,
                                 const std::string& environment) {
  return run_command(environment + " \"" HOOKED_BINARY_DIR "/tests/" + name + "\" " + arguments);
}

}  // namespace hooked
