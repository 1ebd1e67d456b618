// hooked info of a dictionary, and of a set of them.
#include <gmock/gmock.h>

#include "tests/cli/cli_fixture.h"

namespace hooked::dictionary_info_test {
namespace {

using testing::HasSubstr;

class DictionaryInfo : public CliTest {
 protected:
  static std::string golden(const std::string& name) {
    return (std::filesystem::path(HOOKED_SOURCE_DIR) / "tests" / "dictionaries" / "golden" / name).string();
  }
};

TEST_F(DictionaryInfo, SaysWhatItComputesAndWhereItBelongs) {
  const std::string folder = golden("saelens/topk_rescaled");
  const std::string text = succeed({"info", folder}).out;
  EXPECT_THAT(text,
              HasSubstr(folder + ": a dictionary, format SAELens 6, 612 parameters, 4.8 KiB in the files"));
  EXPECT_THAT(text, HasSubstr("sparse autoencoder; top-k: the 5 largest codes of a token\n"));
  EXPECT_THAT(text, HasSubstr("blocks.1.hook_resid_post\n"));
  EXPECT_THAT(text, HasSubstr("as it is, minus b_dec\n"));
  EXPECT_THAT(text, HasSubstr("codes are multiplied by them\n"));
  EXPECT_THAT(text, HasSubstr("the model's weights as stored\n"));
  const Json json = succeed({"info", folder, "--json"}).json();
  EXPECT_EQ(json["format"], "SAELens 6");
  EXPECT_EQ(json["parameters"], 12 * 24 * 2 + 24 + 12);
  const Json& member = json["members"].at(0);
  EXPECT_EQ(member["activation"], "top_k");
  EXPECT_EQ(member["k"], 5);
  EXPECT_EQ(member["decoder_norms"], "scaled");
  EXPECT_EQ(member["layer"], 1);
  EXPECT_EQ(member["metadata"]["own"], Json::parse(R"({"a": [1, null]})"));
}

TEST_F(DictionaryInfo, ListsTheMembersOfASet) {
  const std::string text = succeed({"info", golden("published/circuit_tracer_clt")}).out;
  EXPECT_THAT(text, HasSubstr("3 dictionaries, format circuit-tracer"));
  EXPECT_THAT(text, HasSubstr("blocks.2.hook_resid_mid to blocks.2.hook_mlp_out"));
  const Json json = succeed({"info", golden("published/circuit_tracer_clt"), "--json"}).json();
  EXPECT_EQ(json["members"].size(), 3U);
  EXPECT_EQ(json["scan"], "mine");
  EXPECT_TRUE(json["members"].at(2)["crosses_layers"]);
}

TEST_F(DictionaryInfo, SaysWhatTheFilesLeaveOpen) {
  EXPECT_THAT(succeed({"info", golden("saelens/standard_expected_average")}).out,
              HasSubstr("nothing in the folder says whether it was"));
  expect_failure({"info", golden("saelens/standard"), "--check-processing"}, 1,
                 "a dictionary has no weight processing");
}

}  // namespace
}  // namespace hooked::dictionary_info_test
