#include "loading/storage/zero_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hooked {

int stored_less(const CodeMatrix& zeros, const StoredParts& parts, const QuantisedStorage& storage) {
  const std::vector<std::int32_t> stored = zeros.rows_of(0, zeros.rows);
  const std::int32_t middle = 1 << (zeros.bits - 1);
  const auto all_are = [&](std::int32_t value) {
    return std::ranges::all_of(stored, [&](std::int32_t zero) { return zero == value; });
  };
  const int said = storage.zeros_less_one ? 1 : 0, other = 1 - said;
  if (all_are(middle - said)) return said;
  if (all_are(middle - other)) {
    parts.notes->insert(
        fmt::format("[{}] \"sym\" is true, so the zero points mean {}, and they are stored as {}: they are "
                    "read as those of checkpoint_format {}, though the config says {}",
                    storage.where, middle, middle - other, other == 1 ? "gptq" : "gptq_v2",
                    said == 1 ? "gptq" : "gptq_v2"));
    return other;
  }
  const auto odd = std::ranges::find_if(stored, [&](std::int32_t zero) { return zero != middle - said; });
  refuse_part(zeros.stored,
              fmt::format("contradicts the config, where \"sym\" is true; expected zero points of {} "
                          "everywhere, or {} in the other version of the format, got {}; correct \"sym\" "
                          "in {}",
                          middle - said, middle - other, *odd, storage.where));
}

void refuse_zero_points(const StoredParts& parts, const QuantisedStorage& storage) {
  const NamedTensor* zeros = parts.find("_zero_point");
  if (zeros == nullptr) return;
  const std::int64_t size = zeros->tensor.dtype_name == "I32" ? 4 : 1;
  const std::vector<std::byte> bytes = part_bytes(zeros->tensor, 0, number_count(zeros->tensor.shape) * size);
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return;
  refuse_part(*zeros,
              fmt::format("contradicts the config, where \"symmetric\" is true; expected zeros, or no such "
                          "tensor; correct \"symmetric\" in {}",
                          storage.where));
}

}  // namespace hooked
