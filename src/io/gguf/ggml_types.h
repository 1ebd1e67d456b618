#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/coded_form.h"

namespace hooked {

/// How GGUF files store the numbers of a tensor: a row of the table in ggml_types.cc.
///
/// A row of a tensor is a whole number of blocks. Block size and bytes are known for every type, because a
/// file cannot be checked without them; only some types are read.
struct GgmlType {
  std::uint32_t number;   ///< in the file
  std::string_view name;  ///< `Q4_K`
  std::int64_t elements;  ///< numbers of a block
  std::uint64_t bytes;    ///< bytes of a block
  at::ScalarType dtype;   ///< dtype that such a tensor is read as; Undefined: it is not read
  /// What numbers the codes of a block are; null where the bytes are numbers of `dtype` already.
  const CodedForm* form;
  /// Unpacks the codes of one block, null with `form`; leaves what the form does not have as it is.
  void (*unpack)(const std::byte* block, CodedBlock& into);

  /// Writes the `elements` numbers of one block of codes.
  void decode(const std::byte* block, float* into) const;
};

/// All of them, by number.
std::span<const GgmlType> ggml_types();

/// The type of that number, or null.
const GgmlType* find_ggml_type(std::uint32_t number);

/// The names of the types that are read, for messages.
std::string supported_ggml_types();

}  // namespace hooked
