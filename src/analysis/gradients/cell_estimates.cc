#include "analysis/gradients/cell_estimates.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analysis/runs/standing_edits.h"
#include "analysis/values/float32_at_least.h"
#include "core/parallel.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/point_index.h"
#include "hooks/norm_points.h"
#include "hooks/stream.h"

namespace hooked {
namespace {

// Numbers of different layers may be on different devices.
at::Tensor numbers_of(const std::vector<at::Tensor>& each) {
  if (each.empty()) return at::empty({0}, at::kDouble);
  std::vector<at::Tensor> together;
  for (const at::Tensor& number : each) together.push_back(to_device(number, each.front().device()));
  return at::stack(together).to(at::kCPU, at::kDouble);
}

/// All patches of a layer's heads in one tensor: their places are separate, so one run shows what each does.
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

/// Throws HookError if ids are patched. Such an activation has no gradients.
void require_gradients(const CellPatches& made) {
  for (const Patch& patch : made.patches) {
    for (const PatchedBlock& block : patch) {
      if (!row(block.place.name().site).integers) continue;
      throw HookError(block.place.name().to_string(), "ids have no gradient; expected another activation");
    }
  }
}

/// [row, head, pos] of all heads as [row, pos, kv_head, 1]: the sum over the heads that share a key.
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
    // Products within one vector are added up in their own dtype, which is several times as fast.
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

/// Smaller probabilities of a dtype have lost digits, or are 0.
double least_whole(at::ScalarType dtype) {
  return dtype == at::kDouble ? 1e-300 : dtype == at::kHalf ? 1e-4 : 1e-37;
}

/// Attention probabilities [query, key] of a head, each key against all the others, in float64.
class AgainstOtherKeys {
 public:
  // A saturated softmax rounds probabilities to 0 and 1. The scores tell how small the small ones are, and
  // the rest besides the largest is summed without it.
  AgainstOtherKeys(const at::Tensor& scores, const at::Tensor& pattern, const at::Tensor& gradients,
                   const at::Tensor& sink, double least_probability) {
    const at::Tensor largest = pattern.argmax(1, /*keepdim=*/true);
    const at::Tensor is_largest = at::zeros_like(pattern, at::kBool).scatter_(1, largest, true);
    // A sink is one more key, whose gradient is 0.
    const at::Tensor never = at::full_like(scores.narrow(1, 0, 1), kNever);
    const at::Tensor with_sink = at::cat({scores, sink.defined() ? sink.expand_as(never) : never}, 1);
    const at::Tensor by_scores = with_sink - with_sink.logsumexp(1, /*keepdim=*/true);
    const at::Tensor rounded = at::cat({pattern.lt(least_probability), at::ones_like(never, at::kBool)}, 1);
    const at::Tensor logs = at::where(rounded, by_scores, at::cat({pattern, never}, 1).log());
    const at::Tensor of_keys = logs.narrow(1, 0, pattern.size(1));
    const at::Tensor others = at::cat({of_keys.masked_fill(is_largest, kNever), logs.narrow(1, -1, 1)}, 1);
    const at::Tensor all_others = others.logsumexp(1, true);
    const at::Tensor shares = (others - all_others).exp().nan_to_num(0.0).narrow(1, 0, pattern.size(1));
    const at::Tensor rest = 1.0 - pattern, mean = (pattern * gradients).sum(1, true);
    log_odds_ = of_keys - at::where(is_largest, all_others, rest.log());
    gains_ = gradients -
             at::where(is_largest, (shares * gradients).sum(1, true), (mean - pattern * gradients) / rest);
  }

  /// How each key alone changes the metric if its score is this much higher, [row, query, key].
  at::Tensor effects(const at::Tensor& higher) const {
    const at::Tensor effects = ((log_odds_ + higher).sigmoid() - log_odds_.sigmoid()) * gains_;
    return at::where(log_odds_.isfinite(), effects, 0.0);  // a key that is not visible, or the only one
  }

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  at::Tensor log_odds_;
  at::Tensor gains_;  // the key's gradient minus the mean gradient of the others
};

/// How patched queries or keys change the attention probabilities, times the gradient of these.
struct PatternChange {
  bool of_queries;
  at::Tensor together;     ///< [row, head, query]: from all queries or keys of a row
  at::Tensor by_key = {};  ///< [row, head, key]: for keys, from each alone

