#include "models/transformer/block.h"

#include "tests/models/random_graph.h"

namespace hooked::block_test {
namespace {

/// The points of layer 0 that an edit changes, the edited one left out.
std::set<std::string> changed_by(const RandomGraph& graph, const Edit& edit) {
  const ActivationCache plain = graph.run(graph.tokens(), {.capture = act::everything}).cache;
  const ActivationCache edited =
      graph.run(graph.tokens(), {.capture = act::everything, .edits = {edit}}).cache;
  std::set<std::string> changed;
  for (const auto& entry : plain) {
    if (entry.name.layer != 0 || entry.name.site == Site::resid_post || entry.name.site == Site::resid_mid)
      continue;
    if (entry.value().equal(edited[Address(entry.name)])) continue;
    const bool beyond_rounding = relative_difference(edited[Address(entry.name)].nan_to_num(0.0, 0.0, 0.0),
                                                     entry.value().nan_to_num(0.0, 0.0, 0.0)) > 1e-9;
    if (beyond_rounding) changed.insert(std::string(row(entry.name.site).word));
  }
  return changed;
}

using Words = std::set<std::string>;

ModelConfig parallel_config(BlockLayout layout) {
  ModelConfig config = graph_config();
  config.layout = layout;  // the MLP does not read what attention writes
  return config;
}

TEST(SplitInputs, EditOfOneBranchReachesThatBranchOnly) {
  const RandomGraph graph(parallel_config(BlockLayout::parallel_two_norms));
  EXPECT_EQ(changed_by(graph, scale(act::q_input(0), at::rand({8}, at::kDouble))),
            (Words{"q_input", "q", "attn_scores", "pattern", "z", "result", "attn_out"}));
  EXPECT_EQ(changed_by(graph, scale(act::v_input(0), at::rand({8}, at::kDouble))),
            (Words{"v_input", "v", "z", "result", "attn_out"}));
  EXPECT_EQ(changed_by(graph, scale(act::mlp_in(0), at::rand({8}, at::kDouble))),
            (Words{"mlp_in", "ln2_scale", "ln2_normalized", "mlp_input", "pre", "post", "mlp_out"}));
}

TEST(SplitInputs, AttnInReachesAllThreeBranches) {
  const RandomGraph graph(parallel_config(BlockLayout::parallel_two_norms));
  EXPECT_EQ(changed_by(graph, scale(act::attn_in(0), at::rand({8}, at::kDouble))),
            (Words{"attn_in", "q_input", "k_input", "v_input", "q", "k", "v", "attn_scores", "pattern", "z",
                   "result", "attn_out"}));
}

TEST(SplitInputs, EditOfOneHeadReachesThatHeadOnly) {
  const RandomGraph graph(parallel_config(BlockLayout::parallel_two_norms));
  const ActivationCache plain = graph.everything();
  const ActivationCache edited =
      graph.run(graph.tokens(), {.capture = act::everything, .edits = {zero(act::q_input(0).head(2))}}).cache;
  for (int head = 0; head < 4; ++head) {
    const double gap = relative_difference(edited[act::q(0).head(head)], plain[act::q(0).head(head)]);
    if (head == 2) {
      EXPECT_GT(gap, 0.01);
    } else {
      EXPECT_LT(gap, kDoubleTolerance);
    }
  }
}

TEST(SplitInputs, SettingThemToTheStreamChangesNothing) {
  for_random_configs(60, [&](const ModelConfig& config) {
    const RandomGraph graph(config);
    const auto plain = graph.run(graph.tokens(), {.capture = act::everything});
    std::vector<Edit> edits;
    for (const act::BlockSite site : {act::attn_in, act::q_input, act::k_input, act::v_input, act::mlp_in}) {
      if (row(site.site).exists(config, 0)) edits.push_back(replace(site(0), plain.cache));
    }
    EXPECT_LT(relative_difference(graph.run(graph.tokens(), {.edits = edits}).logits, plain.logits),
              kDoubleTolerance);
  });
}

// An edited ln1 holds for all branches, also those whose own input is edited.
TEST(SplitInputs, EditedNormHoldsForAllBranches) {
  const RandomGraph graph(graph_config());
  const Edit norm = scale(act::ln1_normalized(0), 0.5);
  const auto norm_only = graph.run(graph.tokens(), {.capture = act::q, .edits = {norm}});
  const auto both = graph.run(graph.tokens(), {.capture = act::q, .edits = {norm, zero(act::q_input(0))}});
  EXPECT_LT(relative_difference(both.cache[act::q(0)], norm_only.cache[act::q(0)]), kDoubleTolerance);
}

TEST(Norms, EditedScaleChangesNormalized) {
  const RandomGraph graph(graph_config());
  const ActivationCache plain = graph.everything();
  const ActivationCache edited =
      graph.run(graph.tokens(), {.capture = act::everything, .edits = {scale(act::ln1_scale(0), 2.0)}}).cache;
  EXPECT_LT(relative_difference(edited[act::ln1_normalized(0)], plain[act::ln1_normalized(0)] / 2.0),
            kDoubleTolerance);
  EXPECT_GT(relative_difference(edited[act::k(0)], plain[act::k(0)]), 0.01);
}

// With one norm for both branches edits of ln1 do not reach the MLP, nor edits of ln2 attention.
TEST(ParallelBlock, OneNormIsEditedForEachBranchAlone) {
  const RandomGraph graph(parallel_config(BlockLayout::parallel_one_norm));
  const Words by_ln1 = changed_by(graph, scale(act::ln1_normalized(0), 0.5));
  EXPECT_TRUE(by_ln1.contains("q"));
  EXPECT_FALSE(by_ln1.contains("pre"));
  EXPECT_FALSE(by_ln1.contains("ln2_normalized"));
  const Words by_ln2 = changed_by(graph, scale(act::ln2_normalized(0), 0.5));
  EXPECT_FALSE(by_ln2.contains("q"));
  EXPECT_TRUE(by_ln2.contains("pre"));
  const ActivationCache plain = graph.everything();
  EXPECT_LT(relative_difference(plain[act::ln1_normalized(0)], plain[act::ln2_normalized(0)]),
            kDoubleTolerance);
}

TEST(Block, MlpInDoesNotReachTheStream) {
  const RandomGraph graph(graph_config());
  const ActivationCache edited =
      graph.run(graph.tokens(), {.capture = act::everything, .edits = {zero(act::mlp_in(0))}}).cache;
  EXPECT_LT(
      relative_difference(edited[act::resid_post(0)], edited[act::resid_mid(0)] + edited[act::mlp_out(0)]),
      kDoubleTolerance);
  EXPECT_LT(relative_difference(edited[act::resid_mid(0)], graph.everything()[act::resid_mid(0)]),
            kDoubleTolerance);
}

TEST(Block, EditedOutputReachesTheStream) {
  const RandomGraph graph(graph_config());
  const ActivationCache edited =
      graph
          .run(graph.tokens(),
               {.capture = act::everything, .edits = {zero(act::attn_out(0)), zero(act::mlp_out(0))}})
          .cache;
  EXPECT_TRUE(at::equal(edited[act::resid_post(0)], edited[act::resid_pre(0)]));
}

}  // namespace
}  // namespace hooked::block_test
