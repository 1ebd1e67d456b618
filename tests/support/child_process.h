#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hooked {

/// What a child process may take of the system; absent: as its parent.
struct ChildLimits {
  std::optional<rlim_t> address_space = {};  ///< bytes, as `ulimit -v` has them in KiB
  std::optional<rlim_t> file_size = {};      ///< bytes, as `ulimit -f`
};

/// A program in a child process, whose output goes to files, and which may be killed.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& command, const std::string& stdout_file,
               const std::string& stderr_file, const ChildLimits& limits = {}) {
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(::open(stdout_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
    ::dup2(::open(stderr_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
    limit(RLIMIT_AS, limits.address_space);
    limit(RLIMIT_FSIZE, limits.file_size);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ~ChildProcess() {
    if (pid_ > 0) kill();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Whether it has ended by itself after that time, or before.
  bool ends_within(std::chrono::duration<double> time) {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
    for (;; ::usleep(200)) {
      if (::waitpid(pid_, &status_, WNOHANG) == pid_) {
        pid_ = -1;
        return true;
      }
      if (Clock::now() >= end) return false;
    }
  }

  /// As `kill -9`.
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }

  /// The status that waitpid gives.
  int wait() {
    if (pid_ > 0) ::waitpid(std::exchange(pid_, -1), &status_, 0);
    return status_;
  }

 private:
  static void limit(int resource, const std::optional<rlim_t>& most) {
    if (!most) return;
    const rlimit both{*most, *most};
    ::setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &both);
  }

  pid_t pid_ = -1;
  int status_ = -1;
};

}  // namespace hooked
