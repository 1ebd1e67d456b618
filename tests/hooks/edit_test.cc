#include "hooked/hooks/edit.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <variant>

#include "hooked/hooks/activation_cache.h"
#include "hooks/edited_block.h"
#include "tests/hooks/watching.h"

namespace hooked::edit_test {
namespace {

using Range = AxisIndex::Range;
using List = std::vector<std::int64_t>;
using Last = AxisIndex::Last;

constexpr std::int64_t kBatch = 2, kPos = 5, kHead = 4, kWidth = 7;
const std::string kZ = "blocks.1.attn.hook_z";

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::rand(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)) + 0.5;
}

at::Tensor z() { return random({kBatch, kPos, kHead, kWidth}, 1); }

/// Row 0 ends at position 4, row 1 at position 2.
at::Tensor last_positions() { return at::tensor({4, 2}, at::kLong); }

at::Tensor edited(const Edit& edit, const at::Tensor& value = z(), const std::string& name = kZ) {
  Watching watching(tiny_config(), last_positions());
  watching->add_edit(edit);
  return watching.fire(name, value);
}

/// One kind of address on z [batch, pos, head, d_head] and, written out by hand, which elements it means.
struct Place {
  std::string words;
  Address address;
  std::function<bool(std::int64_t row, std::int64_t pos, std::int64_t head)> holds;
};

std::vector<Place> places() {
  const Address all = act::z(1);
  return {
      {"whole", all, [](auto, auto, auto) { return true; }},
      {"one head", all.head(3), [](auto, auto, auto h) { return h == 3; }},
      {"one head from the end", all.head(-3), [](auto, auto, auto h) { return h == 1; }},
      {"head and position", all.head(0).pos(-1), [](auto, auto p, auto h) { return h == 0 && p == 4; }},
      {"range", all.pos(Range{1, 3}), [](auto, auto p, auto) { return p == 1 || p == 2; }},
      {"open range", all.pos(Range{3, {}}), [](auto, auto p, auto) { return p >= 3; }},
      {"range from the end", all.pos(Range{-2, -1}), [](auto, auto p, auto) { return p == 3; }},
      {"list", all.head(List{3, 1}), [](auto, auto, auto h) { return h == 3 || h == 1; }},
      {"list of one", all.head(List{2}), [](auto, auto, auto h) { return h == 2; }},
      {"two lists", all.head(List{0, 2}).pos(List{4, 0, -2}),
       [](auto, auto p, auto h) { return (h == 0 || h == 2) && (p == 4 || p == 0 || p == 3); }},
      {"row", all.row(1).pos(2), [](auto b, auto p, auto) { return b == 1 && p == 2; }},
      {"last", all.pos(Last{}), [](auto b, auto p, auto) { return p == (b == 0 ? 4 : 2); }},
      {"last of a head", all.pos(Last{}).head(1),
       [](auto b, auto p, auto h) { return h == 1 && p == (b == 0 ? 4 : 2); }},
      {"last of a row", all.row(1).pos(Last{}), [](auto b, auto p, auto) { return b == 1 && p == 2; }},
      {"last of listed heads and rows", all.head(List{2, 0}).pos(Last{}).row(List{1}),
       [](auto b, auto p, auto h) { return b == 1 && p == 2 && h % 2 == 0; }},
  };
}

class EditOf : public testing::TestWithParam<std::size_t> {
 protected:
  Place place_ = places()[GetParam()];

