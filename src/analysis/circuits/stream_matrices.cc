#include "analysis/circuits/stream_matrices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/stream/final_stage.h"
#include "analysis/values/numberless.h"
#include "analysis/work/obstacles.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

constexpr std::int64_t kEmbeddingsAtOnce = 8192;  // in runs that show embeddings
constexpr auto kRead = StreamStep::Kind::read, kWrite = StreamStep::Kind::write;

/// `numbers` of a norm, on the device and in the dtype of `like`.
at::Tensor there(const at::Tensor& numbers, const at::Tensor& like) {
  return to_device(numbers.to(like.scalar_type()), like.device());
}

/// Rows of `matrix` [.., d_model] centred and weighted as by the norm, without its scale.
at::Tensor through(const StreamNorm& norm, const at::Tensor& matrix) {
  const auto x = centred(matrix, norm.centres());
  return norm.weight.defined() ? x * there(norm.weight, x) : x;
}

/// The same on the other side of a product: `matrix` [.., d_model, n] that reads the norm's output.
at::Tensor behind(const StreamNorm& norm, const at::Tensor& matrix) {
  auto weighted = matrix;
  if (norm.weight.defined()) weighted = matrix * there(norm.weight, matrix).unsqueeze(-1);
  return centred(weighted.transpose(-1, -2), norm.centres()).transpose(-1, -2);
}

std::int64_t counted(std::int64_t index, std::int64_t count, const char* what, const std::string& where) {
  if (index >= -count && index < count) return index < 0 ? index + count : index;
  throw ShapeError(where,
                   fmt::format("there is no {} {}; expected {} to {}", what, index, -count, count - 1));
}

}  // namespace

StreamMatrices::StreamMatrices(const HookedTransformer& model, const CircuitOptions& options,
                               std::string where)
    : model_(model),
      config_(model.config()),
      options_(options),
      where_(std::move(where)),
      weights_(model.weights()),
      steps_(stream_of(config_, options.stack == Stack::encoder ? Stack::encoder : config_.main_stack())) {
  if (options.stack == Stack::encoder) weights_ = weights_.encoder();
}

at::Tensor StreamMatrices::here(const at::Tensor& weight) const { return to_device(weight, model_.device()); }

std::int64_t StreamMatrices::layers() const {
  return options_.stack == Stack::encoder ? config_.n_encoder_layers() : config_.n_layers;
}

std::int64_t StreamMatrices::layer(std::int64_t layer) const {
  return counted(layer, layers(), "layer", where_);
}

HeadPlace StreamMatrices::head(const HeadPlace& place) const {
  return {layer(place.layer), counted(place.head, config_.n_heads, "head", where_)};
}

at::Tensor StreamMatrices::queries(std::int64_t layer, Through through) const {
  require_free_of(config_, where_, obstacles::kLinearHeads);
  const auto W_Q = here(weights_.W_Q(layer));
  return through == Through::norm ? read(step(kRead, false, layer), W_Q) : W_Q;
}

at::Tensor StreamMatrices::keys(std::int64_t layer, Through through) const {
  require_free_of(config_, where_, obstacles::kLinearHeads);
  require_free_of(config_, where_, obstacles::kOwnKeys);
  const auto W_K = for_each_head(here(weights_.W_K(layer)));
  return through == Through::norm ? read(step(kRead, false, layer), W_K) : W_K;
}

at::Tensor StreamMatrices::values(std::int64_t layer) const {
  require_free_of(config_, where_, obstacles::kLinearHeads);
  require_free_of(config_, where_, obstacles::kOwnKeys);
  return read(step(kRead, false, layer), for_each_head(here(weights_.W_V(layer))));
}

at::Tensor StreamMatrices::outputs(std::int64_t layer) const {
  return written(step(kWrite, false, layer), here(weights_.W_O(layer)));
}

at::Tensor StreamMatrices::mlp_in(std::int64_t layer, std::optional<std::int64_t> expert) const {
  const auto W_in = here(expert ? weights_.W_in(layer, *expert) : weights_.W_in(layer));
  return read(step(kRead, true, layer), W_in, expert.has_value());
}

at::Tensor StreamMatrices::mlp_gate(std::int64_t layer, std::optional<std::int64_t> expert) const {
  const auto W_gate = here(expert ? weights_.W_gate(layer, *expert) : weights_.W_gate(layer));
  return read(step(kRead, true, layer), W_gate, expert.has_value());
}

at::Tensor StreamMatrices::mlp_out(std::int64_t layer, std::optional<std::int64_t> expert) const {
  auto W_out = here(expert ? weights_.W_out(layer, *expert) : weights_.W_out(layer));
  const StreamStep& write = step(kWrite, true, layer);
  if (expert && options_.norms && config_.experts->own_norms) {
    ActivationName own = write.point;
    own.site = Site::experts_ln_post_normalized;
    W_out = through(stream_norm_at(model_, own), W_out);
  }
  return written(write, W_out);
}

at::Tensor StreamMatrices::embedding() const {
  if (!options_.norms || !config_.post_embedding_norm) {
    auto W_E = here(weights_.W_E());
    if (config_.embedding_scale != 1.0) W_E = W_E * config_.embedding_scale;
    return summed_embedding(W_E);
  }
  // A token's norm depends only on the token: the model computes it for each.
  const HookedTransformer plain(model_.loaded());  // without the hooks of the handle
  RunOptions options{.capture = act::embed, .output = Output::none};
  options.stop_at_layer = 0;
  std::vector<at::Tensor> rows;
  for (std::int64_t begin = 0; begin < config_.d_vocab; begin += kEmbeddingsAtOnce) {
    const auto ids = at::arange(begin, std::min(config_.d_vocab, begin + kEmbeddingsAtOnce), at::kLong);
    rows.push_back(plain.run(ids.unsqueeze(1), options).cache[act::embed].select(1, 0));
  }
  return at::cat(rows);
}

