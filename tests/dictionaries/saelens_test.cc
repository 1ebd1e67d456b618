// Dictionaries of every architecture of SAELens that is read, saved by SAELens 6.54.12, and what it computes
// with them (tests/dictionaries/makers/saelens.py).
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/dictionaries/golden_dictionaries.h"
#include "tests/support/temp_folder.h"

namespace hooked::saelens_test {
namespace {

const std::filesystem::path kGolden = kDictionaryGoldens / "saelens";

std::vector<std::string> goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, at::Tensor> expected(const std::string& name) {
  return load_safetensors(kGolden / name / "expected.safetensors");
}

class SaeLensGoldens : public testing::TestWithParam<std::string> {};

TEST_P(SaeLensGoldens, ComputesWhatSaeLensComputes) {
  const Dictionary dictionary = Dictionary::load((kGolden / GetParam()).native());
  EXPECT_EQ(dictionary.config().format, "SAELens 6");
  EXPECT_EQ(dictionary.config().dtype, at::kDouble);
  EXPECT_TRUE(dictionary.config().ignored_keys.empty());
  const auto wanted = expected(GetParam());
  EXPECT_EQ(dictionary.has_preactivations(), wanted.contains("pre"));
  EXPECT_LT(dictionary.encode_sparse(wanted.at("x")).values.size(-1), dictionary.config().features);
  expect_computes(dictionary, wanted);
}

TEST_P(SaeLensGoldens, WhatIsSavedComputesTheSame) {
  const TempFolder folder;
  const Dictionary dictionary = Dictionary::load((kGolden / GetParam()).native());
  dictionary.save(folder / "saved");
  // SAELens reads such folders (makers/saelens.py --check).
  if (const char* const kept = std::getenv("HOOKED_SAVED_DICTIONARIES"))
    dictionary.save(std::filesystem::path(kept) / GetParam());
  const Dictionary saved = Dictionary::load((folder / "saved").native());
  expect_computes(saved, expected(GetParam()));
  EXPECT_EQ(architecture_text(saved.config()), architecture_text(dictionary.config()));
  EXPECT_EQ(saved.config().output, dictionary.config().output);
  EXPECT_THAT(saved.config().metadata, HasSubstr(R"("own":{"a":[1,null]})"));
  saved.save(folder / "again");
  EXPECT_EQ(load_safetensors(folder / "again" / "sae_weights.safetensors").size(),
            load_safetensors(kGolden / GetParam() / "sae_weights.safetensors").size());
}

INSTANTIATE_TEST_SUITE_P(All, SaeLensGoldens, testing::ValuesIn(goldens()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hooked::saelens_test
