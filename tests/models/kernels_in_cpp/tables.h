#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "models/kernels/kernels.h"

namespace hooked::kernels {

/// The loops of each set, compiled for any processor: each instruction that a loop asks for by name is a
/// function in plain C++, and addresses misaligned for their type end the program. So kernels that a
/// processor lacks are tested on it too.
Kernels avx2_in_cpp();
Kernels avx512_in_cpp();
Kernels avx512_bf16_in_cpp(Kernels avx512);  ///< as avx2_in_cpp
Kernels amx_in_cpp(Kernels avx512_bf16);     ///< as avx2_in_cpp

/// A table and its name in failures.
struct NamedKernels {
  std::string name;
  Kernels kernels;

  friend void PrintTo(const NamedKernels& table, std::ostream* stream) { *stream << table.name; }
};

/// The tables of the sets that this processor has, and those of all sets in plain C++.
inline std::vector<NamedKernels> all_tables() {
  std::vector<NamedKernels> tables;
  for (const KernelSet set : kernel_sets()) {
    if (set != KernelSet::plain) tables.push_back({std::string(to_string(set)), kernels_of(set)});
  }
  const Kernels avx512 = avx512_in_cpp(), avx512_bf16 = avx512_bf16_in_cpp(avx512);
  tables.push_back({"avx2_in_cpp", avx2_in_cpp()});
  tables.push_back({"avx512_in_cpp", avx512});
  tables.push_back({"avx512_bf16_in_cpp", avx512_bf16});
  tables.push_back({"amx_in_cpp", amx_in_cpp(avx512_bf16)});
  return tables;
}

}  // namespace hooked::kernels
