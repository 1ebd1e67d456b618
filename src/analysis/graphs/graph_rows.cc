// Sources of attribution graphs, and rows of edges.
#include "analysis/graphs/graph_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <map>

#include "analysis/graphs/graph_targets.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

/// Vectors of features that are in memory at a time.
constexpr std::int64_t kFeaturesAtOnce = std::int64_t{1} << 16;

}  // namespace

template <typename Use>
void GraphSources::for_each_position(std::int64_t source, std::int64_t target, const Use& use) const {
  const ActiveFeatures& active = of_layer(source);
  const auto& before = positions_[static_cast<std::size_t>(source)];
  for (std::int64_t begin = 0; begin < active.size(); begin += kFeaturesAtOnce) {
    const std::int64_t end = std::min(active.size(), begin + kFeaturesAtOnce);
    const at::Tensor vectors = held_.coders().decoder(source, target, active.features.slice(0, begin, end)) *
                               active.values.slice(0, begin, end).unsqueeze(1);
    for (std::int64_t pos = 0; pos < held_.length(); ++pos) {
      const std::int64_t from = std::max(begin, before[static_cast<std::size_t>(pos)]);
      const std::int64_t to = std::min(end, before[static_cast<std::size_t>(pos) + 1]);
      if (from < to) use(pos, from, vectors.slice(0, from - begin, to - begin));
    }
  }
}

GraphSources::GraphSources(const HeldRun& held) : held_(held), embedded_(held.embedded()) {
  const at::Tensor ends = at::arange(held.length() + 1, at::kLong);
  offsets_.push_back(0);
  for (std::int64_t layer = 0; layer < held.layers(); ++layer) {
    const ActiveFeatures& active = held.active(layer);
    const at::Tensor before = at::searchsorted(active.pos.to(at::kCPU).contiguous(), ends);
    positions_.emplace_back(before.const_data_ptr<std::int64_t>(),
                            before.const_data_ptr<std::int64_t>() + before.numel());
    offsets_.push_back(offsets_.back() + active.size());
  }
  if (!held.coders().has_errors()) return;
  for (std::int64_t target = 0; target < held.layers(); ++target) {
    at::Tensor error = held.mlp_out(target) - held.constant(target);
    if (held.coders().skip(target).defined()) error = error - held.skipped(target, held.read(target));
    for (std::int64_t source = 0; source <= target; ++source) {
      if (!held.coders().writes(source, target)) continue;
      for_each_position(source, target, [&](std::int64_t pos, std::int64_t, const at::Tensor& vectors) {
        error[pos] -= vectors.sum(0).to(error.device());
      });
    }
    error.slice(0, 0, held.first()).zero_();
    errors_.push_back(error);
  }
}

std::int64_t GraphSources::layer_of(std::int64_t feature) const {
  return std::upper_bound(offsets_.begin(), offsets_.end(), feature) - offsets_.begin() - 1;
}

void GraphSources::add(std::int64_t layer, const at::Tensor& gradient, std::int64_t last,
                       at::Tensor& edges) const {
  if (layer < 0) {
    edges.slice(1, features() + errors()).add_((gradient * embedded_).sum(-1).to(edges.device()));
    return;
  }
  for (std::int64_t source = 0; source <= layer; ++source) {
    if (!held_.coders().writes(source, layer)) continue;
    for_each_position(source, layer, [&](std::int64_t pos, std::int64_t first, const at::Tensor& vectors) {
      if (pos > last) return;
      edges.narrow(1, offset(source) + first, vectors.size(0))
          .add_(at::mm(gradient.select(1, pos), vectors.t().to(gradient.device())).to(edges.device()));
    });
  }
  if (errors() == 0) return;
  edges.narrow(1, features() + layer * held_.length(), held_.length())
      .add_((gradient * error(layer)).sum(-1).to(edges.device()));
}

