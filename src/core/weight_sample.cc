#include "core/weight_sample.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <c10/util/accumulate.h>
#include <c10/util/hash.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

namespace hooked {

at::Tensor element_of(const at::Tensor& weight, std::int64_t place) {
  std::int64_t offset = weight.storage_offset();
  for (std::int64_t d = weight.dim(); d-- > 0; place /= weight.size(d))
    offset += place % weight.size(d) * weight.stride(d);
  return weight.as_strided({}, {}, offset);
}

void WeightSample::add(const std::string& name, at::IntArrayRef sizes,
                       const std::function<at::Tensor(std::int64_t)>& number) {
  constexpr std::int64_t samples = 4;
  const at::NoGradGuard no_grad;
  const std::int64_t count = c10::multiply_integers(sizes);
  names_ += fmt::format("{} [{}]\n", name, fmt::join(sizes, ", "));
  for (std::int64_t i = 0; count > 0 && i < samples; ++i)
    numbers_.push_back(number((2 * i + 1) * count / (2 * samples)));
}

std::string WeightSample::fingerprint(std::string facts) const {
  const at::NoGradGuard no_grad;
  std::map<std::pair<std::string, at::ScalarType>, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < numbers_.size(); ++i)
    places[{numbers_[i].device().str(), numbers_[i].scalar_type()}].push_back(i);
  std::vector<float> read(numbers_.size());
  for (const auto& [where, of_it] : places) {
    std::vector<at::Tensor> there;
    for (const std::size_t i : of_it) there.push_back(numbers_[i]);
    const at::Tensor here = at::stack(there).to(at::kCPU, at::kFloat);
    for (std::size_t i = 0; i < of_it.size(); ++i) read[of_it[i]] = here.const_data_ptr<float>()[i];
  }
  facts += names_;
  facts.append(reinterpret_cast<const char*>(read.data()), read.size() * sizeof(float));
  return c10::sha1(facts).str();
}

}  // namespace hooked
