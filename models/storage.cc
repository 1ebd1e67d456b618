#include "models/storage.h"

#include <array>

#include "models/kernels/packed_product.h"
#include "models/plain_kernels.h"

namespace hooked {
namespace {

struct StorageRow {
  Storage storage;
  std::string_view name;
};

constexpr std::array<StorageRow, 3> kNamedStorages = {{{Storage::plain, "plain"},
                                                       {Storage::narrow_blocks, "narrow_blocks"},
                                                       {Storage::wide_blocks, "wide_blocks"}}};

}  // namespace

Storage fastest_storage(const at::TensorOptions& options) {
  const auto dtype = options.dtype().toScalarType();
  if (!options.device().is_cpu() || !(dtype == at::kBFloat16 || dtype == at::kFloat) || plain_kernels()) {
    return Storage::plain;
  }
  switch (kernels::best_instructions()) {
    case kernels::Instructions::none:
      return Storage::plain;
    case kernels::Instructions::avx2:
      return Storage::narrow_blocks;
    case kernels::Instructions::avx512:
    case kernels::Instructions::avx512_bf16:
    case kernels::Instructions::amx_bf16:
      return Storage::wide_blocks;
  }
  return Storage::plain;
}

std::string_view storage_name(Storage storage) noexcept {
  for (const StorageRow& known : kNamedStorages) {
    if (known.storage == storage) return known.name;
  }
  return "fastest";
}

std::optional<Storage> parse_storage(std::string_view name) noexcept {
  for (const StorageRow& known : kNamedStorages) {
    if (known.name == name) return known.storage;
  }
  return std::nullopt;
}

}  // namespace hooked
