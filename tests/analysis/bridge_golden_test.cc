// Attribution patching, circuits and paths against the tools of TransformerLens 4 (tests/golden/README.md).

#include "core/id_list.h"
#include "hooked/analysis/circuit.h"
#include "hooked/analysis/circuit_judgement.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/path_patching.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/analysis_goldens.h"
#include "tests/support/test.h"

namespace hooked::bridge_golden_test {
namespace {

constexpr double kTolerance = 1e-9;  // of the largest number

void expect_equal(const at::Tensor& made, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(made.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(made.isnan().equal(expected.isnan())) << what;
  const at::Tensor here = made.nan_to_num(0.0), there = expected.nan_to_num(0.0);
  const double largest = there.abs().max().item<double>();
  EXPECT_GT(largest, 1e-6) << what;
  EXPECT_LE((here - there).abs().max().item<double>(), kTolerance * largest) << what;
}

class ToolsOfTheBridge : public testing::TestWithParam<AnalysedModel> {
 protected:
  const at::Tensor& recorded(const std::string& name) const { return recorded_.at(name).tensor(); }
  /// Whether TransformerLens's tools take edges of it.
  bool has_edges() const { return !GetParam().row.contains("edges_refused"); }
  at::Tensor rows(const char* prompts, std::int64_t count) const {
    return recorded(prompts).narrow(0, 0, count);
  }
  Metric metric(std::int64_t count) const {
    const auto of = [&](const char* name) {
      return Answers::by_row(id_list(recorded(name).narrow(0, 0, count)));
    };
    return logit_difference(of("answer"), of("against"));
  }
  /// That many pairs, the values of one side into the other.
  SweepOptions sweep(const char* from, const char* into, std::int64_t count) const {
    return {.from = model_.run_with_cache(rows(from, count), act::defaults).cache,
            .into = rows(into, count),
            .metric = metric(count)};
  }
  /// Their writers have no position embedding, which writes the same in both prompts.
  static std::int64_t first_writer(const Grid& edges) {
    return edges.axis("writer").labels[1] == "pos_embed" ? 1 : 0;
  }

  RecordedTensors recorded_ = GetParam().read();
  HookedTransformer model_ = GetParam().load();
};

TEST_P(ToolsOfTheBridge, NodesAreTheirs) {
  SweepOptions heads = sweep("clean", "corrupted", 3);
  heads.site = act::z;
  heads.over = {Axis::pos, Axis::layer, Axis::head};
  expect_equal(attribution_patching(model_, {.sweep = heads}).values(), recorded("nodes.head"), "heads");
  SweepOptions mlps = sweep("clean", "corrupted", 3);
  mlps.site = act::mlp_out;
  mlps.over = {Axis::pos, Axis::layer};
  expect_equal(attribution_patching(model_, {.sweep = mlps}).values(), recorded("nodes.mlp"), "MLPs");
  // Before the first block, only the embeddings differ in the stream.
  SweepOptions stream = sweep("clean", "corrupted", 3);
  stream.site = act::resid_pre;
  stream.over = {Axis::pos, {Axis::layer, {0}}};
  expect_equal(attribution_patching(model_, {.sweep = stream}).values().squeeze(2), recorded("nodes.embed"),
               "embedding");
}

TEST_P(ToolsOfTheBridge, EdgesAreTheirs) {
  if (!has_edges()) GTEST_SKIP() << "its tools refuse shared keys";
  const Grid edges = edge_attribution(model_, {.sweep = sweep("clean", "corrupted", 3), .by_position = true});
  at::Tensor made = edges.values();
  if (const std::int64_t positions = first_writer(edges); positions > 0) {
    EXPECT_EQ(made.select(1, positions).nan_to_num(0.0).abs().max().item<double>(), 0);
    made = at::stack(
        [&] {
          std::vector<at::Tensor> others;
          for (std::int64_t writer = 0; writer < made.size(1); ++writer) {
            if (writer != positions) others.push_back(made.select(1, writer));
          }
          return others;
        }(),
        1);
  }
  expect_equal(made, recorded("edges"), "edges");
}

TEST_P(ToolsOfTheBridge, CircuitsRecoverAsMuch) {
  if (!has_edges()) GTEST_SKIP() << "its tools refuse shared keys";
  const SweepOptions options = sweep("corrupted", "clean", 1);
  const Grid edges = edge_attribution(model_, {.sweep = options});
  const auto& writers = edges.axis("writer").labels;
  const auto& readers = edges.axis("reader").labels;
  const std::int64_t positions = first_writer(edges);
  const at::Tensor& kept = recorded("kept");  // [circuit, writer, reader]
  const double whole = scores(model_, rows("clean", 1), metric(1)).values().item<double>(),
               none = scores(model_, rows("corrupted", 1), metric(1)).values().item<double>();
  for (std::int64_t number = 0; number < kept.size(0); ++number) {
    std::vector<CircuitEdge> chosen;
    for (std::int64_t writer = 0; writer < kept.size(1); ++writer) {
      for (std::int64_t reader = 0; reader < kept.size(2); ++reader) {
        if (kept[number][writer][reader].item<std::int64_t>() == 0) continue;
        const auto ours = writer > 0 ? writer + positions : 0;
        chosen.push_back(
            {writers[static_cast<std::size_t>(ours)], readers[static_cast<std::size_t>(reader)]});
      }
    }
    ASSERT_GT(chosen.size(), 10u);
    const double circuit =
        run_circuits(model_, {Circuit::of_edges(model_, chosen)}, options).values().item<double>();
    EXPECT_NEAR((circuit - none) / (whole - none), recorded("recovered")[number].item<double>(), kTolerance);
  }
}

TEST_P(ToolsOfTheBridge, DirectPathsAreTheirs) {
  if (!has_edges()) GTEST_SKIP() << "its tools refuse shared keys";
  const auto layers = static_cast<std::int32_t>(model_.config().n_layers);
  const std::int64_t heads = model_.config().n_heads;
  for (const auto& [name, site] :
       {std::pair{"paths.q", act::q}, std::pair{"paths.k", act::k}, std::pair{"paths.v", act::v}}) {
    PathPatchingOptions options{.cells = PathCells::each, .sweep = sweep("clean", "corrupted", 1)};
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      for (std::int64_t head = 0; head < heads; ++head) {
        options.senders.push_back(act::z(layer).head(head));
        options.receivers.push_back(site(layer).head(head));
      }
    }
    const at::Tensor made = path_patching(model_, options).values().view({layers, heads, layers, heads});
    // Theirs has zeros if no later receiver exists; ours has the score without a patch.
    at::Tensor ours = made.clone();
    for (std::int64_t layer = 0; layer < layers; ++layer) ours[layer].slice(1, 0, layer + 1).zero_();
    expect_equal(ours, recorded(name), name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ToolsOfTheBridge, testing::ValuesIn(analysed_models("bridge")), named);

}  // namespace
}  // namespace hooked::bridge_golden_test
