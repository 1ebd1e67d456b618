// Dictionaries of every architecture of SAELens that is read, saved by SAELens 6.54.12, and what it computes
// with them (tests/dictionaries/makers/saelens.py).
#include <filesystem>
#include <string>
#include <vector>

#include "hooked/dictionaries/dictionary.h"
#include "hooked/io/safetensors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

namespace hooked {
namespace {

const std::filesystem::path kGolden =
    std::filesystem::path(HOOKED_SOURCE_DIR) / "tests" / "dictionaries" / "golden" / "saelens";

std::vector<std::string> goldens() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void expect_equal(const at::Tensor& got, const at::Tensor& wanted, const char* what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  EXPECT_EQ(got.scalar_type(), at::kDouble) << what;
  EXPECT_LT(largest(got - wanted), 1e-9) << what;
}

/// All that a golden's values say of a dictionary.
void expect_computes(const Dictionary& dictionary, const std::string& name) {
  const auto wanted = load_safetensors(kGolden / name / "expected.safetensors");
  const at::Tensor& x = wanted.at("x");
  const at::Tensor input = dictionary.input_of(x);
  const at::Tensor pre = dictionary.preactivations(input);
  EXPECT_EQ(dictionary.has_preactivations(), wanted.contains("pre"));
  if (dictionary.has_preactivations()) expect_equal(pre, wanted.at("pre"), "pre-activations");
  const at::Tensor codes = dictionary.activations(pre, input);
  expect_equal(codes, wanted.at("codes"), "codes");
  expect_equal(dictionary.encode(x), wanted.at("codes"), "encode");
  const at::Tensor recons = dictionary.reconstruction(codes, input);
  if (wanted.contains("recons")) expect_equal(recons, wanted.at("recons"), "reconstruction");
  expect_equal(dictionary.output_of(recons, input, x), wanted.at("output"), "output");
  expect_equal(dictionary.decode(codes, x), wanted.at("output"), "decode");
  expect_equal(dictionary.reconstruct(x), wanted.at("output"), "reconstruct");
  const SparseCodes sparse = dictionary.encode_sparse(x);
  EXPECT_LT(sparse.values.size(-1), dictionary.config().features);
  expect_equal(sparse.dense(), wanted.at("codes"), "sparse codes");
  expect_equal(dictionary.decode_sparse(sparse, x), wanted.at("output"), "decoded sparse codes");
}

class SaeLensGoldens : public testing::TestWithParam<std::string> {};

TEST_P(SaeLensGoldens, ComputesWhatSaeLensComputes) {
  const Dictionary dictionary = Dictionary::load((kGolden / GetParam()).native());
  EXPECT_EQ(dictionary.config().format, "SAELens 6");
  EXPECT_EQ(dictionary.config().dtype, at::kDouble);
  EXPECT_TRUE(dictionary.config().ignored_keys.empty());
  expect_computes(dictionary, GetParam());
}

TEST_P(SaeLensGoldens, WhatIsSavedComputesTheSame) {
  const TempFolder folder;
  const Dictionary dictionary = Dictionary::load((kGolden / GetParam()).native());
  dictionary.save(folder / "saved");
  const Dictionary saved = Dictionary::load((folder / "saved").native());
  expect_computes(saved, GetParam());
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
}  // namespace hooked
