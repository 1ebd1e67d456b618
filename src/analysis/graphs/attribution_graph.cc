// Attribution graphs: which features are in them, and the edges between their nodes.
#include "hooked/analysis/attribution_graph.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/graphs/graph_ranking.h"
#include "analysis/graphs/graph_rows.h"
#include "analysis/graphs/graph_targets.h"
#include "analysis/work/work_clock.h"
#include "core/size_text.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

void require(const AttributionGraphOptions& options) {
  const auto at_least = [](const char* field, std::int64_t value, std::int64_t least) {
    if (value < least)
      throw HookError(kGraph, fmt::format("{} is {}; expected {} or more", field, value, least));
  };
  at_least("max_features", options.max_features.value_or(0), 0);
  at_least("rank_every", options.rank_every, 1);
  at_least("batch", options.batch, 1);
  at_least("excluded_positions", options.excluded_positions, 0);
  at_least("max_logits", options.max_logits, 1);
  if (!(options.desired_probability > 0 && options.desired_probability <= 1)) {
    throw HookError(kGraph, fmt::format("desired_probability is {}; expected more than 0 and at most 1",
                                        options.desired_probability));
  }
}

/// Bytes that a graph needs: those of the run that is held, of a row that gradients pass, of edges.
class GraphMemory {
 public:
  GraphMemory(const ModelConfig& config, std::int64_t length, std::int64_t element, std::uint64_t bound)
      : element_(static_cast<double>(element)), bound_(static_cast<double>(bound)) {
    const auto layers = static_cast<double>(config.n_layers), pos = static_cast<double>(length);
    const auto heads = static_cast<double>(config.n_heads), width = static_cast<double>(config.d_model);
    const double square = heads * pos * pos;
    held_ = element_ * (layers * (square + 4 * pos * width) + 3 * square);
    // What a row keeps of each layer: what values are mixed by, and a few vectors of the stream.
    row_ = element_ * (layers * (square + 3 * pos * width) + 3 * square + 8 * pos * width);
  }

  void require_held() const { require(held_ + row_); }
  /// Rows at a time, at most `most`, if other things need so many bytes.
  std::int64_t rows(std::int64_t most, double others, double sources) const {
    const double each = row_ + element_ * 2 * sources;
    require(held_ + others + each);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>((bound_ / 2 - held_ - others) / each), 1, most);
  }
  double left() const { return bound_ - held_ - row_; }
  double element() const { return element_; }

 private:
  void require(double bytes) const {
    if (bytes <= bound_) return;
    throw MemoryError(
        kGraph, fmt::format("it needs about {}, and the bound (`memory`) is {}; expected a shorter prompt, "
                            "fewer features (`max_features`) or a higher bound",
                            size_text(static_cast<std::uint64_t>(bytes)),
                            size_text(static_cast<std::uint64_t>(bound_))));
  }

  double element_, bound_, held_, row_;
};

/// Computes the edges of some targets and hands them out, [target, source] on the CPU; false: it was ended.
class Batches {
 public:
  Batches(const GraphRows& rows, const AttributionGraphOptions& options, std::int64_t total)
      : rows_(rows), options_(options), total_(total) {}

  template <typename Use>
  bool run(const std::vector<GraphTarget>& targets, const Use& use) {
    for (std::size_t begin = 0; begin < targets.size(); begin += static_cast<std::size_t>(rows_.at_once())) {
      const std::size_t end = std::min(targets.size(), begin + static_cast<std::size_t>(rows_.at_once()));
      const auto first = targets.begin();
      const std::vector<GraphTarget> some(first + static_cast<std::ptrdiff_t>(begin),
                                          first + static_cast<std::ptrdiff_t>(end));
      use(static_cast<std::int64_t>(begin), some, rows_.edges(some).to(at::kCPU));
      done_ += static_cast<std::int64_t>(some.size());
      if (options_.watch && !options_.watch(clock_.at(std::min(done_, total_), total_)) && done_ < total_)
        return false;
    }
    return true;
  }

