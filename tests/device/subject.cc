#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include "tests/device/checks.h"

namespace hooked::device_tests {

DeviceNames Subject::devices() const {
  std::vector<std::string> names;
  for (const c10::Device& device : model.placement().devices()) names.push_back(device.str());
  return names;
}

at::Tensor Subject::random(at::IntArrayRef sizes, std::uint64_t seed) const {
  const at::Tensor numbers =
      at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
  return there(numbers.to(model.dtype()));
}

Input Subject::input() const {
  return {golden.tokens,
          {.attention_mask = golden.attention_mask,
           .token_types = golden.token_types,
           .decoder = {.tokens = golden.decoder_tokens}}};
}

Input Subject::input_there() const {
  return {there(golden.tokens),
          {.attention_mask = there(golden.attention_mask),
           .token_types = there(golden.token_types),
           .decoder = {.tokens = there(golden.decoder_tokens)}}};
}

RunOptions Subject::options(RunOptions some) const {
  if (!predicts() && some.output == Output::logits) some.output = Output::residual;
  return some;
}

Selection defaults_without_experts() {
  return Selection::matching([](const ActivationName& name) {
    const SiteRow& site = row(name.site);
    return !site.wide && !per_expert(site);
  });
}

NamedTensors all_of(const RunResult& result) {
  NamedTensors all = by_name(result.cache);
  for (const auto& [name, value] : by_name(result.gradients)) all["grad." + name] = value;
  switch (result.output()) {
    case Output::logits:
      all["logits"] = result.logits();
      break;
    case Output::loss:
      all["loss"] = result.loss();
      break;
    case Output::residual:
      all["residual"] = result.residual();
      break;
    case Output::none:
      break;
  }
  return all;
}

}  // namespace hooked::device_tests
