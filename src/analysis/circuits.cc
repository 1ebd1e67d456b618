#include "hooked/analysis/circuits.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_eigvals.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/real.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/frozen_norm.h"
#include "analysis/row_columns.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

/// The heads' matrices of one stack, layer by layer, as they meet the stream.
class HeadMatrices {
 public:
  HeadMatrices(const HookedTransformer& model, const CircuitOptions& options, std::string_view where)
      : model_(model), config_(model.config()), options_(options), weights_(model.weights()) {
    if (options.stack == Stack::encoder) weights_ = weights_.encoder();
    if (config_.qkv_clip > 0)
      throw HookError(where,
                      "this model clips queries, keys and values, which no matrix does; expected a model "
                      "without qkv_clip");
  }

  std::int64_t layers() const {
    return options_.stack == Stack::encoder ? config_.n_encoder_layers() : config_.n_layers;
  }

  at::Tensor queries(std::int64_t layer) const { return read(layer, weights_.W_Q(layer)); }
  at::Tensor keys(std::int64_t layer) const { return read(layer, for_each_head(weights_.W_K(layer))); }
  at::Tensor values(std::int64_t layer) const { return read(layer, for_each_head(weights_.W_V(layer))); }

  /// [head, d_head, d_model], behind the norm of the attention's output where there is one.
  at::Tensor outputs(std::int64_t layer) const {
    const auto W_O = weights_.W_O(layer);
    const bool normed = config_.norm_place == NormPlace::output || config_.norm_place == NormPlace::both;
    if (!options_.norms || config_.norm == NormKind::none || !normed) return W_O;
    const auto norm = norm_at(act::ln1_post_scale, layer);
    const auto centred_W_O = centred(W_O, norm.centres());
    return norm.weight.defined() ? centred_W_O * there(norm.weight, W_O) : centred_W_O;
  }

  /// [layer, head, ..] of one of these.
  at::Tensor all(at::Tensor (HeadMatrices::*of_layer)(std::int64_t) const) const {
    std::vector<at::Tensor> matrices;
    for (std::int64_t layer = 0; layer < layers(); ++layer) {
      const at::Tensor own = (this->*of_layer)(layer);
      matrices.push_back(layer == 0 ? own : to_device(own, matrices.front().device()));
    }
    return at::stack(matrices);
  }

  static at::Tensor there(const at::Tensor& x, const at::Tensor& like) {
    return to_device(x.to(like.scalar_type()), like.device());
  }

 private:
  StreamNorm norm_at(act::BlockSite site, std::int64_t layer) const {
    const auto address = site.in(options_.stack, static_cast<std::int32_t>(layer));
    return stream_norm_at(model_, PointIndex(config_).resolve(address.name()));
  }

  /// `matrix` [head, d_model, d_head] behind the norm that heads read through.
  at::Tensor read(std::int64_t layer, const at::Tensor& matrix) const {
    const bool normed = config_.norm_place != NormPlace::post && config_.norm_place != NormPlace::output;
    if (!options_.norms || config_.norm == NormKind::none || !normed) return matrix;
    const auto norm = norm_at(act::ln1_scale, layer);
    // Rows are places of the stream: x C diag(w) W.
    auto weighted = matrix;
    if (norm.weight.defined()) weighted = matrix * there(norm.weight, matrix).unsqueeze(-1);
    return centred(weighted.transpose(-1, -2), norm.centres()).transpose(-1, -2);
  }

  /// [kv_head, ..] once for each of the heads that share it.
  at::Tensor for_each_head(const at::Tensor& matrix) const {
    const auto times = config_.n_heads / matrix.size(0);
    return times == 1 ? matrix : matrix.repeat_interleave(times, 0);
  }

  const HookedTransformer& model_;
  const ModelConfig& config_;
  CircuitOptions options_;
  WeightView weights_;
};

at::Tensor frobenius(const at::Tensor& x) { return x.square().sum(at::IntArrayRef{-2, -1}).sqrt(); }

at::Tensor computable(const at::Tensor& x) {
  const bool narrow = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  return narrow ? x.to(at::kFloat) : x;
}

/// A matrix without its orthogonal factor on the left, [.., r, n], and on the right, [.., m, r]: norms of
/// products stay.
at::Tensor without_left(const FactoredMatrix& M) {
  return at::matmul(std::get<1>(at::linalg_qr(computable(M.A()), "r")), computable(M.B()));
}
at::Tensor without_right(const FactoredMatrix& M) {
  return at::matmul(computable(M.A()), std::get<1>(at::linalg_qr(computable(M.B()).mT(), "r")).mT());
}

/// |L R| / (|L| |R|) of each left [.., r, m] with each right [.., m, r], one leading axis each.
at::Tensor composed(const at::Tensor& left, const at::Tensor& right) {
  const auto products = at::matmul(left.unsqueeze(1), right.unsqueeze(0));  // [left, right, r, r]
  return frobenius(products) / (frobenius(left).unsqueeze(1) * frobenius(right).unsqueeze(0));
}

