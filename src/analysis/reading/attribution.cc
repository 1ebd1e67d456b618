#include "hooked/analysis/attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "analysis/places/cache_reading.h"
#include "analysis/places/named_tokens.h"
#include "analysis/stream/logit_reading.h"
#include "analysis/stream/vector_stack.h"
#include "analysis/values/numberless.h"
#include "analysis/work/work_steps.h"
#include "hooked/core/error.h"
#include "hooks/held_columns.h"

namespace hooked {
namespace {

constexpr const char* kAttribution = "direct_logit_attribution";

RunReading at_end_of_stream(const HookedTransformer& model, const ActivationCache& cache,
                            const std::vector<Position>& positions) {
  return reading_of(model, cache, {end_of_stream(model.config()), positions});
}

/// How heads attend from the columns, [row, pos, head, key] float64. If the run left it to the cache to
/// compute attention on request, only that of these queries is computed.
at::Tensor attention_at(const RunReading& run, const ActivationName& pattern) {
  const auto& entry = run.cache.entry(pattern);
  if (!run.cache.tokens() || !HeldColumns(run.cache, entry).all()) {
    return columns_like(run.cache, pattern, entry.value().transpose(1, 2), run.columns)
        .to(at::kCPU, at::kDouble);
  }
  const auto columns = run.columns.columns.contiguous();  // [row, pos]
  const auto* first = columns.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> asked(first, first + columns.numel());
  std::ranges::sort(asked);
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  const auto some = run.cache[Address(pattern).query(asked)].transpose(1, 2).to(at::kCPU, at::kDouble);
  const auto places = at::searchsorted(at::tensor(asked, at::kLong), columns);
  return some.gather(
      1, places.view({columns.size(0), columns.size(1), 1, 1}).expand({-1, -1, some.size(2), some.size(3)}));
}

/// What heads moved from each token, read along directions [row, pos, one, d_model]: [part, row, pos, key].
at::Tensor by_source(const Writing& heads, const act::BlockSite& pattern_site, const at::Tensor& directions,
                     const RunReading& run) {
  const auto& config = run.model.config();
  const bool cross = pattern_site.site == Site::cross_pattern;
  const auto& z = *heads.z;
  const auto layer_place = [&](Site site) {
    return ActivationName{.site = site, .stack = z.stack, .layer = z.layer};
  };
  // After their norm, with the scale of the run, if they have one.
  auto value_name = layer_place(cross               ? Site::cross_v
                                : config.value_norm ? Site::v_norm_normalized
                                                    : Site::v);
  if (z.stack != Stack::encoder) value_name.layer = static_cast<std::int32_t>(config.key_layer(z.layer));
  auto v = run.cache[value_name].to(at::kCPU, at::kDouble);  // [row, key, kv_head, d_value]
  const auto pattern = attention_at(run, layer_place(pattern_site.site));
  if (v.size(1) != pattern.size(3) || !HeldColumns(run.cache, run.cache.entry(value_name)).all()) {
    throw HookError(
        value_name.to_string(),
        fmt::format("it holds {} positions, and queries look at {} keys; expected all of them; run "
                    "without a prefix and without `keep.positions`",
                    v.size(1), pattern.size(3)));
  }
  if (!cross && config.qkv_clip > 0) v = v.clamp(-config.qkv_clip, config.qkv_clip);
  v = v.repeat_interleave(config.n_heads / v.size(2), 2);
  const auto seen = heads.before_norms(directions);
  auto of_values = at::einsum("hwm,rpm->rphw", {heads.matrix(), seen.squeeze(2)});
  if (!cross && config.gated_heads) of_values = of_values * run(layer_place(Site::head_gate)).sigmoid();
  return at::einsum("rkhw,rphw,rphk->hrpk", {v, of_values, pattern});
}

}  // namespace

Grid direct_logit_attribution(const HookedTransformer& model, const ActivationCache& cache,
                              const AttributionOptions& options) {
  const auto run = at_end_of_stream(model, cache, options.positions);
  const auto end = end_of_stream(model.config());
  auto path = path_to(end, {options.grain, options.value_biases}, run);
  const ReadLogit logit{kAttribution, options.answer, options.against};
  const auto reading = logit_reading(logit, run);
  auto parts = directions_along(path, run(end), reading.directions, options.progress);
  path.clear();  // neurons are many: none of them is kept twice
  // The last part is the remainder of the stream; what happened after the stream belongs to it, too.
  parts.values[-1].squeeze(-1).add_(behind_stream(logit, reading, run));
  std::vector<at::Tensor> values{std::exchange(parts.values, {}).squeeze(-1)};  // [part, row, pos] each
  for (const auto& [label, bias] :
       {std::pair{"final norm bias", reading.norm_bias}, std::pair{"unembed bias", reading.unembed_bias}}) {
    parts.axis.labels.emplace_back(label);
    parts.axis.places.emplace_back(std::nullopt);
    values.push_back(bias.expand({-1, run.columns.positions()}).unsqueeze(0));
  }
  const auto all = at::cat(std::exchange(values, {}));
  return Grid(without_padding(all.transpose(0, 1), run.columns),
              {numbered_axis("row", run.columns.rows()), std::move(parts.axis), run.columns.axis},
              {.title = "Direct logit attribution", .unit = reading.unit});
}

Grid direct_logit_attribution(const HookedTransformer& model, const ActivationCache& cache, const Grid& stack,
                              const AttributionOptions& options) {
  const auto run = at_end_of_stream(model, cache, options.positions);
  const auto reading = logit_reading({kAttribution, options.answer, options.against}, run);
  const VectorStack vectors(stack, run.columns, model.config().d_model, kAttribution);
  return vectors.with_numbers((vectors.vectors() * reading.directions.squeeze(2)).sum(-1),
                              {.title = "Direct logit attribution", .unit = reading.unit});
}

Grid source_attribution(const HookedTransformer& model, const ActivationCache& cache,
                        const SourceAttributionOptions& options) {
  if (options.pattern.site != Site::pattern && options.pattern.site != Site::cross_pattern) {
    throw HookError("source_attribution",
                    fmt::format("`pattern` is {}; expected `pattern` or `cross_pattern`",
                                row(options.pattern.site).word));
  }
  const auto run = at_end_of_stream(model, cache, options.positions);
  const auto reading = logit_reading({"source_attribution", options.answer, options.against}, run);
  const auto path = path_to(end_of_stream(model.config()), {.grain = Grain::head}, run);
  const auto z = options.pattern.site == Site::pattern ? Site::z : Site::cross_z;
  const auto is_asked = [&](const Writing& writing) { return writing.z && writing.z->site == z; };
  GridAxis heads{.name = "part", .labels = {}};
  std::int64_t layers = 0;
  for (const auto& step : path) {
    for (const auto& writing : step.written) {
      if (!is_asked(writing)) continue;
      append(heads, writing);
      ++layers;
    }
  }
  if (layers == 0)
    throw HookError("source_attribution", "this model has no cross-attention; expected `pattern`");
  const WorkSteps steps(layers, options.progress);
  std::vector<at::Tensor> values;  // the last layer first
  bool going_on = true;
  walk_back(path, reading.directions, [&](const Writing& writing, const at::Tensor& seen) {
    if (!is_asked(writing)) return;
    values.push_back(going_on ? by_source(writing, options.pattern, seen, run)
                              : numberless(values.front().sizes()));
    going_on = going_on && steps.done(static_cast<std::int64_t>(values.size()));
  });
  std::ranges::reverse(values);
  auto by_key = at::cat(values).permute({1, 0, 3, 2});  // [row, part, key, pos]
  by_key = without_padding(by_key, run.columns).transpose(2, 3);
  GridAxis keys = numbered_axis("key", by_key.size(3));
  const Stack read = options.pattern.site == Site::pattern ? Stack::none : Stack::encoder;
  name_tokens(keys, model, cache.tokens(read), at::arange(by_key.size(3), at::kLong).unsqueeze(0));
  return Grid(by_key,
              {numbered_axis("row", run.columns.rows()), std::move(heads), run.columns.axis, std::move(keys)},
              {.title = "Direct logit attribution by source", .unit = reading.unit});
}

}  // namespace hooked
