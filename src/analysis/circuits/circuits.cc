#include "hooked/analysis/circuits.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/circuits/decompositions.h"
#include "analysis/circuits/stream_matrices.h"
#include "analysis/places/row_columns.h"
#include "analysis/values/float32_at_least.h"
#include "analysis/values/numberless.h"
#include "analysis/work/work_steps.h"
#include "core/to_device.h"
#include "core/token_ranks.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

at::Tensor frobenius(const at::Tensor& x) { return x.square().sum(at::IntArrayRef{-2, -1}).sqrt(); }

/// A matrix without its orthogonal factor on the left, [.., r, n], and on the right, [.., m, r]: norms of
/// products do not change.
at::Tensor without_left(const FactoredMatrix& M) {
  return at::matmul(std::get<1>(at::linalg_qr(float32_at_least(M.A()), "r")), float32_at_least(M.B()));
}
at::Tensor without_right(const FactoredMatrix& M) {
  return at::matmul(float32_at_least(M.A()),
                    std::get<1>(at::linalg_qr(float32_at_least(M.B()).mT(), "r")).mT());
}

/// |L R| / (|L| |R|) of each left [.., r, m] with each right [.., m, r], one leading axis each.
at::Tensor composed(const at::Tensor& left, const at::Tensor& right) {
  const auto products = at::matmul(left.unsqueeze(1), right.unsqueeze(0));  // [left, right, r, r]
  return frobenius(products) / (frobenius(left).unsqueeze(1) * frobenius(right).unsqueeze(0));
}

/// Scores of pairs of heads with random weights, one for each draw until `report` says to end; it is told how
/// many there are.
std::vector<double> random_scores(const FactoredMatrix& left, const FactoredMatrix& right,
                                  const CompositionOptions& options,
                                  const std::function<bool(std::int64_t draws)>& report) {
  auto generator = at::detail::createCPUGenerator(options.seed);
  const auto drawn = [&](const FactoredMatrix& like) {
    const auto matrix = [&](const at::Tensor& x) {
      return at::randn({x.size(-2), x.size(-1)}, generator, at::TensorOptions(at::kDouble));
    };
    auto A = matrix(like.A());
    return FactoredMatrix(std::move(A), matrix(like.B()));
  };
  std::vector<double> scores;
  for (std::int64_t draw = 0; draw < options.random_draws; ++draw) {
    const auto from = drawn(left);
    scores.push_back(
        composed(without_left(from).unsqueeze(0), without_right(drawn(right)).unsqueeze(0)).item<double>());
    if (!report(draw + 1)) break;
  }
  return scores;
}

FactoredMatrix read_by(const HookedTransformer& model, HeadInput input, const CircuitOptions& options) {
  if (input == HeadInput::value) return ov_circuits(model, options);
  const auto qk = qk_circuits(model, options);
  return input == HeadInput::query ? qk : qk.t();
}

/// The embedding [vocab, d_model] and what reads the last stream [d_model, vocab], for full circuits.
struct Ends {
  at::Tensor W_E, W_U;
};

Ends ends_of(const HookedTransformer& model, const CircuitOptions& options) {
  constexpr const char* kWhere = "copying_scores";
  const auto& config = model.config();
  const char* lacks = nullptr;
  if (config.has_encoder())
    lacks = "this model has two stacks, and its decoder's tokens are not those it predicts from";
  if (config.unembedding && config.d_vocab_out() != config.d_vocab)
    lacks = "this model predicts another vocabulary than it reads";
  if (lacks != nullptr)
    throw HookError(kWhere, fmt::format("{}; expected a model that predicts its own tokens", lacks));
  const StreamMatrices matrices(model, options, kWhere);
  matrices.require_plain_stream();
  auto W_U = float32_at_least(matrices.unembedding());
  const auto W_E = float32_at_least(matrices.embedding());
  return {W_E, to_device(W_U, W_E.device())};
}

/// The tokens of the vocabulary that are asked, sorted.
at::Tensor asked_tokens(std::int64_t vocab, const CopyingOptions& options) {
  auto generator = at::detail::createCPUGenerator(options.seed);
  const auto drawn = at::randperm(vocab, generator, at::TensorOptions(at::kLong));
  return std::get<0>(drawn.narrow(0, 0, std::min(vocab, options.tokens)).sort());
}

/// A Grid [layer, head] of numbers.
Grid by_head(const at::Tensor& values, std::string title, const char* unit) {
  return Grid(values, {numbered_axis("layer", values.size(0)), numbered_axis("head", values.size(1))},
              {.title = std::move(title), .unit = unit});
}

}  // namespace

FactoredMatrix ov_circuits(const HookedTransformer& model, const CircuitOptions& options) {
  const StreamMatrices matrices(model, options, "ov_circuits");
  matrices.require_plain_values();
  auto values = matrices.all([&](std::int64_t layer) { return matrices.values(layer); });
  return {std::move(values), matrices.all([&](std::int64_t layer) { return matrices.outputs(layer); })};
}

FactoredMatrix qk_circuits(const HookedTransformer& model, const CircuitOptions& options) {
  const StreamMatrices matrices(model, options, "qk_circuits");
  const auto keys =
      matrices.all([&](std::int64_t layer) { return matrices.keys(layer); });  // refuses latents
  matrices.require_plain_scores();
  return {matrices.all([&](std::int64_t layer) { return matrices.queries(layer); }), keys.mT()};
}

