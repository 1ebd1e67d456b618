#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/storage.h"
#include "io/checkpoint/source_tensor.h"

namespace hooked {

/// A tensor of a checkpoint, and its name there.
struct NamedTensor {
  std::string name;
  SourceTensor tensor;
};

/// A weight that is stored as several tensors.
struct StoredParts {
  std::string weight;  ///< the name of the unquantised weight
  NamedTensor numbers, factors;
  std::map<std::string_view, NamedTensor> beside;  ///< by their endings in the form's table
  bool turned = false;  ///< the model wants the matrix of a linear layer [in, out], not [out, in]
  std::set<std::string>* notes = nullptr;  ///< collects what a user should know about how the parts were read

  /// The part with that ending, or null.
  const NamedTensor* find(std::string_view ending) const;
  /// The part with that ending. Throws CheckpointError if the file lacks it.
  const NamedTensor& at(std::string_view ending) const;
};

/// Throws CheckpointError: `tensor 'name' what`.
[[noreturn]] void refuse_part(const NamedTensor& part, std::string_view what);

/// Throws CheckpointError unless `part` has that dtype and shape; `what` names its content: `zero points`.
void require_part(const NamedTensor& part, const NamedTensor& numbers, std::string_view what,
                  std::string_view dtype, const std::vector<std::int64_t>& shape);

std::int64_t number_count(std::span<const std::int64_t> sizes);

/// Bytes `first` to `first + count`.
std::vector<std::byte> part_bytes(const SourceTensor& part, std::int64_t first, std::int64_t count);

/// 32-bit words likewise.
std::vector<std::uint32_t> part_words(const SourceTensor& part, std::int64_t first, std::int64_t count);

/// Whether these can be factors: floating point numbers, or powers of two (e8m0).
bool can_be_factors(const SourceTensor& part);

/// Factors `first` to `first + count` in float32.
std::vector<float> part_factors(const SourceTensor& part, std::int64_t first, std::int64_t count);

/// Rounds float32 numbers to another dtype's precision; dtypes other than F16 and BF16 change
/// nothing.
void round_to_dtype(at::ScalarType dtype, const at::Tensor& numbers);

/// How codes store factors of that dtype, and round numbers to it.
CodeFactors code_factors(at::ScalarType dtype);
CodeRounding code_rounding(at::ScalarType dtype);

/// The largest block of codes that divides `count`, or 0.
int block_size(std::int64_t count);

/// A weight of float32 numbers that are computed on demand. `strides` as in SourceTensor.
SourceTensor made_weight(const NamedTensor& numbers, std::string_view dtype_name,
                         std::vector<std::int64_t> shape, std::vector<std::int64_t> strides,
                         std::function<void(std::int64_t first, const at::Tensor& into)> read_elements);

// A weight of each form, by its parts and by config.json. Throw CheckpointError for parts that do not fit
// each other.

SourceTensor mxfp4_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor fp8_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor gptq_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor awq_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor packed_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor integer_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor parts_of_127_weight(StoredParts parts, const QuantisedStorage& storage);
SourceTensor level_weight(StoredParts parts, const QuantisedStorage& storage);

}  // namespace hooked
