#include <ATen/TensorOperators.h>

#include <array>

#include "tests/device/checks.h"

namespace hooked::device_tests {
namespace gradient_group {
namespace {

at::Tensor metric(const at::Tensor& logits) { return logits.square().mean(); }

NamedTensors gradients(const Subject& s, const Selection& of) {
  return all_of(s.model.run(s.input(), {.gradients = GradientRequest{of, LogitMetric(metric)}}));
}

NamedTensors of_defaults(const Subject& s) { return gradients(s, act::defaults); }
NamedTensors of_everything(const Subject& s) {
  return gradients(s,
                   Selection::matching([](const ActivationName& name) { return !row(name.site).integers; }));
}
NamedTensors of_stream(const Subject& s) {
  const LogitMetric last([](const at::Tensor& logits) { return logits.select(1, 0).sum(); }, {1});
  return all_of(s.model.run(s.input(),
                            {.capture = act::resid_pre, .gradients = GradientRequest{act::resid_pre, last}}));
}

NamedTensors backward_hook(const Subject& s) {
  NamedTensors seen;
  const std::vector<Hook> hooks{Hook(
      act::z, [](const at::Tensor& g) { return g * 0.5; }, HookDirection::backward)};
  return all_of(s.model.run(
      s.input(), {.hooks = hooks, .gradients = GradientRequest{act::resid_pre, LogitMetric(metric)}}));
}

NamedTensors with_edits(const Subject& s) {
  return all_of(s.model.run(s.input(), {.edits = {scale(act::v(s.attending()).pos(1), 0.5),
                                                  scale(act::pattern(s.attending()), 0.5)},
                                        .gradients = GradientRequest{act::defaults, LogitMetric(metric)}}));
}

bool predicts(const Subject& s) { return s.predicts(); }
bool predicts_first(const Subject& s) { return s.predicts() && !s.golden.attention_mask.defined(); }

constexpr std::array<Check, 5> kChecks{{
    {"of_defaults", predicts, of_defaults},
    {"of_everything", predicts, of_everything},
    {"of_stream", predicts_first, of_stream},
    {"backward_hook", predicts, backward_hook},
    {"with_edits", predicts, with_edits},
}};

}  // namespace
}  // namespace gradient_group

std::span<const Check> gradient_checks() { return gradient_group::kChecks; }

}  // namespace hooked::device_tests