CompositionScores composition_scores(const HookedTransformer& model, HeadInput input,
                                     const CompositionOptions& options) {
  if (options.random_draws < 2)
    throw ShapeError(
        "composition_scores",
        fmt::format("a baseline of {} draws has no deviation; expected at least 2", options.random_draws));
  StreamMatrices(model, options.circuits, "composition_scores").require_plain_stream();
  const auto writes = ov_circuits(model, options.circuits);
  const auto reads = read_by(model, input, options.circuits);
  const auto layers = writes.A().size(0), heads = writes.A().size(1);
  // Layer by layer, as the decompositions of all layers together would be one long step.
  const auto layer_of = [](const FactoredMatrix& all, std::int64_t layer) {
    return FactoredMatrix(all.A()[layer], all.B()[layer]);
  };
  std::vector<at::Tensor> right(static_cast<std::size_t>(layers));  // [head, ..]
  auto scores = numberless({layers, heads, layers, heads});
  const std::int64_t pairs = layers * (layers - 1) / 2;
  const WorkSteps steps(pairs + options.random_draws, options.progress);
  bool complete = true;
  std::int64_t done = 0;
  for (std::int64_t from = 0; complete && from < layers; ++from) {
    const auto left = from + 1 < layers ? without_left(layer_of(writes, from)) : at::Tensor();
    for (std::int64_t to = from + 1; complete && to < layers; ++to) {
      auto& read = right[static_cast<std::size_t>(to)];
      if (!read.defined()) read = without_right(layer_of(reads, to));
      // One pair of layers at a time: d_head x d_head of each pair.
      scores.select(0, from).select(1, to).copy_(composed(left, read));
      complete = steps.done(++done);
    }
  }
  static constexpr const char* kNames[] = {"queries", "keys", "values"};
  auto to_layer = numbered_axis("to_layer", layers), to_head = numbered_axis("to_head", heads);
  std::vector<double> random;
  if (complete) {
    random = random_scores(writes, reads, options, [&](std::int64_t draws) {
      complete = steps.done(pairs + draws);
      return complete;
    });
  }
  CompositionScores found{
      .scores = Grid(scores,
                     {numbered_axis("layer", layers), numbered_axis("head", heads), std::move(to_layer),
                      std::move(to_head)},
                     {.title = fmt::format("Composition by {}", kNames[static_cast<std::size_t>(input)]),
                      .unit = "share of the norms' product"}),
      .random_mean = std::numeric_limits<double>::quiet_NaN(),
      .random_deviation = std::numeric_limits<double>::quiet_NaN(),
      .draws = std::ssize(random),
      .complete = complete};
  if (found.draws > 1) {
    const auto all = at::tensor(random, at::kDouble);
    found.random_mean = all.mean().item<double>();
    found.random_deviation = all.std().item<double>();
  }
  return found;
}

CopyingScores copying_scores(const HookedTransformer& model, const CopyingOptions& options) {
  if (options.top_k < 1 || options.tokens < 1) {
    throw ShapeError("copying_scores",
                     fmt::format("there is nothing to count; expected top_k and tokens of at least 1, "
                                 "got {} and {}",
                                 options.top_k, options.tokens));
  }
  const auto ends = ends_of(model, options.circuits);
  const auto circuits = ov_circuits(model, options.circuits);
  const auto through = at::matmul(ends.W_U, ends.W_E);  // [d_model, d_model]
  const auto asked = to_device(asked_tokens(ends.W_E.size(0), options), ends.W_E.device());
  const auto embedded = ends.W_E.index_select(0, asked);  // [token, d_model]
  const auto layers = circuits.A().size(0), heads = circuits.A().size(1);
  const auto eigenvalue = numberless({layers, heads}), top = numberless({layers, heads});
  const WorkSteps steps(layers * heads, options.progress);
  bool complete = true;
  for (std::int64_t layer = 0; complete && layer < layers; ++layer) {
    if (!model.config().attends(layer)) {
      complete = steps.done((layer + 1) * heads);
      continue;
    }
    std::vector<at::Tensor> middles, shares;  // of each head: [d_head, d_head], and a number
    for (std::int64_t head = 0; complete && head < heads; ++head) {
      const auto W_V = float32_at_least(circuits.A()[layer][head]),
                 W_O = float32_at_least(circuits.B()[layer][head]);
      // The nonzero eigenvalues of W_E W_V W_O W_U are those of a d_head x d_head matrix.
      middles.push_back(at::matmul(at::matmul(W_O, through), W_V));
      const auto logits = at::matmul(at::matmul(embedded, W_V), at::matmul(W_O, ends.W_U));  // [token, vocab]
      const auto own = logits.gather(1, asked.unsqueeze(1));
      const auto ranks = token_ranks(own, logits);
      shares.push_back(at::where(ranks.isnan(), ranks, ranks < options.top_k).to(at::kDouble).mean());
      complete = steps.done(layer * heads + head + 1);
    }
    const auto done = static_cast<std::int64_t>(shares.size());
    const auto values = eigenvalues_of(at::stack(middles));  // [head, d_head]
    eigenvalue[layer].narrow(0, 0, done).copy_(at::real(values).sum(-1) / values.abs().sum(-1));
    top[layer].narrow(0, 0, done).copy_(at::stack(shares));
  }
  return {
      by_head(eigenvalue, "Eigenvalues of the full OV circuit", "sum over sum of sizes"),
      by_head(top, fmt::format("Tokens among the {} that they raise most", options.top_k), "share of tokens"),
      complete};
}

}  // namespace hooked
