#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <utility>
#include <vector>

#include "hooked/analysis/ablation.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/interchange.h"
#include "hooked/analysis/patching_presets.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/analysis/probe_fits.h"
#include "hooked/analysis/repetition.h"
#include "hooked/analysis/sweep.h"
#include "tests/device/analysis_inputs.h"

// Functions that patch runs: sweeps, paths, gradients. Those that read a run, or weights: reading_checks.cc.
namespace hooked::device_tests {
namespace analysis_group {
namespace {

Metrics metrics() { return {logit_difference(1, 2), log_probability(3), rank(4), top1(5)}; }

NamedTensors swept(const Subject& s, act::BlockSite site, std::vector<SweptAxis> over) {
  return {{"sweep", numbers(sweep(s.model, {.site = site,
                                            .over = std::move(over),
                                            .from = cache_of(s, other(s)),
                                            .into = s.input(),
                                            .metric = metrics()}))}};
}

NamedTensors stream(const Subject& s) { return swept(s, act::resid_pre, {Axis::layer, Axis::pos}); }
NamedTensors heads(const Subject& s) { return swept(s, act::z, {Axis::layer, Axis::head}); }
NamedTensors patterns(const Subject& s) { return swept(s, act::pattern, {Axis::layer, Axis::head}); }
NamedTensors norms(const Subject& s) { return swept(s, act::attn_out, {Axis::layer, Axis::pos}); }

NamedTensors presets(const Subject& s) {
  NamedTensors all;
  for (const char* name : {"attn_head_all_pos_every", "block_every"})
    all[name] = numbers(sweep(s.model, patching_preset(name), paired(s)));
  return all;
}

NamedTensors ablated(const Subject& s) {
  const auto swept = [&](PatchSource from) {
    return numbers(sweep(s.model, {.site = act::z,
                                   .over = {Axis::layer, Axis::head},
                                   .from = std::move(from),
                                   .into = s.input(),
                                   .metric = logit(1)}));
  };
  const ActivationCache data = cache_of(s, other(s));
  return {{"zero", swept(PatchSource::zero())},
          {"value", swept(PatchSource::value(s.random({s.config().value_dim(0)}, 5)))},
          {"mean", swept(PatchSource::mean(data, MeanOver::rows_and_positions))},
          {"resampled", swept(PatchSource::resampled(data, 3))},
          {"mixture", swept(PatchSource::mixture(data, PatchSource::zero(), 0.25))}};
}

NamedTensors scored(const Subject& s) {
  const auto reference = logits_at(s.model, other(s));
  const Metrics ready{logit_difference(1, 2),
                      log_probability(3),
                      rank(4),
                      top1(5),
                      probability(2),
                      kl_divergence(reference),
                      js_divergence(reference),
                      attention(act::pattern(s.attending()).head(0), Position::last(), Position::last()),
                      projection(act::resid_post(0), s.random({s.config().d_model}, 4))};
  return {{"reference", reference},
          {"scores", numbers(scores(s.model, s.input(), ready))},
          {"loss", loss().score(s.model, s.input())}};
}

NamedTensors repetition(const Subject& s) {
  auto options = repeated_tokens_of(s.model);
  options.rows = 2;
  options.half = 2;
  const auto scores = repetition_scores(s.model, options);
  return {{"loss", scores.loss.values()}, {"accuracy", scores.accuracy.values()}};
}

NamedTensors by_gradients(const Subject& s) {
  const auto estimated = [&](const AttributionPatchingOptions& options) {
    return numbers(attribution_patching(s.model, options));
  };
  const SweepOptions heads = paired(s, act::z, {Axis::layer, Axis::head});
  return {
      {"nodes", estimated({.sweep = heads})},
      {"held", estimated({.sweep = heads, .hold = {.norms = true, .patterns = true}})},
      {"integrated", estimated({.sweep = heads, .integration = {.over = IntegrateOver::inputs, .steps = 2}})},
      {"dropped", estimated({.sweep = heads, .drop_layers = true})},
      {"stretches", estimated({.sweep = heads, .layers_at_once = 1})},
      {"query", estimated({.sweep = paired(s, act::q, {Axis::layer, Axis::head}), .query_key = true})},
      {"key", estimated({.sweep = paired(s, act::k, {Axis::layer, Axis::pos}), .query_key = true})},
      {"preset",
       numbers(attribution_patching(s.model, patching_preset("block_every"), {.sweep = paired(s)}))},
      {"edges", numbers(edge_attribution(s.model, {.sweep = paired(s)}))}};
}

NamedTensors by_paths(const Subject& s) {
  const std::vector<Address> senders{act::z(s.attending()).head(0), act::attn_out(0)};
  return {
      {"paths",
       path_patching(s.model, {.senders = senders, .cells = PathCells::each_sender, .sweep = paired(s)})
           .values()},
      {"ablated", ablate(s.model, {.sets = {{act::z(s.attending())}}, .complement = true, .sweep = paired(s)})
                      .values()}};
}

NamedTensors by_direct_paths(const Subject& s) {
  return {{"keys", numbers(direct_path(s.model, {.input = HeadInput::key, .sweep = paired(s)}))}};
}

NamedTensors circuits_of_nodes(const Subject& s) {
  const auto options = paired(s);
  const Grid scores = node_attribution(s.model, {.sweep = options});
  const Circuit circuit = choose_circuit(s.model, scores, {.count = 3});
  // The whole model has nothing patched, and is run together with circuits that have patches.
  const Circuit whole = choose_circuit(s.model, scores, {.count = scores.values().numel()});
  const auto judged = judge_circuit(s.model, circuit, {.sweep = options, .sets = 2});
  return {{"kept", run_circuits(s.model, {circuit, whole, circuit}, options).values()},
          {"minimality", judged.minimality.values()}};
}

NamedTensors circuits_of_edges(const Subject& s) {
  const auto options = paired(s);
  const auto report = edge_attribution_report(s.model, {.sweep = options, .check = 2});
  const Circuit circuit = choose_circuit(s.model, report.grid, {.count = 12});
  return {{"check", at::tensor(report.check->correlation)},
          {"kept", run_circuits(s.model, {circuit}, options).values()}};
}

NamedTensors two_stacks(const Subject& s) {
  return {{"edges", numbers(edge_attribution(s.model, {.sweep = paired(s)}))},
          {"paths", path_patching(s.model, {.senders = {act::z.encoder(0).head(0)},
                                            .receivers = {act::cross_k(0), act::cross_v(0)},
                                            .cells = PathCells::each_receiver,
                                            .sweep = paired(s)})
                        .values()}};
}

// Elsewhere circuits of edges are refused: what is read there is not a sum of edges.
bool edges_add_up(const Subject& s) {
  const ModelConfig& c = s.config();
  const bool attends =
      !c.short_conv && !c.delta_net && !c.gated_heads && !c.latent_attention() && !c.layer_scale;
  return swept_here(s) && attends && c.norm_place == NormPlace::pre;
}

/// A few rows of two classes.
Input labelled(const Subject& s) {
  Input rows = s.input();
  rows.tokens = at::cat({rows.tokens, rows.tokens.flip(1)}).repeat({2, 1});
  if (rows.attention_mask.defined()) rows.attention_mask = at::Tensor();
  return rows;
}

NamedTensors by_probes(const Subject& s) {
  const Input rows = labelled(s);
  const at::Tensor labels = at::arange(rows.tokens.size(0), at::kLong) % 2;
  const DirectionOptions where{.of = act::resid_post(0), .positions = {-1}};
  const auto report =
      fit_probes(s.model, rows, labels, {.at = where, .method = ProbeMethod::ridge, .held_out = 0});
  const Probe& probe = report.probes[0];
  const auto steered = probe.measure(-1).score(s.model, rows, {.edits = probe.steer(s.model, 2)});
  const auto removed = probe.measure(-1).score(s.model, rows, {.edits = probe.project_out(s.model)});
  return {{"ridge", probe.fit.scores(s.random({2, s.config().d_model}, 3).cpu())},
          {"steered", steered},
          {"removed", removed},
          {"components", fit_components(s.model, rows, 1, where).share.values()},
          {"contrast", contrast_directions(s.model, rows, rows.tokens.flip(1), 1, where).share.values()}};
}

NamedTensors by_interchange(const Subject& s) {
  const Input rows = labelled(s);
  InterchangePairs pairs{.base = rows, .source = rows.tokens.flip(0), .expected = 1};
  pairs.answer_at = -1;
  pairs.positions = {0, -1};
  const at::Tensor basis = at::eye(s.config().d_model, at::kDouble).slice(1, 0, 2);
  const Subspace subspace{act::resid_post(0), basis};
  const auto run = s.model.run(pairs.source, {.capture = {act::resid_post(0)}, .output = Output::none});
  const at::Tensor all = run.cache[act::resid_post(0)];
  const at::Tensor source = at::stack({all.select(1, 0), all.select(1, -1)}, 1);
  const auto edited = log_probability(1, -1).score(
      s.model, rows, {.edits = interchange(s.model, subspace, source, rows, pairs.positions)});
  const auto learned = align_subspace(s.model, pairs, {.place = act::resid_post(0), .epochs = 1});
  return {{"objective", judge_interchange(s.model, pairs, subspace).objective.values()},
          {"edited", edited},
          {"learned", learned.subspace.projection()}};
}

constexpr std::array<Check, 16> kChecks{{
    {"by_probes", swept_here, by_probes},
    {"by_interchange", [](const Subject& s) { return swept_here(s) && s.causal(); }, by_interchange},
    {"stream", swept_here, stream},
    {"heads", swept_here, heads},
    {"patterns", swept_here, patterns},
    {"attention_outputs", swept_here, norms},
    {"presets", swept_here, presets},
    {"ablated", swept_here, ablated},
    {"scored", [](const Subject& s) { return swept_here(s) && s.causal(); }, scored},
    {"by_gradients", swept_here, by_gradients},
    {"by_paths", swept_here, by_paths},
    {"by_direct_paths", swept_here, by_direct_paths},
    {"circuits_of_nodes", swept_here, circuits_of_nodes},
    {"circuits_of_edges", edges_add_up, circuits_of_edges},
    {"two_stacks", [](const Subject& s) { return !s.one_stack() && s.predicts(); }, two_stacks},
    {"repetition", [](const Subject& s) { return swept_here(s) && s.causal(); }, repetition},
}};

}  // namespace
}  // namespace analysis_group

std::span<const Check> analysis_checks() { return analysis_group::kChecks; }

}  // namespace hooked::device_tests
