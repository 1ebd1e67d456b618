#include <ATen/TensorOperators.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "hooked/analysis/ablation.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/circuits.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/path_expansion.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/analysis/positional_circuits.h"
#include "hooked/analysis/repetition.h"
#include "hooked/analysis/singular_directions.h"
#include "hooked/analysis/superposition.h"
#include "hooked/analysis/sweep.h"
#include "hooked/analysis/virtual_weights.h"
#include "tests/device/checks.h"

namespace hooked::device_tests {
namespace analysis_group {
namespace {

Input other(const Subject& s) {
  Input other = s.input();
  other.tokens = other.tokens.flip(1);
  return other;
}

// NaN stands for what has no number: of both the same.
constexpr double kNoNumber = 12345.0;

ActivationCache cache_of(const Subject& s, const Input& input) {
  return s.model.run_with_cache(input, act::everything, s.options()).cache;
}

Metrics metrics() { return {logit_difference(1, 2), log_probability(3), rank(4), top1(5)}; }

NamedTensors swept(const Subject& s, act::BlockSite site, std::vector<SweptAxis> over) {
  return {{"sweep", sweep(s.model, {.site = site,
                                    .over = std::move(over),
                                    .from = cache_of(s, other(s)),
                                    .into = s.input(),
                                    .metric = metrics()})
                        .values()
                        .nan_to_num(kNoNumber)}};
}

NamedTensors stream(const Subject& s) { return swept(s, act::resid_pre, {Axis::layer, Axis::pos}); }
NamedTensors heads(const Subject& s) { return swept(s, act::z, {Axis::layer, Axis::head}); }
NamedTensors patterns(const Subject& s) { return swept(s, act::pattern, {Axis::layer, Axis::head}); }
NamedTensors norms(const Subject& s) { return swept(s, act::attn_out, {Axis::layer, Axis::pos}); }

NamedTensors presets(const Subject& s) {
  NamedTensors all;
  for (const char* name : {"attn_head_all_pos_every", "block_every"}) {
    all[name] = sweep(s.model, patching_preset(name),
                      {.from = cache_of(s, other(s)), .into = s.input(), .metric = logit_difference(1, 2)})
                    .values()
                    .nan_to_num(kNoNumber);
  }
  return all;
}

NamedTensors ablated(const Subject& s) {
  const auto swept = [&](PatchSource from) {
    return sweep(s.model, {.site = act::z,
                           .over = {Axis::layer, Axis::head},
                           .from = std::move(from),
                           .into = s.input(),
                           .metric = logit(1)})
        .values()
        .nan_to_num(kNoNumber);
  };
  const ActivationCache data = cache_of(s, other(s));
  return {{"zero", swept(PatchSource::zero())},
          {"mean", swept(PatchSource::mean(data))},
          {"resampled", swept(PatchSource::resampled(data, 3))}};
}

NamedTensors scored(const Subject& s) {
  return {{"scores", scores(s.model, s.input(), metrics()).values().nan_to_num(kNoNumber)},
          {"loss", loss().score(s.model, s.input())}};
}

NamedTensors lens(const Subject& s) {
  const LogitLens seen = logit_lens(s.model, cache_of(s, s.input()), {.tokens = {1, 2}, .top_k = 1});
  return {{"logits", seen.logits.values().nan_to_num(kNoNumber)},
          {"probabilities", seen.probabilities.values().nan_to_num(kNoNumber)}};
}

NamedTensors attributed(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  return {{"layers", direct_logit_attribution(s.model, cache, {.answer = 1, .against = Answers(2)})
                         .values()
                         .nan_to_num(kNoNumber)},
          {"heads", direct_logit_attribution(s.model, cache, {.answer = 1, .grain = Grain::head})
                        .values()
                        .nan_to_num(kNoNumber)}};
}

NamedTensors scores_of_heads(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  NamedTensors all{{"share", head_scores(cache, HeadScore::current_token).values().nan_to_num(kNoNumber)}};
  for (const HeadScoreRow& row : head_score_rows()) {
    const HeadMeasure measure = row.kind == HeadScoreKind::spread ? HeadMeasure::share : HeadMeasure::mul;
    all[std::string(row.name)] =
        head_scores(cache, row.score, {.tokens = s.golden.tokens, .measure = measure, .exclude_bos = true})
            .values()
            .nan_to_num(kNoNumber);
  }
  return all;
}

NamedTensors repetition(const Subject& s) {
  auto options = repeated_tokens_of(s.model);
  options.rows = 2;
  options.half = 2;
  const auto scores = repetition_scores(s.model, options);
  return {{"loss", scores.loss.values()}, {"accuracy", scores.accuracy.values()}};
}

NamedTensors circuits(const Subject& s) {
  return {{"norms", ov_circuits(s.model).norm()},
          {"singular", ov_circuits(s.model).svd().S},
          {"composition", composition_scores(s.model, HeadInput::key).scores.values().nan_to_num(kNoNumber)}};
}

/// The other prompt's values into this one, by a metric with a gradient.
SweepOptions paired(const Subject& s, std::optional<SweptSite> site = {}, std::vector<SweptAxis> over = {}) {
  return {.site = site,
          .over = std::move(over),
          .from = cache_of(s, other(s)),
          .into = s.input(),
          .metric = logit_difference(1, 2)};
}

NamedTensors by_gradients(const Subject& s) {
  const auto numbers = [&](const AttributionPatchingOptions& options) {
    return attribution_patching(s.model, options).values().nan_to_num(kNoNumber);
  };
  const SweepOptions heads = paired(s, act::z, {Axis::layer, Axis::head});
  return {
      {"nodes", numbers({.sweep = heads})},
      {"held", numbers({.sweep = heads, .hold = {.norms = true, .patterns = true}})},
      {"integrated", numbers({.sweep = heads, .integration = {.over = IntegrateOver::inputs, .steps = 2}})},
      {"query", numbers({.sweep = paired(s, act::q, {Axis::layer, Axis::head}), .query_key = true})},
      {"key", numbers({.sweep = paired(s, act::k, {Axis::layer, Axis::pos}), .query_key = true})},
      {"edges", edge_attribution(s.model, {.sweep = paired(s)}).values().nan_to_num(kNoNumber)}};
}

NamedTensors by_paths(const Subject& s) {
  const std::vector<Address> senders{act::z(0).head(0), act::attn_out(0)};
  return {
      {"paths",
       path_patching(s.model, {.senders = senders, .cells = PathCells::each_sender, .sweep = paired(s)})
           .values()},
      {"ablated", ablate(s.model, {.sets = {{act::z(0)}}, .complement = true, .sweep = paired(s)}).values()}};
}

bool has_circuits(const Subject& s) {
  const ModelConfig& config = s.config();
  return s.one_stack() && !config.latent_attention() && !config.qk_norm && config.qkv_clip == 0;
}

NamedTensors from_weights(const Subject& s) {
  const auto& config = s.config();
  NamedTensors all{{"full_qk", full_qk_circuit(s.model, {0, 0}, {.distance = 1}).norm()},
                   {"qk_at", qk_circuits_at(s.model, {0, 0}, {0, 2}).norm()}};
  if (config.alibi() != nullptr || config.relative() != nullptr)
    all["biases"] = position_biases(s.model, {.reach = 3}).values();
  if (config.norms_stream() || !s.predicts()) return all;
  all["full_ov"] = full_ov_circuit(s.model, {0, 0}).norm();
  all["virtual"] =
      virtual_weights(s.model, {.matrix = StreamMatrix::embedding}, {.matrix = StreamMatrix::unembedding})
          .norm();
  if (config.n_layers > 1) {
    all["overlap"] = subspace_overlap(s.model, {.matrix = StreamMatrix::head_out, .layer = 0},
                                      {.matrix = StreamMatrix::value, .layer = 1})
                         .cosines;
  }
  const auto singular = singular_directions(s.model, {.layer = 0, .directions = 2});
  all["singular"] = singular.values;
  all["directions"] = singular.logits.square();
  const auto directions = stream_matrix(s.model, {.matrix = StreamMatrix::embedding});
  all["dimensions"] = superposition(directions).dimensions;
  all["interference"] = expected_interference(directions).square;
  return all;
}

NamedTensors by_path(const Subject& s) {
  const auto cache = cache_of(s, s.input());
  return {{"paths", path_expansion(s.model, cache, {.answer = 1, .against = 2, .order = 1})
                        .values()
                        .nan_to_num(kNoNumber)},
          {"logits", path_logits(s.model, cache, {{0, 0}}).values().nan_to_num(kNoNumber)}};
}

bool swept_here(const Subject& s) { return s.predicts() && s.one_stack() && !s.golden.token_types.defined(); }
bool stream_is_read(const Subject& s) { return swept_here(s) && s.config().norm_place != NormPlace::post; }

constexpr std::array<Check, 16> kChecks{{
    {"stream", swept_here, stream},
    {"heads", swept_here, heads},
    {"patterns", swept_here, patterns},
    {"attention_outputs", swept_here, norms},
    {"presets", swept_here, presets},
    {"ablated", swept_here, ablated},
    {"scored", [](const Subject& s) { return swept_here(s) && s.causal(); }, scored},
    {"lens", stream_is_read, lens},
    {"attributed", stream_is_read, attributed},
    {"head_scores", [](const Subject& s) { return s.one_stack(); }, scores_of_heads},
    {"circuits", has_circuits, circuits},
    {"by_gradients", swept_here, by_gradients},
    {"by_paths", swept_here, by_paths},
    {"from_weights", has_circuits, from_weights},
    {"by_path", [](const Subject& s) { return swept_here(s) && has_circuits(s); }, by_path},
    {"repetition", [](const Subject& s) { return swept_here(s) && s.causal(); }, repetition},
}};

}  // namespace
}  // namespace analysis_group

std::span<const Check> analysis_checks() { return analysis_group::kChecks; }

}  // namespace hooked::device_tests
