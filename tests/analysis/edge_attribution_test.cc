#include "hooked/analysis/edge_attribution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hooked/analysis/path_patching.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "tests/analysis/two_layer_model.h"
#include "tests/support/thrown_by.h"

namespace hooked::edge_attribution_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class EdgeAttributionOf : public testing::Test {
 protected:
  HookedTransformer model_ = random_model_of(two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  ActivationCache from_ = model_.run_with_cache(corrupted_, act::everything).cache;

  SweepOptions sweep() const { return {.from = from_, .into = clean_, .metric = logit_difference(3, 7)}; }
  static double largest(const at::Tensor& x) { return x.nan_to_num(0.0).abs().max().item<double>(); }
};

TEST_F(EdgeAttributionOf, NamesItsEnds) {
  const Grid edges = edge_attribution(model_, {.sweep = sweep()});
  EXPECT_THAT(edges.axis("writer").labels,
              ElementsAre("embed", "pos_embed", "head 0.0", "head 0.1", "head 0.2", "head 0.3", "mlp 0",
                          "head 1.0", "head 1.1", "head 1.2", "head 1.3", "mlp 1"));
  const auto& readers = edges.axis("reader");
  EXPECT_EQ(readers.labels[4], "head 0.0 k");
  EXPECT_EQ(readers.labels.back(), "logits");
  EXPECT_EQ(*readers.places[5],
            Address(ActivationName{.site = Site::k, .stack = Stack::blocks, .layer = 0}).head(1));
  EXPECT_TRUE(std::isnan(edges.at({2, 0}))) << "a head does not read itself";
  EXPECT_FALSE(std::isnan(edges.at({2, 12})));

  ModelConfig grouped = two_layer_config();
  grouped.n_kv_heads = 2;
  const auto shared = random_model_of(grouped);
  const Grid of_groups =
      edge_attribution(shared, {.sweep = {.from = PatchSource::zero(), .into = clean_, .metric = logit(3)}});
  EXPECT_EQ(of_groups.axis("reader").labels[4], "kv head 0.0 k");
}

/// A share of an edge's way is patched along it: what a gradient says is exact as the share goes to zero.
TEST_F(EdgeAttributionOf, IsTheSlopeOfAPath) {
  const auto here = model_.run_with_cache(clean_, act::everything).cache;
  constexpr double kShare = 1e-4;
  const Grid edges = edge_attribution(model_, {.sweep = sweep()});
  SweepOptions little = sweep();
  little.from = PatchSource::mixture(PatchSource(here), PatchSource(from_), kShare);
  const double unpatched = logit_difference(3, 7).score(model_, clean_).item<double>();
  const std::vector<Address> receivers{act::q(1).head(2), act::v(1).head(0), act::mlp_in(1),
                                       act::resid_post(1)};
  const std::vector<const char*> readers{"head 1.2 q", "head 1.0 v", "mlp 1", "logits"};
  const Grid paths = path_patching(model_, {.senders = {act::z(0).head(1), act::mlp_out(0)},
                                            .receivers = receivers,
                                            .cells = PathCells::each,
                                            .sweep = little});
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::size_t r = 0; r < readers.size(); ++r) {
      const double slope = (paths.at({s, static_cast<std::int64_t>(r)}) - unpatched) / kShare;
      const double edge = edges.slice("writer", s == 0 ? "head 0.1" : "mlp 0")
                              .slice("reader", readers[r])
                              .values()
                              .item<double>();
      EXPECT_GT(std::abs(slope), 1e-6);
      EXPECT_NEAR(edge, slope, 2e-3 * std::abs(slope) + 1e-7) << readers[r];
    }
  }
}

TEST_F(EdgeAttributionOf, RowsAreTheirOwn) {
  const at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].slice(0, 0, 2) = 0;
  const Input into{at::cat({clean_, random_row(6, 11, 3)}), {.attention_mask = mask}};
  const Input other{at::cat({corrupted_, random_row(6, 11, 4)}), {.attention_mask = mask}};
  for (const std::int64_t tokens : {1, 1024}) {
    const Grid both =
        edge_attribution(model_, {.sweep = {.from = model_.run_with_cache(other, act::defaults).cache,
                                            .into = into,
                                            .metric = logit_difference(Answers::by_row({3, 4}), 7),
                                            .tokens_per_run = tokens}});
    const at::Tensor first = edge_attribution(model_, {.sweep = sweep()}).values();
    EXPECT_LE(largest(both.slice("row", 0).values() - first), 1e-12 * largest(first));
    const auto real = [](const Input& input) { return input.tokens.narrow(0, 1, 1).narrow(1, 2, 4); };
    const at::Tensor second =
        edge_attribution(model_, {.sweep = {.from = model_.run_with_cache(real(other), act::defaults).cache,
                                            .into = real(into),
                                            .metric = logit_difference(4, 7)}})
            .values();
    EXPECT_LE(largest(both.slice("row", 1).values() - second), 1e-12 * largest(second));
  }
}

TEST_F(EdgeAttributionOf, HoldsEditsInsideOfParts) {
  SweepOptions edited = sweep();
  edited.edits = {scale(act::pattern(1).head(2), 0.5), zero(act::z(0).head(3))};
  const Grid edges = edge_attribution(model_, {.sweep = edited});
  AttributionPatchingOptions nodes{.sweep = edited};
  nodes.sweep.table = {{act::z(0).head(1)}, {act::z(0).head(3)}, {act::mlp_out(0)}};
  const at::Tensor expected = attribution_patching(model_, nodes).values();
  const at::Tensor summed = edges.values().nan_to_num(0.0).sum(1);
  EXPECT_NEAR(summed[3].item<double>(), expected[0].item<double>(), 1e-10);
  EXPECT_NEAR(summed[5].item<double>(), expected[1].item<double>(), 1e-10);
  EXPECT_NEAR(summed[6].item<double>(), expected[2].item<double>(), 1e-10);
  EXPECT_GT(largest(edges.values() - edge_attribution(model_, {.sweep = sweep()}).values()), 1e-4);
}

TEST_F(EdgeAttributionOf, RefusesWhatItDoesNotCarry) {
  const auto text = [&](const EdgeAttributionOptions& options) {
    return text_thrown_by<HookError>([&] { edge_attribution(model_, options); });
  };
  EdgeAttributionOptions options{.sweep = sweep()};
  options.sweep.edits = {zero(act::resid_mid(0))};
  EXPECT_THAT(text(options), HasSubstr("carried from writers to readers"));
  options.sweep.edits = {scale(act::ln1_scale(1), 2.0)};
  EXPECT_THAT(text(options), HasSubstr("carried from writers to readers"));
  options.sweep = sweep();
  options.sweep.metric = {logit(3), logit(4)};
  EXPECT_THAT(text(options), HasSubstr("expected one metric, got 2"));
  options.sweep = sweep();
  options.sweep.site = act::z;
  EXPECT_THAT(text(options), HasSubstr("neither `site`"));
  options = {.sweep = sweep(), .integration = {.over = IntegrateOver::activations}};
  EXPECT_THAT(text(options), HasSubstr("no activation to integrate over"));
}

}  // namespace
}  // namespace hooked::edge_attribution_test