 private:
  const GraphRows& rows_;
  const AttributionGraphOptions& options_;
  std::int64_t total_, done_ = 0;
  WorkClock clock_;
};

std::vector<std::int64_t> strongest(const at::Tensor& influences, const std::vector<bool>& chosen,
                                    std::int64_t count) {
  const at::Tensor order = influences.argsort(/*stable=*/true, 0, /*descending=*/true);
  const auto* ranked = order.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> next;
  for (std::int64_t i = 0; i < order.numel() && std::ssize(next) < count; ++i) {
    if (!chosen[static_cast<std::size_t>(ranked[i])]) next.push_back(ranked[i]);
  }
  return next;
}

/// Which features, and all that is known of the targets.
struct ChosenFeatures {
  std::vector<std::int64_t> features;  // in the order of their rows
  std::vector<GraphTarget> targets;    // logits, then features
  at::Tensor edges;                    // [target, source], of all sources; undefined: not kept
  bool complete = true;
};

ChosenFeatures choose(const GraphSources& sources, const GraphRows& rows, const GraphLogits& logits,
                      const AttributionGraphOptions& options, std::int64_t most, bool keep, std::int64_t kept,
                      Batches& batches) {
  const std::int64_t n_logits = std::ssize(logits.nodes);
  ChosenFeatures made;
  if (keep)
    made.edges = at::empty({most + n_logits, sources.size()}, logits.directions.options().device(at::kCPU));
  const bool all = most == sources.features();
  std::optional<GraphRanking> ranking;
  if (!all) {
    std::vector<double> weights;
    for (const GraphNode& node : logits.nodes) weights.push_back(node.value);
    ranking.emplace(sources.features(), most + n_logits, kept, weights);
  }
  std::int64_t filled = 0;
  std::vector<std::int64_t> numbers;
  const auto take = [&](std::int64_t begin, const std::vector<GraphTarget>& some, const at::Tensor& edges) {
    const auto count = static_cast<std::int64_t>(some.size());
    if (keep) made.edges.narrow(0, filled, count).copy_(edges);
    for (std::int64_t i = 0; i < count; ++i) {
      const bool is_logit = numbers.empty();
      if (!is_logit) made.features.push_back(numbers[static_cast<std::size_t>(begin + i)]);
      if (ranking) ranking->add(edges[i], is_logit ? -1 : made.features.back());
    }
    made.targets.insert(made.targets.end(), some.begin(), some.end());
    filled += count;
  };
  made.complete = batches.run(rows.directions(logits.directions, logits.biases), take);
  if (!made.complete)
    throw HookError(
        kGraph,
        "it was ended before the edges into the logits were known, so that there is no graph yet; expected "
        "`watch` to go on for longer");
  std::vector<bool> chosen(static_cast<std::size_t>(sources.features()));
  while (made.complete && std::ssize(made.features) < most) {
    const std::int64_t left = most - std::ssize(made.features);
    const std::int64_t count = std::min(left, all ? rows.at_once() : options.rank_every);
    if (all) {
      numbers.resize(static_cast<std::size_t>(count));
      std::iota(numbers.begin(), numbers.end(), std::ssize(made.features));
    } else {
      numbers = strongest(ranking->influences(), chosen, count);
    }
    for (const std::int64_t number : numbers) chosen[static_cast<std::size_t>(number)] = true;
    made.complete = batches.run(rows.features(numbers), take);
  }
  if (keep) made.edges = made.edges.narrow(0, 0, filled);
  return made;
}

/// The rows of a graph, among all targets: features by number, then logits.
std::vector<std::int64_t> order_of(const std::vector<std::int64_t>& features, std::int64_t n_logits) {
  std::vector<std::int64_t> order(features.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::int64_t i) { return features[static_cast<std::size_t>(i)]; });
  for (std::int64_t& row : order) row += n_logits;
  for (std::int64_t logit = 0; logit < n_logits; ++logit) order.push_back(logit);
  return order;
}

