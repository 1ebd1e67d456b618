#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace hooked {

/// A running program, whose stdout is a pipe of one page with that much free.
class RunningProgram {
 public:
  static constexpr int kPipeBytes = 4096;

  RunningProgram(const std::vector<std::string>& arguments, const std::string& stderr_file,
                 int free = kPipeBytes) {
    int ends[2];
    if (::pipe(ends) != 0) ADD_FAILURE() << "no pipe";
    ::fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes);
    const std::string filler(static_cast<std::size_t>(kPipeBytes - free), ' ');
    EXPECT_EQ(::write(ends[1], filler.data(), filler.size()), static_cast<ssize_t>(filler.size()));
    pid_ = ::fork();
    if (pid_ == 0) {
      std::signal(SIGINT, SIG_DFL);  // as from a terminal, however the tests were started
      ::dup2(ends[1], STDOUT_FILENO);
      ::dup2(::open(stderr_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      std::vector<char*> argv{const_cast<char*>(HOOKED_CLI)};
      for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      ::execv(HOOKED_CLI, argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ends[0];
  }
  ~RunningProgram() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), wait();
    ::close(out_);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void interrupt() const { ::kill(pid_, SIGINT); }

  /// Reads that many bytes, or to the end.
  std::string read(std::size_t bytes = ~std::size_t{0}) const {
    std::string text;
    char one = 0;
    while (text.size() < bytes && ::read(out_, &one, 1) == 1) text += one;
    return text;
  }

  /// Waits until the program catches SIGINT (by the kernel's list of caught signals); false if it ended.
  bool wait_for_guard() const {
    for (;; ::usleep(1000)) {
      if (status("State:").starts_with("Z")) return false;
      if ((std::stoull(status("SigCgt:"), nullptr, 16) >> (SIGINT - 1) & 1) != 0) return true;
    }
  }

  /// Waits until its output fills the pipe, and it sleeps because of that; false if it ended.
  bool wait_until_it_waits() const {
    constexpr int kLongestWrite = 3;
    for (;; ::usleep(1000)) {
      int bytes = 0;
      ::ioctl(out_, FIONREAD, &bytes);
      const std::string state = status("State:");
      if (state.starts_with("Z")) return false;
      if (bytes > kPipeBytes - kLongestWrite && state.starts_with("S")) return true;
    }
  }

  /// The status that waitpid gives.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  // The text after that word in the kernel's status of the process.
  std::string status(const std::string& word) const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(word)) return line.substr(line.find_first_not_of("\t ", word.size()));
    }
    return {};
  }

  pid_t pid_ = -1;
  int out_ = -1;
};

inline bool ended_by_interrupt(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGINT; }

}  // namespace hooked
