#include "hooked/analysis/positional_circuits.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "analysis/circuits/stream_matrices.h"
#include "analysis/places/input_rows.h"
#include "analysis/places/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

constexpr const char* kFullQk = "full_qk_circuit";
constexpr const char* kFullOv = "full_ov_circuit";
constexpr const char* kQkAt = "qk_circuits_at";
constexpr const char* kBiases = "position_biases";

/// A run of `length` tokens in a stack, for what depends only on their positions; the ids do not matter.
Input tokens_in(const ModelConfig& config, Stack stack, std::int64_t length) {
  const auto tokens = at::zeros({1, length}, at::kLong);
  if (!config.has_encoder()) return tokens;
  const auto one = at::zeros({1, 1}, at::kLong);
  return stack == Stack::encoder ? Input(tokens, {.decoder = {.tokens = one}})
                                 : Input(one, {.decoder = {.tokens = tokens}});
}

/// How far apart a query and a key are, and the least length of their row.
struct Reach {
  std::int64_t distance;
  std::int64_t row_length;
};

/// How a layer rotates queries and keys by their positions, up to some distance. Layers without rotation
/// leave them as they are.
class Turning {
 public:
  Turning(const HookedTransformer& model, Stack stack, std::int64_t layer, const Reach& reach,
          const char* where)
      : config_(model.config()), turned_(config_.rotary_dim(layer)) {
    const auto length = std::max(std::abs(reach.distance) + 1, reach.row_length);
    if (length > config_.n_ctx) {
      throw ShapeError(where,
                       fmt::format("there is no distance {} in a row of {} tokens; expected rows of at "
                                   "most {}",
                                   reach.distance, length, config_.n_ctx));
    }
    if (config_.grows_queries(layer) && static_cast<double>(length) > config_.query_growth->tokens) {
      throw HookError(where, fmt::format("queries grow with their positions from token {} on; expected rows "
                                         "no longer, or score_attribution of a run",
                                         config_.query_growth->tokens));
    }
    if (!config_.rotates(layer)) return;
    // Rotating a pair of ones gives the difference and the sum of cosine and sine.
    const auto in_layer = static_cast<std::int32_t>(layer);
    const Address shown = act::rot_q.in(stack, in_layer);
    RunOptions options{
        .edits = {set(act::q.in(stack, in_layer), 1.0)}, .capture = Selection(shown), .output = Output::none};
    if (stack != Stack::encoder) options.stop_at_layer = layer + 1;
    const HookedTransformer plain(model.loaded());  // without the hooks of the handle
    const auto input =
        config_.has_encoder()
            ? tokens_in(config_, stack, length)
            : at_layer(config_, layer,
                       at::zeros({1, length, config_.d_model},
                                 at::TensorOptions(plain.config().stream_dtype()).device(plain.device())));
    const auto made = plain.run(input, options).cache[shown][0].select(1, 0);  // [pos, d_head]
    const auto [first, second] = pairs(made);
    cosine_ = (first + second) / 2;
    sine_ = (second - first) / 2;
  }

  /// Rows of `x` [.., d_head] rotated to a position.
  at::Tensor at(const at::Tensor& x, std::int64_t position) const {
    if (!cosine_.defined()) return x;
    const auto cosine = cosine_[position].to(x.scalar_type()), sine = sine_[position].to(x.scalar_type());
    const auto [first, second] = pairs(x);
    const auto real = first * cosine - second * sine, imaginary = second * cosine + first * sine;
    const auto& rotary = *config_.rotary();
    const auto turned =
        rotary.adjacent_pairs ? at::stack({real, imaginary}, -1).flatten(-2) : at::cat({real, imaginary}, -1);
    const auto kept = x.size(-1) - turned.size(-1);
    if (kept == 0) return turned;
    return rotary.at_end ? at::cat({x.narrow(-1, 0, kept), turned}, -1)
                         : at::cat({turned, x.narrow(-1, turned.size(-1), kept)}, -1);
  }

 private:
  /// The halves of the pairs that are rotated, [.., rotary_dim / 2] each.
  std::pair<at::Tensor, at::Tensor> pairs(const at::Tensor& x) const {
    const auto& rotary = *config_.rotary();
    const auto size = turned_;
    const auto part = x.narrow(-1, rotary.at_end ? x.size(-1) - size : 0, size);
    if (!rotary.adjacent_pairs) return {part.narrow(-1, 0, size / 2), part.narrow(-1, size / 2, size / 2)};
    const auto each = part.unflatten(-1, {size / 2, 2});
    return {each.select(-1, 0), each.select(-1, 1)};
  }

  const ModelConfig& config_;
  std::int64_t turned_;       // dimensions
  at::Tensor cosine_, sine_;  // [pos, rotary_dim / 2]; undefined: no rotation
};

/// Queries and keys [.., d_head] this far apart; if the key comes after the query, the query is at place 0.
std::pair<at::Tensor, at::Tensor> apart(const Turning& turning, const at::Tensor& queries,
                                        const at::Tensor& keys, std::int64_t distance) {
  return {turning.at(queries, std::max<std::int64_t>(distance, 0)),
          turning.at(keys, std::max<std::int64_t>(-distance, 0))};
}

