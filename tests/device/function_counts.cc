#include "tests/device/function_counts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <utility>

#include "hooked/hooked.h"
#include "tests/device/checks.h"
#include "tests/support/random_dictionaries.h"

namespace hooked::device_tests {
namespace {

constexpr const char* kSlopingCheckpoint = "bloom";  // whose scores have biases by distance

/// One call of an analysis.
struct Function {
  const char* name;
  const char* asked;
  std::function<void()> call;
};

}  // namespace

std::vector<CountedFunction> counted_functions() {
  const GoldenCase& golden_of = golden_case(kAnalysedCheckpoint);
  const GoldenRun golden = read_golden(golden_of);
  const auto model = HookedTransformer::load(golden_of.folder().string(), {.device = "strict"});
  const Input row(golden.tokens.narrow(0, 0, 1)), other(golden.tokens.narrow(0, 0, 1).flip(1));
  const auto cache = model.run_with_cache(row, act::everything, {.eager = true}).cache;
  const auto from = model.run_with_cache(other, act::everything, {.eager = true}).cache;
  const Metric metric = logit_difference(1, 2);
  const AttributionOptions difference{.answer = 1, .against = Answers(2)};
  const auto sweep_of = [&](std::optional<SweptSite> site = {}, std::vector<SweptAxis> over = {}) {
    return SweepOptions{
        .site = std::move(site), .over = std::move(over), .from = from, .into = row, .metric = metric};
  };
  const SweepOptions pair = sweep_of(), heads = sweep_of(act::z, {Axis::layer, Axis::head});
  const Circuit nodes = Circuit::of_nodes(model, {"head 0.0", "head 1.1", "mlp 1"});
  const Circuit edges = Circuit::of_edges(model, {{"embed", "head 1.1 v"}, {"head 1.1", "logits"}});
  const auto points = accumulated_residual(model, cache);
  auto repeated = repeated_tokens_of(model);
  repeated.rows = 2;
  repeated.half = 3;
  const auto length = row.tokens.size(1);
  const auto looked_for = at::ones({length, length}, at::kDouble).tril();
  LensMaps maps;
  maps.by_depth[0] = {.matrix = at::eye(model.config().d_model, at::kDouble)};
  // Maps belong to the published weights.
  const auto published = HookedTransformer::load(
      golden_of.folder().string(), {.device = "strict", .processing = WeightProcessing::none()});
  const auto published_cache = published.run_with_cache(row, act::everything, {.eager = true}).cache;
  const auto sloping =
      HookedTransformer::load(golden_case(kSlopingCheckpoint).folder().string(), {.device = "strict"});
  const auto reference = logits_at(model, other);
  const Metrics ready{metric,
                      logit(1),
                      probability(1),
                      log_probability(1),
                      rank(1),
                      top1(1),
                      loss(),
                      kl_divergence(reference),
                      js_divergence(reference),
                      attention(act::pattern(0).head(0), Position::last(), Position::last()),
                      projection(act::resid_post(0), at::ones({model.config().d_model}, at::kFloat))};
  const StreamPart embedding{.matrix = StreamMatrix::embedding},
      unembedding{.matrix = StreamMatrix::unembedding};
  const at::Tensor labelled = at::arange(1, 21, at::kLong).view({4, 5}),
                   labels = at::arange(4, at::kLong) % 2;
  const Subspace subspace{act::resid_post(0), at::eye(model.config().d_model, at::kDouble).slice(1, 0, 1)};
  const at::Tensor inserted = at::zeros({1, 1, model.config().d_model}, at::kFloat);
  const InterchangePairs interchanged{.base = labelled, .source = labelled.flip(1), .expected = 1};
  const AlignmentOptions one_step{.epochs = 1};
  const auto spliced = published.with_dictionary(
      random_autoencoder("blocks.0.hook_resid_post", published.config().d_model), {.with_error = true});
  const Address features = act::sae_acts_post(act::resid_post(0));
  const auto features_cache = spliced.run_with_cache(row, act::sae_acts_post, {.eager = true}).cache;
  const auto transcoders = random_transcoders(published.config(), {});
  const auto graph = attribute_graph(published, transcoders, row);
  const GraphNode& node = graph.nodes.front();
  const std::int64_t last = std::ssize(graph.nodes) - 1;
  const std::vector<Function> functions{
      {"residual_parts", "by layer", [&] { residual_parts(model, cache); }},
      {"residual_parts", "by neuron", [&] { residual_parts(model, cache, {.grain = Grain::neuron}); }},
      {"accumulated_residual", "", [&] { accumulated_residual(model, cache); }},
      {"normed_stack", "", [&] { normed_stack(model, cache, points, {.norm = {act::ln_final_scale}}); }},
      {"direct_logit_attribution", "by layer", [&] { direct_logit_attribution(model, cache, difference); }},
      {"direct_logit_attribution", "by neuron",
       [&] { direct_logit_attribution(model, cache, {.answer = 1, .grain = Grain::neuron}); }},
      {"direct_logit_attribution", "of a stack",
       [&] { direct_logit_attribution(model, cache, points, difference); }},
      {"source_attribution", "", [&] { source_attribution(model, cache, {.answer = 1}); }},
      {"score_attribution", "of one head",
       [&] { score_attribution(model, cache, {.scores = act::attn_scores(1).head(0)}); }},
      {"logit_lens", "of the stream", [&] { logit_lens(model, cache, {.tokens = {1}}); }},
      {"logit_lens", "of every neuron",
       [&] { logit_lens(model, cache, {.tokens = {1}, .parts = Grain::neuron}); }},
      {"logit_lens", "through maps",
       [&] { logit_lens(published, published_cache, {.tokens = {1}, .maps = maps}); }},
      {"normed_logit", "", [&] { normed_logit(model, cache, difference); }},
      {"norm_shares", "", [&] { norm_shares(model, cache, difference); }},
      {"leave_one_out", "", [&] { leave_one_out(model, cache, difference); }},
      {"unnormed_reading", "", [&] { unnormed_reading(model, cache); }},
      {"attention_grid", "of one layer", [&] { attention_grid(model, cache, act::pattern(1)); }},
      {"head_scores", "one score", [&] { head_scores(cache, HeadScore::previous_token); }},
      {"head_scores", "a pattern", [&] { head_scores(cache, looked_for); }},
      {"head_scores", "with their run",
       [&] { head_scores_report(model, row, {.scores = {HeadScore::previous_token}}); }},
      {"repetition_scores", "", [&] { repetition_scores(model, repeated); }},
      {"ov_circuits", "with singular values", [&] { ov_circuits(model).svd(); }},
      {"qk_circuits", "with norms", [&] { qk_circuits(model).norm(); }},
      {"composition_scores", "of keys", [&] { composition_scores(model, HeadInput::key); }},
      {"copying_scores", "", [&] { copying_scores(model); }},
      {"qk_circuits_at", "three distances",
       [&] {
         qk_circuits_at(model, {0, 0}, {0, 1, 2});
       }},
      {"position_biases", kSlopingCheckpoint, [&] { position_biases(sloping, {.reach = 3}); }},
      {"full_qk_circuit", "with norms",
       [&] {
         full_qk_circuit(model, {0, 0}).norm();
       }},
      {"full_ov_circuit", "with norms",
       [&] {
         full_ov_circuit(model, {0, 0}).norm();
       }},
      {"matmul", "of two circuits", [&] { matmul(ov_circuits(model), qk_circuits(model)); }},
      {"composition", "of two circuits", [&] { composition(ov_circuits(model), qk_circuits(model)); }},
      {"stream_matrix", "with norms", [&] { stream_matrix(model, embedding); }},
      {"virtual_weights", "with norms", [&] { virtual_weights(model, embedding, unembedding).norm(); }},
      {"subspace_overlap", "",
       [&] {
         subspace_overlap(model, {.matrix = StreamMatrix::head_out, .layer = 0},
                          {.matrix = StreamMatrix::value, .layer = 1});
       }},
      {"singular_directions", "", [&] { singular_directions(model, {.layer = 0}); }},
      {"pairwise_cosines", "", [&] { pairwise_cosines(stream_matrix(model, embedding)); }},
      {"superposition", "", [&] { superposition(stream_matrix(model, embedding)); }},
      {"expected_interference", "", [&] { expected_interference(stream_matrix(model, embedding)); }},
      {"path_expansion", "of order 2", [&] { path_expansion(model, cache, {.answer = 1, .order = 2}); }},
      {"path_logits", "",
       [&] {
         path_logits(model, cache, {{0, 0}});
       }},
      {"scores", "by every ready metric", [&] { scores(model, row, ready); }},
      {"logits_at", "", [&] { logits_at(model, row); }},
      {"sweep", "of every head", [&] { sweep(model, heads); }},
      {"direct_path", "",
       [&] {
         direct_path(model, {.source = HeadPlace{0, 0}, .sweep = pair});
       }},
      {"path_patching", "one set of paths",
       [&] { path_patching(model, {.senders = {act::z(0).head(0)}, .sweep = pair}); }},
      {"ablate", "one set", [&] { ablate(model, {.sets = {{act::z(0)}}, .sweep = pair}); }},
      {"attribution_patching", "of every head", [&] { attribution_patching(model, {.sweep = heads}); }},
      {"node_attribution", "", [&] { node_attribution(model, {.sweep = pair}); }},
      {"edge_attribution", "", [&] { edge_attribution(model, {.sweep = pair}); }},
      {"run_circuits", "of nodes", [&] { run_circuits(model, {nodes}, pair); }},
      {"run_circuits", "of edges", [&] { run_circuits(model, {edges}, pair); }},
      {"judge_circuit", "without other sets",
       [&] { judge_circuit(model, nodes, {.sweep = pair, .sets = 0}); }},
      {"fit_probes", "ridge, of every layer",
       [&] { fit_probes(model, labelled, labels, {.method = ProbeMethod::ridge, .held_out = 0}); }},
      {"fit_components", "of every layer", [&] { fit_components(model, labelled, 1); }},
      {"contrast_directions", "of every layer",
       [&] { contrast_directions(model, labelled, labelled.flip(1)); }},
      {"interchange", "of one row", [&] { interchange(model, subspace, inserted, row); }},
      {"judge_interchange", "of four pairs", [&] { judge_interchange(model, interchanged, subspace); }},
      {"align_subspace", "one step", [&] { align_subspace(model, interchanged, one_step); }},
      {"firing_features", "", [&] { firing_features(features_cache, features); }},
      {"feature_logits", "of two features",
       [&] {
         feature_logits(spliced, features, {0, 1});
       }},
      {"dictionary_quality", "of one row", [&] { dictionary_quality(spliced, features, row); }},
      {"attribute_graph", "of all features", [&] { attribute_graph(published, transcoders, row); }},
      {"edge_heads", "of one edge",
       [&] {
         edge_heads(published, transcoders, row, graph, {{0, last}});
       }},
      {"intervene", "on one feature", [&] {
         intervene(published, transcoders, row, graph, {{node.layer, node.pos, node.id, 0}});
       }}};
  std::vector<CountedFunction> counted;
  for (const Function& function : functions) {
    function.call();  // what is recorded or created once exists from here on
    counted.push_back({function.name, function.asked, strict::counts_of(function.call)});
  }
  return counted;
}

}  // namespace hooked::device_tests
