#include "hooked/hooks/point_index.h"

#include "hooked/hooks/act.h"
#include "hooked/hooks/activation_cache.h"
#include "tests/hooks/watching.h"

namespace hooked::point_index_test {
namespace {

/// An encoder of 2 layers and a decoder of 3.
ModelConfig two_stacks() {
  ModelConfig config = tiny_config();
  config.encoder = Encoder{.n_layers = 2};
  config.positions = RelativePositions{};
  return config;
}

std::string found(const Address& address, const ModelConfig& config = two_stacks()) {
  const PointIndex points(config);
  return points.name(points.require(address.name())).to_string();
}

TEST(PointIndex, WithoutAStackANameIsOfTheStackThatPredicts) {
  EXPECT_EQ(found(act::resid_post(1)), "decoder.1.hook_resid_post");
  EXPECT_EQ(found(act::resid_post(-1)), "decoder.2.hook_resid_post");
  EXPECT_EQ(found(act::cross_pattern(-3)), "decoder.0.cross_attn.hook_pattern");
  EXPECT_EQ(found(from_shorthand("resid_post", 2)), "decoder.2.hook_resid_post");
  EXPECT_EQ(found(from_shorthand("z1")), "decoder.1.attn.hook_z");
  EXPECT_EQ(found(act::resid_post(-1), tiny_config()), "blocks.2.hook_resid_post");
}

TEST(PointIndex, TheEncodersAreAskedForByName) {
  EXPECT_EQ(found(act::resid_post.encoder(1)), "encoder.1.hook_resid_post");
  EXPECT_EQ(found(act::resid_post.encoder(-2)), "encoder.0.hook_resid_post");
  EXPECT_EQ(found(Address::parse("encoder.1.hook_resid_post")), "encoder.1.hook_resid_post");
  EXPECT_EQ(found(act::resid_post.decoder(0)), "decoder.0.hook_resid_post");
}

TEST(PointIndex, ALayerOutOfRangeIsNamedWithItsOwnStack) {
  EXPECT_THAT(text_thrown_by<HookError>([] { found(act::resid_post(3)); }),
              AllOf(HasSubstr("[decoder.3.hook_resid_post]"), HasSubstr("-3 to 2")));
  EXPECT_THAT(text_thrown_by<HookError>([] { found(act::resid_post.encoder(-3)); }),
              AllOf(HasSubstr("encoder.-3."), HasSubstr("-2 to 1")));
}

TEST(PointIndex, TextOfAFullNameStaysStrictAndTheErrorNamesTheSamePointOfThisModel) {
  EXPECT_THAT(text_thrown_by<HookError>([] { found(Address::parse("blocks.1.hook_resid_post")); }),
              HasSubstr("'decoder.1.hook_resid_post'"));
  EXPECT_THAT(
      text_thrown_by<HookError>([] { found(Address::parse("decoder.1.hook_resid_post"), tiny_config()); }),
      HasSubstr("'blocks.1.hook_resid_post'"));
}

TEST(PointIndex, SelectionsOfALayerAreOfTheStackThatPredictsAndOfASiteOfBoth) {
  EXPECT_EQ(picked(act::pattern(0) | act::pattern.encoder(1), two_stacks()),
            (std::vector<std::string>{"encoder.1.attn.hook_pattern", "decoder.0.attn.hook_pattern"}));
  EXPECT_EQ(picked(act::pattern, two_stacks()).size(), 5u);
}

TEST(PointIndex, EditsAndCapturesOfALayerReachTheDecoder) {
  Watching watching(two_stacks());
  watching->add_edit(set(act::resid_post(1), 3.0));
  watching->add_capture(act::resid_post(1));
  const at::Tensor value = at::ones({1, 2, 4}, at::kDouble);
  watching.fire("encoder.1.hook_resid_post", value);
  watching.fire("decoder.1.hook_resid_post", value);
  const ActivationCache cache = watching.take_cache();
  ASSERT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.begin()->name.to_string(), "decoder.1.hook_resid_post");
  EXPECT_EQ(cache[act::resid_post(1)].max().item<double>(), 3.0);
}

TEST(PointIndex, ACacheOfTwoStacksIsReadTheSameWay) {
  ActivationCache cache(Stacks{.n_layers = 3, .n_encoder_layers = 2});
  for (int layer = 0; layer < 2; ++layer)
    cache.insert({act::resid_post.encoder(layer).name(), at::full({1}, layer, at::kDouble), {}});
  for (int layer = 0; layer < 3; ++layer)
    cache.insert({act::resid_post(layer).name(), at::full({1}, 10 + layer, at::kDouble), {}});
  EXPECT_EQ(cache["resid_post1"].item<double>(), 11);
  EXPECT_EQ(cache[act::resid_post(-1)].item<double>(), 12);
  EXPECT_EQ(cache[act::resid_post.encoder(-1)].item<double>(), 1);
  EXPECT_EQ(cache["encoder.0.hook_resid_post"].item<double>(), 0);
  EXPECT_TRUE(cache.contains(act::resid_post(2).name()));
  EXPECT_TRUE(cache.contains(ActivationName::parse("decoder.2.hook_resid_post")));
  EXPECT_FALSE(cache.contains(ActivationName::parse("blocks.2.hook_resid_post")));
  EXPECT_EQ(cache.stack(act::resid_post).sum().item<double>(), 33);
  EXPECT_EQ(cache.stack(act::resid_post, Stack::encoder).sum().item<double>(), 1);
  EXPECT_THAT(text_thrown_by<HookError>([&] { cache[act::resid_pre(0)]; }),
              HasSubstr("[decoder.0.hook_resid_pre]"));
}

TEST(CountsSource, AsksTheRowAndTheStack) {
  EXPECT_TRUE(counts_source(act::resid_pre.encoder(0).name(), Axis::pos));
  EXPECT_FALSE(counts_source(act::resid_pre(0).name(), Axis::pos));
  EXPECT_TRUE(counts_source(ActivationName{.site = Site::tokens}, Axis::pos));
  EXPECT_TRUE(counts_source(ActivationName{.site = Site::encoder_final_ln_scale}, Axis::pos));
  EXPECT_FALSE(counts_source(ActivationName{.site = Site::unembed_out}, Axis::pos));
  EXPECT_TRUE(counts_source(act::cross_k(0).name(), Axis::pos));
  EXPECT_TRUE(counts_source(act::cross_pattern(0).name(), Axis::key));
  EXPECT_FALSE(counts_source(act::cross_pattern(0).name(), Axis::query));
}

}  // namespace
}  // namespace hooked::point_index_test
