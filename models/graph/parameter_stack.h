#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace hooked {

/// Parameters of identical modules, stored together: one tensor for all of the same name, so that one product
/// can read them all. Each module's parameter is its part of that tensor's memory.
class ParameterStack {
 public:
  /// For that many modules.
  explicit ParameterStack(std::int64_t modules) : modules_(modules) {}

  /// The parameter `name` of the module with that number, uninitialised; all modules use the same sizes.
  at::Tensor part(const std::string& name, std::int64_t module, at::IntArrayRef sizes,
                  const at::TensorOptions& options);
  /// All of that name, [module, sizes]; undefined if the modules have no such parameter.
  at::Tensor whole(const std::string& name) const;

 private:
  std::int64_t modules_;
  std::map<std::string, at::Tensor> wholes_;
};

}  // namespace hooked
