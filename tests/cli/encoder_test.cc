// The commands on encoders: token types, models without unembedding, and text between special tokens.
#include <ATen/ops/tensor.h>

#include "tests/cli/cli_fixture.h"
#include "tests/support/golden_folder.h"
#include "tests/support/relative_difference.h"

namespace hooked::encoder_test {
namespace {

const std::string kFamilies = golden_folder("cases").string() + "/";

class EncoderCliTest : public CliTest {
 protected:
  SafetensorsFile cache(const std::string& folder, const std::vector<std::string>& input) const {
    std::vector<std::string> arguments = {"cache", kFamilies + folder,     "--dtype", "float64",
                                          "--out", path("out.safetensors")};
    arguments.insert(arguments.end(), input.begin(), input.end());
    succeed(arguments);
    return SafetensorsFile::open(path("out.safetensors"));
  }
  static at::Tensor ids(const std::vector<std::int64_t>& numbers) {
    return at::tensor(numbers, at::kLong).unsqueeze(0);
  }
};

TEST_F(EncoderCliTest, TokenTypesReachTheModel) {
  const auto bert = HookedTransformer::load(kFamilies + "bert_pretraining", {.dtype = at::kDouble});
  const at::Tensor expected = bert.run({ids({3, 4, 5}), {.token_types = ids({0, 2, 1})}}).logits();
  const auto file = cache("bert_pretraining", {"--tokens", "3,4,5", "--token-types", "0,2,1"});
  EXPECT_LT(relative_difference(file.read("logits"), expected), kDoubleTolerance);
  EXPECT_GT(relative_difference(cache("bert_pretraining", {"--tokens", "3,4,5"}).read("logits"), expected),
            1e-3);
  save_safetensors(path("in.safetensors"), {{"tokens", ids({3, 4, 5})}, {"token_type_ids", ids({0, 2, 1})}},
                   {});
  EXPECT_LT(
      relative_difference(cache("bert_pretraining", {"--tokens-file", path("in.safetensors")}).read("logits"),
                          expected),
      kDoubleTolerance);
  expect_failure({"cache", kFamilies + "bert_pretraining", "--tokens-file", path("in.safetensors"),
                  "--token-types", "0,0,0", "--out", path("x.safetensors")},
                 2, "token_type_ids");
  expect_failure({"run", kFamilies + "bert_pretraining", "--tokens", "3,4", "--token-types", "0,3"}, 1,
                 "0 to 2");
  expect_failure({"run", model(), "--tokens", "3,4", "--token-types", "0,0"}, 1, "no token types");
}

TEST_F(EncoderCliTest, AModelWithoutUnembeddingHasNoLogits) {
  const std::string folder = kFamilies + "bert_no_head";
  const auto file = cache("bert_no_head", {"--tokens", "3,4,5"});
  EXPECT_FALSE(file.find("logits"));
  EXPECT_TRUE(file.find("blocks.1.hook_normalized_resid_post"));
  for (const auto& name : succeed({"names", folder, "--json"}).json()["names"]) {
    EXPECT_EQ(name["name"].get<std::string>().find("unembed"), std::string::npos) << name;
  }
  const auto info = succeed({"info", folder, "--json"}).json();
  EXPECT_EQ(info["config"]["d_vocab_out"], 0);
  EXPECT_NE(info["notes"].dump().find("no masked-LM head"), std::string::npos) << info["notes"];
  EXPECT_EQ(info["processing"]["center_unembed"], "the model has no unembedding");
  expect_failure({"run", folder, "--tokens", "3,4"}, 1, "no unembedding");
  expect_failure({"cache", folder, "--tokens", "3,4", "--gradients", "--answer-token", "1", "--against-token",
                  "2", "--out", path("x.safetensors")},
                 1, "no unembedding");
  EXPECT_GT(succeed({"bench", folder, "--length", "4", "--iterations", "1", "--json"}).json()["points"], 10);
}

TEST_F(EncoderCliTest, AModelThatReadsBothWaysHasNoLoss) {
  EXPECT_TRUE(succeed({"run", kFamilies + "bert", "--tokens", "3,4,5", "--json"}).json()["loss"].is_null());
}

}  // namespace
}  // namespace hooked::encoder_test
