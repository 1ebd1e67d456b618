#include "hooked/core/kernel_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "core/compiled_kernels.h"
#include "hooked/core/error.h"

#ifdef HOOKED_COMPILES_KERNELS
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace hooked {
namespace {

constexpr const char* kVariable = "HOOKED_KERNELS";

constexpr std::array<std::string_view, 5> kNames = {"plain", "avx2", "avx512", "avx512_bf16", "amx"};

std::vector<KernelSet> sets_of_this_processor() {
  std::vector<KernelSet> sets = {KernelSet::plain};
#ifdef HOOKED_COMPILES_KERNELS
  // Linux enables the tile registers only for processes that request them
  // (Documentation/arch/x86/xstate.rst), for all threads of a process at once.
  const auto has_tiles = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;
    return __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  };
  if (!__builtin_cpu_supports("x86-64-v3")) return sets;
  sets.push_back(KernelSet::avx2);
  if (!__builtin_cpu_supports("x86-64-v4")) return sets;
  sets.push_back(KernelSet::avx512);
  if (!__builtin_cpu_supports("avx512bf16")) return sets;
  sets.push_back(KernelSet::avx512_bf16);
  if (has_tiles()) sets.push_back(KernelSet::amx);
#endif
  return sets;
}

KernelSet chosen_set() {
  const auto& sets = kernel_sets();
  const char* const value = std::getenv(kVariable);
  if (value == nullptr || *value == '\0') return sets.back();
  const auto named = std::find(kNames.begin(), kNames.end(), value);
  const auto set = static_cast<KernelSet>(named - kNames.begin());
  const bool known = named != kNames.end();
  if (known && std::find(sets.begin(), sets.end(), set) != sets.end()) return set;
  std::vector<std::string_view> names;
  for (const KernelSet here : sets) names.push_back(to_string(here));
  throw ConfigError(kVariable, fmt::format("{}; expected one of {}, got {}; without the variable {} is taken",
                                           known ? "this processor or this build lacks that set of kernels"
                                                 : "there is no such set of kernels",
                                           fmt::join(names, ", "), value, names.back()));
}

}  // namespace

std::string_view to_string(KernelSet set) noexcept { return kNames[static_cast<std::size_t>(set)]; }

const std::vector<KernelSet>& kernel_sets() {
  static const std::vector<KernelSet> kSets = sets_of_this_processor();
  return kSets;
}

KernelSet kernel_set() {
  static const KernelSet kChosen = chosen_set();
  return kChosen;
}

}  // namespace hooked
