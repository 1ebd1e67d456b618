#include "hooked/analysis/score_attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "analysis/as_memory_allows.h"
#include "analysis/cache_reading.h"
#include "analysis/stream_path.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

constexpr const char* kScores = "score_attribution";
constexpr std::int64_t kTokensAtOnce = 4096;  // of the runs that say what parts become

/// The head whose scores are taken apart.
struct ScoredHead {
  std::int32_t layer;
  std::int64_t head;
  std::int64_t kv_head;
};

ScoredHead head_of(const HookedTransformer& model, const Address& scores) {
  const auto& config = model.config();
  const auto name = PointIndex(config).resolve(scores.name());
  const auto* index = scores.indices().find(Axis::head);
  const auto* head = index == nullptr ? nullptr : std::get_if<std::int64_t>(&index->value);
  if (name.site != Site::attn_scores || name.stack != config.main_stack() || head == nullptr ||
      scores.indices().entries().size() != 1) {
    throw HookError(scores.to_string(),
                    "expected the scores of one head of the stack that predicts, such as "
                    "act::attn_scores(1).head(3)");
  }
  if (!config.attends(name.layer)) {
    throw HookError(scores.to_string(),
                    fmt::format("layer {} has no attention; expected a layer that has", name.layer));
  }
  if (*head < -config.n_heads || *head >= config.n_heads) {
    throw HookError(scores.to_string(), fmt::format("there is no head {}; expected {} to {}", *head,
                                                    -config.n_heads, config.n_heads - 1));
  }
  const auto counted = *head < 0 ? *head + config.n_heads : *head;
  return {name.layer, counted, counted / config.heads_per_kv(name.layer)};
}

/// `values` [row, position, ..] at the columns [row, position] of [row, length, ..] that is `fill` elsewhere.
at::Tensor laid_out(const at::Tensor& values, const at::Tensor& columns, std::int64_t length, double fill) {
  auto sizes = values.sizes().vec();
  sizes[1] = length;
  const auto flat = values.flatten(2);
  const auto places = columns.unsqueeze(-1).expand_as(flat);
  return at::full({flat.size(0), length, flat.size(2)}, fill, values.options())
      .scatter(1, places, flat)
      .view(sizes);
}

/// `x` once for each of `count` parts, one behind the other: [part * row, ..].
at::Tensor for_each_part(const at::Tensor& x, std::int64_t count) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(x.dim()), 1);
  times.front() = count;
  return x.repeat(times);
}

/// The queries, or the keys, of one head.
class Side {
 public:
  Side(const HookedTransformer& model, const ActivationCache& cache, const ScoredHead& scored, bool queries)
      : model_(model.loaded()),  // without the hooks of the handle
        cache_(cache),
        config_(model_.config()),
        layer_(scored.layer),
        head_(queries ? scored.head : scored.kv_head),
        of_queries_(queries),
        point_(full(last_point())) {
    const bool stream_is_normed = config_.norms_stream() && config_.norm_place != NormPlace::post;
    if (stream_is_normed || config_.reads_through_ln1(layer_))
      scales_.push_back(full(act::ln1_scale(layer_)));
    if (config_.latent_attention() && !queries) scales_.push_back(full(act::kv_latent_norm_scale(layer_)));
    if (config_.query_latent() && queries) scales_.push_back(full(act::q_latent_norm_scale(layer_)));
    if (config_.norms_heads(layer_))
      scales_.push_back(full(queries ? act::q_norm_scale(layer_) : act::k_norm_scale(layer_)));
  }

