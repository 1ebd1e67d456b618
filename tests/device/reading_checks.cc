#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/real.h>

#include <array>
#include <string>
#include <vector>

#include "hooked/analysis/attention_grid.h"
#include "hooked/analysis/attribution.h"
#include "hooked/analysis/circuits.h"
#include "hooked/analysis/head_runs.h"
#include "hooked/analysis/heads.h"
#include "hooked/analysis/lens_maps.h"
#include "hooked/analysis/logit_lens.h"
#include "hooked/analysis/norm_geometry.h"
#include "hooked/analysis/path_expansion.h"
#include "hooked/analysis/positional_circuits.h"
#include "hooked/analysis/residual.h"
#include "hooked/analysis/score_attribution.h"
#include "hooked/analysis/singular_directions.h"
#include "hooked/analysis/superposition.h"
#include "hooked/analysis/virtual_weights.h"
#include "tests/device/analysis_inputs.h"

// Functions that read one run, or weights.
namespace hooked::device_tests {
namespace reading_group {
namespace {

AttributionOptions difference() { return {.answer = 1, .against = Answers(2)}; }

NamedTensors lens(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  const LogitLens seen = logit_lens(s.model, cache, {.tokens = {1, 2}, .top_k = 1});
  return {{"logits", numbers(seen.logits)},
          {"probabilities", numbers(seen.probabilities)},
          {"neurons", numbers(logit_lens(s.model, cache, {.tokens = {1}, .parts = Grain::neuron}).logits)}};
}

/// Maps belong to published weights: those of a model that treats the subject's weights as such.
NamedTensors mapped_lens(const Subject& s) {
  ModelConfig config = s.config();
  config.processing.clear();
  const auto published = HookedTransformer::from_state_dict(
      s.model.state_dict(), config,
      {.device = s.devices(), .dtype = s.model.dtype(), .processing = WeightProcessing::none()});
  const auto cache = published.run_with_cache(s.input(), act::everything, s.options()).cache;
  const auto d_model = s.config().d_model;
  LensMaps maps;  // on the host, as a file's are
  maps.by_depth[0] = {.matrix = s.random({d_model, d_model}, 6).to(at::kCPU), .adds = true};
  return {{"logits", numbers(logit_lens(published, cache, {.tokens = {1}, .maps = maps}).logits)}};
}

NamedTensors attributed(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  const Grid parts = residual_parts(s.model, cache, {.grain = Grain::head});
  return {{"layers", numbers(direct_logit_attribution(s.model, cache, difference()))},
          {"heads", numbers(direct_logit_attribution(s.model, cache, {.answer = 1, .grain = Grain::head}))},
          {"stack", numbers(direct_logit_attribution(s.model, cache, parts, difference()))},
          {"sources", numbers(source_attribution(s.model, cache, {.answer = 1}))}};
}

NamedTensors parts_of_a_run(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  const auto along = s.random({2, s.config().d_model}, 8);
  return {{"parts", numbers(residual_parts(s.model, cache, {.grain = Grain::neuron, .positions = {}}))},
          {"along", numbers(residual_parts(s.model, cache, {.grain = Grain::neuron, .along = along}))},
          {"points", numbers(accumulated_residual(s.model, cache, {.mid = true}))}};
}

NamedTensors scores_in_parts(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  NamedTensors scores{
      {"scores", numbers(score_attribution(s.model, cache, {.scores = act::attn_scores(0).head(0)}))}};
  if (!s.config().has_encoder()) return scores;
  scores["encoder"] =
      numbers(score_attribution(s.model, cache, {.scores = act::attn_scores.encoder(0).head(0)}));
  scores["across"] =
      numbers(score_attribution(s.model, cache, {.scores = act::cross_attn_scores(0).head(0)}));
  return scores;
}

NamedTensors geometry(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  const Grid points = accumulated_residual(s.model, cache);
  const auto shares = norm_shares(s.model, cache, difference());
  const auto left_out = leave_one_out(s.model, cache, difference());
  return {{"normed", numbers(normed_stack(s.model, cache, points, {.norm = {act::ln_final_scale}}))},
          {"logit", numbers(normed_logit(s.model, cache, difference()).terms)},
          {"length", numbers(shares.length)},
          {"cosine", numbers(shares.cosine)},
          {"exact", numbers(left_out.exact)},
          {"frozen", numbers(left_out.frozen)}};
}

NamedTensors without_norms(const Subject& s) {
  return {{"unnormed", numbers(unnormed_reading(s.model, cache_of(s, s.input())))}};
}

NamedTensors scores_of_heads(const Subject& s) {
  const ActivationCache cache = cache_of(s, s.input());
  const auto length = s.golden.tokens.size(1);
  const auto own = at::ones({length, length}, at::kDouble).tril();
  NamedTensors all{{"share", numbers(head_scores(cache, HeadScore::current_token))},
                   {"own", numbers(head_scores(cache, own, {.measure = HeadMeasure::abs}))}};
  for (const HeadScoreRow& row : head_score_rows()) {
    const HeadMeasure measure = row.kind == HeadScoreKind::spread ? HeadMeasure::share : HeadMeasure::mul;
    all[std::string(row.name)] = numbers(
        head_scores(cache, row.score, {.tokens = s.golden.tokens, .measure = measure, .exclude_bos = true}));
  }
  const auto ran = head_scores_report(
      s.model, s.input(), {.scores = {HeadScore::previous_token}, .how = {.rows = HeadRows::each}});
  all["ran"] = numbers(ran.scores.front());
  for (std::int32_t layer = 0; layer < s.config().n_layers; ++layer) {
    if (!s.config().attends(layer)) continue;
    all["attention"] = numbers(attention_grid(s.model, cache, act::pattern(layer)));
  }
  return all;
}

NamedTensors by_path(const Subject& s) {
  const auto cache = cache_of(s, s.input());
  return {{"paths", numbers(path_expansion(s.model, cache, {.answer = 1, .against = 2, .order = 1}))},
          {"direct", numbers(path_logits(s.model, cache, {}))},
          {"logits", numbers(path_logits(s.model, cache, {{0, 0}}))}};
}

NamedTensors circuits(const Subject& s) {
  const auto composed = composition_scores(s.model, HeadInput::key);
  return {{"norms", ov_circuits(s.model).norm()},
          {"singular", ov_circuits(s.model).svd().S},
          {"scores", qk_circuits(s.model).norm()},
          {"composition", numbers(composed.scores)}};
}

NamedTensors copying(const Subject& s) {
  const auto scores = copying_scores(s.model, {.top_k = 2});
  return {{"eigenvalues", numbers(scores.eigenvalues)}, {"top_k", numbers(scores.top_k)}};
}

/// Every function of a matrix of two factors.
NamedTensors factored(const Subject& s) {
  const FactoredMatrix M(s.random({3, 6, 2}, 1), s.random({3, 2, 6}, 2));
  const auto x = s.random({6}, 3), wide = s.random({6, 5}, 4);
  const auto eigenvalues = M.eigenvalues();
  return {{"AB", M.AB()},
          {"BA", M.BA()},
          {"t", M.t().AB()},
          {"S", M.svd().S},
          {"eigenvalues", at::real(eigenvalues * eigenvalues.conj()).sum(-1)},
          {"norm", M.norm()},
          {"even", M.make_even().AB()},
          {"left", M.collapse_l().square().sum()},
          {"right", M.collapse_r().square().sum()},
          {"one", M[1].unsqueeze(0).AB()},
          {"some", M.rows(1, 3).columns(2, 5).AB()},
          {"row", M.row(2)},
          {"column", M.column(-1)},
          {"number", M.at(1, 2)},
          {"mv", M.mv(x)},
          {"vm", M.vm(x)},
          {"products", matmul(matmul(M, wide), matmul(wide.t(), M * 2.0)).AB()},
          {"composition", composition(M, M.t())}};
}

NamedTensors from_weights(const Subject& s) {
  const auto& config = s.config();
  NamedTensors all{{"full_qk", full_qk_circuit(s.model, {0, 0}, {.distance = 1}).norm()},
                   {"qk_at", qk_circuits_at(s.model, {0, 0}, {0, 2}).norm()}};
  if (config.alibi() != nullptr || config.relative() != nullptr)
    all["biases"] = position_biases(s.model, {.reach = 3}).values();
  if (config.changes_stream() || config.value_norm || !s.predicts()) return all;
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
  all["cosines"] = pairwise_cosines(directions);
  all["spaces"] = subspace_overlap(directions.narrow(0, 0, 2), directions.narrow(0, 2, 2).t()).cosines;
  return all;
}

bool has_circuits(const Subject& s) {
  const ModelConfig& config = s.config();
  return s.one_stack() && !config.latent_attention() && !config.qk_norm && config.qkv_clip == 0;
}
bool stream_is_read(const Subject& s) { return swept_here(s) && s.config().norm_place != NormPlace::post; }
bool has_final_norm(const Subject& s) { return stream_is_read(s) && s.config().final_norm != NormKind::none; }

constexpr std::array<Check, 14> kChecks{{
    {"lens", stream_is_read, lens},
    {"mapped_lens", stream_is_read, mapped_lens},
    {"attributed", stream_is_read, attributed},
    {"parts_of_a_run", swept_here, parts_of_a_run},
    {"scores_in_parts", swept_here, scores_in_parts},
    {"geometry", has_final_norm, geometry},
    {"without_norms", stream_is_read, without_norms},
    {"head_scores", [](const Subject& s) { return s.one_stack(); }, scores_of_heads},
    {"by_path", [](const Subject& s) { return swept_here(s) && has_circuits(s); }, by_path},
    {"circuits", has_circuits, circuits},
    {"copying", has_circuits, copying},
    {"factored", always, factored},
    {"from_weights", has_circuits, from_weights},
    {"two_stacks", [](const Subject& s) { return !s.one_stack() && s.predicts(); }, attributed},
}};

}  // namespace
}  // namespace reading_group

std::span<const Check> reading_checks() { return reading_group::kChecks; }

}  // namespace hooked::device_tests
