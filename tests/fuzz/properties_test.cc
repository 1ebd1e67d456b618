// Properties of the fuzz targets over the corpora of tests/fuzz/corpus and random changes of these. Rooms'
// own tests have those of checkpoints and tokenizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/changes.h"
#include "tests/fuzz/circuit_property.h"
#include "tests/fuzz/dictionary_property.h"
#include "tests/fuzz/graph_property.h"
#include "tests/fuzz/grid_property.h"
#include "tests/fuzz/lens_maps_property.h"
#include "tests/fuzz/manifest_property.h"
#include "tests/fuzz/names_property.h"
#include "tests/fuzz/packed_property.h"
#include "tests/fuzz/probe_property.h"
#include "tests/fuzz/prompt_pairs_property.h"

namespace hooked::properties_test {
namespace {

struct Target {
  const char* name;
  bool (*property)(std::string_view);
  int runs;                 ///< with random changes
  std::size_t chooses = 1;  ///< bytes that choose a form, and are kept
};

std::vector<std::string> corpus_of(const std::string& name) {
  std::vector<std::string> inputs;
  const std::filesystem::path folder = std::filesystem::path(HOOKED_SOURCE_DIR "/tests/fuzz/corpus") / name;
  if (name != "dictionary") {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      inputs.push_back(bytes_of(entry.path()));
  }
  if (name == "dictionary") {
    for (std::size_t i = 0; i < kDictionaryFiles.size(); ++i)
      inputs.push_back(std::string(1, static_cast<char>(i)) +
                       bytes_of(folder_for(i) / kDictionaryFiles.at(i).file));
  }
  std::ranges::sort(inputs);
  return inputs;
}

class Properties : public testing::TestWithParam<Target> {};

TEST_P(Properties, HoldForTheCorpus) {
  std::size_t accepted = 0;
  for (const auto& input : corpus_of(GetParam().name))
    ASSERT_NO_THROW(accepted += GetParam().property(input) ? 1 : 0) << input;
  EXPECT_GT(accepted, 1U);
}

TEST_P(Properties, HoldForRandomChanges) {
  std::mt19937 random(1);
  const auto corpus = corpus_of(GetParam().name);
  std::size_t accepted = 0;
  for (int run = 0; run < GetParam().runs; ++run) {
    const std::string& from = corpus[random() % corpus.size()];
    const auto input =
        with_random_changes(from, json_pieces(), random, std::min(from.size(), GetParam().chooses));
    ASSERT_NO_THROW(accepted += GetParam().property(input) ? 1 : 0) << input;
  }
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, static_cast<std::size_t>(GetParam().runs));
}

INSTANTIATE_TEST_SUITE_P(
    Of, Properties,
    testing::Values(Target{"circuit", circuit_property, 2000, 0},
                    Target{"dictionary", dictionary_property, 1500}, Target{"graph", graph_property, 2000, 0},
                    Target{"grid", grid_property, 3000}, Target{"lens_maps", lens_maps_property, 3000},
                    Target{"manifest", manifest_property, 3000}, Target{"names", names_property, 5000, 0},
                    Target{"packed", packed_property, 300}, Target{"probe", probe_property, 2000, 0},
                    Target{"prompt_pairs", prompt_pairs_property, 3000}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hooked::properties_test