std::vector<GraphTarget> GraphRows::features(const std::vector<std::int64_t>& numbers) const {
  const HeldRun& held = sources_.held();
  std::vector<GraphTarget> targets(numbers.size());
  std::map<std::int64_t, std::vector<std::size_t>> of_layer;
  for (std::size_t i = 0; i < numbers.size(); ++i) of_layer[sources_.layer_of(numbers[i])].push_back(i);
  for (const auto& [layer, places] : of_layer) {
    const ActiveFeatures& active = sources_.of_layer(layer);
    std::vector<std::int64_t> own;
    for (const std::size_t place : places) own.push_back(numbers[place] - sources_.offset(layer));
    const at::Tensor which = at::tensor(own, at::kLong).to(active.pos.device());
    const at::Tensor features = active.features.index_select(0, which);
    const at::Tensor pos = active.pos.index_select(0, which);
    const at::Tensor read = held.coders().encoder(layer, features);
    const at::Tensor bias = held.coders().encoder_bias(layer, features);
    const at::Tensor added = bias.to(at::kCPU, at::kDouble);
    const auto at_positions = [&](const at::Tensor& x) {
      return ((x.index_select(0, pos) * read).sum(-1) + bias).to(at::kCPU, at::kDouble);
    };
    const at::Tensor all = at_positions(held.read(layer)), none = at_positions(linear_.constant_read(layer));
    const at::Tensor pos_here = pos.to(at::kCPU);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      targets[places[i]] = {{layer, pos_here[row].item<std::int64_t>(), read[row]},
                            added[row].item<double>(),
                            all[row].item<double>(),
                            none[row].item<double>()};
    }
  }
  return targets;
}

std::vector<GraphTarget> GraphRows::directions(const at::Tensor& directions, const at::Tensor& biases) const {
  const HeldRun& held = sources_.held();
  std::vector<GraphTarget> targets;
  for (std::int64_t i = 0; i < directions.size(0); ++i) {
    const auto of = [&](const at::Tensor& x) {
      return (x * directions[i]).sum().item<double>() + biases[i].item<double>();
    };
    targets.push_back({{held.layers(), held.length() - 1, directions[i]},
                       biases[i].item<double>(),
                       of(held.end()),
                       of(linear_.constant_end())});
  }
  return targets;
}

std::optional<GraphTarget> target_of(const HeldRun& held, const GraphNode& node) {
  const bool logit = node.kind == GraphNodeKind::logit;
  if (logit && node.id >= held.logits().size(0)) return std::nullopt;
  const bool there =
      logit || (node.layer >= 0 && node.layer < held.layers() && held.coders().codes(node.layer) &&
                node.pos < held.length() && node.id < held.coders().features(node.layer));
  if (!there)
    throw ShapeError(kGraph, "the graph is not about this prompt and these features; expected its own");
  if (logit) {
    const GraphLogits made = graph_logits(held, {.logit_tokens = {node.id}});
    return GraphTarget{{held.layers(), held.length() - 1, made.directions[0]}, made.biases[0].item<double>()};
  }
  const at::Tensor which = at::tensor({node.id}, at::kLong).to(held.read(node.layer).device());
  return GraphTarget{{node.layer, node.pos, held.coders().encoder(node.layer, which)[0]},
                     held.coders().encoder_bias(node.layer, which).item<double>()};
}

at::Tensor GraphRows::edges(const std::vector<GraphTarget>& targets) const {
  std::vector<ReadDirection> read;
  std::int64_t last = 0, layers = 0;
  for (const GraphTarget& target : targets) {
    read.push_back(target.reads);
    last = std::max(last, target.reads.pos);
    layers = std::max(layers, target.reads.layer);
  }
  const auto rows = static_cast<std::int64_t>(targets.size());
  at::Tensor edges = at::zeros({rows, sources_.size()}, read.front().direction.options());
  linear_.back(read, [&](std::int64_t layer, const at::Tensor& gradient) {
    // An MLP is after what its own features read.
    if (layer < layers) sources_.add(layer, gradient.slice(0, 0, rows), last, edges);
  });
  return edges;
}

}  // namespace hooked
