#include "engine/cache_origin.h"

#include <optional>
#include <utility>

namespace hooked {
namespace {

void set_ids(ActivationCache& cache, Stack of, const at::Tensor& ids) {
  if (!ids.defined() || !cache.tokens(of)) return;
  TokenColumns columns = *cache.tokens(of);
  const std::int64_t before = columns.end - ids.size(1);  // what the ids begin with
  if (before > columns.first || before < 0) return;
  columns.ids = ids.narrow(1, columns.first - before, columns.end - columns.first);
  cache.set_tokens(std::move(columns), of);
}

// On a device a copy would be one more launch of every run; there the caller's ids are copies already, unless
// they lay there.
at::Tensor own(const at::Tensor& ids) { return ids.defined() && ids.is_cpu() ? ids.clone() : ids; }

}  // namespace

void set_origin(ActivationCache& cache, const LoadedModel& model, const at::Tensor& ids) {
  cache.set_model(model.identity());
  if (!cache.empty()) set_ids(cache, Stack::none, ids);
}

void set_origin(ActivationCache& cache, const LoadedModel& model, const Input& input, const WatchPlan& plan) {
  cache.set_model(model.identity());
  const WatchPlan::PointPlan* at_tokens = plan.find(model.points.require({.site = Site::tokens}));
  if (cache.empty() || (at_tokens != nullptr && at_tokens->may_change())) return;
  set_ids(cache, Stack::none, own(input.main_tokens()));
  if (input.feeds_encoder()) set_ids(cache, Stack::encoder, own(input.tokens));
}

}  // namespace hooked
