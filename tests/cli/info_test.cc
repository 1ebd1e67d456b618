#include "tests/cli/cli_fixture.h"

namespace hooked::info_test {
namespace {

class InfoTest : public CliTest {};

TEST_F(InfoTest, JsonHasTheContractsFields) {
  const auto json = succeed({"info", model(), "--json"}).json();
  EXPECT_EQ(json["family"], "hooked_transformer");
  EXPECT_EQ(json["config"]["n_layers"], 2);
  EXPECT_EQ(json["config"]["d_model"], 12);
  EXPECT_EQ(json["parameters"], config().parameter_count());
  EXPECT_EQ(json["bytes"], 4 * config().parameter_count());
  EXPECT_EQ(json["processing"]["fold_ln"], "applied");
  EXPECT_EQ(json["processing"]["refactor_factored_attn_matrices"], "not requested");
  EXPECT_TRUE(json["notes"].is_array());
  EXPECT_TRUE(json["ignored_keys"].is_array());
  EXPECT_TRUE(json["chat_template"].is_null());
  EXPECT_EQ(json.size(), 8u);
}

TEST_F(InfoTest, SaysWhichStepsWouldBeApplied) {
  const auto some =
      succeed({"info", model(), "--json", "--process", "fold_ln,center_unembed"}).json()["processing"];
  EXPECT_EQ(some["fold_ln"], "applied");
  EXPECT_EQ(some["center_unembed"], "applied");
  EXPECT_EQ(some["center_writing_weights"], "not requested");
  const auto none = succeed({"info", model(), "--json", "--no-processing"}).json()["processing"];
  for (const auto& [step, outcome] : none.items()) EXPECT_EQ(outcome, "not requested") << step;
}

TEST_F(InfoTest, TheDtypeSetsTheBytes) {
  const auto json = succeed({"info", model(), "--json", "--dtype", "float64"}).json();
  EXPECT_EQ(json["bytes"], 8 * config().parameter_count());
}

TEST_F(InfoTest, ListsKeysThatNothingReads) {
  auto text = read("model/config.json");
  text.insert(text.find('{') + 1, "\"favourite_colour\": \"green\", ");
  write("model/config.json", text);
  EXPECT_EQ(succeed({"info", model(), "--json"}).json()["ignored_keys"], Json::array({"favourite_colour"}));
  EXPECT_NE(succeed({"info", model()}).out.find("favourite_colour"), std::string::npos);
}

TEST_F(InfoTest, TheTableNamesSizesStepsAndTokenizer) {
  const auto without = succeed({"info", model()}).out;
  for (const auto* part : {"family hooked_transformer", "d_model", "fold_ln", "applied", "with --tokens"}) {
    EXPECT_NE(without.find(part), std::string::npos) << without;
  }
  write_tokenizer();
  EXPECT_NE(succeed({"info", model()}).out.find("11 pieces"), std::string::npos);
  EXPECT_NE(succeed({"info", model()}).out.find("no chat template"), std::string::npos);
  write("model/chat_template.jinja", "{{ messages }}");
  EXPECT_NE(succeed({"info", model()}).out.find("chat template in"), std::string::npos);
  EXPECT_EQ(succeed({"info", model(), "--json"}).json()["chat_template"], path("model/chat_template.jinja"));
}

}  // namespace
}  // namespace hooked::info_test