  /// The head's queries (keys) at some columns, [part, row, position, d_head]: of the parts of the stream,
  /// then `bias` and `remainder`.
  Parts parts(const Split& split, const std::vector<Position>& positions) const {
    const auto stream = full(act::resid_pre(layer_));
    const RunReading run{model_, cache_, columns_of(cache_, stream, positions)};
    auto parts = vectors_along(path_to(stream, split, run), run(stream));  // [part, row, position, d_model]
    // A stream of zeros, instead of the remainder, shows what is there without any.
    const auto count = parts.values.size(0);
    parts.values[count - 1].zero_();
    const auto made = made_of(parts.values, run.columns);
    const auto bias = made.slice(0, count - 1);
    const auto known = made.slice(0, 0, count - 1) - bias;
    const auto whole = of_head(run(point_));
    parts.values = at::cat({known, bias, (whole - known.sum(0) - bias[0]).unsqueeze(0)});
    parts.axis.labels.insert(parts.axis.labels.end() - 1, "bias");
    parts.axis.places.insert(parts.axis.places.end() - 1, std::nullopt);
    parts.axis.name = of_queries_ ? "query_part" : "key_part";
    return parts;
  }

 private:
  ActivationName full(const Address& address) const { return PointIndex(config_).resolve(address.name()); }

  /// Whether positions turn or scale them.
  bool is_placed() const { return config_.rotates(layer_) || (of_queries_ && config_.grows_queries(layer_)); }

  /// Where queries (keys) are shown last before they meet.
  Address last_point() const {
    if (config_.norms_heads(layer_) && config_.qk_norm->after_rotary) {
      return of_queries_ ? act::q_norm_normalized(layer_) : act::k_norm_normalized(layer_);
    }
    if (is_placed()) return of_queries_ ? act::rot_q(layer_) : act::rot_k(layer_);
    if (config_.norms_heads(layer_))
      return of_queries_ ? act::q_norm_normalized(layer_) : act::k_norm_normalized(layer_);
    return of_queries_ ? act::q(layer_) : act::k(layer_);
  }

  /// One head of what that point shows, [row, position, head, d_head], as it meets the other side.
  at::Tensor of_head(const at::Tensor& shown) const {
    const auto x = shown.select(2, head_);
    if (!config_.norms_heads(layer_) || (is_placed() && !config_.qk_norm->after_rotary)) return x;
    // The point shows them before their weight.
    const auto read = [&](const char* leaf) {
      const auto name = fmt::format("{}.attn.{}_norm.{}", BlockPlace{point_.stack, layer_}.path(),
                                    of_queries_ ? 'q' : 'k', leaf);
      const auto weight =
          model_.weights()[name].to(at::kCPU, at::kDouble).view({-1, config_.head_width(layer_)});
      return weight[weight.size(0) > 1 ? head_ : 0];
    };
    const auto weighted = x * (read("w") + (config_.norm_offset ? 1.0 : 0.0));
    return config_.qk_norm->bias ? weighted + read("b") : weighted;
  }

  /// What the model makes of streams [part, row, position, d_model] that stand at the columns.
  at::Tensor made_of(const at::Tensor& streams, const RowColumns& columns) const {
    const Layout layout = layout_of(columns);
    const auto rows = columns.rows(), length = layout.length;
    const auto step = std::max<std::int64_t>(1, kTokensAtOnce / (rows * length));
    std::vector<at::Tensor> made;
    as_memory_allows(
        model_.device(), kScores, streams.size(0), step, [&](std::int64_t begin, std::int64_t end) {
          const auto some = streams.slice(0, begin, end);
          const auto count = some.size(0);
          const auto places = for_each_part(layout.places, count);  // [part * row, position]
          const auto of_model = at::TensorOptions(model_.dtype()).device(model_.device());
          const auto residual =
              laid_out(some.flatten(0, 1), places, length, 0.0).to(of_model.device(), model_.dtype());
          RunOptions options{.capture = Selection(point_), .output = Output::none};
          options.stop_at_layer = layer_ + 1;
          for (const auto& name : scales_) {
            const auto scale = for_each_part(read_columns(cache_, name, columns).to(at::kCPU), count);
            options.edits.push_back(
                set(Address(name), laid_out(scale, places, length, 1.0).to(model_.device())));
          }
          const auto run = model_.run(input(residual, layout.mask, count), options);
          const auto shown =
              run.cache[point_].to(at::kCPU, at::kDouble);  // [part * row, length, head, d_head]
          const auto wanted = shown.gather(
              1, places.view({places.size(0), -1, 1, 1}).expand({-1, -1, shown.size(2), shown.size(3)}));
          made.push_back(of_head(wanted).unflatten(0, {count, rows}));
        });
    return at::cat(made);
  }

