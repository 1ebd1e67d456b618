// Configs that state a number of rotary positions in several places, against the angles that transformers
// computes (tests/golden/makers/rope_spellings.py).
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/atan2.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/json.h"
#include "families/family.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "models/sequence/rotary.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/thrown_by.h"

namespace hooked::rope_spellings_test {
namespace {

constexpr double kTolerance = 1e-6;  // of float32, in which transformers keeps frequencies

/// Spellings that are refused only here, and what the errors name: what the graph of the family does
/// not do, and two places whose order nobody would guess.
struct Refused {
  std::string_view spelling;
  std::vector<std::string_view> says;
};
const std::vector<Refused> kRefused = {
    {"groups_and_scaling", {"rope_scaling", "rope_parameters"}},
    {"yarn_with_factors_of_longrope", {"short_factor"}},
    {"mellum_theta_above", {"rope_theta"}},
    {"mellum_bases_above", {"rope_theta"}},
    {"share_above", {"partial_rotary_factor"}},
    {"share_inside", {"rope_parameters.partial_rotary_factor"}},
    {"share_in_both", {"rope_parameters.partial_rotary_factor"}},
    {"modernbert_older_scaling", {"rope_scaling"}},
    {"modernbert_older_scaling_and_base", {"rope_scaling"}},
    {"modernbert_older_scaling_by_type", {"rope_scaling"}},
};

const Json& recorded() {
  static const Json kRecorded =
      parse_json(read_text_file(HOOKED_SOURCE_DIR "/tests/golden/rope_spellings.json", 1 << 20), {});
  return kRecorded;
}

// A row has what differs from its family's base.
FamilyConfig read(const Json& row) {
  Json config = recorded().at("bases").at(row.at("config").at("model_type").get<std::string>());
  config.update(row.at("config"));
  return read_family_config(family_of(config.at("model_type").get<std::string>(), "config.json"),
                            {json_text(config), "config.json"});
}

class RopeSpelling : public testing::TestWithParam<std::size_t> {
 protected:
  const Json& row() const { return recorded().at("rows").at(GetParam()); }
};

TEST_P(RopeSpelling, GivesTheAnglesOfTransformersOrIsRefused) {
  const auto name = row().at("name").get<std::string>();
  ModelConfig config;
  try {
    config = read(row()).config;
  } catch (const ConfigError& error) {
    const auto known =
        std::ranges::find_if(kRefused, [&](const Refused& r) { return name.ends_with(r.spelling); });
    ASSERT_NE(known, kRefused.end()) << error.what();
    for (const std::string_view word : known->says) {
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos) << error.what();
    }
    return;
  }
  config.dtype = at::kDouble;
  for (const auto& [kind, expected] : row().at("kinds").items()) {
    const bool windowed = kind == "windowed" && config.window.has_value();
    const auto frequencies = expected.at("frequencies").get<std::vector<double>>();
    // Of the places 0 and 1: at the first the cosine is the magnitude, and the angle at the second the
    // frequency.
    const RotaryAngles angles = rotary_angles(rotary_frequencies(config, windowed),
                                              at::arange(2, at::kLong).unsqueeze(0), at::kDouble);
    const at::Tensor magnitude = angles.cosine.flatten(2).select(1, 0).flatten();
    const at::Tensor angle = at::atan2(angles.sine, angles.cosine).flatten(2).select(1, 1).flatten();
    ASSERT_EQ(angle.numel(), static_cast<std::int64_t>(frequencies.size())) << kind;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      EXPECT_NEAR(angle[at].item<double>(), frequencies[i], kTolerance) << kind << ", pair " << i;
      EXPECT_NEAR(magnitude[at].item<double>(), expected.at("magnitude").get<double>(), kTolerance) << kind;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, RopeSpelling, testing::Range(std::size_t{0}, recorded().at("rows").size()),
                         [](const auto& info) {
                           return recorded().at("rows").at(info.param).at("name").template get<std::string>();
                         });

TEST(RopeSpellings, ANumberWithoutEffectIsNoted) {
  const auto notes_of = [](std::string_view name) {
    for (const Json& row : recorded().at("rows")) {
      if (row.at("name") == name) return read(row).notes;
    }
    return std::vector<std::string>{"no such row"};
  };
  for (const auto& [name, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"llama_theta_in_both", {"rope_theta", "1000000", "500000", "rope_parameters.rope_theta"}},
           {"glm_share_in_both", {"partial_rotary_factor", "0.5", "0.25"}},
           {"llama_yarn_context_in_both", {"original_max_position_embeddings", "64", "32"}},
           {"gemma3_text_groups_and_bases_above", {"rope_theta", "rope_local_base_freq"}}}) {
    const auto notes = fmt::format("{}", fmt::join(notes_of(name), "\n"));
    for (const std::string& word : words)
      EXPECT_NE(notes.find(word), std::string::npos) << name << ": " << notes;
  }
  EXPECT_TRUE(notes_of("llama_theta_inside").empty());
  EXPECT_TRUE(notes_of("llama_yarn").empty());
}

// A share of no dimensions means no positions. The sums of squared logits are those of transformers 5.23 in
// float64, for the tokens 1 to 6.
TEST_F(CheckpointTensors, AShareOfNoDimensionsIsNoPositions) {
  const std::vector<std::tuple<const char*, const char*, double>> cases = {
      {"gpt_neox", "rotary_pct", 4008.888734589},
      {"phi", "partial_rotary_factor", 436.704827577},
      {"phi3", "partial_rotary_factor", 404.926182146},
      {"stablelm", "partial_rotary_factor", 505.135068902},
      {"persimmon", "partial_rotary_factor", 226.379836750},
      {"nemotron", "partial_rotary_factor", 546.846662270},
      {"glm", "partial_rotary_factor", 144.436156454},
      {"glm4", "partial_rotary_factor", 97.258614629},
      {"glm4_moe", "partial_rotary_factor", 111.587639202},
      {"minimax_m2", "rotary_dim", 91.446651851},
      {"qwen3_next_dense", "partial_rotary_factor", 10993.529893802}};
  for (const auto& [name, key, expected] : cases) {
    SCOPED_TRACE(name);
    take(name);
    const std::filesystem::path file = folder_ / "config.json";
    Json config = parse_json(read_text_file(file, 1 << 20), {});
    Json* holder = &config;
    if (config.contains("rope_parameters") && config["rope_parameters"].contains("partial_rotary_factor"))
      holder = &config["rope_parameters"];
    (*holder)[holder == &config ? key : "partial_rotary_factor"] = 0;
    std::ofstream(file) << json_text(config);
    const HookedTransformer model = load();
    EXPECT_EQ(model.config().rotary(), nullptr);
    const at::Tensor logits = model.run(at::arange(1, 7, at::kLong).unsqueeze(0)).logits();
    EXPECT_NEAR(logits.square().sum().item<double>(), expected, 1e-6 * expected);
  }
}

}  // namespace
}  // namespace hooked::rope_spellings_test