/// An end's tokens or positions mapped to a head's queries or keys, [vocab or pos, d_head].
at::Tensor made_of(const StreamMatrices& matrices, CircuitEnd end, const HeadPlace& head,
                   at::Tensor (StreamMatrices::*reads)(std::int64_t, StreamMatrices::Through) const) {
  const bool beside = end == CircuitEnd::position && matrices.config().shortformer();
  const auto through = beside ? StreamMatrices::Through::nothing : StreamMatrices::Through::norm;
  return at::matmul(end == CircuitEnd::token ? matrices.embedding() : matrices.positions(),
                    (matrices.*reads)(head.layer, through)[head.head]);
}

}  // namespace

FactoredMatrix full_qk_circuit(const HookedTransformer& model, const HeadPlace& head,
                               const FullQkOptions& options) {
  const StreamMatrices matrices(model, options.circuits, kFullQk);
  const auto place = matrices.head(head);
  matrices.require_plain_scores(place.layer);
  if (place.layer > 0) matrices.require_plain_stream();
  const auto queries = made_of(matrices, options.query, place, &StreamMatrices::queries);
  const auto keys = made_of(matrices, options.key, place, &StreamMatrices::keys);
  const Turning turning(model, options.circuits.stack, place.layer, {options.distance, options.row_length},
                        kFullQk);
  auto [left, right] = apart(turning, queries, keys, options.distance);
  return {std::move(left), right.mT()};
}

FactoredMatrix full_ov_circuit(const HookedTransformer& model, const HeadPlace& head, CircuitEnd from,
                               const CircuitOptions& options) {
  const StreamMatrices matrices(model, options, kFullOv);
  const auto place = matrices.head(head);
  matrices.require_plain_stream();
  matrices.require_plain_values();
  if (from == CircuitEnd::position && matrices.config().shortformer()) {
    throw HookError(kFullOv,
                    "shortformer positions reach queries and keys only; expected circuits from tokens, or "
                    "learned positions");
  }
  const auto ends = from == CircuitEnd::token ? matrices.embedding() : matrices.positions();
  return {at::matmul(ends, matrices.values(place.layer)[place.head]),
          at::matmul(matrices.outputs(place.layer)[place.head], matrices.unembedding())};
}

FactoredMatrix qk_circuits_at(const HookedTransformer& model, const HeadPlace& head,
                              const std::vector<std::int64_t>& distances, const QkAtOptions& options) {
  if (distances.empty()) throw ShapeError(kQkAt, "there is no distance; expected at least one");
  const StreamMatrices matrices(model, options.circuits, kQkAt);
  const auto place = matrices.head(head);
  matrices.require_plain_scores(place.layer);
  const auto W_Q = matrices.queries(place.layer)[place.head], W_K = matrices.keys(place.layer)[place.head];
  std::vector<at::Tensor> left, right;
  for (const auto distance : distances) {
    // Each distance in a row of its own length.
    const Turning turning(model, options.circuits.stack, place.layer, {distance, options.row_length}, kQkAt);
    auto [queries, keys] = apart(turning, W_Q, W_K, distance);
    left.push_back(std::move(queries));
    right.push_back(keys.mT());
  }
  return {at::stack(left), at::stack(right)};
}

Grid position_biases(const HookedTransformer& model, const PositionBiasOptions& options) {
  const auto& config = model.config();
  if (config.alibi() == nullptr && config.relative() == nullptr) {
    throw HookError(kBiases,
                    "scores of this model have no bias by distance; expected ALiBi or relative positions; "
                    "full_qk_circuit and qk_circuits_at have what others do");
  }
  if (options.reach < 0 || options.reach >= config.n_ctx) {
    throw ShapeError(
        kBiases, fmt::format("there is no distance {}; expected 0 to {}", options.reach, config.n_ctx - 1));
  }
  const bool encoder = config.has_encoder() && options.stack == Stack::encoder;
  const std::int64_t layers = encoder ? config.n_encoder_layers() : config.n_layers;
  if (options.layer < 0 || options.layer >= layers) {
    throw ShapeError(kBiases,
                     fmt::format("there is no layer {}; expected 0 to {}", options.layer, layers - 1));
  }
  const auto layer = static_cast<std::int32_t>(options.layer);
  const Address queries = act::q.in(options.stack, layer), scores = act::attn_scores.in(options.stack, layer);
  RunOptions run{.edits = {set(queries, 0.0)}, .capture = Selection(scores), .output = Output::none};
  if (options.stack != Stack::encoder) run.stop_at_layer = layer + 1;
  const auto bias = HookedTransformer(model.loaded())
                        .run(tokens_in(config, options.stack, options.reach + 1), run)
                        .cache[scores][0]
                        .to(at::kCPU, at::kDouble);  // [head, query, key]
  const bool both =
      config.bidirectional(options.stack == Stack::encoder ? Stack::encoder : config.main_stack());
  auto by_distance = bias.select(1, options.reach).flip(1);  // for the last query, the key itself first
  if (both && options.reach > 0)
    by_distance = at::cat({bias.select(1, 0).narrow(1, 1, options.reach).flip(1), by_distance}, 1);
  GridAxis axis{.name = "distance", .labels = {}};
  for (std::int64_t distance = both ? -options.reach : 0; distance <= options.reach; ++distance)
    axis.labels.push_back(std::to_string(distance));
  return Grid(by_distance, {numbered_axis("head", by_distance.size(0)), std::move(axis)},
              {.title = "Bias of scores by distance", .unit = "score"});
}

}  // namespace hooked
