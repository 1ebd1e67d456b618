#include "analysis/graphs/graph_targets.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "hooked/analysis/graph_interventions.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr const char* kTargets = "targets of an attribution graph";

std::vector<std::int64_t> most_probable(const at::Tensor& probabilities,
                                        const AttributionGraphOptions& options) {
  const auto [largest, ids] = at::topk(probabilities, std::min(options.max_logits, probabilities.size(0)));
  std::vector<std::int64_t> tokens;
  double sum = 0;
  for (std::int64_t i = 0; i < ids.size(0) && sum < options.desired_probability; ++i) {
    tokens.push_back(ids[i].item<std::int64_t>());
    sum += largest[i].item<double>();
  }
  return tokens;
}

}  // namespace

std::vector<std::string> token_texts(const HookedTransformer& model, const at::Tensor& tokens) {
  const at::Tensor ids = tokens.to(at::kCPU).flatten();
  if (model.has_tokenizer()) return model.to_str_tokens(ids);
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    texts.push_back(fmt::format("{}", ids[i].item<std::int64_t>()));
  return texts;
}

GraphLogits graph_logits(const HeldRun& held, const AttributionGraphOptions& options) {
  const HookedTransformer& model = held.model();
  const at::Tensor probabilities = held.logits().to(at::kCPU, at::kDouble).softmax(-1);
  const std::int64_t vocabulary = probabilities.size(0);
  std::vector<std::int64_t> tokens = options.logit_tokens;
  if (tokens.empty() && options.directions.empty()) tokens = most_probable(probabilities, options);
  std::set<std::int64_t> there;
  for (const std::int64_t token : tokens) {
    if (!there.insert(token).second)
      throw ShapeError(kTargets, fmt::format("token {} is there twice; expected each target once", token));
    if (token < 0 || token >= vocabulary) {
      throw ShapeError(kTargets,
                       fmt::format("there is no token {}; expected 0 to {}", token, vocabulary - 1));
    }
  }
  GraphLogits made;
  const at::Tensor ids = at::tensor(tokens, at::kLong);
  const std::vector<std::string> texts =
      tokens.empty() ? std::vector<std::string>() : token_texts(model, ids);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    made.nodes.push_back({.kind = GraphNodeKind::logit,
                          .pos = held.length() - 1,
                          .id = tokens[i],
                          .value = probabilities[tokens[i]].item<double>(),
                          .text = texts[i]});
  }
  const at::Tensor end = held.end();
  const double scale = model.config().unembedding->scale;
  const at::Tensor W_U = model.weights().W_U().to(end.device()), b_U = model.weights().b_U().to(end.device());
  const at::Tensor here = ids.to(end.device());
  const auto wide = [&](const at::Tensor& x) { return x.to(end.scalar_type()) * scale; };
  std::vector<at::Tensor> directions{(wide(W_U.index_select(1, here)) - wide(W_U).mean(1, true)).t()};
  std::vector<at::Tensor> biases{wide(b_U.index_select(0, here)) - wide(b_U).mean()};
  for (std::size_t i = 0; i < options.directions.size(); ++i) {
    const GraphDirection& one = options.directions[i];
    if (!one.direction.defined() || one.direction.sizes() != end.sizes()) {
      throw ShapeError(
          kTargets, fmt::format("direction {} ('{}') does not fit; expected [{}]", i, one.text, end.size(0)));
    }
    made.nodes.push_back({.kind = GraphNodeKind::logit,
                          .pos = held.length() - 1,
                          .id = vocabulary + static_cast<std::int64_t>(i),
                          .value = one.weight,
                          .text = one.text});
    directions.push_back(one.direction.to(end.options()).unsqueeze(0));
    biases.push_back(at::zeros({1}, end.options()));
  }
  made.directions = at::cat(directions);
  made.biases = at::cat(biases);
  return made;
}

void require_graph_of(const HeldRun& held, const AttributionGraph& graph, const char* where) {
  const auto refuse = [&](const GraphNode& node, const std::string& what) {
    throw ShapeError(where, fmt::format("{} {}; expected the graph of this model, prompt and features",
                                        node_name(node), what));
  };
  const at::Tensor tokens = held.input().tokens.select(0, 0).to(at::kCPU);
  std::vector<std::vector<const GraphNode*>> of_layer(static_cast<std::size_t>(held.layers()));
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == GraphNodeKind::token &&
        (node.pos >= held.length() || tokens[node.pos].item<std::int64_t>() != node.id))
      refuse(node, fmt::format("is token {} in the graph and not in the run", node.id));
    if (node.kind != GraphNodeKind::feature) continue;
    if (node.layer < 0 || node.layer >= held.layers() || !held.coders().codes(node.layer))
      refuse(node, "is in a layer without features");
    of_layer[static_cast<std::size_t>(node.layer)].push_back(&node);
  }
  for (std::int64_t layer = 0; layer < held.layers(); ++layer) {
    const auto& nodes = of_layer[static_cast<std::size_t>(layer)];
    if (nodes.empty()) continue;
    const std::int64_t features = held.coders().features(layer);
    const ActiveFeatures& active = held.active(layer);
    std::map<std::int64_t, double> value_of;  // by column and number
    for (const GraphNode* node : nodes) value_of[node->pos * features + node->id] = std::nan("");
    std::vector<std::int64_t> wanted;
    for (const auto& [key, value] : value_of) wanted.push_back(key);
    const at::Tensor keys = active.pos * features + active.features;
    const at::Tensor where_found = at::isin(keys, at::tensor(wanted, keys.options())).nonzero().flatten();
    const at::Tensor found = keys.index_select(0, where_found).to(at::kCPU);
    const at::Tensor values = active.values.index_select(0, where_found).to(at::kCPU, at::kDouble);
    for (std::int64_t k = 0; k < found.size(0); ++k)
      value_of[found.const_data_ptr<std::int64_t>()[k]] = values.const_data_ptr<double>()[k];
    for (const GraphNode* node : nodes) {
      const double value = value_of.at(node->pos * features + node->id);
      if (std::isnan(value)) refuse(*node, "is not active in the run");
      // Files and other dtypes round.
      if (std::abs(value - node->value) > 1e-3 + 0.02 * std::abs(node->value))
        refuse(*node, fmt::format("is {:.4g} in the graph and {:.4g} in the run", node->value, value));
    }
  }
}

}  // namespace hooked
