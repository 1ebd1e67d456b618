#include "hooked/hooks/address.h"

#include "hooked/hooks/act.h"
#include "tests/support/test.h"

namespace hooked::address_test {
namespace {

using List = std::vector<std::int64_t>;
using Range = AxisIndex::Range;
using Last = AxisIndex::Last;

TEST(Address, PrintsNameAndIndices) {
  EXPECT_EQ(act::z(9).head(6).pos(-1).to_string(), "blocks.9.attn.hook_z[head=6,pos=-1]");
  EXPECT_EQ(Address(act::embed).pos(Range{1, {}}).to_string(), "hook_embed[pos=1:]");
  EXPECT_EQ(act::pattern(0).to_string(), "blocks.0.attn.hook_pattern");
  EXPECT_EQ(act::pre(1).neuron(List{3, 1, 2}).row(Range{{}, -1}).to_string(),
            "blocks.1.mlp.hook_pre[d_mlp=3+1+2,batch=:-1]");
  EXPECT_EQ(act::resid_post(2).pos(Last{}).to_string(), "blocks.2.hook_resid_post[pos=last]");
}

TEST(Address, ParsesWhatItPrints) {
  const std::vector<AxisIndex> indices = {0,
                                          7,
                                          -1,
                                          Range{},
                                          Range{2, {}},
                                          Range{{}, 3},
                                          Range{1, 4},
                                          Range{-3, -1},
                                          Last{},
                                          List{1, 2},
                                          List{-1, 0, 5}};
  for (const AxisIndex& on_pos : indices) {
    for (const AxisIndex& on_head : indices) {
      const Address address = act::z.in(Stack::blocks, 3).pos(on_pos).row(0).head(on_head);
      EXPECT_EQ(Address::parse(address.to_string()), address) << address.to_string();
    }
  }
}

// What a temporary address returns outlives it.
TEST(Address, GivesCopiesOfATemporary) {
  const auto address = [] { return act::z(3).pos(List{1, 2, 3}).head(2); };
  const auto& name = address().name();
  const auto& indices = address().indices();
  const auto& found = address().indices().find(Axis::pos);
  EXPECT_EQ(name, act::z(3).name());
  EXPECT_EQ(indices, address().indices());
  EXPECT_EQ(found, AxisIndex(List{1, 2, 3}));
  EXPECT_EQ(address().indices().find(Axis::batch), std::nullopt);
  std::string text;
  for (const auto& [axis, index] : address().indices().entries()) text += index.to_string() + ";";
  EXPECT_EQ(text, "1+2+3;2;");
}

// A list of one keeps its axis; read back as a number it would drop it.
TEST(Address, ListOfOneIsNotReadBackAsANumber) {
  for (const std::int64_t place : {0, 3, -1, -2}) {
    const Address address = act::z(3).pos(List{place});
    const Address read = Address::parse(address.to_string());
    EXPECT_FALSE(std::holds_alternative<std::int64_t>(read.indices().find(Axis::pos)->value))
        << address.to_string();
  }
}

TEST(Address, PosMeansQueryOnPatternsAndHeadMeansKvHeadOnKeys) {
  EXPECT_EQ(act::pattern(1).pos(2).to_string(), "blocks.1.attn.hook_pattern[query=2]");
  EXPECT_EQ(act::k(1).head(2).to_string(), "blocks.1.attn.hook_k[kv_head=2]");
  EXPECT_EQ(act::q(1).head(2).to_string(), "blocks.1.attn.hook_q[head=2]");
  EXPECT_EQ(Address::parse("blocks.1.attn.hook_pattern[pos=2]"), act::pattern.in(Stack::blocks, 1).query(2));
}

// A value may be wider than a query, and both widths are written d_head.
TEST(Address, AnAxisIsFoundByTheNameThatItIsWrittenBy) {
  EXPECT_EQ(axis_on(Site::v, Axis::d_head), Axis::d_value);
  EXPECT_EQ(axis_on(Site::shared_post, Axis::d_mlp), Axis::d_shared);
  EXPECT_EQ(axis_on(Site::cross_k, Axis::pos), Axis::source);
  EXPECT_EQ(axis_on(Site::cross_pattern, Axis::key), Axis::source_key);
  EXPECT_EQ(axis_on(Site::cross_pattern, Axis::pos), Axis::query);
  EXPECT_EQ(act::v(1).at(Axis::d_head, 3).to_string(), "blocks.1.attn.hook_v[d_head=3]");
  EXPECT_EQ(Address::parse("blocks.1.attn.hook_v[d_head=3]").to_string(), "blocks.1.attn.hook_v[d_head=3]");
  EXPECT_EQ(act::cross_v(0).pos(1).to_string(), "decoder.0.cross_attn.hook_v[pos=1]");
}

TEST(Address, AxisTheSiteLacksIsRefusedWithTheAxesItHas) {
  const auto error = thrown_by<HookError>([] { act::resid_pre(0).head(1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "blocks.0.hook_resid_pre");
  const std::string text = error->what();
  EXPECT_NE(text.find("'head'"), std::string::npos) << text;
  EXPECT_NE(text.find("[batch, pos, d_model]"), std::string::npos) << text;
}

TEST(Address, AxisIndexedTwiceIsRefused) {
  EXPECT_THROW(act::z(0).head(1).head(2), HookError);
  EXPECT_THROW(act::pattern(0).pos(1).query(1), HookError);
  EXPECT_THROW(Address::parse("blocks.0.attn.hook_z[head=1,head=1]"), HookError);
}

TEST(Address, RefusesJunk) {
  for (const char* text : {"blocks.0.attn.hook_z[",
                           "blocks.0.attn.hook_z]",
                           "blocks.0.attn.hook_z[]",
                           "blocks.0.attn.hook_z[head]",
                           "blocks.0.attn.hook_z[head=]",
                           "blocks.0.attn.hook_z[=1]",
                           "blocks.0.attn.hook_z[head=1",
                           "blocks.0.attn.hook_z[head=1]x",
                           "blocks.0.attn.hook_z[head=1,]",
                           "blocks.0.attn.hook_z[,head=1]",
                           "blocks.0.attn.hook_z[head= 1]",
                           "blocks.0.attn.hook_z[head=1.0]",
                           "blocks.0.attn.hook_z[head=1+]",
                           "blocks.0.attn.hook_z[head=+1]",
                           "blocks.0.attn.hook_z[head=1:2:3]",
                           "blocks.0.attn.hook_z[head=first]",
                           "blocks.0.attn.hook_z[Head=1]",
                           "blocks.0.attn.hook_z[heads=1]",
                           "blocks.0.attn.hook_z[head==1]",
                           "blocks.0.attn.hook_z[head=9223372036854775808]",
                           "blocks.0.attn.hook_z[head=1][pos=1]",
                           "[head=1]",
                           ""}) {
    EXPECT_THROW(Address::parse(text), HookError) << text;
  }
}

TEST(Address, AnUnknownAxisIsSaidWithTheNearest) {
  const auto said = [](const std::string& index) {
    return text_thrown_by<HookError>([&] { Address::parse("blocks.0.attn.hook_z[" + index + "=1]"); });
  };
  const auto expect = [&](const std::string& axis, const std::string& what) {
    EXPECT_NE(said(axis).find(what), std::string::npos) << said(axis);
  };
  expect("heads", "there is no axis 'heads'; the nearest is 'head'; expected axis=i|i:j|i+j|last");
  expect("position", "it is written 'pos'");
  expect("tokens", "it is written 'pos'");
  expect("row", "it is written 'batch'");
  expect("neuron", "it is written 'd_mlp'");
  expect("neck", "there is no axis 'neck'; expected");
}

TEST(AxisOn, KnowsTheOtherNamesOfAnAxis) {
  EXPECT_EQ(axis_on(Site::pattern, Axis::pos), Axis::query);
  EXPECT_EQ(axis_on(Site::attn_scores, Axis::key), Axis::key);
  EXPECT_EQ(axis_on(Site::v, Axis::head), Axis::kv_head);
  EXPECT_EQ(axis_on(Site::z, Axis::head), Axis::head);
  EXPECT_EQ(axis_on(Site::resid_pre, Axis::head), std::nullopt);
  EXPECT_EQ(axis_on(Site::resid_pre, Axis::query), std::nullopt);
  EXPECT_EQ(axis_on(Site::z, Axis::kv_head), std::nullopt);
}

}  // namespace
}  // namespace hooked::address_test