  /// Where the streams stand in the runs that are asked.
  struct Layout {
    at::Tensor places;    // [row, position]
    std::int64_t length;  // of a row
    at::Tensor mask;      // [row, length], or undefined
  };

  /// What a column makes depends on the column itself only where queries and keys are turned or have
  /// positions of their own: then what stands before it is there, too, and all columns where angles depend on
  /// their number.
  Layout layout_of(const RowColumns& columns) const {
    if (!is_placed() && !config_.shortformer())
      return {at::arange(columns.positions(), at::kLong).expand_as(columns.columns), columns.positions(), {}};
    const auto& tokens = *cache_.tokens();
    const auto* rotary = config_.rotary();
    if (rotary != nullptr && depends_on_length(rotary->scaling))
      return {columns.columns, tokens.end, tokens.mask};
    const auto length = columns.columns.max().item<std::int64_t>() + 1;
    return {columns.columns, length, tokens.mask.defined() ? tokens.mask.slice(1, 0, length) : tokens.mask};
  }

  Input input(const at::Tensor& residual, const at::Tensor& mask, std::int64_t count) const {
    const auto masks = mask.defined() ? for_each_part(mask, count) : mask;
    if (!config_.has_encoder()) return Input::start_at_layer(layer_, residual, {.attention_mask = masks});
    // What the encoder reads does not reach these queries and keys.
    return {at::zeros({residual.size(0), 1}, at::kLong),
            {.decoder = {.attention_mask = masks}, .start = StartAtLayer{layer_, residual}}};
  }

  HookedTransformer model_;
  const ActivationCache& cache_;
  const ModelConfig& config_;
  std::int32_t layer_;
  std::int64_t head_;
  bool of_queries_;
  ActivationName point_;
  std::vector<ActivationName> scales_;
};

void require_linear_heads(const HookedTransformer& model, const ActivationCache& cache) {
  if (model.config().qkv_clip > 0) {
    throw HookError(kScores,
                    "this model clips its queries and keys, which no sum of parts passes; expected a "
                    "model without qkv_clip");
  }
  if (!cache.tokens() || cache.tokens()->first != 0) {
    throw HookError(kScores,
                    "the cache does not say which tokens stand before its own; expected that of a run "
                    "without a prefix");
  }
}

}  // namespace

Grid score_attribution(const HookedTransformer& model, const ActivationCache& cache,
                       const ScoreAttributionOptions& options) {
  require_linear_heads(model, cache);
  const auto& config = model.config();
  const auto head = head_of(model, options.scores);
  const Split split{options.grain, options.value_biases};
  const auto stream = act::resid_pre(head.layer);
  const auto queries = columns_of(cache, stream, options.queries);
  const auto keys = columns_of(cache, stream, options.keys);
  auto of_queries = Side(model, cache, head, true).parts(split, options.queries);
  auto of_keys = Side(model, cache, head, false).parts(split, options.keys);
  const double divisor =
      config.attn_scale * (config.scale_by_inverse_layer ? static_cast<double>(head.layer + 1) : 1.0);
  auto scores = at::einsum("irqd,jrkd->rijqk", {of_queries.values, of_keys.values}) / divisor;
  scores = without_padding(without_padding(scores, keys).transpose(3, 4), queries).transpose(3, 4);
  auto query_axis = queries.axis, key_axis = keys.axis;
  query_axis.name = "query";
  key_axis.name = "key";
  return Grid(scores,
              {numbered_axis("row", queries.rows()), std::move(of_queries.axis), std::move(of_keys.axis),
               std::move(query_axis), std::move(key_axis)},
              {.title = fmt::format("Parts of {}", options.scores.to_string()), .unit = "score"});
}

}  // namespace hooked
