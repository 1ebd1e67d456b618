#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace hooked {

/// A fresh empty folder that is removed with everything in it when the test leaves its scope. It is in memory
/// where there is room and TMPDIR says nothing: a saved file waits for the disk, and tests that save would
/// spend most of their time so.
class TempFolder {
 public:
  TempFolder() {
    static std::atomic<unsigned> count{0};
    // The clock keeps test programs that run at the same time apart, the count folders of one program.
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    do {
      path_ = base() / ("hooked_test_" + std::to_string(ticks) + "_" + std::to_string(count++));
    } while (!std::filesystem::create_directories(path_));
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  static std::filesystem::path base() {
    constexpr std::uintmax_t kRoom = std::uintmax_t{4} << 30;
    const std::filesystem::path memory = "/dev/shm";
    std::error_code absent;
    const auto space = std::filesystem::space(memory, absent);
    const bool usable = std::getenv("TMPDIR") == nullptr && !absent && space.available >= kRoom &&
                        ::access(memory.c_str(), W_OK) == 0;
    return usable ? memory : std::filesystem::temp_directory_path();
  }

  std::filesystem::path path_;
};

}  // namespace hooked
