#include "analysis/reading/score_side.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/places/input_rows.h"
#include "analysis/places/named_tokens.h"
#include "analysis/work/as_memory_allows.h"
#include "hooks/norm_points.h"

namespace hooked {
namespace {

constexpr std::int64_t kTokensAtOnce = 4096;  // in the runs that compute what parts become

/// `values` [row, position, ..] at the columns [row, position] of a [row, length, ..] filled with `fill`.
at::Tensor laid_out(const at::Tensor& values, const at::Tensor& columns, std::int64_t length, double fill) {
  auto sizes = values.sizes().vec();
  sizes[1] = length;
  const auto flat = values.flatten(2);
  const auto places = columns.unsqueeze(-1).expand_as(flat);
  return at::full({flat.size(0), length, flat.size(2)}, fill, values.options())
      .scatter(1, places, flat)
      .view(sizes);
}

/// `x` repeated for each of `count` parts: [part * row, ..].
at::Tensor for_each_part(const at::Tensor& x, std::int64_t count) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(x.dim()), 1);
  times.front() = count;
  return x.repeat(times);
}

/// Ids that nothing depends on.
at::Tensor any_tokens(std::int64_t rows, std::int64_t length) { return at::zeros({rows, length}, at::kLong); }

}  // namespace

ScoreSide::ScoreSide(const HookedTransformer& model, const ActivationCache& cache, const ScoredHead& scored,
                     Of of)
    : model_(model.loaded()),
      cache_(cache),
      config_(model_.config()),
      scored_(scored),
      of_queries_(of == Of::queries),
      layer_(scored.scores.layer),
      stream_(stream()),
      shown_(last_point()) {}

ActivationName ScoreSide::in_block(act::BlockSite site) const {
  return site.in(scored_.scores.stack, layer_).name();
}

bool ScoreSide::is_placed() const {
  if (scored_.crosses()) return false;
  return config_.rotates(layer_) || (of_queries_ && config_.grows_queries(layer_));
}

bool ScoreSide::is_normed() const { return !scored_.crosses() && config_.norms_heads(layer_); }

ActivationName ScoreSide::stream() const {
  if (!scored_.crosses()) return in_block(act::resid_pre);
  return of_queries_ ? in_block(act::cross_attn_in) : end_of_stream(config_, Stack::encoder);
}

ActivationName ScoreSide::last_point() const {
  const auto either = [&](act::BlockSite query, act::BlockSite key) {
    return in_block(of_queries_ ? query : key);
  };
  if (scored_.crosses()) return either(act::cross_q, act::cross_k);
  if (is_normed() && (config_.qk_norm->after_rotary || !is_placed()))
    return either(act::q_norm_normalized, act::k_norm_normalized);
  return is_placed() ? either(act::rot_q, act::rot_k) : either(act::q, act::k);
}

std::vector<ActivationName> ScoreSide::scales() const {
  std::vector<ActivationName> scales;
  const bool at_end = scored_.crosses() && !of_queries_;
  const std::vector<StreamStep> steps = stream_of(config_, at_end ? Stack::encoder : scored_.scores.stack);
  // The norms between the point that shows the stream and the reader: on the stream, and before the reader.
  for (const StreamStep& step : steps) {
    const bool of_layer = step.in_block() && step.point.layer == layer_;
    if (step.kind == StreamStep::Kind::norm && of_layer && !scored_.crosses())
      scales.push_back(scale_of(step.point));
    if (step.kind != StreamStep::Kind::read || !(at_end ? step.reads_end() : of_layer)) continue;
    if (!step.of_heads() || (step.part == Part::cross_attention) != scored_.crosses()) continue;
    for (const ActivationName& normalized : step.through) scales.push_back(scale_of(normalized));
    break;
  }
  if (scored_.crosses()) return scales;
  if (config_.latent_attention() && !of_queries_) scales.push_back(in_block(act::kv_latent_norm_scale));
  if (config_.query_latent() && of_queries_) scales.push_back(in_block(act::q_latent_norm_scale));
  if (is_normed()) scales.push_back(in_block(of_queries_ ? act::q_norm_scale : act::k_norm_scale));
  return scales;
}

const TokenColumns& ScoreSide::tokens() const { return *cache_.tokens(stream_.stack); }

RowColumns ScoreSide::columns(const std::vector<Position>& positions) const {
  RowColumns columns = RowColumns::of(positions, cache_[shown_].size(0), tokens());
  name_tokens(columns.axis, model_, tokens(), columns.columns);
  return columns;
}

Parts ScoreSide::parts(const Split& split, const RowColumns& columns) const {
  const RunReading run{model_, cache_, columns};
  const auto path = path_to(stream_, split, run);
  Parts parts{.axis = {.name = of_queries_ ? "query_part" : "key_part", .labels = {}}, .values = {}};
  std::vector<at::Tensor> streams;  // [part, row, position, d_model] each
  walk_forward(path, [&](const Writing& writing, const at::Tensor& vectors) {
    append(parts.axis, writing);
    streams.push_back(vectors);
    return true;
  });
  for (auto& label : parts.axis.labels) label = in_stack(label, stream_.stack);
  // A stream of zeros shows what is there without any stream.
  streams.push_back(at::zeros_like(streams.front().slice(0, 0, 1)));
  const auto made = made_of(at::cat(std::exchange(streams, {})), columns);
  const auto last = made.size(0) - 1;
  const auto bias = made.slice(0, last);
  const auto known = made.slice(0, 0, last) - bias;
  const auto whole = of_head(run(shown_));
  parts.values = at::cat({known, bias, (whole - known.sum(0) - bias[0]).unsqueeze(0)});
  for (const char* label : {"bias", "remainder"}) {
    parts.axis.labels.emplace_back(label);
    parts.axis.places.emplace_back(std::nullopt);
  }
  return parts;
}

