#include "analysis/graphs/graph_targets.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

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
  for (const std::int64_t token : tokens) {
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

}  // namespace hooked