  /// In one of the layers that attend with them, from runs with these queries or keys.
  static PatternChange in(std::int64_t layer, const ActivationCache& changed, const PatchedRuns& runs,
                          const ActivationCache& gradients, const AttentionWith& attention) {
    const Address scores = attention.in(layer, act::attn_scores), pattern = attention.in(layer, act::pattern);
    const at::Tensor kept = runs.value(pattern.name()), p = kept.to(at::kDouble),
                     g = gradients[pattern].to(at::kDouble);  // [1, head, query, key]
    PatternChange made{.of_queries = attention.patched().site == Site::q,
                       .together = ((changed[pattern].to(at::kDouble) - p) * g).sum(3)};
    if (made.of_queries) return made;
    const double least = least_whole(kept.scalar_type());
    const at::Tensor before = runs.value(scores.name()).to(at::kDouble),
                     higher = changed[scores].to(at::kDouble) - before;
    at::Tensor sinks = attention.sinks(layer);
    if (sinks.defined()) sinks = to_device(sinks, p.device());
    std::vector<at::Tensor> by_key;
    for (std::int64_t head = 0; head < p.size(1); ++head) {
      const at::Tensor sink = sinks.defined() ? sinks[head] : sinks;
      const AgainstOtherKeys keys(before[0][head], p[0][head], g[0][head], sink, least);
      by_key.push_back(keys.effects(higher.select(1, head)).sum(1));
    }
    made.by_key = at::stack(by_key, 1);
    return made;
  }

  /// In all layers that attend with them, from runs with these queries or keys [row, pos, head, d_head].
  static PatternChange of(const at::Tensor& patched, const PatchedRuns& runs,
                          const ActivationCache& gradients, const AttentionWith& attention) {
    const std::int64_t own = attention.patched().layer;
    const auto stream = [&](std::int64_t layer) {
      return runs.value(attention.in(layer, act::resid_pre).name()).expand({patched.size(0), -1, -1});
    };
    Edits edits{set(Address(attention.patched()), patched)};
    Selection seen;
    for (const std::int64_t layer : attention.layers()) {
      seen = seen | attention.in(layer, act::attn_scores) | attention.in(layer, act::pattern);
      // What reaches a later layer through the stream is left to the gradients.
      if (layer != own) edits.push_back(set(attention.in(layer, act::resid_pre), stream(layer)));
    }
    const ActivationCache changed = runs.resume(own, stream(own), edits, seen);
    PatternChange all = in(own, changed, runs, gradients, attention);
    for (const std::int64_t layer : attention.layers()) {
      if (layer == own) continue;
      const PatternChange more = in(layer, changed, runs, gradients, attention);
      all.together += to_device(more.together, all.together.device());
      all.by_key += to_device(more.by_key, all.by_key.device());
    }
    return all;
  }

