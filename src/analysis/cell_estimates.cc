#include "analysis/cell_estimates.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <string>

#include "analysis/float32_at_least.h"
#include "core/shared_work.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"

namespace hooked {
namespace {

// Numbers of several layers may lie on several devices.
at::Tensor numbers_of(const std::vector<at::Tensor>& each) {
  if (each.empty()) return at::empty({0}, at::kDouble);
  std::vector<at::Tensor> together;
  for (const at::Tensor& number : each) together.push_back(to_device(number, each.front().device()));
  return at::stack(together).to(at::kCPU, at::kDouble);
}

/// All patches of a layer's heads in one tensor: places are apart, so one run shows what each does.
at::Tensor all_patched(const CellPatches& made, const ActivationName& name, const at::Tensor& unpatched) {
  const std::string where = name.to_string();
  const AxisContext context{name.site, where, {}};
  const at::Tensor patched = unpatched.clone();
  for (const Patch& patch : made.patches) {
    for (const PatchedBlock& block : patch) {
      if (block.place.indices().find(Axis::d_head) != nullptr) {
        throw HookError(
            where,
            "query_key computes what whole queries and keys make of the attention; expected patches of "
            "all of a head's numbers");
      }
      write_block(patched, block.place.indices(), context, block.value);
    }
  }
  for (const Patch& patch : made.patches) {
    for (const PatchedBlock& block : patch) {
      const at::Tensor put = take_block(patched, block.place.indices(), context);
      if (put.equal(block.value.expand_as(put))) continue;
      throw HookError(
          where, "two cells put different values into one place; expected each place once with query_key");
    }
  }
  return patched;
}

/// Throws HookError where ids are patched. Nothing of such an activation is among the gradients.
void require_gradients(const CellPatches& made) {
  for (const Patch& patch : made.patches) {
    for (const PatchedBlock& block : patch) {
      if (!row(block.place.name().site).integers) continue;
      throw HookError(block.place.name().to_string(), "ids have no gradient; expected another activation");
    }
  }
}

/// [1, head, pos] of all heads as [1, pos, kv_head, 1]: what heads that share a key do with it.
at::Tensor by_key_head(const at::Tensor& effects, std::int64_t kv_heads) {
  return effects.unflatten(1, {kv_heads, -1}).sum(2).transpose(1, 2).unsqueeze(3);
}

}  // namespace

at::Tensor first_order(const CellPatches& made, const PatchedRuns& runs, const ActivationCache& gradients) {
  require_gradients(made);
  const auto effect = [&](const PatchedBlock& block) {
    const ActivationName& name = block.place.name();
    const std::string where = name.to_string();
    const AxisContext context{name.site, where, {}};
    const auto part = [&](const at::Tensor& whole) {
      return float32_at_least(take_block(whole, block.place.indices(), context));
    };
    const at::Tensor unpatched = part(runs.value(name)), value = float32_at_least(block.value);
    at::Tensor change = value - unpatched;
    // Scores that a query may not see are -inf in both.
    if (std::isinf(row(name.site).unseen)) change = at::where(value.eq(unpatched), 0.0, change);
    // What numbers of one vector make is added up in their own dtype, which is several times as fast.
    return (change * part(gradients[Address(name)])).sum(-1).sum(at::kDouble);
  };
  std::vector<at::Tensor> each(made.patches.size());
  const auto estimate = [&](std::int64_t i) {
    at::Tensor& sum = each[static_cast<std::size_t>(i)];
    for (const PatchedBlock& block : made.patches[static_cast<std::size_t>(i)]) {
      const at::Tensor one = effect(block);
      sum = sum.defined() ? sum + to_device(one, sum.device()) : one;
    }
    // (No token of an expert may change.)
    if (!sum.defined()) sum = at::zeros({}, gradients.begin()->value().options().dtype(at::kDouble));
  };
  const auto count = static_cast<std::int64_t>(each.size());
  if (gradients.begin()->value().is_cpu()) {
    share_among_threads(count, estimate);
  } else {
    for (std::int64_t i = 0; i < count; ++i) estimate(i);
  }
  return numbers_of(each);
}

// Note [Patched queries and keys]
// A query decides one row of the attention probabilities, so a run in which all queries are patched shows
// what each does: the new probabilities less the old ones, times their gradient. A key decides one column of
// the scores, and changes all of a row by the row's sum: with the score higher by d, p_j turns into p_j e^d /
// (1 + p_j (e^d - 1)) and the others into p / (1 + p_j (e^d - 1)). With g the gradient and m the sum of p g
// over the row this changes the metric by p_j (e^d - 1) (g_j - m) / (1 + p_j (e^d - 1)). That holds with
// sinks, too, which are a part of the sum and have no gradient.
at::Tensor through_patterns(const CellPatches& made, const ActivationName& name, const PatchedRuns& runs,
                            const ActivationCache& gradients) {
  if (made.patches.empty()) return numbers_of({});
  const Address scores = act::attn_scores.in(name.stack, name.layer),
                pattern = act::pattern.in(name.stack, name.layer);
  const at::Tensor patched = all_patched(made, name, runs.value(name));
  const at::Tensor stream = runs.value(act::resid_pre.in(name.stack, name.layer).name());
  const ActivationCache changed =
      runs.resume(name.layer, stream, {set(Address(name), patched)}, Selection(scores) | Selection(pattern));
  const auto kept = [&](const Address& address) { return runs.value(address.name()).to(at::kDouble); };
  const at::Tensor p = kept(pattern), g = gradients[pattern].to(at::kDouble);       // [1, head, query, key]
  const at::Tensor together = ((changed[pattern].to(at::kDouble) - p) * g).sum(3);  // [1, head, query]
  const std::int64_t heads = patched.size(2);
  at::Tensor each, of_a_head;  // [1, pos, head, 1]; the second: all positions of a head together
  if (name.site == Site::q) {
    each = together.transpose(1, 2).unsqueeze(3);
  } else {
    const at::Tensor seen = p.gt(0);
    const at::Tensor higher = at::where(seen, changed[scores].to(at::kDouble) - kept(scores), 0.0);
    const at::Tensor more = p * at::expm1(higher);
    const at::Tensor effects = more * (g - (p * g).sum(3, /*keepdim=*/true)) / (more + 1.0);
    each = by_key_head(effects.sum(2), heads);
    of_a_head = by_key_head(together.sum(2, /*keepdim=*/true), heads);  // [1, 1, head, 1]
  }
  const std::string where = name.to_string();
  const AxisContext context{name.site, where, {}};
  std::vector<at::Tensor> numbers;
  for (const Patch& patch : made.patches) {
    at::Tensor sum = at::zeros({}, each.options());
    for (const PatchedBlock& block : patch) {
      const bool whole = block.place.indices().find(Axis::pos) == nullptr;
      const at::Tensor& of = whole && of_a_head.defined() ? of_a_head : each;
      sum = sum + take_block(of, block.place.indices(), context).sum();
    }
    numbers.push_back(sum);
  }
  return numbers_of(numbers);
}

}  // namespace hooked
