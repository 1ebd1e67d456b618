#pragma once

#include <cstdlib>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

namespace hooked {

/// Variables that are removed from the environment, and restored at the end.
class ScopedEnvironment {
 public:
  ScopedEnvironment(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      ::unsetenv(name);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  static void unset(const char* name) { ::unsetenv(name); }

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

/// The variables that say where the hub cache is.
inline constexpr std::initializer_list<const char*> kHubSettings = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
                                                                    "HF_HOME", "XDG_CACHE_HOME", "HOME"};

}  // namespace hooked
