#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hooked {

/// The element of `weight` at that place in row-major order, as a view without axes.
at::Tensor element_of(const at::Tensor& weight, std::int64_t place);

/// A few numbers spread over each weight, for fingerprints: they must not read all of a model that is mapped
/// from a file.
class WeightSample {
 public:
  /// A weight. `number` returns its i-th element, a tensor without axes.
  void add(const std::string& name, at::IntArrayRef sizes,
           const std::function<at::Tensor(std::int64_t)>& number);

  /// SHA-1, in hexadecimal, of `facts`, the weights' names and sizes, and the numbers. They are rounded to
  /// float32, because in float64 the last digits of processed weights depend on the kernels that processed
  /// them. Reads from each device once.
  std::string fingerprint(std::string facts) const;

 private:
  std::string names_;
  std::vector<at::Tensor> numbers_;
};

}  // namespace hooked
