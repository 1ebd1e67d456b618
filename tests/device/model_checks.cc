#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <array>
#include <thread>

#include "hooked/engine/trainable_transformer.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/support/temp_folder.h"

namespace hooked::device_tests {
namespace model_group {
namespace {

NamedTensors output_of(const HookedTransformer& model, const Subject& s) {
  return all_of(model.run(s.input(), s.options()));
}

NamedTensors weights(const Subject& s) {
  NamedTensors all;
  for (const auto& [name, weight] : s.model.state_dict()) all[name] = weight;
  return all;
}

NamedTensors saved(const Subject& s, bool packed) {
  const TempFolder folder;
  s.model.save(folder / "model", {.packed = packed});
  return output_of(HookedTransformer::load((folder / "model").string(), {.device = s.devices()}), s);
}
NamedTensors saved_plain(const Subject& s) { return saved(s, false); }
NamedTensors saved_packed(const Subject& s) { return saved(s, true); }

NamedTensors from_state_dict(const Subject& s) {
  return output_of(
      HookedTransformer::from_state_dict(
          s.model.state_dict(), s.config(),
          {.device = s.devices(), .dtype = s.model.dtype(), .processing = WeightProcessing::none()}),
      s);
}

NamedTensors other_device(const Subject& s) {
  const std::string other = s.model.device().is_cpu() ? "cpu" : second_device_under_test();
  const auto model = HookedTransformer::from_state_dict(
      s.model.state_dict(), s.config(),
      {.device = other, .dtype = s.model.dtype(), .processing = WeightProcessing::none()});
  return all_of(model.run(s.input(), s.options({.capture = act::defaults})));
}

NamedTensors trained(const Subject& s) {
  auto model = TrainableTransformer::from(s.model);
  const at::Tensor loss = model.loss(s.input());
  loss.backward();
  NamedTensors all{{"loss", loss.detach()}};
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, parameter] : model.named_parameters()) {
      if (!parameter.grad().defined()) continue;
      all["grad." + name] = parameter.grad();
      parameter.sub_(parameter.grad(), 0.01);
    }
  }
  for (const auto& [name, value] : output_of(model.freeze(), s)) all["after " + name] = value;
  return all;
}

NamedTensors four_threads(const Subject& s) {
  std::array<NamedTensors, 4> made;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < made.size(); ++i) {
    threads.emplace_back(
        [&, i] { made[i] = all_of(s.model.run(s.input(), s.options({.capture = act::defaults}))); });
  }
  for (std::thread& thread : threads) thread.join();
  NamedTensors all;
  for (std::size_t i = 0; i < made.size(); ++i) {
    for (const auto& [name, value] : made[i]) all[std::to_string(i) + " " + name] = value;
  }
  return all;
}

bool trains(const Subject& s) { return s.predicts() && s.causal() && !s.golden.token_types.defined(); }

constexpr std::array<Check, 7> kChecks{{
    {"weights", always, weights},
    {"saved_plain", always, saved_plain},
    {"saved_packed", always, saved_packed},
    {"from_state_dict", always, from_state_dict},
    {"other_device", always, other_device},
    {"trained", trains, trained},
    {"four_threads", always, four_threads},
}};

}  // namespace
}  // namespace model_group

std::span<const Check> model_checks() { return model_group::kChecks; }

}  // namespace hooked::device_tests
