// Features of a graph's prompt with other values.
#include "hooked/analysis/graph_interventions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "analysis/graphs/graph_rows.h"
#include "analysis/graphs/graph_targets.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kIntervention = "intervention in a graph";

void require_there(const HeldRun& held, const std::vector<FeatureIntervention>& changes) {
  std::set<std::array<std::int64_t, 3>> there;
  for (const FeatureIntervention& change : changes) {
    if (change.layer < 0 || change.layer >= held.layers() || !held.coders().codes(change.layer)) {
      throw ShapeError(kIntervention,
                       fmt::format("layer {} has no features; expected one of {} layers that has",
                                   change.layer, held.layers()));
    }
    if (change.feature < 0 || change.feature >= held.coders().features(change.layer)) {
      throw ShapeError(kIntervention,
                       fmt::format("there is no feature {} in layer {}; expected 0 to {}", change.feature,
                                   change.layer, held.coders().features(change.layer) - 1));
    }
    if (change.pos < 0 || change.pos >= held.length()) {
      throw ShapeError(kIntervention,
                       fmt::format("there is no column {}; expected 0 to {}", change.pos, held.length() - 1));
    }
    if (!there.insert({change.layer, change.pos, change.feature}).second) {
      throw ShapeError(kIntervention,
                       fmt::format("feature {}.{} @{} is changed twice; expected each feature of "
                                   "a column once",
                                   change.layer, change.feature, change.pos));
    }
  }
}

/// A run in which features are changed.
class ChangedRun {
 public:
  ChangedRun(const HeldRun& held, const std::vector<FeatureIntervention>& changes, GraphHold hold)
      : held_(held), changes_(changes), hold_(hold) {
    std::vector<Hook> hooks;
    for (Hook& hook : held.holding(hold == GraphHold::patterns)) {
      if (hold != GraphHold::nothing) hooks.push_back(std::move(hook));
    }
    Selection kept = held.end_at();
    for (std::int64_t layer = 0; layer < held.layers(); ++layer) {
      if (held.coders().codes(layer)) {
        kept = kept | *held.coders().reads(layer);
        const ActivationName codes = held.coders().codes_at(layer);
        if (codes != *held.coders().reads(layer)) {
          hooks.push_back(
              Hook(Selection(codes), [this, layer](const at::Tensor& x) { seen_codes(layer, x); }));
        }
        hooks.push_back(
            Hook(Selection(*held.coders().reads(layer)), [this, layer, codes](const at::Tensor& x) {
              read_[layer] = x.select(0, 0);
              if (codes == *held_.coders().reads(layer)) seen_codes(layer, x);
            }));
      }
      hooks.push_back(Hook(Selection(held.mlp_at(layer)),
                           [this, layer](const at::Tensor& x) { return written(layer, x); }));
    }
    const RunResult result = held.model().run(
        held.input(),
        {.hooks = hooks, .capture = kept, .logit_positions = std::vector<std::int64_t>{held.length() - 1}});
    run_ = result.cache;
    logits_ = result.logits().select(0, 0).select(0, 0);
  }

  at::Tensor read(std::int64_t layer) const {
    return run_[*held_.coders().reads(layer)].select(0, 0).to(held_.coders().dtype());
  }
  at::Tensor end() const { return run_[held_.end_at()].select(0, 0).select(0, 0).to(held_.coders().dtype()); }
  const at::Tensor& logits() const { return logits_; }

 private:
  /// Adds what the changes of a layer write to the layers that they write to.
  void seen_codes(std::int64_t layer, const at::Tensor& x) {
    const bool held = hold_ == GraphHold::everything;
    for (const FeatureIntervention& change : changes_) {
      if (change.layer != layer) continue;
      const at::Tensor from = held ? held_.run()[held_.coders().codes_at(layer)] : x;
      const at::Tensor code = held_.coders().codes_of(layer, from.select(0, 0)[change.pos])[change.feature];
      const at::Tensor which = at::tensor({change.feature}, at::kLong).to(x.device());
      for (std::int64_t target = layer; target < held_.layers(); ++target) {
        if (!held_.coders().writes(layer, target)) continue;
        at::Tensor& delta = deltas_[target];
        if (!delta.defined()) delta = at::zeros_like(held_.mlp_out(target));
        delta[change.pos] +=
            (held_.coders().decoder(layer, target, which)[0] * (change.value - code)).to(delta.device());
      }
    }
  }

  at::Tensor written(std::int64_t layer, const at::Tensor& x) {
    at::Tensor value =
        hold_ == GraphHold::everything ? held_.mlp_out(layer) : x.select(0, 0).to(held_.coders().dtype());
    if (hold_ == GraphHold::everything && held_.coders().skip(layer).defined())
      value = value + held_.skipped(layer, read_[layer].to(value.scalar_type()) - held_.read(layer));
    if (const auto delta = deltas_.find(layer); delta != deltas_.end()) value = value + delta->second;
    return value.to(x.scalar_type()).unsqueeze(0);
  }

  const HeldRun& held_;
  const std::vector<FeatureIntervention>& changes_;
  GraphHold hold_;
  std::map<std::int64_t, at::Tensor> read_, deltas_;
  ActivationCache run_;
  at::Tensor logits_;
};

}  // namespace

std::string node_name(const GraphNode& node) {
  switch (node.kind) {
    case GraphNodeKind::feature:
      return fmt::format("feature {}.{} @{}", node.layer, node.id, node.pos);
    case GraphNodeKind::error:
      return fmt::format("error {} @{}", node.layer, node.pos);
    case GraphNodeKind::token:
      return fmt::format("token @{}", node.pos);
    case GraphNodeKind::logit:
      break;
  }
  return fmt::format("logit {}", node.id);
}

InterventionEffect intervene(const HookedTransformer& model, const GraphFeatures& features,
                             const Input& input, const AttributionGraph& graph,
                             const std::vector<FeatureIntervention>& changes, GraphHold hold) {
  const std::unique_ptr<GraphCoders> coders = graph_coders(model, features);
  const HeldRun held(model, *coders, graph_input(model, input, kIntervention), graph.excluded_positions);
  require_graph_of(held, graph, kIntervention);
  require_there(held, changes);
  const ChangedRun changed(held, changes, hold);
  const std::int64_t rows = graph.features + graph.logits;
  at::Tensor values = at::full({rows, 2}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  GridAxis axis{.name = "target", .labels = {}};
  for (std::int64_t row = 0; row < rows; ++row) {
    const GraphNode& node = graph.nodes[static_cast<std::size_t>(graph.target(row))];
    axis.labels.push_back(node_name(node));
    const std::optional<GraphTarget> target = target_of(held, node);
    if (!target) continue;
    const auto read = [&](const at::Tensor& x) {
      return (x * target->reads.direction).sum().item<double>() + target->bias;
    };
    const bool logit = node.kind == GraphNodeKind::logit;
    values[row][0] = read(logit ? held.end() : held.read(node.layer)[node.pos]);
    values[row][1] = read(logit ? changed.end() : changed.read(node.layer)[node.pos]);
  }
  return {.preactivations = Grid(values, {axis, {.name = "run", .labels = {"unchanged", "changed"}}},
                                 {.title = "Pre-activations of a graph's targets", .unit = "pre-activation"}),
          .logits = changed.logits()};
}

}  // namespace hooked
