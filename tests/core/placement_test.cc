#include "hooked/core/placement.h"

#include <numeric>
#include <random>

#include "tests/support/test.h"

namespace hooked {
namespace {

using Counts = std::vector<std::int64_t>;

c10::Device gpu(int index) { return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)}; }

std::int64_t largest_of(const Counts& bytes, const Counts& cut, std::int64_t before, std::int64_t behind) {
  std::int64_t largest = 0;
  auto block = bytes.begin();
  for (std::size_t part = 0; part < cut.size(); ++part) {
    std::int64_t held = std::accumulate(block, block + cut[part], std::int64_t{0});
    block += cut[part];
    if (part == 0) held += before;
    if (part + 1 == cut.size()) held += behind;
    largest = std::max(largest, held);
  }
  return largest;
}

// By trying all cuts.
std::int64_t least_largest(const Counts& bytes, std::size_t parts, std::int64_t before, std::int64_t behind) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Counts cut;
  const auto extend = [&](const auto& self, std::int64_t left) -> void {
    if (cut.size() + 1 == parts) {
      cut.push_back(left);
      if (left > 0) least = std::min(least, largest_of(bytes, cut, before, behind));
      cut.pop_back();
      return;
    }
    for (std::int64_t blocks = 1; blocks < left; ++blocks) {
      cut.push_back(blocks);
      self(self, left - blocks);
      cut.pop_back();
    }
  };
  extend(extend, static_cast<std::int64_t>(bytes.size()));
  return least;
}

TEST(EvenlyCut, IsAsGoodAsTheBestOfAllCuts) {
  std::mt19937 random(7);
  const auto number = [&](int most) { return std::uniform_int_distribution<std::int64_t>(0, most)(random); };
  for (int round = 0; round < 200; ++round) {
    Counts bytes(static_cast<std::size_t>(1 + number(7)));
    for (std::int64_t& block : bytes) block = number(20);
    const auto parts = static_cast<std::size_t>(1 + number(static_cast<int>(bytes.size()) - 1));
    const std::int64_t before = number(40), behind = number(40);
    const Counts cut = evenly_cut(bytes, static_cast<std::int64_t>(parts), before, behind);
    ASSERT_EQ(cut.size(), parts);
    EXPECT_EQ(std::accumulate(cut.begin(), cut.end(), std::int64_t{0}),
              static_cast<std::int64_t>(bytes.size()));
    EXPECT_GE(*std::min_element(cut.begin(), cut.end()), 1);
    EXPECT_EQ(largest_of(bytes, cut, before, behind), least_largest(bytes, parts, before, behind));
  }
}

TEST(EvenlyCut, LeavesRoomForTheEnds) {
  EXPECT_THAT(evenly_cut({1, 1, 1, 1, 1, 1}, 2, 0, 0), ElementsAre(3, 3));
  EXPECT_THAT(evenly_cut({1, 1, 1, 1, 1, 1}, 2, 4, 0), ElementsAre(1, 5));
  EXPECT_THAT(evenly_cut({1, 1, 1, 1, 1, 1}, 2, 0, 4), ElementsAre(5, 1));
}

ModelConfig config_of(std::int64_t layers, bool tied) {
  ModelConfig config;
  config.n_layers = layers;
  config.unembedding = Unembedding{.tied = tied};
  return config;
}

TEST(Placement, OfOneDeviceIsThatDevice) {
  const Placement one(gpu(1));
  EXPECT_FALSE(one.spread());
  EXPECT_EQ(one.entry(), gpu(1));
  EXPECT_EQ(one.exit(), gpu(1));
  EXPECT_EQ(one.of({Stack::blocks, 7}), gpu(1));
  EXPECT_THAT(one.devices(), ElementsAre(gpu(1)));
  EXPECT_EQ(one.text(), "");
}

TEST(Placement, IsHarmlessWhenItWasMovedFrom) {
  Placement from(c10::Device(at::kCPU));
  const Placement to = std::move(from);
  EXPECT_EQ(from.entry(), to.entry());
  EXPECT_EQ(from.of({Stack::blocks, 3}), to.entry());
  EXPECT_FALSE(from.spread());
}

TEST(Placement, KnowsWhereEachLayerLies) {
  const Placement some(config_of(3, /*tied=*/false), {gpu(0), gpu(0), gpu(1)});
  EXPECT_TRUE(some.spread());
  EXPECT_EQ(some.entry(), gpu(0));
  EXPECT_EQ(some.exit(), gpu(1));
  EXPECT_EQ(some.of({Stack::blocks, 1}), gpu(0));
  EXPECT_EQ(some.of({Stack::blocks, 2}), gpu(1));
  EXPECT_EQ(some.of({Stack::blocks, 3}), gpu(1)) << "after the last layer";
  EXPECT_THAT(some.devices(), ElementsAre(gpu(0), gpu(1)));
  EXPECT_EQ(some.text(), "the model is spread over devices: layers 0 to 1 on cuda:0, layer 2 on cuda:1");
}

TEST(Placement, OfATiedModelReturnsToTheEmbedding) {
  const Placement tied(config_of(2, /*tied=*/true), {gpu(0), gpu(1)});
  EXPECT_EQ(tied.exit(), gpu(0));
  EXPECT_EQ(tied.of({Stack::blocks, 2}), gpu(0));
}

TEST(Placement, PutsADecoderBehindItsEncoder) {
  ModelConfig config = config_of(2, /*tied=*/false);
  config.encoder = Encoder{.n_layers = 2};
  const Placement both(config, {gpu(0), gpu(1), gpu(1), gpu(2)});
  EXPECT_EQ(both.of({Stack::encoder, 1}), gpu(1));
  EXPECT_EQ(both.of({Stack::decoder, 0}), gpu(1));
  EXPECT_EQ(both.of({Stack::decoder, 1}), gpu(2));
  EXPECT_EQ(both.last_encoder_layer(), 1);
  EXPECT_EQ(both.text(),
            "the model is spread over devices: encoder layer 0 on cuda:0, encoder layer 1 on cuda:1, decoder "
            "layer 0 on cuda:1, decoder layer 1 on cuda:2");
}

}  // namespace
}  // namespace hooked
