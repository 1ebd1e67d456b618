#pragma once

#include <cstdint>
#include <string_view>

// How goldens are drawn and hashed, here and in tests/golden/makers/projections.py.
namespace hooked {

/// https://prng.di.unimi.it/splitmix64.c, from the state `x`.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// FNV-1a of 64 bits.
constexpr std::uint64_t hash_of(std::string_view name) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (const char letter : name) value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  return value;
}

}  // namespace hooked
