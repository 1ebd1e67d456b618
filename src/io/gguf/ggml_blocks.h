#pragma once

#include <cstddef>

namespace hooked {

// Decodes a block of numbers of each of GGML's formats, to the last bit as the package `gguf` computes it in
// float32. The table in ggml_types.cc gives the bytes of `block` and the size of `into`.

void decode_q4_0(const std::byte* block, float* into);
void decode_q4_1(const std::byte* block, float* into);
void decode_q5_0(const std::byte* block, float* into);
void decode_q5_1(const std::byte* block, float* into);
void decode_q8_0(const std::byte* block, float* into);
void decode_q2_k(const std::byte* block, float* into);
void decode_q3_k(const std::byte* block, float* into);
void decode_q4_k(const std::byte* block, float* into);
void decode_q5_k(const std::byte* block, float* into);
void decode_q6_k(const std::byte* block, float* into);
void decode_mxfp4(const std::byte* block, float* into);

}  // namespace hooked
