// SmolLM2-135M-Instruct, from a GGUF file in Q4_1, compared with transformers
// (tests/golden/makers/real_models.py).
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hooked/hooked.h"
#include "tests/real_models/recorded.h"
#include "tests/support/fetched_models.h"
#include "tests/support/relative_difference.h"
#include "tests/support/run_program.h"

namespace hooked::smollm2_test {
namespace {

using namespace real_models;

constexpr double kTolerance = 1e-4;  // of float32

using Ids = std::vector<std::int64_t>;

at::Tensor row(const Json& ids) { return at::tensor(recorded_ids(ids), at::kLong).unsqueeze(0); }

class SmolLM2 : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = why_absent(kSmolLM2); !why.empty()) GTEST_SKIP() << why;
  }

  /// Loaded once for all of these tests, with the processing that it allows.
  static const HookedTransformer& model() {
    static const auto loaded = HookedTransformer::load(kSmolLM2.string());
    return loaded;
  }

  static Ids greedy(const at::Tensor& prompt, std::int64_t max_new_tokens) {
    const auto result =
        model().generate(prompt, {.max_new_tokens = max_new_tokens, .sampling = {.greedy = true}});
    const at::Tensor added = result.tokens[0].slice(0, prompt.size(1));
    return {added.const_data_ptr<std::int64_t>(), added.const_data_ptr<std::int64_t>() + added.numel()};
  }

  const Json words_ = recorded_words("smollm2");
  const SafetensorsFile numbers_ = SafetensorsFile::open(kRecorded / "smollm2.safetensors");
};

TEST_F(SmolLM2, TextsBecomeTheIdsOfTransformers) {
  for (const Json& prompt : words_["prompts"]) {
    const std::string text = prompt["text"];
    EXPECT_EQ(model().tokenizer().encode(text).ids, recorded_ids(prompt["ids"])) << text;
    EXPECT_EQ(model().to_string(row(prompt["ids"])), text);
  }
}

TEST_F(SmolLM2, LogitsAreThoseOfTransformers) {
  for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, kTolerance}, {at::kDouble, 1e-9}}) {
    const auto raw =
        HookedTransformer::load(kSmolLM2.string(), {.dtype = dtype, .processing = WeightProcessing::none()});
    for (std::size_t i = 0; i < words_["prompts"].size(); ++i) {
      const at::Tensor logits = raw(row(words_["prompts"][i]["ids"]));  // [1, pos, vocab]
      expect_recorded(numbers_, fmt::format("logits.{}", i), logits[0], tolerance);
    }
  }
}

TEST_F(SmolLM2, GoesOnAsTransformersDoes) {
  const Json& text = words_["continued"];
  EXPECT_EQ(greedy(row(text["ids"]), static_cast<std::int64_t>(text["greedy"].size())),
            recorded_ids(text["greedy"]));
}

TEST_F(SmolLM2, ConversationsAreThoseOfTransformers) {
  bool ended = false;
  for (const Json& conversation : words_["conversations"]) {
    std::vector<ChatMessage> messages;
    for (const Json& message : conversation["messages"])
      messages.push_back({.role = message["role"], .content = message["content"]});
    const ChatOptions answer{.add_generation_prompt = true};
    EXPECT_EQ(model().tokenizer().chat_text(messages, answer), conversation["text"].get<std::string>());
    const at::Tensor prompt = model().to_chat_tokens(messages, answer);
    ASSERT_TRUE(prompt.equal(row(conversation["ids"]))) << prompt;
    EXPECT_EQ(greedy(prompt, 24), recorded_ids(conversation["greedy"]));
    ended = ended || conversation["greedy"].size() < 24;
  }
  EXPECT_TRUE(ended) << "none of the recorded answers ends before it must";
}

TEST_F(SmolLM2, HeadsRepeatAsThoseOfTransformers) {
  const at::Tensor tokens = numbers_.read("repeated.tokens");  // [row, 2 * half]
  const auto run = model().run_with_cache(tokens, act::pattern);
  const auto scores = head_scores(run.cache, HeadScore::induction, {.tokens = tokens});
  const at::Tensor expected = numbers_.read("repeated.induction");  // [layer, head]
  EXPECT_LE(relative_difference(scores.values(), expected), kTolerance);
  EXPECT_GT(expected.max().item<double>(), 0.5) << "a trained model has induction heads";
}

class SmolLM2Pair : public SmolLM2 {
 protected:
  const Json& pair_ = words_["pair"];
  const at::Tensor corrupted_ = row(pair_["corrupted_ids"]), clean_ = row(words_["prompts"][0]["ids"]);
  const at::Tensor expected_ = numbers_.read("patched.resid_pre");  // [layer, pos]
  const double low_ = numbers_.read("patched.without")[0].item<double>(),
               high_ = numbers_.read("patched.without")[1].item<double>();
};

TEST_F(SmolLM2Pair, TheGridIsThatOfPatchingTransformers) {
  const auto metric = logit_difference(model().to_token(pair_["answer"].get<std::string>()),
                                       model().to_token(pair_["against"].get<std::string>()));
  const auto clean = model().run_with_cache(clean_, act::resid_pre);
  const SweepOptions by_place{.site = act::resid_pre,
                              .over = {Axis::layer, Axis::pos},
                              .from = clean.cache,
                              .into = corrupted_,
                              .metric = metric};
  const at::Tensor grid = sweep(model(), by_place).values();
  EXPECT_LE(relative_difference(grid, expected_), kTolerance);

  // Only one token differs. What its column holds before the first block is all that there is to restore, and
  // the columns before it hold the same in both runs.
  const auto differs = clean_.ne(corrupted_)[0].nonzero();
  ASSERT_EQ(differs.numel(), 1);
  const auto column = differs.item<std::int64_t>();
  const double allowed = kTolerance * std::max(std::abs(low_), std::abs(high_));
  EXPECT_NEAR(grid[0][column].item<double>(), high_, allowed);
  EXPECT_LE((grid.slice(1, 0, column) - low_).abs().max().item<double>(), allowed);

  SweepOptions whole = by_place;
  whole.over = {Axis::layer};
  EXPECT_LE((sweep(model(), whole).values() - high_).abs().max().item<double>(), allowed)
      << "the whole stream of the clean run restores its score at every layer";
}

TEST_F(SmolLM2Pair, TheProgramPrintsTheGrid) {
  const auto finished = run_program(
      "hooked", fmt::format("patch '{}' --clean-tokens {} --corrupted-tokens {} --answer '{}' --against '{}' "
                            "--sweep resid_pre --json",
                            kSmolLM2.string(), fmt::join(recorded_ids(words_["prompts"][0]["ids"]), ","),
                            fmt::join(recorded_ids(pair_["corrupted_ids"]), ","),
                            pair_["answer"].get<std::string>(), pair_["against"].get<std::string>()));
  ASSERT_EQ(finished.status, 0) << finished.output;
  const Json printed = Json::parse(finished.output);
  const double allowed = kTolerance * std::max(std::abs(low_), std::abs(high_));
  EXPECT_NEAR(printed["unpatched"][0]["corrupted"].get<double>(), low_, allowed);
  EXPECT_NEAR(printed["unpatched"][0]["clean"].get<double>(), high_, allowed);
  std::vector<double> values;
  for (const Json& layer : printed["sweeps"][0]["grids"][0]["scores"]["values"])
    for (const Json& value : layer) values.push_back(value.get<double>());
  EXPECT_LE(relative_difference(at::tensor(values, at::kDouble).view_as(expected_), expected_), kTolerance);
}

}  // namespace
}  // namespace hooked::smollm2_test
