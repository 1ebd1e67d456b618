#include "models/storage/storage.h"

#include <array>

#include "hooked/core/kernel_set.h"

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
  const KernelSet set = kernel_set();
  const auto dtype = options.dtype().toScalarType();
  if (set == KernelSet::plain || !options.device().is_cpu() ||
      !(dtype == at::kBFloat16 || dtype == at::kFloat))
    return Storage::plain;
  return set == KernelSet::avx2 ? Storage::narrow_blocks : Storage::wide_blocks;
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