  /// Compares with numbers computed element by element.
  template <typename F>
  void expect(const at::Tensor& got, F&& number) const {
    const at::Tensor before = z();
    ASSERT_EQ(got.sizes(), before.sizes());
    const auto x = before.accessor<double, 4>();
    const at::Tensor after = got.contiguous();
    const auto y = after.accessor<double, 4>();
    for (std::int64_t b = 0; b < kBatch; ++b) {
      for (std::int64_t p = 0; p < kPos; ++p) {
        for (std::int64_t h = 0; h < kHead; ++h) {
          for (std::int64_t i = 0; i < kWidth; ++i) {
            const double expected = place_.holds(b, p, h) ? number(x[b][p][h][i], i) : x[b][p][h][i];
            EXPECT_DOUBLE_EQ(y[b][p][h][i], expected) << place_.words << " at " << b << p << h << i;
          }
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Addresses, EditOf, testing::Range(std::size_t{0}, places().size()));

TEST_P(EditOf, Numbers) {
  expect(edited(zero(place_.address)), [](double, auto) { return 0.0; });
  expect(edited(set(place_.address, 2.5)), [](double, auto) { return 2.5; });
  expect(edited(add(place_.address, -1.5)), [](double x, auto) { return x - 1.5; });
  expect(edited(scale(place_.address, 3.0)), [](double x, auto) { return x * 3.0; });
}

TEST_P(EditOf, TensorsThatBroadcast) {
  const at::Tensor v = at::arange(kWidth, at::kDouble) + 1.0;
  const auto at_place = [](auto i) { return static_cast<double>(i) + 1.0; };
  expect(edited(set(place_.address, v)), [&](double, auto i) { return at_place(i); });
  expect(edited(add(place_.address, v)), [&](double x, auto i) { return x + at_place(i); });
  expect(edited(scale(place_.address, v)), [&](double x, auto i) { return x * at_place(i); });
}

TEST_P(EditOf, ReplacementFromACache) {
  ActivationCache source(3);
  source.insert({ActivationName::parse(kZ), z() * 10.0, {}});
  at::Tensor real = at::ones({kBatch, kPos}, at::kBool);
  real[1].narrow(0, 3, kPos - 3).zero_();  // the rows of the run end at 4 and 2
  source.set_tokens({.end = kPos, .mask = real});
  const std::string text = place_.address.to_string();
  if (text.find("pos=-") != std::string::npos || text.find("+-") != std::string::npos) {
    EXPECT_THROW(replace(place_.address, source), HookError) << "that is padding in row 1";
    return;
  }
  expect(edited(replace(place_.address, source)), [](double x, auto) { return x * 10.0; });
}

TEST_P(EditOf, ProjectionLeavesNothingAlongTheDirection) {
  const at::Tensor direction = at::arange(kWidth, at::kDouble) - 2.0;
  const at::Tensor got = edited(project_out(place_.address, direction)).contiguous();
  const at::Tensor before = z();
  const auto x = before.accessor<double, 4>(), y = got.accessor<double, 4>();
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t p = 0; p < kPos; ++p) {
      for (std::int64_t h = 0; h < kHead; ++h) {
        double along = 0.0, square = 0.0;
        for (std::int64_t i = 0; i < kWidth; ++i) {
          along += x[b][p][h][i] * (static_cast<double>(i) - 2.0);
          square += (static_cast<double>(i) - 2.0) * (static_cast<double>(i) - 2.0);
        }
        for (std::int64_t i = 0; i < kWidth; ++i) {
          const double removed =
              place_.holds(b, p, h) ? along / square * (static_cast<double>(i) - 2.0) : 0.0;
          EXPECT_NEAR(y[b][p][h][i], x[b][p][h][i] - removed, 1e-14) << place_.words;
        }
      }
    }
  }
}

TEST_P(EditOf, DoesNotWriteIntoWhatItWasGiven) {
  const at::Tensor value = z(), before = value.clone();
  edited(scale(place_.address, 2.0), value);
  EXPECT_TRUE(at::equal(value, before));
}

TEST(Edit, LastWithoutAMaskIsTheLastColumn) {
  Watching watching;
  watching->add_edit(zero(act::z(1).pos(Last{})));
  const at::Tensor got = watching.fire(kZ, z());
  EXPECT_TRUE(at::equal(got.narrow(1, 0, 4), z().narrow(1, 0, 4)));
  EXPECT_EQ(got.select(1, 4).abs().max().item<double>(), 0.0);
}

TEST(Edit, PosOfAPatternIsTheQuery) {
  const at::Tensor pattern = random({kBatch, kHead, kPos, kPos}, 2);
  Watching watching(tiny_config(), last_positions());
  watching->add_edit(zero(act::pattern(0).pos(Last{}).head(1).key(Range{0, 2})));
  const at::Tensor got = watching.fire("blocks.0.attn.hook_pattern", pattern);
  at::Tensor expected = pattern.clone();
  expected.select(0, 0).select(0, 1).select(0, 4).narrow(0, 0, 2).zero_();
  expected.select(0, 1).select(0, 1).select(0, 2).narrow(0, 0, 2).zero_();
  EXPECT_TRUE(at::equal(got, expected));
}

TEST(Edit, SeveralEditsApplyInOrder) {
  Watching watching;
  watching->add_edit(add(act::z(1), 1.0));
  watching->add_edit(scale(act::z(1), 2.0));
  watching->add_edit(set(act::z(1).head(0), 7.0));
  const at::Tensor got = watching.fire(kZ, z());
  EXPECT_TRUE(at::equal(got.narrow(2, 1, 3), ((z() + 1.0) * 2.0).narrow(2, 1, 3)));
  EXPECT_TRUE(at::equal(got.select(2, 0), at::ones({kBatch, kPos, kWidth}, at::kDouble) * 7.0));
}

TEST(Edit, SiteAndGlobTouchEveryLayer) {
  Watching watching;
  watching->add_edit(zero(act::resid_pre));
  watching->add_edit(zero(EditTarget::parse("blocks.*.attn.hook_z[head=1]")));
  const at::Tensor resid = random({kBatch, kPos, 6}, 3);
  for (const char* layer : {"0", "1", "2"}) {
    EXPECT_EQ(
        watching.fire(std::string("blocks.") + layer + ".hook_resid_pre", resid).abs().sum().item<double>(),
        0.0);
    const at::Tensor got = watching.fire(std::string("blocks.") + layer + ".attn.hook_z", z());
    EXPECT_EQ(got.select(2, 1).abs().sum().item<double>(), 0.0);
    EXPECT_TRUE(at::equal(got.select(2, 0), z().select(2, 0)));
  }
}

TEST(Edit, PlaceOutOfRangeNamesAxisSizeAndIndex) {
  for (const Address& address :
       {Address(act::z(1)).head(4), Address(act::z(1)).head(-5), Address(act::z(1)).head(List{0, 4})}) {
    EXPECT_TRUE(throws<HookError>([&] { edited(zero(address)); }, kZ, {"'head'", "-4 to 3"}))
        << address.to_string();
  }
  for (const Range range : {Range{0, 6}, Range{5, {}}, Range{3, 3}, Range{4, 2}, Range{-6, {}}}) {
    EXPECT_THROW(edited(zero(act::z(1).pos(range))), HookError) << AxisIndex(range).to_string();
  }
  EXPECT_THROW(edited(zero(act::z(1).head(Last{}))), HookError);
}

TEST(Edit, AxisThatAGlobsSitesLackIsRefusedBeforeAnythingRuns) {
  Watching watching;
  EXPECT_THROW(watching->add_edit(zero(EditTarget::parse("blocks.*.hook_*[head=1]"))), HookError);
}

TEST(Edit, ValueOfAnotherShapeIsRefusedWithBothShapes) {
  const auto text =
      text_thrown_by<HookError>([] { edited(set(act::z(1).head(2), at::ones({3}, at::kDouble))); });
  EXPECT_NE(text.find("[blocks.1.attn.hook_z[head=2]]"), std::string::npos) << text;
  EXPECT_NE(text.find("[2, 5, 7]"), std::string::npos) << text;
  EXPECT_NE(text.find("[3]"), std::string::npos) << text;
  // Broadcasting never makes the activation larger.
  EXPECT_THROW(edited(add(act::z(1), at::ones({3, kBatch, kPos, kHead, kWidth}, at::kDouble))), HookError);
}

TEST(Edit, ValueOfAnotherDtypeIsRefusedWithBothDtypes) {
  const auto text = text_thrown_by<HookError>([] { edited(add(act::z(1), at::ones({kWidth}, at::kFloat))); });
  EXPECT_NE(text.find("float64"), std::string::npos) << text;
  EXPECT_NE(text.find("float32"), std::string::npos) << text;
}

TEST(Edit, NumberBeyondTheDtypeIsRefusedWithItsPlace) {
  const at::Tensor block = at::zeros({2}, at::kHalf);
  EXPECT_EQ(edited_block(EditKind::add, 65504.0, block, "z[head=1]")[0].item<double>(), 65504);
  const auto text = text_thrown_by<HookError>([&] { edited_block(EditKind::add, -1e6, block, "z[head=1]"); });
  EXPECT_NE(
      text.find("[z[head=1]] the edit's number is beyond the range of float16; expected -65504 to 65504, "
                "got -1e+06"),
      std::string::npos)
      << text;
}

TEST(Edit, ValueOnAnotherDeviceIsRefusedWithBothDevices) {
  const at::Tensor elsewhere = at::ones({kWidth}, at::TensorOptions(at::kDouble).device(at::kMeta));
  const auto text = text_thrown_by<HookError>([&] { edited(add(act::z(1), elsewhere)); });
  EXPECT_NE(text.find("cpu"), std::string::npos) << text;
  EXPECT_NE(text.find("meta"), std::string::npos) << text;
}

TEST(Edit, UndefinedValueIsRefusedWhenTheEditIsMade) {
  EXPECT_THROW(add(act::z(1), at::Tensor()), HookError);
}

TEST(Edit, ReplacementOfAnotherLengthIsRefused) {
  ActivationCache source(3);
  source.insert({ActivationName::parse(kZ), random({kBatch, kPos + 1, kHead, kWidth}, 4), {}});
  const auto text = text_thrown_by<HookError>([&] { edited(replace(act::z(1), source)); });
  EXPECT_NE(text.find("[2, 5, 4, 7]"), std::string::npos) << text;
  EXPECT_NE(text.find("[2, 6, 4, 7]"), std::string::npos) << text;
  // A replacement does not broadcast either.
  ActivationCache one_row(3);
  one_row.insert({ActivationName::parse(kZ), random({1, kPos, kHead, kWidth}, 4), {}});
  EXPECT_THROW(edited(replace(act::z(1), one_row)), HookError);
  EXPECT_THROW(replace(act::z(0), source), HookError);
}

TEST(Edit, ReplacementOfAWholeSiteIsAnEditForEachLayerThatWasKept) {
  ActivationCache source(3);
  for (const int layer : {0, 2}) {
    source.insert({ActivationName::parse(fmt::format("blocks.{}.attn.hook_z", layer)),
                   random({kBatch, kPos, kHead, kWidth}, static_cast<std::uint64_t>(layer + 7)),
                   {}});
  }
  source.insert({ActivationName::parse("blocks.1.hook_resid_pre"), random({kBatch, kPos, 6}, 3), {}});
  Watching watching;
  for (const Edit& edit : replace(act::z, source)) watching->add_edit(edit);
  for (const int layer : {0, 1, 2}) {
    const std::string name = fmt::format("blocks.{}.attn.hook_z", layer);
    const at::Tensor got = watching.fire(name, z());
    EXPECT_TRUE(at::equal(got, layer == 1 ? z() : at::Tensor(source[Address::parse(name)]))) << name;
  }
  EXPECT_EQ(replace(act::z, source).size(), 2U);
  EXPECT_TRUE(throws<HookError>([&] { replace(act::pattern, source); }, "pattern", {"keeps `pattern`"}));
}

// A direction is one vector along the last axis; a number or a batch of vectors would be divided by the wrong
// length.
TEST(Edit, ProjectionNeedsOneVectorOfTheLastAxissSize) {
  for (const at::Tensor& direction : {at::ones({1}, at::kDouble), at::ones({kHead, kWidth}, at::kDouble),
                                      at::scalar_tensor(1.0, at::TensorOptions(at::kDouble))}) {
    EXPECT_THROW(edited(project_out(act::z(1), direction)), HookError) << direction.sizes();
  }
}

// With one place of the last axis the block ends with another axis, whose size may equal the direction's by
// chance.
TEST(Edit, ProjectionNeedsMoreThanOnePlaceOfTheLastAxis) {
  const at::Tensor direction = at::ones({kPos}, at::kDouble);
  for (const Address& place : {act::z(1).at(Axis::d_head, 0), act::z(1).at(Axis::d_head, -1)}) {
    EXPECT_THAT(text_thrown_by<HookError>([&] { edited(project_out(place, direction)); }),
                HasSubstr("works along the last axis"))
        << place.to_string();
  }
}

TEST(Edit, ProjectionAlongNoDirectionIsRefused) {
  EXPECT_THROW(edited(project_out(act::z(1), at::zeros({kWidth}, at::kDouble))), HookError);
}

TEST(Edit, TokensCanOnlyBeSetOrReplaced) {
  const at::Tensor tokens = at::arange(10, at::kLong).view({kBatch, kPos});
  const at::Tensor got = edited(set(Address(act::tokens).pos(1), 3.0), tokens, "hook_tokens");
  EXPECT_EQ(got.scalar_type(), at::kLong);
  EXPECT_EQ(got[0][1].item<std::int64_t>(), 3);
  EXPECT_EQ(got[0][2].item<std::int64_t>(), 2);
  EXPECT_THROW(edited(set(Address(act::tokens), 2.5), tokens, "hook_tokens"), HookError);
  EXPECT_THROW(edited(scale(Address(act::tokens), 2.0), tokens, "hook_tokens"), HookError);
  EXPECT_THROW(edited(add(Address(act::tokens), 1.0), tokens, "hook_tokens"), HookError);
}

TEST(EditTarget, ParsesCommandLineText) {
  const EditTarget target = EditTarget::parse("blocks.*.attn.hook_z[head=6,pos=last]");
  EXPECT_EQ(target.indices.to_string(), "[head=6,pos=last]");
  EXPECT_EQ(picked(target.where).size(), 3u);
  EXPECT_THROW(EditTarget::parse("blocks.*.attn.hook_z[head=6"), HookError);
  EXPECT_THROW(EditTarget::parse(""), HookError);
  EXPECT_THROW(EditTarget::parse("[head=1]"), HookError);
}

}  // namespace
}  // namespace hooked::edit_test
