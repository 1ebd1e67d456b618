#include "hooked/analysis/score_attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <variant>

#include "analysis/places/cache_reading.h"
#include "analysis/places/input_rows.h"
#include "analysis/reading/score_side.h"
#include "analysis/work/obstacles.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/point_index.h"

namespace hooked {
namespace {

constexpr const char* kScores = "score_attribution";

ScoredHead head_of(const HookedTransformer& model, const Address& scores) {
  const auto& config = model.config();
  const auto name = PointIndex(config).resolve(scores.name());
  const auto* index = scores.indices().find(Axis::head);
  const auto* head = index == nullptr ? nullptr : std::get_if<std::int64_t>(&index->value);
  const bool is_score = name.site == Site::attn_scores || name.site == Site::cross_attn_scores;
  if (!is_score || head == nullptr || scores.indices().entries().size() != 1) {
    throw HookError(scores.to_string(),
                    "expected the scores of one head, such as blocks.1.attn.hook_attn_scores[head=3]");
  }
  if (name.site == Site::attn_scores && !config.attends(name.layer)) {
    throw HookError(scores.to_string(),
                    fmt::format("layer {} has no attention; expected a layer that has", name.layer));
  }
  if (*head < -config.n_heads || *head >= config.n_heads) {
    throw HookError(scores.to_string(), fmt::format("there is no head {}; expected {} to {}", *head,
                                                    -config.n_heads, config.n_heads - 1));
  }
  const auto counted = *head < 0 ? *head + config.n_heads : *head;
  return {name, counted, counted / config.heads_per_kv(name.layer)};
}

void require_linear_heads(const HookedTransformer& model, const ActivationCache& cache,
                          const ScoredHead& scored) {
  const auto& asked = scored.scores;
  if (asked.stack != Stack::encoder && model.config().shares_keys(asked.layer)) {
    throw HookError(asked.to_string(),
                    fmt::format("the keys of this layer are those of layer {}, made of another stream than "
                                "its queries; expected a layer with keys of its own",
                                model.config().key_layer(asked.layer)));
  }
  require_free_of(model.config(), kScores, obstacles::kLinearHeads);
  const auto known = [&](Stack stack) { return cache.tokens(stack) && cache.tokens(stack)->first == 0; };
  if (!known(scored.scores.stack) || (scored.crosses() && !known(Stack::encoder))) {
    throw HookError(
        kScores,
        "the cache does not say which tokens come before its own; expected that of a run without a prefix");
  }
}

/// What the head adds to scores by the positions of query and key, [row, query, key] float64.
struct PositionBias {
  std::optional<Address> place;  ///< the point of the run that shows it
  at::Tensor values;             ///< undefined: nothing is added

  PositionBias(const HookedTransformer& model, const ActivationCache& cache, const ScoredHead& scored,
               const RowColumns& queries, const RowColumns& keys) {
    const auto& config = model.config();
    if (scored.crosses()) return;
    at::Tensor by_query;  // [row, query, all keys]
    if (const auto* relative = config.relative()) {
      // The first block computes it for all, or each block its own.
      const auto block = relative->in_every_block ? scored.scores.layer : 0;
      place = act::relative_bias.in(scored.scores.stack, block).head(scored.head);
      by_query = read_columns(cache, *place, queries);
    } else if (config.alibi() != nullptr) {
      const auto all = of_nothing(model, cache, scored);
      by_query = all.gather(1, queries.columns.unsqueeze(2).expand({-1, -1, all.size(2)}));
    } else {
      return;
    }
    values = by_query.to(at::kCPU, at::kDouble)
                 .gather(2, keys.columns.unsqueeze(1).expand({-1, queries.positions(), -1}));
  }

 private:
  /// Scores [row, query, key] of the same tokens with queries and keys of zeros: what ALiBi adds, and 0 if a
  /// query may not see a key.
  static at::Tensor of_nothing(const HookedTransformer& model, const ActivationCache& cache,
                               const ScoredHead& scored) {
    const HookedTransformer plain(model.loaded());  // without the hooks of the handle
    const auto layer = scored.scores.layer;
    const auto& tokens = *cache.tokens();
    const auto rows = cache[act::q(layer)].size(0);
    const auto streams = at::zeros({rows, tokens.end, model.config().d_model},
                                   at::TensorOptions(plain.config().stream_dtype()).device(plain.device()));
    RunOptions options{.edits = {zero(act::q(layer)), zero(act::k(layer))},
                       .capture = Selection(scored.scores),
                       .output = Output::none};
    options.stop_at_layer = layer + 1;
    const auto run =
        plain.run(at_layer(model.config(), layer, streams, {.attention_mask = tokens.mask}), options);
    const auto scores = run.cache[Address(scored.scores).head(scored.head)].to(at::kCPU, at::kDouble);
    // Norms of queries and keys may have biases, which add the same number to all; a token's distance to
    // itself adds none.
    const auto bias = scores - scores.diagonal(0, 1, 2).unsqueeze(2);
    return bias.masked_fill(scores.isinf(), 0.0);
  }
};

/// One more part of a side, before its remainder, whose products are all zero.
void add_empty_part(Parts& parts, const char* label, const std::optional<Address>& place) {
  const auto behind = parts.values.size(0) - 1;
  const auto remainder = parts.values.slice(0, behind);
  parts.values = at::cat({parts.values.slice(0, 0, behind), at::zeros_like(remainder), remainder});
  parts.axis.labels.insert(parts.axis.labels.end() - 1, label);
  parts.axis.places.insert(parts.axis.places.end() - 1, place);
}

}  // namespace

Grid score_attribution(const HookedTransformer& model, const ActivationCache& cache,
                       const ScoreAttributionOptions& options) {
  require_cache_of(model, cache, "score_attribution");
  const auto& config = model.config();
  const auto scored = head_of(model, options.scores);
  require_linear_heads(model, cache, scored);
  const Split split{options.grain, options.value_biases};
  const ScoreSide query_side(model, cache, scored, ScoreSide::Of::queries);
  const ScoreSide key_side(model, cache, scored, ScoreSide::Of::keys);
  const auto queries = query_side.columns(options.queries), keys = key_side.columns(options.keys);
  auto of_queries = query_side.parts(split, queries), of_keys = key_side.parts(split, keys);
  const PositionBias bias(model, cache, scored, queries, keys);
  if (bias.values.defined()) {
    for (auto* side : {&of_queries, &of_keys}) add_empty_part(*side, "position bias", bias.place);
  }
  const double divisor = config.attn_scale *
                         (config.scale_by_inverse_layer ? static_cast<double>(scored.scores.layer + 1) : 1.0);
  auto scores = at::einsum("irqd,jrkd->rijqk", {of_queries.values, of_keys.values}) / divisor;
  if (bias.values.defined()) scores.select(1, -2).select(1, -2).copy_(bias.values);
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
