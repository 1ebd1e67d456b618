#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hooked/io/safetensors.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/relative_difference.h"

namespace hooked::generate_test {
namespace {

class Generate : public CliTest {
 protected:
  GenerateResult expected(GenerateOptions options = {.max_new_tokens = 4,
                                                     .sampling = {.greedy = true}}) const {
    return load().generate(at::tensor({1, 2, 3}, at::kLong), options);
  }
  static std::string ids_text(const at::Tensor& ids) {
    std::string text;
    for (std::int64_t i = 0; i < ids.size(0); ++i)
      text += (i == 0 ? "" : ",") + std::to_string(ids[i].item<std::int64_t>());
    return text;
  }
};

TEST_F(Generate, PrintsIdsOfAModelWithoutTokenizer) {
  const CliResult result =
      succeed({"generate", model(), "--tokens", "1,2,3", "--max-new-tokens", "4", "--greedy"});
  EXPECT_EQ(result.out, ids_text(expected().tokens[0].narrow(0, 3, 4)) + "\n");
}

TEST_F(Generate, ContinuesATextAsItIsMade) {
  write_tokenizer();
  const CliResult result =
      succeed({"generate", model(), "--text", "w2 w3", "--max-new-tokens", "3", "--greedy"});
  const auto generated =
      load().generate(load().to_tokens("w2 w3"), {.max_new_tokens = 3, .sampling = {.greedy = true}});
  EXPECT_EQ(result.out, "w2 w3" + generated.texts[0] + "\n");
  EXPECT_NE(generated.texts[0], "");
}

TEST_F(Generate, AnAnswerStandsAlone) {
  write_tokenizer();
  write("model/chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::vector<std::string> words{"generate",         model(), "--text",  "w3",
                                       "--max-new-tokens", "2",     "--greedy"};
  auto chat = words;
  chat.emplace_back("--chat");
  const auto answer = succeed(chat).out;
  EXPECT_EQ(answer.find("w3w"), std::string::npos) << answer;
  chat.emplace_back("--json");
  EXPECT_EQ(answer, succeed(chat).json()["rows"][0]["text"].get<std::string>() + "\n");
}

TEST_F(Generate, WhatTheFilesSayAboutSamplingIsRepeated) {
  write("model/generation_config.json", R"({"do_sample": true, "temperature": 0.6})");
  const std::vector<std::string> words{"generate", model(), "--tokens", "1,2", "--max-new-tokens", "1"};
  EXPECT_EQ(
      hooked(words).error,
      "note: [" + path("model/generation_config.json") +
          "] asks for do_sample, temperature, which `generate` does only where its own options say so\n");
  auto chosen = words;
  chosen.insert(chosen.end(), {"--temperature", "0.6"});
  succeed(chosen);
}

TEST_F(Generate, JsonHoldsRowsWithTheirReasons) {
  const CliResult result = succeed({"generate", model(), "--tokens", "1,2,3", "--tokens", "4,5,6",
                                    "--max-new-tokens", "4", "--greedy", "--json"});
  const Json all = result.json();
  EXPECT_EQ(all.at("model"), model());
  EXPECT_GT(all.at("seconds").at("prefill").get<double>(), 0.0);
  EXPECT_GT(all.at("seconds").at("decode").get<double>(), 0.0);
  const Json& json = all.at("rows");
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1].at("prompt_ids"), Json({4, 5, 6}));
  EXPECT_EQ(json[0].at("ids").size(), 4u);
  EXPECT_EQ(json[0].at("log_probs").size(), 4u);
  EXPECT_EQ(json[0].at("stopped"), "length");
  EXPECT_TRUE(json[0].at("text").is_null());
  EXPECT_EQ(json[0].at("ids")[0], expected().tokens[0][3].item<std::int64_t>());
  const std::string stop = std::to_string(expected().tokens[0][4].item<std::int64_t>());
  const Json stopped = succeed({"generate", model(), "--tokens", "1,2,3", "--max-new-tokens", "4", "--greedy",
                                "--json", "--stop-tokens", stop})
                           .json()
                           .at("rows")
                           .at(0);
  EXPECT_EQ(stopped.at("stopped"), "stop_token");
  EXPECT_LE(stopped.at("ids").size(), 2u);
}

TEST_F(Generate, CapturesPromptAndContinuation) {
  const std::string out = path("captured.safetensors");
  succeed({"generate", model(), "--tokens", "1,2,3", "--max-new-tokens", "4", "--greedy", "--capture",
           "*.hook_resid_post,*.hook_pattern", "--out", out});
  const auto file = SafetensorsFile::open(out);
  const at::Tensor tokens = file.read("tokens");
  EXPECT_EQ(tokens.sizes(), (at::IntArrayRef{1, 7}));
  const RunResult full = load().run_with_cache(tokens, act::resid_post | act::pattern);
  for (const auto& entry : full.cache) {
    EXPECT_LT(relative_difference(file.read(entry.name.to_string()), entry.value()), kFloatTolerance)
        << entry.name.to_string();
  }
}

TEST_F(Generate, EditsSteerIt) {
  const auto generated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"generate",         model(), "--tokens", "1,2,3",
                                       "--max-new-tokens", "4",     "--greedy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return succeed(arguments).out;
  };
  const std::string steer = "unembed.hook_out[pos=0:] set 0";
  EXPECT_EQ(generated({"--edit", steer}), "0,0,0,0\n");
  EXPECT_EQ(generated({"--prompt-edit", steer}).substr(0, 2), "0,");
  EXPECT_EQ(generated({"--new-token-edit", steer}).substr(1), ",0,0,0\n");
}

TEST_F(Generate, SamplingIsReproducible) {
  const auto drawn = [&](const char* seed) {
    return succeed({"generate", model(), "--tokens", "1,2,3", "--max-new-tokens", "5", "--temperature", "5",
                    "--top-k", "9", "--top-p", "0.99", "--min-p", "0.001", "--seed", seed})
        .out;
  };
  EXPECT_EQ(drawn("1"), drawn("1"));
  EXPECT_NE(drawn("1"), drawn("2"));
}

TEST_F(Generate, RefusesWhatDoesNotGoTogether) {
  expect_failure({"generate", model(), "--tokens", "1", "--greedy", "--temperature", "2"}, 2, "--greedy");
  expect_failure({"generate", model(), "--tokens", "1", "--capture", "*"}, 2, "--out");
  expect_failure({"generate", model(), "--tokens", "1", "--max-new-tokens", "0"}, 2, "--max-new-tokens");
  expect_failure({"generate", model()}, 2, "--text");
  expect_failure({"generate", model(), "--tokens", "1,2", "--max-new-tokens", "7"}, 1, "max_new_tokens");
  expect_failure({"generate", model(), "--tokens", "1", "--temperature", "0"}, 2, "temperature");
  expect_failure({"generate", model(), "--tokens", "1", "--stop", "x"}, 1, "tokenizer");
  expect_failure(
      {"generate", model(), "--tokens", "1", "--capture", "*", "--out", path("none/x.safetensors")}, 1,
      "folder");
  expect_failure({"generate", model(), "--tokens", "1", "--token-types", "0"}, 1, "token types");
  write_tokenizer();
  expect_failure({"generate", model(), "--text", "w2", "--max-new-tokens", "70"}, 1, "max_new_tokens");
}

}  // namespace
}  // namespace hooked::generate_test
