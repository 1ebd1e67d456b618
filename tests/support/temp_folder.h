#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>

namespace hooked {

/// A fresh empty folder that is removed with everything in it when the test leaves its scope.
class TempFolder {
 public:
  TempFolder() {
    static std::atomic<unsigned> count{0};
    // The clock keeps test programs that run at the same time apart, the count folders of one program.
    const auto ticks = std::chrono::steady_clock::now().time_since_epoch().count();
    do {
      path_ = std::filesystem::temp_directory_path() /
              ("hooked_test_" + std::to_string(ticks) + "_" + std::to_string(count++));
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
  std::filesystem::path path_;
};

}  // namespace hooked