void add_nodes(AttributionGraph& graph, const GraphSources& sources,
               const std::vector<std::int64_t>& features, const std::vector<GraphNode>& logits) {
  const HeldRun& held = sources.held();
  std::vector<at::Tensor> pos, ids, values;
  for (std::int64_t layer = 0; layer < held.layers(); ++layer) {
    pos.push_back(sources.of_layer(layer).pos.to(at::kCPU));
    ids.push_back(sources.of_layer(layer).features.to(at::kCPU));
    values.push_back(sources.of_layer(layer).values.to(at::kCPU, at::kDouble));
  }
  for (const std::int64_t number : features) {
    const std::int64_t layer = sources.layer_of(number), i = number - sources.offset(layer);
    const auto at = static_cast<std::size_t>(layer);
    graph.nodes.push_back({.kind = GraphNodeKind::feature,
                           .layer = layer,
                           .pos = pos[at].const_data_ptr<std::int64_t>()[i],
                           .id = ids[at].const_data_ptr<std::int64_t>()[i],
                           .value = values[at].const_data_ptr<double>()[i]});
  }
  for (std::int64_t i = 0; i < sources.errors(); ++i) {
    graph.nodes.push_back(
        {.kind = GraphNodeKind::error, .layer = i / held.length(), .pos = i % held.length()});
  }
  const at::Tensor tokens = held.input().tokens.select(0, 0).to(at::kCPU);
  for (std::int64_t column = 0; column < held.length(); ++column) {
    graph.nodes.push_back({.kind = GraphNodeKind::token,
                           .pos = column,
                           .id = tokens[column].item<std::int64_t>(),
                           .text = graph.prompt_tokens[static_cast<std::size_t>(column)]});
  }
  graph.nodes.insert(graph.nodes.end(), logits.begin(), logits.end());
  graph.features = std::ssize(features);
  graph.errors = sources.errors();
  graph.tokens = held.length();
  graph.logits = std::ssize(logits);
}

}  // namespace

GraphFeatures::GraphFeatures(std::vector<Dictionary> transcoders) : transcoders_(std::move(transcoders)) {}

GraphFeatures GraphFeatures::neurons() {
  GraphFeatures features({});
  features.neurons_ = true;
  return features;
}