at::Tensor ScoreSide::of_head(const at::Tensor& shown) const {
  const auto head = of_queries_ ? scored_.head : scored_.kv_head;
  const auto x = shown.select(2, head);
  if (!is_normed() || (is_placed() && !config_.qk_norm->after_rotary)) return x;
  // The point shows them before their weight.
  const auto read = [&](const char* leaf) {
    const auto name = fmt::format("{}.attn.{}_norm.{}", BlockPlace{shown_.stack, layer_}.path(),
                                  of_queries_ ? 'q' : 'k', leaf);
    const auto weight =
        model_.weights()[name].to(at::kCPU, at::kDouble).view({-1, config_.head_width(layer_)});
    return weight[weight.size(0) > 1 ? head : 0];
  };
  const auto weighted = x * (read("w") + (config_.norm_offset ? 1.0 : 0.0));
  return config_.qk_norm->bias ? weighted + read("b") : weighted;
}

at::Tensor ScoreSide::made_of(const at::Tensor& streams, const RowColumns& columns) const {
  const Layout layout = layout_of(columns);
  const auto rows = columns.rows(), length = layout.length;
  const auto step = std::max<std::int64_t>(1, kTokensAtOnce / (rows * length));
  const auto in_model = [&](const at::Tensor& x) { return x.to(model_.device(), config_.stream_dtype()); };
  std::vector<at::Tensor> made;
  as_memory_allows(
      model_.device(), "score_attribution", streams.size(0), step, [&](std::int64_t begin, std::int64_t end) {
        const auto some = streams.slice(0, begin, end);
        const auto count = some.size(0);
        const auto places = for_each_part(layout.places, count);  // [part * row, position]
        Edits held;
        for (const auto& name : scales()) {
          const auto scale = for_each_part(read_columns(cache_, name, columns).to(at::kCPU), count);
          held.push_back(set(Address(name), laid_out(scale, places, length, 1.0).to(model_.device())));
        }
        const auto shown = shown_of(in_model(laid_out(some.flatten(0, 1), places, length, 0.0)),
                                    layout.mask.defined() ? for_each_part(layout.mask, count) : layout.mask,
                                    std::move(held));
        const auto wanted = shown.gather(
            1, places.view({places.size(0), -1, 1, 1}).expand({-1, -1, shown.size(2), shown.size(3)}));
        made.push_back(of_head(wanted).unflatten(0, {count, rows}));
      });
  return at::cat(made);
}

at::Tensor ScoreSide::shown_of(const at::Tensor& streams, const at::Tensor& mask, Edits held) const {
  RunOptions options{.edits = std::move(held), .capture = Selection(shown_), .output = Output::none};
  const auto rows = streams.size(0);
  const auto shown = [&](const Input& input) {
    return model_.run(input, options).cache[shown_].to(at::kCPU, at::kDouble);  // [row, length, head, d_head]
  };
  const bool in_encoder = stream_.stack == Stack::encoder;
  const bool starts = stream_.site == Site::resid_pre && !in_encoder;
  if (shown_.stack != Stack::encoder) options.stop_at_layer = layer_ + 1;
  if (starts && !config_.has_encoder())
    return shown(at_layer(config_, layer_, streams, {.attention_mask = mask}));
  if (!starts) options.edits.push_back(set(Address(stream_), streams));
  if (!in_encoder) {
    // The encoder's input does not affect these queries and keys.
    return shown({any_tokens(rows, 1),
                  {.decoder = {.attention_mask = mask},
                   .start = StartAtLayer{layer_, starts ? streams : at::zeros_like(streams)}}});
  }
  // What comes before the stream in the encoder need not be computed.
  const auto nothing = at::zeros_like(streams);
  for (const StreamStep& step : stream_of(config_, Stack::encoder)) {
    if (step.point == stream_) break;
    if (step.by_sublayer()) options.edits.push_back(set(Address(step.point), nothing));
  }
  InputDetails details{.attention_mask = mask};
  if (shown_.stack == Stack::encoder) {
    details.decoder.tokens = any_tokens(rows, 1);
  } else {
    details.start = StartAtLayer{layer_, nothing.slice(1, 0, 1)};
  }
  return shown({any_tokens(rows, streams.size(1)), details});
}

ScoreSide::Layout ScoreSide::layout_of(const RowColumns& columns) const {
  // The result depends on the column itself only if queries and keys are rotated or have their own positions.
  // Then the columns before it are included, and all columns of the row if the angles depend on the number of
  // columns.
  if (!is_placed() && !config_.shortformer())
    return {at::arange(columns.positions(), at::kLong).expand_as(columns.columns), columns.positions(), {}};
  const auto& tokens = this->tokens();
  const auto* rotary = config_.rotary();
  if (rotary != nullptr && depends_on_length(rotary->scaling))
    return {columns.columns, tokens.end, tokens.mask};
  const auto length = columns.columns.max().item<std::int64_t>() + 1;
  return {columns.columns, length, tokens.mask.defined() ? tokens.mask.slice(1, 0, length) : tokens.mask};
}

}  // namespace hooked
