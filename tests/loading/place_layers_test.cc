// Where layers go, without any device: the bytes are those of the models' own weights.
#include "loading/fill/place_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/support/goldens.h"

namespace hooked {
namespace {

c10::Device gpu(int index) { return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)}; }

// The share of a model's weights on the fullest device.
std::size_t fullest(const StateDict& weights, const ModelConfig& config, const Placement& placement) {
  std::map<c10::Device, std::size_t, bool (*)(const c10::Device&, const c10::Device&)> held(
      [](const c10::Device& a, const c10::Device& b) { return a.index() < b.index(); });
  for (const auto& [name, weight] : weights) {
    c10::Device device =
        name.starts_with("embed.") || name.starts_with("pos_embed.") ? placement.entry() : placement.exit();
    for (const BlockPlace& block : config.blocks()) {
      if (name.starts_with(block.path() + ".")) device = placement.of(block);
    }
    held[device] += weight.nbytes();
  }
  std::size_t most = 0;
  for (const auto& [device, bytes] : held) most = std::max(most, bytes);
  return most;
}

TEST(PlaceLayers, TheFullestDeviceHoldsAsLittleAsCanBe) {
  for (const char* name : {"gpt2", "gemma2", "gpt_oss", "bert", "t5", "llama"}) {
    SCOPED_TRACE(name);
    const auto model = HookedTransformer::load(golden_case(name).folder().string());
    const ModelConfig& config = model.config();
    const StateDict weights = model.state_dict();
    const std::size_t n = config.blocks().size();
    std::size_t best = std::numeric_limits<std::size_t>::max();
    for (std::size_t first = 1; first < n; ++first) {
      std::vector<c10::Device> devices(first, gpu(0));
      devices.insert(devices.end(), n - first, gpu(1));
      best = std::min(best, fullest(weights, config, Placement(config, devices)));
    }
    const Placement placed = place_layers(config, {gpu(0), gpu(1)});
    EXPECT_EQ(placed.devices(), (std::vector{gpu(0), gpu(1)}));
    EXPECT_EQ(fullest(weights, config, placed), best);
  }
}

TEST(PlaceLayers, OneDeviceHoldsEverything) {
  ModelConfig config;
  config.n_layers = 1;
  EXPECT_FALSE(place_layers(config, {gpu(1)}).spread());
  EXPECT_EQ(place_layers(config, {gpu(1)}).entry(), gpu(1));
}

TEST(PlaceLayers, EachDeviceGetsALayer) {
  const auto config = HookedTransformer::load(golden_case("gpt2").folder().string()).config();
  try {
    place_layers(config, {gpu(0), gpu(1), gpu(2)});
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 2, one for each layer"), std::string::npos);
  }
}

}  // namespace
}  // namespace hooked
