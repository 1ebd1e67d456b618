#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hooked {

/// Tensors by name; among activations there may be `logits` and `grad.<name>`.
using NamedTensors = std::map<std::string, at::Tensor>;

/// What is stored for a tensor of more than 8 numbers (tests/golden/README.md, "Projections").
struct Projection {
  std::string name;  ///< seeds the weights of the sums
  std::vector<std::int64_t> shape;
  std::int64_t minus_infinities = 0;
  std::int64_t left_out = 0;        ///< places that are not compared: padding, or missing numbers
  std::int64_t not_finite = 0;      ///< NaN and +infinity, which nothing recorded holds
  std::uint64_t places = 0;         ///< a hash of the places of all these
  double largest = 0.0;             ///< of the other numbers, without their signs
  std::array<double, 4> sums = {};  ///< of the other numbers times weights in [-1, 1)
};

/// The projection of `value` as a tensor of that name. `left_out`, bool of the same shape, is true where a
/// number is not compared; undefined: nowhere.
Projection projection_of(const std::string& name, const at::Tensor& value, const at::Tensor& left_out = {});

/// What was recorded of one tensor: its numbers, or their projection.
class Recorded {
 public:
  Recorded(at::Tensor numbers) : form_(std::move(numbers)) {}        // NOLINT: either form is one
  Recorded(Projection projection) : form_(std::move(projection)) {}  // NOLINT

  at::IntArrayRef sizes() const;
  /// The same numbers in another shape.
  Recorded reshaped(at::IntArrayRef shape) const;
  /// Null if only a projection was recorded.
  const at::Tensor* numbers() const { return std::get_if<at::Tensor>(&form_); }
  /// The numbers of an input, which is always whole. Throws std::bad_variant_access for a projection.
  const at::Tensor& tensor() const { return std::get<at::Tensor>(form_); }
  /// Throws std::bad_variant_access if the numbers are stored.
  const Projection& projection() const { return std::get<Projection>(form_); }

 private:
  std::variant<at::Tensor, Projection> form_;
};

using RecordedTensors = std::map<std::string, Recorded>;

/// What a safetensors file of expected values holds, whole or projected.
RecordedTensors read_recorded(const std::filesystem::path& path);

}  // namespace hooked