  /// From each query or key, [row, pos, head, 1].
  at::Tensor of_columns(std::int64_t heads) const {
    return of_queries ? together.transpose(1, 2).unsqueeze(3) : by_key_head(by_key, heads);
  }
  /// From all keys of a head together, [row, 1, head, 1]; undefined for queries, which are independent.
  at::Tensor of_heads(std::int64_t heads) const {
    return of_queries ? at::Tensor() : by_key_head(together.sum(2, /*keepdim=*/true), heads);
  }
};

/// The change from each column of each head, and for keys from all columns of a head: [1, pos, head, 1].
struct HeadNumbers {
  at::Tensor of_columns, of_heads;
};

}  // namespace

AttentionWith::AttentionWith(const HookedTransformer& model, const ActivationName& patched)
    : model_(model), patched_(patched) {
  const ModelConfig& config = model.config();
  for (std::int64_t layer = patched.layer; layer < config.n_layers; ++layer) {
    const bool own = layer == patched.layer;
    if (own || (patched.site == Site::k && config.attends(layer) && config.key_layer(layer) == patched.layer))
      layers_.push_back(layer);
  }
  read_ = PatchedRuns::read_to_resume(config, patched.layer);
  for (const std::int64_t layer : layers_) {
    patterns_.push_back(in(layer, act::pattern).name());
    read_.push_back(in(layer, act::resid_pre).name());
    read_.push_back(in(layer, act::attn_scores).name());
  }
}

bool AttentionWith::heads_share_a_norm() const {
  const ModelConfig& config = model_.config();
  return config.norms_heads(patched_.layer) && config.qk_norm->span == QkNorm::whole_projection;
}

at::Tensor AttentionWith::sinks(std::int64_t layer) const {
  if (!model_.config().attention_sinks) return {};
  return model_.weights()[BlockPlace{patched_.stack, layer}.path() + ".attn.sinks"].to(at::kDouble);
}

Address AttentionWith::in(std::int64_t layer, const act::BlockSite& site) const {
  return site.in(patched_.stack, static_cast<std::int32_t>(layer));
}

void require_query_key(const CellGroup& group, const HookedTransformer& model, const SweepOptions& sweep) {
  constexpr const char* kQueryKey = "attribution_patching";
  const bool one = group.reads.size() == 1;
  if (!one || (group.reads.front().site != Site::q && group.reads.front().site != Site::k)) {
    throw HookError(kQueryKey,
                    "query_key follows queries and keys through the attention probabilities; expected the "
                    "site q or k");
  }
  const ActivationName& name = group.reads.front();
  const PointIndex& points = model.points();
  if (name.stack != points.stacks().main())
    throw HookError(kQueryKey, "query_key needs runs from a layer on; expected the stack that predicts");
  if (name.site == Site::q) return;
  Hooks hooks = model.hooks();
  hooks.insert(hooks.end(), sweep.hooks.begin(), sweep.hooks.end());
  const AttentionWith attention(model, name);
  for (const ActivationName& pattern : attention.patterns()) {
    if (!may_change(pattern, hooks, sweep.edits, points)) continue;
    throw HookError(pattern.to_string(),
                    "query_key knows what one key does to a softmax, and not what a hook or an edit makes of "
                    "it; expected none at the pattern, or query_key to be false");
  }
}

// Note [Patched queries and keys]
// A query determines one row of the attention probabilities, so a run in which all queries are patched shows
// the effect of each: the new probabilities minus the old ones, times their gradient. A key determines one
// column of the scores. With p its probability, g its gradient and m the mean gradient of the other keys, the
// row's part of the metric is p g + (1 - p) m. The key changes only p: its log-odds rise by as much as its
// score. A sink is just one more key. If one norm spans all heads, another query or key of one head changes
// those of all: then each head has a run in which it alone is patched, and a cell that patches all heads
// takes the run of all of them. Keys are followed into every layer that attends with them.
at::Tensor through_patterns(const CellPatches& made, const AttentionWith& attention, const PatchedRuns& runs,
                            const ActivationCache& gradients) {
  if (made.patches.empty()) return numbers_of({});
  const ActivationName& name = attention.patched();
  const at::Tensor unpatched = runs.value(name), patched = all_patched(made, name, unpatched);
  const std::int64_t heads = patched.size(2);
  const PatternChange together = PatternChange::of(patched, runs, gradients, attention);
  HeadNumbers alone{together.of_columns(heads), together.of_heads(heads)}, all = alone;
  if (attention.heads_share_a_norm()) {
    // One head per row, the others as they are: its change affects every head.
    at::Tensor apart = unpatched.expand({heads, -1, -1, -1}).clone();
    for (std::int64_t head = 0; head < heads; ++head)
      apart[head].select(1, head).copy_(patched[0].select(1, head));
    const PatternChange one = PatternChange::of(apart, runs, gradients, attention);
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

DroppedLayers::DroppedLayers(const ModelConfig& config) : layers_(config.blocks()) {
  for (const Stack stack : stacks_of(config)) {
    for (const StreamStep& step : stream_of(config, stack)) {
      if (step.by_sublayer()) added_[step.block()] = added_[step.block()] | Selection(step.point);
      if (step.kind == StreamStep::Kind::read || step.kind == StreamStep::Kind::write) continue;
      on_stream_.insert(step.point);
      if (step.kind == StreamStep::Kind::norm) on_stream_.insert(scale_of(step.point));
    }
  }
}

Hooks DroppedLayers::dropping(const BlockPlace& layer) const {
  return {Hook(
      added_.at(layer), [](const at::Tensor& gradient) { return gradient * 0.0; }, HookDirection::backward)};
}

bool DroppedLayers::lies_in(const BlockPlace& layer, const Patch& cell) const {
  return std::all_of(cell.begin(), cell.end(), [&](const PatchedBlock& block) {
    const ActivationName& name = block.place.name();
    return name.scope() == SiteScope::block && !on_stream_.contains(name.place()) &&
           name.stack == layer.stack && name.layer == layer.layer;
  });
}

double DroppedLayers::share_without(const BlockPlace& layer, const Patch& cell) const {
  if (cell.empty() || lies_in(layer, cell)) return 0.0;
  const ActivationName& first = cell.front().place.name();
  const auto layers = static_cast<double>(layers_.size());
  return 1.0 / (lies_in({first.stack, first.layer}, cell) ? layers - 1 : layers);
}

}  // namespace hooked
