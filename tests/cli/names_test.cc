#include <ATen/ops/arange.h>

#include "tests/cli/cli_fixture.h"

namespace hooked::names_test {
namespace {

class NamesTest : public CliTest {};

Json entry(const Json& list, const std::string& name) {
  for (const auto& row : list) {
    if (row["name"] == name) return row;
  }
  return nullptr;
}

TEST_F(NamesTest, AreTheModelsPointsWithTheirShapes) {
  const auto list = succeed({"names", model(), "--tokens-length", "5", "--json"}).json()["names"];
  const auto model = load();
  ASSERT_EQ(list.size(), model.names().size());
  const auto run = model.run_with_cache(at::arange(5, at::kLong), act::everything);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto name = model.names()[i].to_string();
    EXPECT_EQ(list[i]["name"], name);
    EXPECT_EQ(list[i]["shape"].get<std::vector<std::int64_t>>(), run.cache[name].sizes().vec()) << name;
    EXPECT_EQ(list[i]["axes"].size(), list[i]["shape"].size()) << name;
  }
}

TEST_F(NamesTest, TellTheWideOnes) {
  const auto list = succeed({"names", model(), "--json"}).json()["names"];
  EXPECT_EQ(entry(list, "blocks.1.attn.hook_result")["wide"], true);
  EXPECT_EQ(entry(list, "blocks.1.attn.hook_z")["wide"], false);
}

TEST_F(NamesTest, SizesThatDependOnTheInputAreNull) {
  const auto list =
      succeed({"names", model(), "--names", "blocks.0.attn.hook_pattern", "--json"}).json()["names"];
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["axes"], Json::array({"batch", "head", "query", "key"}));
  EXPECT_EQ(list[0]["shape"], Json::array({1, 3, nullptr, nullptr}));
  EXPECT_NE(succeed({"names", model(), "--names", "*pattern"}).out.find("[1, 3, query, key]"),
            std::string::npos);
}

TEST_F(NamesTest, NeedNoWeights) {
  std::filesystem::remove(folder_ / "model/model.safetensors");
  EXPECT_EQ(succeed({"names", model(), "--json"}).json()["names"].size(), activation_names(config()).size());
}

TEST_F(NamesTest, ALengthStartsAtOne) {
  for (const char* length : {"0", "-1", "1.5", "x"})
    expect_failure({"names", model(), "--tokens-length", length}, 2, "expected an integer from 1 on");
}

TEST_F(NamesTest, OfWholeActivationsTakeNoIndices) {
  const std::string says = "takes no indices; expected 'z1'; index the tensor itself";
  const std::string out = path("c.safetensors");
  expect_failure({"names", model(), "--names", "z1[head=2]"}, 1, says);
  expect_failure({"cache", model(), "--tokens", "1,2", "--names", "z1[head=2]", "--out", out}, 1, says);
  expect_failure({"generate", model(), "--tokens", "1,2", "--capture", "z1[head=2]", "--out", out}, 1, says);
  succeed({"run", model(), "--tokens", "1,2", "--edit", "z1[head=2] zero"});
}

TEST_F(NamesTest, AGlobThatMatchesNothingFails) {
  expect_failure({"names", model(), "--names", "blocks.0.attn.hook_patern"}, 1, "blocks.0.attn.hook_pattern");
}

}  // namespace
}  // namespace hooked::names_test
