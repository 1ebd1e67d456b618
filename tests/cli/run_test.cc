#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>

#include "tests/cli/cli_fixture.h"

namespace hooked::run_test {
namespace {

class RunTest : public CliTest {};

at::Tensor tokens(const std::vector<std::int64_t>& ids, std::int64_t batch = 1) {
  return at::tensor(ids, at::TensorOptions(at::kLong)).view({batch, -1});
}

TEST_F(RunTest, JsonIsTheModelsNextTokens) {
  const auto json = succeed({"run", model(), "--tokens", "1,2,3", "--top-k", "4", "--json"}).json();
  const auto model = load();
  const auto logits = model(tokens({1, 2, 3}))[0][2].to(at::kDouble);
  const auto probabilities = at::softmax(logits, -1);

  EXPECT_EQ(json["tokens"], parse_json("[[1, 2, 3]]", {}));
  ASSERT_EQ(json["rows"].size(), 1u);
  const auto& row = json["rows"][0];
  EXPECT_EQ(row["row"], 0);
  EXPECT_EQ(row["position"], 2);
  ASSERT_EQ(row["next"].size(), 4u);
  EXPECT_EQ(row["next"][0]["id"], logits.argmax().item<std::int64_t>());
  double above = 1e300;
  for (const auto& guess : row["next"]) {
    const auto id = guess["id"].get<std::int64_t>();
    EXPECT_EQ(guess["token"], nullptr);
    EXPECT_NEAR(guess["logit"].get<double>(), logits[id].item<double>(), 1e-5);               // float32 model
    EXPECT_NEAR(guess["probability"].get<double>(), probabilities[id].item<double>(), 1e-6);  // float32 model
    EXPECT_LE(guess["logit"].get<double>(), above);
    above = guess["logit"].get<double>();
  }
  const auto loss = model.run(tokens({1, 2, 3}), {.output = Output::loss}).loss().item<double>();
  EXPECT_NEAR(json["loss"].get<double>(), loss, 1e-6);  // float32 model
}

TEST_F(RunTest, OneTokenHasNoLoss) {
  EXPECT_EQ(succeed({"run", model(), "--tokens", "1", "--json"}).json()["loss"], nullptr);
}

TEST_F(RunTest, ABatchIsItsRows) {
  const auto json =
      succeed({"run", model(), "--tokens", "1,2,3", "--tokens", "4,5,6", "--dtype", "float64", "--json"})
          .json();
  ASSERT_EQ(json["rows"].size(), 2u);
  const auto second = succeed({"run", model(), "--tokens", "4,5,6", "--dtype", "float64", "--json"}).json();
  EXPECT_EQ(json["rows"][1]["row"], 1);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(json["rows"][1]["next"][i]["logit"].get<double>(),
                second["rows"][0]["next"][i]["logit"].get<double>(), 1e-12);  // float64 model
  }
}

TEST_F(RunTest, PositionsCountFromEitherEnd) {
  const auto rows =
      succeed({"run", model(), "--tokens", "1,2,3", "--positions", "0,-1", "--json"}).json()["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["position"], 0);
  EXPECT_EQ(rows[1]["position"], 2);
  const auto columns = [&](const std::string& positions) {
    std::vector<int> shown;
    const auto json =
        succeed({"run", model(), "--tokens", "1,2,3,4", "--positions", positions, "--json"}).json();
    for (const Json& row : json["rows"]) shown.push_back(row["position"].get<int>());
    return shown;
  };
  EXPECT_EQ(columns("1:3"), (std::vector{1, 2}));
  EXPECT_EQ(columns("2:,0"), (std::vector{2, 3, 0}));
  EXPECT_EQ(columns(":2"), (std::vector{0, 1}));
  EXPECT_EQ(columns("-2:"), (std::vector{2, 3}));
  EXPECT_EQ(columns("0+2, last"), (std::vector{0, 2, 3}));
  EXPECT_EQ(columns("all"), (std::vector{0, 1, 2, 3}));
  for (const char* range : {"2:9", "3:3", "-7:"})
    expect_failure({"run", model(), "--tokens", "1,2,3,4", "--positions", range}, 1,
                   std::string("[--positions] range ") + range);
  for (const char* junk : {"first", "1:2:3", "0-2", "", "1,,2", "ALL"})
    expect_failure({"run", model(), "--tokens", "1,2,3,4", "--positions", junk}, 2,
                   "is not a position; expected i, i:j, i+j+... or last, or all, such as 0,-1,2:5");
  expect_failure({"run", model(), "--tokens", "1,2,3", "--positions", "3"}, 1,
                 "column 3 is outside the tokens of the run; expected -3 to 2");
}

TEST_F(RunTest, PaddedRowsEndAtTheirLastRealToken) {
  save_safetensors(path("in.safetensors"), {{"tokens", tokens({1, 2, 3, 4, 5, 0}, 2)},
                                            {"attention_mask", tokens({1, 1, 1, 1, 1, 0}, 2)}});
  const auto json =
      succeed({"run", model(), "--tokens-file", path("in.safetensors"), "--dtype", "float64", "--json"})
          .json();
  EXPECT_EQ(json["rows"][0]["position"], 2);
  EXPECT_EQ(json["rows"][1]["position"], 1);
  const auto alone = succeed({"run", model(), "--tokens", "4,5", "--dtype", "float64", "--json"}).json();
  EXPECT_NEAR(json["rows"][1]["next"][0]["logit"].get<double>(),
              alone["rows"][0]["next"][0]["logit"].get<double>(),
              1e-12);  // float64 model
}

TEST_F(RunTest, TextGetsPiecesAndTheBosPolicy) {
  write_tokenizer();
  const auto json = succeed({"run", model(), "--text", "w2 w3", "--json"}).json();
  EXPECT_EQ(json["tokens"], parse_json("[[0, 2, 3]]", {}));
  EXPECT_TRUE(json["rows"][0]["next"][0]["token"].is_string());
  EXPECT_EQ(succeed({"run", model(), "--text", "w2 w3", "--prepend-bos", "no", "--json"}).json()["tokens"],
            parse_json("[[2, 3]]", {}));
  const Json around = succeed({"run", model(), "--text", "w2", "--json"}).json()["around"];
  EXPECT_EQ(around["before"], Json::parse(R"([{"id": 0, "token": "<bos>"}])"));
  EXPECT_EQ(around["after"], Json::array());
  EXPECT_EQ(around["why"], "post_processor of tokenizer.json");
  EXPECT_EQ(succeed({"run", model(), "--tokens", "2", "--json"}).json()["around"], nullptr);
  EXPECT_EQ(succeed({"run", model(), "--text", "w2", "--prepend-bos", "yes", "--json"}).json()["tokens"],
            parse_json("[[0, 2]]", {}));
  const auto table = succeed({"run", model(), "--text", "w2 w3"}).out;
  EXPECT_NE(table.find("after position 2, token 'w3' (3)"), std::string::npos) << table;
  EXPECT_NE(table.find("loss "), std::string::npos) << table;
  EXPECT_NE(table.find("Logits are centred"), std::string::npos) << table;
  const auto own = succeed({"run", model(), "--text", "w2 w3", "--no-processing"}).out;
  EXPECT_EQ(own.find("centred"), std::string::npos) << own;
}

// A BOS token that no file asks for is a note on stderr, and `file` leaves it out.
TEST_F(RunTest, ABosTokenOfNoFileIsANote) {
  write_tokenizer();
  std::string json = read("model/tokenizer.json");
  const auto begin = json.find(R"("post_processor")"), end = json.find(R"("decoder")");
  write("model/tokenizer.json", json.erase(begin, end - begin));
  const auto usual = hooked({"run", model(), "--text", "w2", "--json"});
  EXPECT_EQ(usual.exit_code, 0);
  EXPECT_NE(usual.error.find("note: a text gets <bos> in front"), std::string::npos) << usual.error;
  EXPECT_EQ(usual.json()["tokens"], Json::parse("[[0, 2]]"));
  EXPECT_NE(usual.json()["around"]["why"].get<std::string>().find("TransformerLens"), std::string::npos);
  const Json by_file = succeed({"run", model(), "--text", "w2", "--prepend-bos", "file", "--json"}).json();
  EXPECT_EQ(by_file["tokens"], Json::parse("[[2]]"));
  EXPECT_EQ(by_file["around"]["before"], Json::array());
}

TEST_F(RunTest, ARankAmongNumbersThatAreNotIsUnknown) {
  const std::vector<std::string> words{"run", model(), "--tokens", "1,2", "--answer-token", "3"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return hooked(more);
  };
  EXPECT_TRUE(with({"--json"}).json()["rows"][0]["answers"][0]["rank"].is_number_integer());
  const std::vector<std::string> lost{"--edit", "resid_post1 set nan"};
  EXPECT_NE(with(lost).out.find("rank nan"), std::string::npos);
  EXPECT_TRUE(with({lost[0], lost[1], "--json"}).json()["rows"][0]["answers"][0]["rank"].is_null());
}

TEST_F(RunTest, BadInputIsNamed) {
  const auto run = [&](const std::string& option, const std::string& value) {
    return std::vector<std::string>{"run", model(), option, value};
  };
  expect_failure(run("--tokens", "1,11"), 1, "11");
  expect_failure(run("--tokens", "1,-1"), 1, "-1");
  expect_failure(run("--tokens", "1,9223372036854775807"), 1, "9223372036854775807");
  expect_failure(run("--tokens", "1,9223372036854775808"), 2, "9223372036854775808");
  expect_failure(run("--tokens", "1,2,3,4,5,6,7,8,9"), 1, "8");
  expect_failure(run("--tokens", ""), 2, "--tokens");
  expect_failure({"run", model(), "--tokens", "1,2", "--tokens", "3,4,5"}, 1,
                 "expected 2 ids in row 1 as in row 0, got 3");
  expect_failure(run("--text", "w2"), 1, "tokenizer");
  save_safetensors(path("other.safetensors"), {{"ids", tokens({1})}});
  expect_failure(run("--tokens-file", path("other.safetensors")), 1, "got ids");
  save_safetensors(path("float.safetensors"), {{"tokens", tokens({1}).to(at::kFloat)}});
  expect_failure(run("--tokens-file", path("float.safetensors")), 1, "float32");
  save_safetensors(path("mask.safetensors"), {{"tokens", tokens({1, 2})}, {"attention_mask", tokens({1})}});
  expect_failure(run("--tokens-file", path("mask.safetensors")), 1, "[1, 1]");
  expect_failure(run("--tokens-file", path("absent.safetensors")), 1, "absent.safetensors");
}

}  // namespace
}  // namespace hooked::run_test
