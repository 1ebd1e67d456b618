#include "analysis/cell_estimates.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <string>
#include <vector>

#include "analysis/float32_at_least.h"
#include "analysis/standing_edits.h"
#include "core/shared_work.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"

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

/// [row, head, pos] of all heads as [row, pos, kv_head, 1]: what heads that share a key do with it.
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
    if (std::isinf(row(name.site).unseen)) {
      change = at::where(value.eq(unpatched), 0.0, change);
      if (!change.isfinite().all().item<bool>())
        throw HookError(
            where,
            "what is put in is infinite, and the run's own value is not; expected a finite change, "
            "which is all that gradients tell of; sweep() runs such a cell");
    }
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

namespace {

/// What patched queries or keys make of the attention probabilities, times the gradient of these.
struct PatternChange {
  bool of_queries;
  at::Tensor together;     ///< [row, head, query]: by all queries or keys of a row
  at::Tensor by_key = {};  ///< [row, head, key]: of keys, by each alone

  /// Of runs of the layer with these queries or keys [row, pos, head, d_head].
  static PatternChange of(const at::Tensor& patched, const ActivationName& name, const PatchedRuns& runs,
                          const ActivationCache& gradients) {
    const Address scores = act::attn_scores.in(name.stack, name.layer),
                  pattern = act::pattern.in(name.stack, name.layer);
    const at::Tensor stream = runs.value(act::resid_pre.in(name.stack, name.layer).name());
    const ActivationCache changed =
        runs.resume(name.layer, stream.expand({patched.size(0), -1, -1}), {set(Address(name), patched)},
                    Selection(scores) | Selection(pattern));
    const auto kept = [&](const Address& address) { return runs.value(address.name()).to(at::kDouble); };
    const at::Tensor p = kept(pattern), g = gradients[pattern].to(at::kDouble);  // [1, head, query, key]
    PatternChange made{.of_queries = name.site == Site::q,
                       .together = ((changed[pattern].to(at::kDouble) - p) * g).sum(3)};
    if (made.of_queries) return made;
    const at::Tensor higher = at::where(p.gt(0), changed[scores].to(at::kDouble) - kept(scores), 0.0);
    const at::Tensor more = p * at::expm1(higher);
    made.by_key = (more * (g - (p * g).sum(3, /*keepdim=*/true)) / (more + 1.0)).sum(2);
    return made;
  }

  /// By each query or key, [row, pos, head, 1].
  at::Tensor of_columns(std::int64_t heads) const {
    return of_queries ? together.transpose(1, 2).unsqueeze(3) : by_key_head(by_key, heads);
  }
  /// By all keys of a head together, [row, 1, head, 1]; undefined for queries, which do not meet.
  at::Tensor of_heads(std::int64_t heads) const {
    return of_queries ? at::Tensor() : by_key_head(together.sum(2, /*keepdim=*/true), heads);
  }
};

/// What each column of each head changes, and of keys all columns of a head together: [1, pos, head, 1].
struct HeadNumbers {
  at::Tensor of_columns, of_heads;
};

}  // namespace

void require_query_key(const CellGroup& group, const HookedTransformer& model, const SweepOptions& sweep) {
  constexpr const char* kQueryKey = "attribution_patching";
  const bool one = group.reads.size() == 1;
  if (!one || (group.reads.front().site != Site::q && group.reads.front().site != Site::k)) {
    throw HookError(kQueryKey,
                    "query_key follows queries and keys through the attention probabilities; expected the "
                    "site q or k");
  }
  const ActivationName& name = group.reads.front();
  const PointIndex points(model.config());
  if (name.stack != points.stacks().main())
    throw HookError(kQueryKey, "query_key needs runs from a layer on; expected the stack that predicts");
  const ActivationName pattern = act::pattern.in(name.stack, name.layer).name();
  std::vector<Hook> hooks = model.hooks();
  hooks.insert(hooks.end(), sweep.hooks.begin(), sweep.hooks.end());
  if (name.site == Site::k && may_change(pattern, hooks, sweep.edits, points)) {
    throw HookError(pattern.to_string(),
                    "query_key knows what one key does to a softmax, and not what a hook or an edit makes of "
                    "it; expected none at the pattern, or query_key to be false");
  }
}

// Note [Patched queries and keys]
// A query decides one row of the attention probabilities, so a run in which all queries are patched shows
// what each does: the new probabilities less the old ones, times their gradient. A key decides one column of
// the scores, and changes all of a row by the row's sum: with the score higher by d, p_j turns into p_j e^d /
// (1 + p_j (e^d - 1)) and the others into p / (1 + p_j (e^d - 1)). With g the gradient and m the sum of p g
// over the row this changes the metric by p_j (e^d - 1) (g_j - m) / (1 + p_j (e^d - 1)). That holds with
// sinks, too, which are a part of the sum and have no gradient. Where one norm spans all heads, another query
// or key of one head changes those of all, so each head has a run in which it alone is patched; a cell that
// patches all heads takes the run of all of them.
at::Tensor through_patterns(const CellPatches& made, const ActivationName& name, const PatchedRuns& runs,
                            const ActivationCache& gradients, QkNorm::Span normed) {
  if (made.patches.empty()) return numbers_of({});
  const at::Tensor unpatched = runs.value(name), patched = all_patched(made, name, unpatched);
  const std::int64_t heads = patched.size(2);
  const PatternChange together = PatternChange::of(patched, name, runs, gradients);
  HeadNumbers alone{together.of_columns(heads), together.of_heads(heads)}, all = alone;
  if (normed == QkNorm::whole_projection) {
    // A head for each row, the others as they are: what it changes is in every head.
    at::Tensor apart = unpatched.expand({heads, -1, -1, -1}).clone();
    for (std::int64_t head = 0; head < heads; ++head)
      apart[head].select(1, head).copy_(patched[0].select(1, head));
    const PatternChange one = PatternChange::of(apart, name, runs, gradients);
    // [row, pos, head, 1] to [1, pos, row, 1]
    const auto of_rows = [](const at::Tensor& x) {
      return x.defined() ? x.sum(2, true).permute({2, 1, 0, 3}) : x;
    };
    alone = {of_rows(one.of_columns(heads)), of_rows(one.of_heads(heads))};
  }
  const std::string where = name.to_string();
  const AxisContext context{name.site, where, {}};
  std::vector<at::Tensor> numbers;
  for (const Patch& patch : made.patches) {
    at::Tensor sum = at::zeros({}, all.of_columns.options());
    for (const PatchedBlock& block : patch) {
      const AxisIndices& indices = block.place.indices();
      const HeadNumbers& of = indices.find(*axis_on(name.site, Axis::head)) == nullptr ? all : alone;
      const bool whole = indices.find(Axis::pos) == nullptr && of.of_heads.defined();
      sum = sum + take_block(whole ? of.of_heads : of.of_columns, indices, context).sum();
    }
    numbers.push_back(sum);
  }
  return numbers_of(numbers);
}

}  // namespace hooked
