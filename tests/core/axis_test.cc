#include "hooked/core/axis.h"

#include "hooked/core/model_config.h"
#include "tests/support/test.h"

namespace hooked::axis_test {
namespace {

TEST(Axis, EveryNameIsReadAsTheFirstAxisWrittenSo) {
  std::set<std::string_view> names;
  for (const AxisRow& row : axis_table()) {
    EXPECT_EQ(&row, &axis_table()[static_cast<std::size_t>(row.axis)]);
    EXPECT_EQ(axis_name(row.axis), row.name);
    EXPECT_EQ(parse_axis(row.name) == row.axis, names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.counts.empty()) << row.name;
  }
  EXPECT_EQ(axis_name(Axis::d_head), "d_head");
  EXPECT_EQ(axis_name(Axis::d_value), "d_head");
  EXPECT_EQ(axis_name(Axis::rotary_dim), "rotary_dim");
  EXPECT_EQ(axis_name(Axis::one), "one");
  EXPECT_EQ(parse_axis("pos"), Axis::pos);
  EXPECT_EQ(parse_axis("d_mlp"), Axis::d_mlp);
}

TEST(Axis, ItsSizeIsThatOfTheConfigAndUnknownForTheInputs) {
  ModelConfig config;
  config.n_heads = config.n_kv_heads = 4;
  config.d_head = 6;
  EXPECT_EQ(size_of(Axis::d_value, config, 0), 6);
  config.latent = {.d_kv = 5, .d_query = 3, .d_shared_key = 2, .d_value = 7};
  EXPECT_EQ(size_of(Axis::d_value, config, 0), 7);
  EXPECT_EQ(size_of(Axis::q_latent, config, 0), 3);
  EXPECT_EQ(size_of(Axis::kv_latent, config, 0), 5);
  EXPECT_EQ(size_of(Axis::d_shared_key, config, 0), 2);
  EXPECT_EQ(size_of(Axis::d_own_key, config, 0), 4);
  EXPECT_EQ(size_of(Axis::one, config, 0), 1);
  for (const Axis axis :
       {Axis::batch, Axis::pos, Axis::source, Axis::query, Axis::key, Axis::source_key, Axis::routed})
    EXPECT_EQ(size_of(axis, config, 0), -1) << axis_name(axis);
}

TEST(Axis, OneNormOverAllHeadsIsOneNorm) {
  ModelConfig config;
  config.n_heads = config.n_kv_heads = 4;
  config.qk_norm = QkNorm{.span = QkNorm::whole_projection};
  EXPECT_EQ(size_of(Axis::q_norm_head, config, 0), 1);
  EXPECT_EQ(size_of(Axis::head, config, 0), 4);
  config.qk_norm = QkNorm{.span = QkNorm::per_head};
  EXPECT_EQ(size_of(Axis::q_norm_head, config, 0), 4);
}

TEST(Axis, JunkIsNoAxis) {
  for (const auto* junk : {"", "Head", "head ", "heads", "d-head"}) EXPECT_FALSE(parse_axis(junk)) << junk;
}

TEST(AxisList, FindsTheDimensionOfAnAxis) {
  constexpr AxisList pattern = {Axis::batch, Axis::head, Axis::query, Axis::key};
  static_assert(pattern.size() == 4);
  EXPECT_EQ(pattern.find(Axis::key), 3);
  EXPECT_EQ(pattern.find(Axis::pos), std::nullopt);
  EXPECT_EQ(pattern[1], Axis::head);
}

}  // namespace
}  // namespace hooked::axis_test
