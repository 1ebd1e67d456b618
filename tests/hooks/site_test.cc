#include "hooked/hooks/site.h"

#include "hooked/hooks/activation_name.h"
#include "tests/support/random_config.h"
#include "tests/support/test.h"

namespace hooked::site_test {
namespace {

TEST(SiteTable, PathsAndWordsAreUnique) {
  std::set<std::string_view> paths, words;
  for (const SiteRow& r : site_table()) {
    EXPECT_TRUE(paths.insert(r.path).second) << r.path;
    EXPECT_TRUE(words.insert(r.word).second) << r.word;
    EXPECT_EQ(&row(r.site), &r);
  }
}

TEST(SiteTable, WidePointsAreExactlyTheSettledOnes) {
  std::set<std::string_view> wide;
  for (const SiteRow& r : site_table()) {
    if (r.wide && r.scope != SiteScope::dictionary) wide.insert(r.word);
    EXPECT_TRUE(r.wide || r.scope != SiteScope::dictionary) << r.word;
  }
  EXPECT_EQ(wide, (std::set<std::string_view>{"tokens", "attn_in", "q_input", "k_input", "v_input", "mlp_in",
                                              "mlp_input", "result", "linear_state", "cross_attn_in",
                                              "cross_result"}));
}

TEST(SiteTable, ScopeFollowsFromThePath) {
  for (const SiteRow& r : site_table()) {
    const bool in_block = r.path.starts_with("{stack}.{layer}.") || r.path.starts_with("decoder.{layer}.");
    EXPECT_EQ(in_block, r.scope == SiteScope::block) << r.path;
    EXPECT_EQ(stands_in(r, Stack::encoder), !r.path.starts_with("decoder.{layer}.")) << r.path;
    EXPECT_TRUE(stands_in(r, Stack::decoder)) << r.path;
    EXPECT_FALSE(r.holds.empty()) << r.path;
    if (per_expert(r)) {
      EXPECT_EQ(r.axes[0], Axis::routed) << r.path;
      continue;
    }
    EXPECT_EQ(r.axes[0], Axis::batch) << r.path;
    EXPECT_TRUE(axis_on(r.site, Axis::pos)) << r.path;
  }
}

TEST(SiteTable, AttnInIsAbsentUnderGroupedQueriesAndTheSplitInputsAreNot) {
  ModelConfig config;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  EXPECT_FALSE(row(Site::attn_in).exists(config, 0));
  EXPECT_TRUE(row(Site::q_input).exists(config, 0));
  EXPECT_TRUE(row(Site::k_input).exists(config, 0));
  EXPECT_TRUE(row(Site::v_input).exists(config, 0));
  config.n_kv_heads = 4;
  EXPECT_TRUE(row(Site::attn_in).exists(config, 0));
}

TEST(AxisSize, IsKnownForAllButTheAxesOfTheInput) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const ModelConfig config = random_config(seed);
    for (const SiteRow& r : site_table()) {
      if (!r.exists(config, 0)) continue;
      for (std::size_t dim = 0; dim < r.axes.size(); ++dim) {
        const Axis axis = r.axes[dim];
        const bool of_input = axis == Axis::batch || axis == Axis::pos || axis == Axis::query ||
                              axis == Axis::source || axis == Axis::key || axis == Axis::source_key ||
                              axis == Axis::routed;
        EXPECT_EQ(size_of(axis, config, 0) < 0, of_input) << r.path << " " << axis_name(axis);
      }
    }
  }
}

TEST(AxisSize, OneNormOverAllHeadsHasOneScale) {
  ModelConfig config;
  config.n_heads = config.n_kv_heads = 4;
  config.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  EXPECT_EQ(size_of(row(Site::q_norm_scale).axes[2], config, 0), 1);
  EXPECT_EQ(size_of(row(Site::q_norm_normalized).axes[2], config, 0), 4);
  config.qk_norm = QkNorm{.span = QkNorm::per_head};
  EXPECT_EQ(size_of(row(Site::q_norm_scale).axes[2], config, 0), 4);
}

}  // namespace
}  // namespace hooked::site_test
