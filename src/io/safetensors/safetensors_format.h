#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "io/files/atomic_file.h"

namespace hooked {

/// Bytes in front of a header that hold its length.
inline constexpr std::uint64_t kLengthBytes = 8;

/// A dtype of the safetensors format.
struct SafetensorsDtype {
  std::string_view name;
  at::ScalarType dtype;  ///< Undefined: the format has it, this engine does not
  std::uint64_t bits;    ///< of one element
};

/// Every dtype of the format, the supported ones first.
inline constexpr std::array<SafetensorsDtype, 20> kSafetensorsDtypes = {{
    {"F64", at::kDouble, 64},
    {"F32", at::kFloat, 32},
    {"F16", at::kHalf, 16},
    {"BF16", at::kBFloat16, 16},
    {"I64", at::kLong, 64},
    {"I32", at::kInt, 32},
    {"I16", at::kShort, 16},
    {"I8", at::kChar, 8},
    {"U8", at::kByte, 8},
    {"BOOL", at::kBool, 8},
    {"U64", at::ScalarType::Undefined, 64},
    {"U32", at::ScalarType::Undefined, 32},
    {"U16", at::ScalarType::Undefined, 16},
    {"C64", at::ScalarType::Undefined, 64},
    {"F8_E5M2", at::ScalarType::Undefined, 8},
    {"F8_E4M3", at::ScalarType::Undefined, 8},
    {"F8_E8M0", at::ScalarType::Undefined, 8},
    {"F6_E2M3", at::ScalarType::Undefined, 6},
    {"F6_E3M2", at::ScalarType::Undefined, 6},
    {"F4", at::ScalarType::Undefined, 4},
}};

/// The dtype of that name, or null when the format has none.
constexpr const SafetensorsDtype* find_safetensors_dtype(std::string_view name) noexcept {
  for (const auto& dtype : kSafetensorsDtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

/// The format's name of a dtype that is supported; empty for another one.
constexpr std::string_view safetensors_dtype_name(at::ScalarType dtype) noexcept {
  for (const auto& known : kSafetensorsDtypes) {
    if (known.dtype == dtype && dtype != at::ScalarType::Undefined) return known.name;
  }
  return {};
}

/// The supported dtypes' names, for messages: `F64, F32, …`.
std::string supported_safetensors_dtypes();

/// Throws CheckpointError about a tensor whose dtype the format has and this engine does not.
[[noreturn]] void refuse_safetensors_dtype(const std::string& where, std::string_view name,
                                           std::string_view dtype);

/// Reads and validates the header of an open file, as SafetensorsFile::open does.
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// Throws CheckpointError about the tensor unless all `bytes` are 0 or 1: any other byte is not a bool in
/// C++, and reading one is undefined behaviour.
void check_bools(const InputFile& file, const TensorInfo& info, std::span<const std::byte> bytes);

using SafetensorsList = std::vector<std::pair<std::string, at::Tensor>>;

/// What save_safetensors writes, into a file that the caller puts in place. Throws as save_safetensors does.
void write_safetensors(AtomicFile& file, const SafetensorsList& tensors, const SafetensorsOptions& options);
/// The same for tensors of these shapes and dtypes, without numbers. Calls `read` with the number of each in
/// the list when it is written.
void write_safetensors(AtomicFile& file, const SafetensorsList& shapes,
                       const std::function<at::Tensor(std::size_t number)>& read,
                       const SafetensorsOptions& options);

}  // namespace hooked
