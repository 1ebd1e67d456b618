#pragma once

// Vectors of HOOKED_LANES numbers, which a set of kernels defines before its first loop.
namespace hooked::kernels {
namespace {

constexpr int kLanes = HOOKED_LANES;
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef std::uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef std::int32_t Integers __attribute__((vector_size(4 * kLanes)));
typedef std::int8_t Bytes __attribute__((vector_size(kLanes)));
typedef std::uint16_t Halves __attribute__((vector_size(2 * kLanes)));

// Note [Numbers that are not aligned]
// Rows begin anywhere, brain floats at any even address. The compiler may assume that a reference to a vector
// is aligned as the vector is, whatever it was bound to; reading through it then ends the program if the
// compiler chose an instruction that needs aligned addresses. So only these functions read and write memory;
// they take and return vectors by value.
typedef float UnalignedFloats __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));
typedef std::uint32_t UnalignedWords __attribute__((vector_size(4 * kLanes), aligned(2), may_alias));
typedef std::uint16_t UnalignedHalves __attribute__((vector_size(2 * kLanes), aligned(2), may_alias));
typedef std::int8_t UnalignedBytes __attribute__((vector_size(kLanes), aligned(1), may_alias));
typedef std::uint32_t UnalignedWord __attribute__((aligned(2), may_alias));

[[gnu::always_inline]] inline Floats floats_at(const void* from) {
  return *static_cast<const UnalignedFloats*>(from);
}
[[gnu::always_inline]] inline Words words_at(const void* from) {
  return *static_cast<const UnalignedWords*>(from);
}
[[gnu::always_inline]] inline Halves halves_at(const void* from) {
  return *static_cast<const UnalignedHalves*>(from);
}
[[gnu::always_inline]] inline Bytes bytes_at(const void* from) {
  return *static_cast<const UnalignedBytes*>(from);
}
// The same word in each lane.
[[gnu::always_inline]] inline Words word_at(const void* from) {
  return Words{} + *static_cast<const UnalignedWord*>(from);
}

[[gnu::always_inline]] inline void store(void* to, Floats values) {
  *static_cast<UnalignedFloats*>(to) = values;
}
[[gnu::always_inline]] inline void store(void* to, Words values) {
  *static_cast<UnalignedWords*>(to) = values;
}
[[gnu::always_inline]] inline void store(void* to, Halves values) {
  *static_cast<UnalignedHalves*>(to) = values;
}

}  // namespace
}  // namespace hooked::kernels
