// What all --json outputs have in common: tokens, rows without padding, positions, numbers, the model.
#include "cli/json_output.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace hooked::json_output_test {
namespace {

TEST(JsonNumbers, WhatJsonLacksHasOneSpelling) {
  EXPECT_EQ(number_json(0.5), Json(0.5));
  EXPECT_EQ(number_json(NAN), Json(nullptr));
  EXPECT_EQ(number_json(INFINITY), Json("inf"));
  EXPECT_EQ(number_json(-INFINITY), Json("-inf"));
  EXPECT_EQ(cli::numbers_json(at::tensor({1.0, NAN})), Json::parse("[1.0, null]"));
}

TEST(JsonMetric, ItsNameIsThatOfTheFunction) {
  EXPECT_EQ(cli::metric_json(cli::MetricKind::log_probability),
            Json({{"name", "log_probability"}, {"unit", "nats"}}));
}

class JsonOutput : public CliTest {
 protected:
  /// Byte-level pieces: a newline, a blank, ` a`, a letter, and two of the three bytes of the euro sign.
  void write_byte_tokenizer() const {
    write("model/tokenizer.json", R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false},
      "post_processor": null, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "merges": ["\u0120 a"], "vocab": {"\u010a": 0, "\u0120": 1, "\u0120a": 2,
        "a": 3, "\u00e2": 4, "\u0124": 5, "b": 6, "c": 7}}})");
  }
  /// Two rows, the second padded on that side.
  void write_padded(const char* name, bool left) const {
    const auto ids = left ? at::tensor({1, 2, 3, 4, 0, 0, 7, 8}) : at::tensor({1, 2, 3, 4, 7, 8, 0, 0});
    const auto mask = left ? at::tensor({1, 1, 1, 1, 0, 0, 1, 1}) : at::tensor({1, 1, 1, 1, 1, 1, 0, 0});
    save_safetensors(path(name), {{"tokens", ids.to(at::kLong).view({2, 4})},
                                  {"attention_mask", mask.to(at::kLong).view({2, 4})}});
  }
};

TEST_F(JsonOutput, ATokenIsTheTextThatItAdds) {
  write_byte_tokenizer();
  const auto model = load();
  EXPECT_EQ(cli::token_json(model, 0), Json({{"id", 0}, {"token", "\n"}})) << "as it is, not escaped";
  EXPECT_EQ(cli::token_json(model, 2), Json({{"id", 2}, {"token", " a"}})) << "with its blank";
  // A part of a character is no text that JSON could have.
  EXPECT_EQ(json_text(cli::token_json(model, 4)), "{\"id\":4,\"token\":\"\ufffd\"}");
  EXPECT_EQ(cli::token_json(model, 9)["token"], "<9>") << "an id without a piece";
}

TEST_F(JsonOutput, ATokenHasNoTextWithoutATokenizer) {
  EXPECT_EQ(cli::token_json(load(), 3), Json({{"id", 3}, {"token", nullptr}}));
}

TEST_F(JsonOutput, EveryCommandSpellsATokenInTheSameWay) {
  write_byte_tokenizer();
  const auto json = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, {model(), "--json", "--top-k", "11"});
    return hooked(words).json();
  };
  const Json next = json({"run", "--tokens", "2,3"})["rows"][0]["next"];
  const Json seen = json({"lens", "--tokens", "2,3"})["rows"].back()["next"];
  const Json raised = json({"weights", "--singular", "ov_written"})["directions"][0]["raised"];
  for (const Json& list : {next, seen, raised}) {
    std::map<int, std::string> texts;
    for (const Json& token : list) texts[token["id"].get<int>()] = token["token"].get<std::string>();
    EXPECT_EQ(texts.size(), 11u);
    EXPECT_EQ(texts[0], "\n");
    EXPECT_EQ(texts[2], " a");
  }
}

// A position is the place in its row's ids, on whichever side the padding is.
TEST_F(JsonOutput, PaddingIsNeitherInIdsNorInPositions) {
  for (const bool left : {true, false}) {
    SCOPED_TRACE(left ? "padded on the left" : "padded on the right");
    write_padded("in.safetensors", left);
    const auto json = [&](std::vector<std::string> words) {
      words.insert(words.begin() + 1, {model(), "--json", "--tokens-file", path("in.safetensors")});
      return succeed(words).json();
    };
    const Json ids = Json::parse("[[1, 2, 3, 4], [7, 8]]");
    for (const char* command : {"run", "lens"}) {
      const Json out = json({command});
      EXPECT_EQ(out["tokens"], ids);
      EXPECT_EQ(out["rows"][0]["position"], 3);
      EXPECT_EQ(out["rows"].back()["row"], 1);
      EXPECT_EQ(out["rows"].back()["position"], 1) << command;
      EXPECT_EQ(json({command, "--positions", left ? "2" : "0"})["rows"].back()["position"], 0) << command;
    }
    EXPECT_EQ(json({"heads"})["tokens"], ids);
    EXPECT_EQ(json({"attribute", "--answer-token", "5"})["tokens"], ids);
    const Json made = json({"generate", "--max-new-tokens", "2", "--greedy"})["rows"];
    EXPECT_EQ(made[0]["prompt_ids"], ids[0]);
    EXPECT_EQ(made[1]["prompt_ids"], ids[1]);
    EXPECT_EQ(json({"cache", "--names", "hook_embed", "--out", path("c.safetensors")})["tokens"], ids);
    EXPECT_EQ(succeed({"show", path("c.safetensors"), "--json"}).json()["provenance"]["tokens"], ids);
  }
  write("pairs.jsonl", R"({"clean": [1, 2, 3], "corrupted": [1, 4, 3], "answers": 5})"
                       "\n"
                       R"({"clean": [1, 2], "corrupted": [1, 6], "answers": 5})"
                       "\n");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"circuits"}, {"patch", "--sweep", "attn_head_out_all_pos"}}) {
    auto call = words;
    call.insert(call.begin() + 1, {model(), "--json", "--pairs", path("pairs.jsonl")});
    const Json out = succeed(call).json();
    EXPECT_EQ(out["clean_tokens"], Json::parse("[[1, 2, 3], [1, 2]]"));
    EXPECT_EQ(out["corrupted_tokens"], Json::parse("[[1, 4, 3], [1, 6]]"));
    EXPECT_EQ(out["tokens"], out[words.front() == "patch" ? "corrupted_tokens" : "clean_tokens"]);
  }
}

TEST_F(JsonOutput, TheModelIsTheOneThatRan) {
  const auto fingerprint = [&](std::vector<std::string> words) {
    words.insert(words.begin() + 1, model());
    words.emplace_back("--json");
    const Json out = succeed(words).json();
    EXPECT_EQ(out["model"], model());
    return out["fingerprint"];
  };
  const Json processed = fingerprint({"run", "--tokens", "1,2"});
  EXPECT_EQ(processed, load().identity()->fingerprint);
  EXPECT_EQ(fingerprint({"weights", "--copying"}), processed);
  EXPECT_NE(fingerprint({"run", "--tokens", "1,2", "--no-processing"}), processed);
  EXPECT_EQ(succeed({"run", model(), "--tokens", "1", "--no-processing", "--dtype", "float64", "--json"})
                .json()["processing"]["fold_ln"],
            "not requested");
}

}  // namespace
}  // namespace hooked::json_output_test
