#include "engine/cache_origin.h"

#include <optional>
#include <utility>

#include "engine/run_input.h"

namespace hooked {
namespace {

void set_ids(ActivationCache& cache, Stack of, const at::Tensor& ids) {
  if (!ids.defined() || !cache.tokens(of)) return;
  TokenColumns columns = *cache.tokens(of);
  const std::int64_t before = columns.end - ids.size(1);  // number of leading ids outside the columns
  if (before > columns.first || before < 0) return;
  columns.ids = ids.narrow(1, columns.first - before, columns.end - columns.first);
  cache.set_tokens(std::move(columns), of);
}

// On a device a copy would be one more launch per run. There the caller's ids have been copied already,
// unless they were on that device.
at::Tensor own(const at::Tensor& ids) { return ids.defined() && ids.is_cpu() ? ids.clone() : ids; }

// `there`, but as the caller gave it if that is on the host.
at::Tensor as_given(const at::Tensor& given, const at::Tensor& there) {
  if (!there.defined() || !given.defined() || !given.is_cpu() || given.numel() != there.numel()) return there;
  return given.reshape(there.sizes());
}

void take_mask(ActivationCache& cache, Stack of, const at::Tensor& given) {
  if (!cache.tokens(of) || !cache.tokens(of)->mask.defined()) return;
  TokenColumns columns = *cache.tokens(of);
  const at::Tensor mask = as_given(given, columns.mask);
  if (!mask.is_cpu()) return;
  columns.mask = mask.to(at::kBool, /*non_blocking=*/false, /*copy=*/true);
  cache.set_tokens(std::move(columns), of);
}

// The caller's own prefix: a recorded run read a copy, which the next one overwrites.
void set_prefix_mask(ActivationCache& cache, const Input& input) {
  const at::Tensor real = prefix_mask(input);
  if (!cache.tokens() || !real.defined()) return;
  TokenColumns columns = *cache.tokens();
  const bool on_host = columns.mask.defined() && columns.mask.is_cpu();
  columns.prefix_mask =
      on_host ? real.to(at::kCPU, at::kBool, /*non_blocking=*/false, /*copy=*/true) : own(real);
  cache.set_tokens(std::move(columns));
}

}  // namespace

void set_origin(ActivationCache& cache, const LoadedModel& model, const Input& prompt,
                const at::Tensor& ids) {
  cache.set_model(model.identity());
  set_prefix_mask(cache, prompt);
  if (!cache.empty()) set_ids(cache, Stack::none, ids);
}

void set_origin(ActivationCache& cache, const LoadedModel& model, const RunInput& of, const WatchPlan& plan) {
  cache.set_model(model.identity());
  const Input& input = of.checked;
  const bool to_host = !model.device.is_cpu() && plan.kept().device && plan.kept().device->is_cpu();
  const Input given = to_host ? with_ids(model, of.given) : input;
  if (to_host) {
    take_mask(cache, Stack::none, given.main_mask());
    if (input.feeds_encoder()) take_mask(cache, Stack::encoder, given.attention_mask);
  }
  set_prefix_mask(cache, input);
  const WatchPlan::PointPlan* at_tokens = plan.find(model.points.require({.site = Site::tokens}));
  if (cache.empty() || (at_tokens != nullptr && at_tokens->may_change())) return;
  set_ids(cache, Stack::none, own(as_given(given.main_tokens(), input.main_tokens())));
  if (input.feeds_encoder()) set_ids(cache, Stack::encoder, own(as_given(given.tokens, input.tokens)));
}

}  // namespace hooked
