// Attribution by gradients against plain autograd in float64, written from the papers
// (tests/golden/README.md).
#include <ATen/ops/where.h>

#include "core/id_list.h"
#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/analysis_goldens.h"
#include "tests/support/compare.h"
#include "tests/support/test.h"

namespace hooked::gradient_golden_test {
namespace {

constexpr double kTolerance = 1e-9;  // of the largest number

class GradientsOf : public testing::TestWithParam<AnalysedModel> {
 protected:
  Input input(const std::string& which) const {
    return {recorded_.at(which).tensor(), {.attention_mask = recorded_.at("attention_mask").tensor()}};
  }
  SweepOptions sweep(std::optional<SweptSite> site = {}, std::vector<SweptAxis> over = {}) const {
    return {.site = site,
            .over = std::move(over),
            .from = model_.run_with_cache(input("clean"), act::everything).cache,
            .into = input("corrupted"),
            .metric = logit_difference(Answers::by_row(id_list(recorded_.at("answer").tensor())),
                                       Answers::by_row(id_list(recorded_.at("against").tensor())))};
  }
  AttributionPatchingOptions by_head() const { return {.sweep = sweep(act::z, {Axis::layer, Axis::head})}; }

  /// Padding, and missing edges, have no number on either side.
  void expect_recorded(const std::string& name, const at::Tensor& made) const {
    EXPECT_GT(made.nan_to_num(0.0).abs().max().item<double>(), 1e-6) << name;
    EXPECT_TRUE(agrees(name, made, recorded_.at(name),
                       {.tolerance = kTolerance, .least = 0.0, .left_out = made.isnan()}));
  }

  RecordedTensors recorded_ = GetParam().read();
  HookedTransformer model_ = GetParam().load();
};

TEST_P(GradientsOf, NodesAreThoseOfAutograd) {
  AttributionPatchingOptions options = by_head();
  expect_recorded("nodes.z", attribution_patching(model_, options).values());
  options.sweep.tokens_per_run = 1;
  expect_recorded("nodes.z", attribution_patching(model_, options).values());
  options.hold = {.norms = true};
  expect_recorded("nodes.z_held_norms", attribution_patching(model_, options).values());
  options.hold = {.patterns = true};
  expect_recorded("nodes.z_held_patterns", attribution_patching(model_, options).values());
  const AttributionPatchingOptions stream{.sweep = sweep(act::resid_pre, {Axis::layer, Axis::pos})};
  expect_recorded("nodes.resid_pre", attribution_patching(model_, stream).values());
  if (!model_.config().has_mlp()) return;
  const AttributionPatchingOptions mlps{.sweep = sweep(act::mlp_out, {Axis::layer, Axis::pos})};
  expect_recorded("nodes.mlp_out", attribution_patching(model_, mlps).values());
}

TEST_P(GradientsOf, NodesInStretchesOfLayersAreTheSame) {
  AttributionPatchingOptions options = by_head();
  options.layers_at_once = 1;
  expect_recorded("nodes.z", attribution_patching(model_, options).values());
}

TEST_P(GradientsOf, IntegratedNodesAreThoseOfAutograd) {
  AttributionPatchingOptions options = by_head();
  options.integration = {.over = IntegrateOver::inputs, .steps = 4};
  expect_recorded("nodes.z_integrated_inputs", attribution_patching(model_, options).values());
  options.integration.over = IntegrateOver::activations;
  expect_recorded("nodes.z_integrated_activations", attribution_patching(model_, options).values());
}

TEST_P(GradientsOf, CorrectedNodesAreThoseOfRunsWithOnePatched) {
  for (const auto& [name, site] : {std::pair{"atp.q", act::q}, {"atp.k", act::k}}) {
    const AttributionPatchingOptions options{.sweep = sweep(site, {Axis::layer, Axis::pos, Axis::head}),
                                             .query_key = true};
    expect_recorded(name, attribution_patching(model_, options).values());
  }
  AttributionPatchingOptions dropped = by_head();
  dropped.drop_layers = true;
  expect_recorded("atp.z_without_layers", attribution_patching(model_, dropped).values());
}

TEST_P(GradientsOf, EdgesAreThoseOfSplitInputs) {
  EdgeAttributionOptions options{.sweep = sweep(), .by_position = true};
  const auto plain = edge_attribution(model_, options).values();
  expect_recorded("edges.plain", plain);
  options.hold.norms = true;
  expect_recorded("edges.held_norms", edge_attribution(model_, options).values());
  options = {
      .sweep = sweep(), .integration = {.over = IntegrateOver::inputs, .steps = 4}, .by_position = true};
  expect_recorded("edges.integrated_inputs", edge_attribution(model_, options).values());
  options = {.sweep = sweep()};
  const auto summed = edge_attribution(model_, options).values();
  EXPECT_TRUE(summed.nan_to_num(0.0).allclose(plain.nan_to_num(0.0).sum(3), 1e-9, 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Models, GradientsOf, testing::ValuesIn(analysed_models("gradients")), named);

}  // namespace
}  // namespace hooked::gradient_golden_test
