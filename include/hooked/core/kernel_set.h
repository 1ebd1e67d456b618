#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// The sets of kernels that hooked computes with on a CPU, by the instructions that they use. Each uses those
/// of the sets before it, too.
enum class KernelSet : std::uint8_t {
  plain,        ///< LibTorch's operators
  avx2,         ///< AVX2 and FMA (x86-64-v3)
  avx512,       ///< AVX-512 (x86-64-v4)
  avx512_bf16,  ///< products of bfloat16 pairs (avx512_bf16)
  amx           ///< products of tiles of bfloat16 (amx_tile, amx_bf16)
};

/// Its name, which HOOKED_KERNELS takes: `avx512_bf16`.
std::string_view to_string(KernelSet set) noexcept;

/// The sets that this processor and this build have, the best one last.
const std::vector<KernelSet>& kernel_sets();

/// The set in use: the best one, or the one that the environment variable HOOKED_KERNELS names. Chosen at the
/// first call, for the life of the process.
/// Throws ConfigError where HOOKED_KERNELS names no set or one that is not among kernel_sets().
KernelSet kernel_set();

}  // namespace hooked
