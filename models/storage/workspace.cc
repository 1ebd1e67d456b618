#include "models/storage/workspace.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "models/storage/slab_memory.h"

namespace hooked {
namespace {

// Below this the C library serves memory that is already mapped.
constexpr std::size_t kSmall = std::size_t{64} << 10;

}  // namespace

Workspace::Workspace() : memory_(std::make_shared<SlabMemory>()) {}

at::Tensor Workspace::empty(at::IntArrayRef sizes, const at::TensorOptions& options) const {
  std::size_t bytes = c10::elementSize(c10::typeMetaToScalarType(options.dtype()));
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  if (bytes < kSmall || !options.device().is_cpu()) return at::empty(sizes, options);
  return at::from_blob(
      memory_->take(bytes), sizes,
      [memory = memory_](void* block) { memory->give_back(static_cast<std::byte*>(block)); }, options);
}

void Workspace::trim() const { memory_->trim(); }

std::size_t Workspace::mapped_bytes() const { return memory_->mapped_bytes(); }

}  // namespace hooked
