#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The sets of kernels that hooked computes with on a CPU, by the instructions that they use. Each set also
/// uses the instructions of the sets before it.
enum class KernelSet : std::uint8_t {
  plain,        ///< LibTorch's operators
  avx2,         ///< AVX2 and FMA (x86-64-v3)
  avx512,       ///< AVX-512 (x86-64-v4)
  avx512_bf16,  ///< products of bfloat16 pairs (avx512_bf16)
  amx           ///< products of tiles of bfloat16 (amx_tile, amx_bf16)
};

/// Its name, as HOOKED_KERNELS takes it: `avx512_bf16`.
std::string_view to_string(KernelSet set) noexcept;

/// The sets that this processor and this build support, the best one last.
const std::vector<KernelSet>& kernel_sets();

/// The set in use: the best one, or the one that the environment variable HOOKED_KERNELS names. Chosen at the
/// first call, for the life of the process.
/// Throws ConfigError if HOOKED_KERNELS does not name a set of kernel_sets().
KernelSet kernel_set();

}  // namespace hooked