at::Tensor StreamMatrices::positions() const {
  if (!config_.has_pos_embed()) {
    throw HookError(where_,
                    "this model has no embeddings of positions; expected learned or shortformer positions; "
                    "of others the distance of query and key counts: qk_circuits_at, position_biases");
  }
  return config_.learned_positions() ? summed_embedding(here(weights_.W_pos())) : here(weights_.W_pos());
}

at::Tensor StreamMatrices::unembedding() const {
  const char* lacks = nullptr;
  if (!config_.has_unembedding()) lacks = "this model has no unembedding";
  if (options_.stack == Stack::encoder) lacks = "no logits are read from an encoder's stream";
  if (config_.has_mlm_head()) lacks = "a masked-LM head is between this model's stream and its logits";
  if (lacks != nullptr) {
    throw HookError(where_, fmt::format("{}; expected a stack whose stream an unembedding reads", lacks));
  }
  const double scale = config_.unembedding->in_scale * config_.unembedding->scale;
  auto W_U = here(weights_.W_U());
  if (scale != 1.0) W_U = W_U * scale;
  if (!options_.norms || config_.final_norm == NormKind::none) return W_U;
  return behind(stream_norm_at(model_, final_norm_of(config_)), W_U);
}

at::Tensor StreamMatrices::all(const std::function<at::Tensor(std::int64_t layer)>& of_layer) const {
  std::vector<at::Tensor> matrices;  // of layers with attention
  std::vector<std::int64_t> sizes;   // the largest
  for (std::int64_t layer = 0; layer < layers(); ++layer) {
    if (!attends(layer)) continue;
    matrices.push_back(of_layer(layer));
    const auto own = matrices.back().sizes();
    sizes.resize(own.size());
    for (std::size_t axis = 0; axis < own.size(); ++axis) sizes[axis] = std::max(sizes[axis], own[axis]);
  }
  std::vector<at::Tensor> all;
  auto next = matrices.begin();
  for (std::int64_t layer = 0; layer < layers(); ++layer) {
    if (!attends(layer)) {
      all.push_back(numberless(sizes, matrices.front().options()));
      continue;
    }
    std::vector<std::int64_t> behind;  // zeros to append, by axis from the last one
    for (std::size_t axis = sizes.size(); axis-- > 0;)
      behind.insert(behind.end(), {0, sizes[axis] - next->size(static_cast<std::int64_t>(axis))});
    all.push_back(at::constant_pad_nd(*next++, behind));
  }
  return at::stack(all);
}

void StreamMatrices::require_plain_stream() const {
  if (options_.norms) require_free_of(config_, where_, obstacles::kPlainStream);
}

void StreamMatrices::require_plain_scores(std::optional<std::int64_t> layer) const {
  if (layer && options_.stack != Stack::encoder ? !config_.norms_heads(*layer) : !config_.qk_norm) return;
  throw HookError(
      where_,
      "queries and keys of this model go through norms of their own, whose scales only a run has; expected "
      "a model without, or score_attribution of a run");
}

void StreamMatrices::require_plain_values() const {
  require_free_of(config_, where_, obstacles::kPlainValues);
}

bool StreamMatrices::attends(std::int64_t layer) const {
  return options_.stack == Stack::encoder || config_.attends(layer);
}

const StreamStep* StreamMatrices::find(StreamStep::Kind kind, bool of_mlp, std::int64_t layer) const {
  return step_in(steps_, kind, of_mlp ? &StreamStep::of_mlp : &StreamStep::mixes_own_tokens, layer);
}

const StreamStep& StreamMatrices::step(StreamStep::Kind kind, bool of_mlp, std::int64_t layer) const {
  return *find(kind, of_mlp, layer);
}

at::Tensor StreamMatrices::read(const StreamStep& step, const at::Tensor& matrix, bool of_experts) const {
  if (!options_.norms) return matrix;
  if (!step.through.empty()) {
    const ActivationName& last = step.through.back();
    const bool own = of_experts && last.site == Site::experts_ln_normalized;
    return behind(stream_norm_at(model_, own ? last : step.through.front()), matrix);
  }
  // A norm on the stream just before. (After additions it belongs to what was added.)
  const StreamStep* before = &step;
  while (before->kind == kRead) --before;
  const bool on_stream = before->kind == StreamStep::Kind::norm && config_.norm_place == NormPlace::stream;
  return on_stream ? behind(stream_norm_at(model_, before->point), matrix) : matrix;
}

at::Tensor StreamMatrices::written(const StreamStep& step, const at::Tensor& matrix) const {
  if (!options_.norms || step.through.empty()) return matrix;
  return through(stream_norm_at(model_, step.through.front()), matrix);
}

at::Tensor StreamMatrices::for_each_head(const at::Tensor& matrix) const {
  const auto times = config_.n_heads / matrix.size(0);
  return times == 1 ? matrix : matrix.repeat_interleave(times, 0);
}

at::Tensor StreamMatrices::summed_embedding(const at::Tensor& embedding) const {
  if (!options_.norms || !config_.embedding_sum_norm) return embedding;
  if (config_.has_encoder() && options_.stack != Stack::encoder) {  // a norm without its own points
    StreamNorm norm{.scale = {}, .normalized = {}, .kind = config_.embedding_norm, .weight = {}, .bias = {}};
    norm.weight = model_.weights()["decoder_embed.ln.w"];
    return through(norm, embedding);
  }
  return through(stream_norm_at(model_, PointIndex(config_).resolve(Address(act::embed_ln_scale).name())),
                 embedding);
}

}  // namespace hooked
