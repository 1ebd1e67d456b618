#include "tests/support/strict_device/places.h"

#include <execinfo.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

extern "C" char __executable_start, _end;  // the linker's: where the program is loaded

namespace hooked::strict {
namespace {

constexpr std::size_t kMostFrames = 128;
constexpr std::size_t kShown = 6;

// `hooked::Sampler::pick(at::Tensor const&)` without what is in parentheses.
std::string without_arguments(const std::string& function) {
  std::string shown;
  int depth = 0;
  for (const char c : function) {
    if (c == '(' || c == '<') ++depth;
    if (depth == 0) shown += c;
    if (c == ')' || c == '>') --depth;
  }
  return shown;
}

bool worth_telling(const std::string& function) {
  return function.find("hooked::") != std::string::npos &&
         function.find("hooked::strict::") == std::string::npos;
}

}  // namespace

Frames frames_here() {
  std::array<void*, kMostFrames> all{};
  const int count = backtrace(all.data(), static_cast<int>(all.size()));
  Frames frames;
  for (int i = 0; i < count; ++i) {
    const auto* const frame = static_cast<const char*>(all[static_cast<std::size_t>(i)]);
    if (frame >= &__executable_start && frame < &_end) frames.push_back(all[static_cast<std::size_t>(i)]);
  }
  return frames;
}

std::string described(const Frames& frames) {
  std::string command = fmt::format("addr2line -f -C -i -e /proc/{}/exe", getpid());
  // A return address may belong to the next function.
  for (void* const frame : frames)
    command += fmt::format(" {:#x}", static_cast<const char*>(frame) - &__executable_start - 1);
  command += " 2>/dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text, last;
  std::array<char, 4096> line{};
  std::size_t shown = 0;
  for (bool function = true; std::fgets(line.data(), line.size(), pipe) != nullptr; function = !function) {
    if (!function) continue;  // file and line, which a program without debug information lacks
    const std::string name(line.data(), std::strcspn(line.data(), "\n"));
    if (!worth_telling(name) || name == last || shown == kShown) continue;
    last = name;
    text += " < " + without_arguments(name);
    ++shown;
  }
  pclose(pipe);
  return text;
}

}  // namespace hooked::strict
