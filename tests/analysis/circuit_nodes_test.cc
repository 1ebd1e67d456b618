// Circuits from numbers of heads and MLPs, and how circuits are named.
#include <ATen/ops/ones.h>

#include <algorithm>

#include "hooked/analysis/attribution.h"
#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/sweep.h"
#include "tests/support/tiny_model.h"

namespace hooked::circuit_nodes_test {
namespace {

class CircuitNodes : public testing::Test {
 protected:
  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  Metric metric_ = logit_difference(3, 7);
  ActivationCache from_ = model_.run_with_cache(corrupted_, act::everything).cache;

  SweepOptions sweep() const { return {.from = from_, .into = clean_, .metric = metric_}; }
  double score(const std::vector<Edit>& edits) const {
    return metric_.score(model_, clean_, {.edits = edits}).item<double>();
  }
};

/// From a sweep to a ranking to a circuit to an ablation, without spelling a name.
TEST_F(CircuitNodes, IsChosenByNumbersOfHeads) {
  SweepOptions options = sweep();
  options.site = act::z;
  options.over = {Axis::layer, Axis::head};
  const Grid change = hooked::sweep(model_, options) - score({});
  const auto largest = change.largest(2, LargestBy::size);
  std::vector<std::string> names;
  for (const GridCell& cell : largest) names.push_back("head " + cell.labels[0] + '.' + cell.labels[1]);
  const Circuit two = choose_circuit(model_, change, {.count = 2});
  std::ranges::sort(names);
  EXPECT_EQ(two.nodes(), names);
  EXPECT_EQ(Circuit::of_cells(model_, largest), two);
  EXPECT_EQ(largest[0].place->to_string(),
            "blocks." + largest[0].labels[0] + ".attn.hook_z[head=" + largest[0].labels[1] + "]");
  // The same from a grid of one's own, which has no addresses.
  const Grid own(change.values(), {{"layer", {"0", "1"}}, {"head", {"0", "1", "2", "3"}}},
                 {.title = "mine", .unit = ""});
  EXPECT_EQ(choose_circuit(model_, own, {.count = 2}), two);

  std::vector<Edit> edits;
  for (const Address& place : two.places(model_)) edits.push_back(zero(place));
  const SweepOptions ablated{.from = PatchSource::zero(), .into = clean_, .metric = metric_};
  EXPECT_NEAR(ablate(model_, {.sets = {two.places(model_)}, .sweep = ablated}).at({0}), score(edits), 1e-12);
  EXPECT_NEAR(ablate(model_, {.sets = {{*largest[0].place}}, .sweep = ablated}).at({0}),
              score({zero(*largest[0].place)}), 1e-12);
}

/// A head by any of its activations, all heads of a layer, an MLP; not a part of one.
TEST_F(CircuitNodes, KnowsNodesByTheirActivations) {
  const auto of = [&](const std::vector<Address>& places) {
    std::vector<GridCell> cells;
    for (const Address& place : places)
      cells.push_back({.index = {0}, .labels = {"cell"}, .place = place, .value = 1});
    return Circuit::of_cells(model_, cells).nodes();
  };
  EXPECT_THAT(of({act::pattern(1).head(2), act::result(0).head(-1), act::q(1).head(0), act::mlp_out(-1)}),
              ElementsAre("head 0.3", "head 1.0", "head 1.2", "mlp 1"));
  EXPECT_THAT(of({act::attn_out(0)}), ElementsAre("head 0.0", "head 0.1", "head 0.2", "head 0.3"));
  EXPECT_EQ(of({act::z(1)}).size(), 4u);
  const auto text = [&](const Address& place) { return text_thrown_by<HookError>([&] { of({place}); }); };
  EXPECT_THAT(text(act::z(0).head(1).pos(2)), HasSubstr("a part of a node"));
  EXPECT_THAT(text(act::resid_post(0)), HasSubstr("not about a node"));
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                Circuit::of_cells(model_, {{.index = {0}, .labels = {"embed"}, .place = {}, .value = 1}});
              }),
              HasSubstr("[embed]"));
  // Direct logit attribution has parts that are no nodes.
  const auto run = model_.run_with_cache(clean_);
  const Grid parts = direct_logit_attribution(model_, run.cache, {.answer = 3, .grain = Grain::head});
  const Circuit all = choose_circuit(model_, parts, {.count = 100});
  EXPECT_EQ(all.size(), 10) << "8 heads and 2 MLPs";
}

TEST_F(CircuitNodes, IsNamedByWhatItConsistsOf) {
  const auto nodes = [&](const std::vector<std::string>& names) { return Circuit::of_nodes(model_, names); };
  const Circuit many = nodes({"head 0.0", "head 0.1", "head 0.2", "head 0.3", "mlp 0", "head 1.0", "mlp 1"});
  const Grid scores = run_circuits(
      model_, {nodes({"head 0.1", "mlp 1"}), nodes({}), many, nodes({"mlp 1", "head 0.1"})}, sweep());
  EXPECT_THAT(scores.axis("circuit").labels,
              ElementsAre("head 0.1 + mlp 1", "nothing",
                          "head 0.0 + head 0.1 + head 0.2 + head 0.3 + mlp 0 + head 1.0 + 1 more",
                          "head 0.1 + mlp 1 (2)"));
  EXPECT_EQ(scores.at({0}), scores.at({3}));
  const Grid edges =
      run_circuits(model_, {Circuit::of_edges(model_, {{"embed", "mlp 0"}, {"mlp 0", "logits"}})}, sweep());
  EXPECT_THAT(edges.axis("circuit").labels, ElementsAre("embed -> mlp 0 + mlp 0 -> logits"));
}

}  // namespace
}  // namespace hooked::circuit_nodes_test