AttributionGraph attribute_graph(const HookedTransformer& model, const GraphFeatures& features,
                                 const Input& input, const AttributionGraphOptions& options) {
  require(options);
  const std::unique_ptr<GraphCoders> coders = graph_coders(model, features);
  const Input row = graph_input(model, input, kGraph);
  const GraphMemory memory(model.config(), row.length(),
                           static_cast<std::int64_t>(c10::elementSize(coders->dtype())), options.memory);
  memory.require_held();
  const HeldRun held(model, *coders, row, options.excluded_positions);
  const GraphLogits logits = graph_logits(held, options);
  const GraphSources sources(held);
  const std::int64_t n_logits = std::ssize(logits.nodes);
  const std::int64_t most = std::min(options.max_features.value_or(sources.features()), sources.features());

  // All edges into the targets are kept if they fit; else the strongest of each, by which features are
  // ranked, and the edges between chosen features are computed again.
  const double targets = static_cast<double>(most + n_logits), all = static_cast<double>(sources.size());
  const double others = static_cast<double>(most + sources.errors() + held.length());
  const double graph_bytes = memory.element() * targets * others;
  const bool keep = most == sources.features() || memory.element() * targets * all < memory.left() / 4;
  const double kept =
      keep ? static_cast<double>(sources.features())
           : std::clamp(memory.left() / 4 / (8 * targets), 1.0, static_cast<double>(sources.features()));
  const double bytes = keep ? memory.element() * targets * all +
                                  (most == sources.features() ? 0 : 4 * targets * all) + graph_bytes
                            : 8 * targets * kept + graph_bytes;
  const std::int64_t batch =
      memory.rows(std::min<std::int64_t>(options.batch, std::max(most, n_logits)), bytes, all);
  const GraphRows rows(sources, batch);
  Batches batches(rows, options, (keep ? 1 : 2) * (most + n_logits));
  ChosenFeatures chosen =
      choose(sources, rows, logits, options, most, keep, static_cast<std::int64_t>(kept), batches);

  AttributionGraph graph;
  graph.layers = held.layers();
  graph.vocabulary = model.config().d_vocab_out();
  graph.active = sources.features();
  graph.excluded_positions = held.first();
  graph.prompt_tokens = token_texts(model, held.input().tokens);
  graph.prompt = input.text ? *input.text : model.has_tokenizer() ? model.to_string(held.input().tokens) : "";
  graph.notes = coders->notes();
  const std::vector<std::int64_t> order = order_of(chosen.features, n_logits);
  std::ranges::sort(chosen.features);
  add_nodes(graph, sources, chosen.features, logits.nodes);

  const at::Tensor columns = at::cat(
      {at::tensor(chosen.features, at::kLong), at::arange(sources.features(), sources.size(), at::kLong)});
  std::vector<GraphTarget> in_order;
  for (const std::int64_t target : order)
    in_order.push_back(chosen.targets[static_cast<std::size_t>(target)]);
  if (keep) {
    const at::Tensor of_targets = chosen.edges.index_select(0, at::tensor(order, at::kLong));
    chosen.edges = at::Tensor();
    graph.edges = graph.features == sources.features() ? of_targets : of_targets.index_select(1, columns);
  } else {
    graph.edges = at::zeros({std::ssize(in_order), columns.size(0)}, at::TensorOptions(coders->dtype()));
    chosen.complete = batches.run(in_order, [&](std::int64_t begin, const auto& some,
                                                const at::Tensor& edges) {
      graph.edges.narrow(0, begin, std::ssize(some)).copy_(edges.index_select(1, columns));
    }) && chosen.complete;
  }
  if (!std::isfinite(graph.edges.sum(at::kDouble).item<double>())) {
    throw HookError(kGraph,
                    "edges are not finite, because the run is not; expected finite activations; "
                    "not_finite() of a run names the first that is not");
  }
  std::vector<double> constants, preactivations;
  for (const GraphTarget& target : in_order) {
    constants.push_back(target.constant);
    preactivations.push_back(target.preactivation);
  }
  graph.constants = at::tensor(constants, at::kDouble);
  graph.preactivations = at::tensor(preactivations, at::kDouble);
  if (graph.features < graph.active) {
    graph.notes.push_back(
        fmt::format("{} of {} active features are in the graph; what the others do is in no "
                    "node, not in the errors",
                    graph.features, graph.active));
  }
  if (!chosen.complete) graph.notes.emplace_back("the work was ended before all features were reached");
  return graph;
}

std::int64_t AttributionGraph::row_of(std::int64_t node) const {
  const std::int64_t sources = features + errors + tokens;
  if (node >= 0 && node < features) return node;
  if (node >= sources && node < sources + logits) return node - errors - tokens;
  throw ShapeError(
      kGraph, fmt::format("node {} is no target; expected a feature, 0 to {}, or a logit, {} to {}", node,
                          features - 1, sources, sources + logits - 1));
}

std::int64_t AttributionGraph::column_of(std::int64_t node) const {
  const std::int64_t sources = features + errors + tokens;
  if (node >= 0 && node < sources) return node;
  throw ShapeError(kGraph, fmt::format("node {} is no source; expected 0 to {}", node, sources - 1));
}

double AttributionGraph::edge(std::int64_t source, std::int64_t target) const {
  const std::int64_t column = column_of(source), row = row_of(target);
  return edges[row][column].item<double>();
}

}  // namespace hooked
