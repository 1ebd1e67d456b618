#pragma once

#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace hooked {

/// How the matrices of a graph are stored (Note [Packed matrices], models/storage/matrix.cc).
enum class Storage : std::uint8_t {
  fastest,        ///< as products on this processor read them fastest: one of the others
  plain,          ///< as [out, in] tensors, for training too
  narrow_blocks,  ///< in blocks of 16 columns, as AVX2 kernels read them
  wide_blocks     ///< in blocks of up to 96 columns, as AVX-512 kernels read them
};

/// The storage that Storage::fastest means for tensors of that dtype and device.
Storage fastest_storage(const at::TensorOptions& options);

/// Its name in files: `wide_blocks`.
std::string_view storage_name(Storage storage) noexcept;
/// The storage of that name, or nothing.
std::optional<Storage> parse_storage(std::string_view name) noexcept;

}  // namespace hooked