/// Scores of pairs of heads whose weights are random numbers, [draw].
at::Tensor random_scores(const FactoredMatrix& left, const FactoredMatrix& right,
                         const CompositionOptions& options) {
  auto generator = at::detail::createCPUGenerator(options.seed);
  const auto drawn = [&](const FactoredMatrix& like) {
    const auto matrix = [&](const at::Tensor& x) {
      return at::randn({x.size(-2), x.size(-1)}, generator, at::TensorOptions(at::kDouble));
    };
    auto A = matrix(like.A());
    return FactoredMatrix(std::move(A), matrix(like.B()));
  };
  std::vector<at::Tensor> scores;
  for (std::int64_t draw = 0; draw < options.random_draws; ++draw) {
    const auto from = drawn(left);
    scores.push_back(
        composed(without_left(from).unsqueeze(0), without_right(drawn(right)).unsqueeze(0)).squeeze());
  }
  return at::stack(scores);
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
  const auto& config = model.config();
  const char* lacks = nullptr;
  if (!config.unembedding) lacks = "this model has no unembedding";
  if (config.has_encoder())
    lacks = "this model has two stacks, and its decoder's tokens are not those it predicts from";
  if (config.unembedding && config.d_vocab_out() != config.d_vocab)
    lacks = "this model predicts another vocabulary than it reads";
  if (config.has_mlm_head()) lacks = "a masked-LM head stands between this model's stream and its logits";
  if (lacks != nullptr)
    throw HookError("copying_scores",
                    fmt::format("{}; expected a model that predicts its own tokens", lacks));
  const auto weights = model.weights();
  Ends ends{computable(weights.W_E()), computable(weights.W_U())};
  ends.W_U = to_device(ends.W_U, ends.W_E.device());
  if (!options.norms || config.final_norm == NormKind::none) return ends;
  const auto norm = stream_norm_at(model, PointIndex(config).resolve(Address(act::ln_final_scale).name()));
  if (norm.weight.defined()) ends.W_U = ends.W_U * HeadMatrices::there(norm.weight, ends.W_U).unsqueeze(-1);
  ends.W_U = centred(ends.W_U.t(), norm.centres()).t();
  return ends;
}

/// Which of the vocabulary are asked, sorted.
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
  const HeadMatrices heads(model, options, "ov_circuits");
  auto values = heads.all(&HeadMatrices::values);
  return {std::move(values), heads.all(&HeadMatrices::outputs)};
}

FactoredMatrix qk_circuits(const HookedTransformer& model, const CircuitOptions& options) {
  const HeadMatrices heads(model, options, "qk_circuits");
  auto keys = heads.all(&HeadMatrices::keys);  // refuses latents by name
  if (model.config().qk_norm) {
    throw HookError(
        "qk_circuits",
        "queries and keys of this model go through norms of their own, whose scales only a run has; expected "
        "a model without, or score_attribution of a run");
  }
  return {heads.all(&HeadMatrices::queries), keys.mT()};
}

CompositionScores composition_scores(const HookedTransformer& model, HeadInput input,
                                     const CompositionOptions& options) {
  if (options.random_draws < 2)
    throw ShapeError(
        "composition_scores",
        fmt::format("a baseline of {} draws has no deviation; expected at least 2", options.random_draws));
  const auto writes = ov_circuits(model, options.circuits);
  const auto reads = read_by(model, input, options.circuits);
  const auto left = without_left(writes), right = without_right(reads);  // [layer, head, ..]
  const auto layers = left.size(0), heads = left.size(1);
  auto scores =
      at::full({layers, heads, layers, heads}, std::numeric_limits<double>::quiet_NaN(), at::kDouble);
  for (std::int64_t from = 0; from < layers; ++from) {
    for (std::int64_t to = from + 1; to < layers;
         ++to)  // one pair of layers at a time: d_head x d_head of each pair
      scores.select(0, from).select(1, to).copy_(composed(left[from], right[to]));
  }
  static constexpr const char* kNames[] = {"queries", "keys", "values"};
  auto to_layer = numbered_axis("to_layer", layers), to_head = numbered_axis("to_head", heads);
  const auto random = random_scores(writes, reads, options);
  return {Grid(scores,
               {numbered_axis("layer", layers), numbered_axis("head", heads), std::move(to_layer),
                std::move(to_head)},
               {.title = fmt::format("Composition by {}", kNames[static_cast<std::size_t>(input)]),
                .unit = "share of the norms' product"}),
          random.mean().item<double>(), random.std().item<double>()};
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
  const auto eigenvalue = at::empty({layers, heads}, at::kDouble),
             top = at::empty({layers, heads}, at::kDouble);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const auto W_V = computable(circuits.A()[layer][head]), W_O = computable(circuits.B()[layer][head]);
      // The eigenvalues of W_E W_V W_O W_U but for zeros.
      const auto values = at::linalg_eigvals(at::matmul(at::matmul(W_O, through), W_V));
      eigenvalue[layer][head].copy_(at::real(values).sum() / values.abs().sum());
      const auto logits = at::matmul(at::matmul(embedded, W_V), at::matmul(W_O, ends.W_U));  // [token, vocab]
      const auto own = logits.gather(1, asked.unsqueeze(1));
      top[layer][head].copy_(logits.gt(own).sum(1).lt(options.top_k).to(at::kDouble).mean());
    }
  }
  return {by_head(eigenvalue, "Eigenvalues of the full OV circuit", "sum over sum of sizes"),
          by_head(top, fmt::format("Tokens among the {} that they raise most", options.top_k),
                  "share of tokens")};
}

}  // namespace hooked
