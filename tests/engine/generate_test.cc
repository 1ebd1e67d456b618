#include <ATen/ops/argmax.h>

#include <stdexcept>

#include "hooked/engine/continuation.h"
#include "hooked/engine/generate_options.h"
#include "tests/engine/continued_runs.h"

namespace hooked::generate_test {
namespace {

// What generation must give: the likeliest token of a full run, appended, again and again.
at::Tensor greedy_by_full_runs(const HookedTransformer& model, at::Tensor row, int steps) {
  for (int i = 0; i < steps; ++i) {
    const at::Tensor next = model(row).select(1, -1).argmax(-1, /*keepdim=*/true);
    row = at::cat({row, next}, 1);
  }
  return row;
}

bool generates(const ModelConfig& c) { return can_continue(c) && c.d_vocab == c.d_vocab_out(); }

TEST(Generate, GreedyIsThatOfFullRunsInEveryConfiguration) {
  const int tried = for_random_configs(120, generates, [](const ModelConfig& config) {
    const HookedTransformer model = random_model(config);
    const at::Tensor prompt = random_tokens(config, {1, 3});
    EXPECT_TRUE(at::equal(model.generate(prompt, greedy(4)).tokens, greedy_by_full_runs(model, prompt, 4)));
  });
  EXPECT_GT(tried, 25);
}

TEST(Generate, LongRopeTurnsAllKeysAnewWhereTheRowOutgrowsItsContext) {
  ModelConfig config = small_config();
  config.positions = RotaryPositions{};
  config.rotary()->scaling = LongropeScaling{.short_factors = {1.0, 1.1, 1.3},
                                             .long_factors = {1.5, 2.0, 4.0},
                                             .original_n_ctx = 5.0,
                                             .attention_factor = 1.1};
  const HookedTransformer model = random_model(config);
  const at::Tensor prompts = random_tokens(config, {2, 4});
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 0, 1, 1, 1}, at::kLong).view({2, 4});
  GenerateOptions options = greedy(5);
  const at::Tensor both = model.generate({prompts, {.attention_mask = mask}}, options).tokens;
  EXPECT_TRUE(at::equal(both.narrow(0, 0, 1), greedy_by_full_runs(model, prompts.narrow(0, 0, 1), 5)));
  EXPECT_TRUE(at::equal(both.narrow(0, 1, 1).narrow(1, 1, 8),
                        greedy_by_full_runs(model, prompts.narrow(0, 1, 1).narrow(1, 1, 3), 5)));
}

// Compares every activation of a generation with one full run over the tokens it ended with.
void expect_cache_of_full_run(const HookedTransformer& model, const GenerateResult& result,
                              double tolerance) {
  const bool padded = !result.attention_mask.all().item<bool>();
  Input final_tokens(result.tokens);
  if (padded) final_tokens.attention_mask = result.attention_mask;
  const RunResult full = model.run_with_cache(final_tokens, act::everything);
  ASSERT_EQ(result.cache.size(), full.cache.size());
  for (const auto& entry : full.cache) {
    const auto& name = entry.name;
    if (row(name.site).axes.find(Axis::routed)) {
      // An expert's tokens are listed step by step: the same tokens in another order.
      EXPECT_EQ(result.cache[name].sizes(), entry.value().sizes()) << name.to_string();
      EXPECT_LT(relative_difference(result.cache[name].sum(0), entry.value().sum(0)), 10 * tolerance)
          << name.to_string();
      continue;
    }
    EXPECT_LT(relative_difference(result.cache[name], entry.value()), tolerance) << name.to_string();
  }
}

TEST(Generate, CapturesAreThoseOfOneFullRunInEveryConfiguration) {
  for_random_configs(120, generates, [](ModelConfig config) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      config.dtype = dtype;
      const HookedTransformer model = random_model(config);
      const auto made = model.generate(random_tokens(config, {2, 4}), greedy(3, act::everything));
      expect_cache_of_full_run(model, made, dtype == at::kDouble ? 1e-10 : 3e-5);
    }
  });
}

class SmallGeneration : public testing::Test {
 protected:
  ModelConfig config_ = small_config();
  HookedTransformer model_ = random_model(config_);
  at::Tensor prompt_ = random_tokens(config_, {1, 4});
};

TEST_F(SmallGeneration, TokensBeginWithThePrompt) {
  const GenerateResult result = model_.generate(prompt_, greedy(3));
  EXPECT_EQ(result.tokens.sizes(), (at::IntArrayRef{1, 7}));
  EXPECT_TRUE(at::equal(result.tokens.narrow(1, 0, 4), prompt_));
  EXPECT_TRUE(result.attention_mask.all().item<bool>());
  EXPECT_EQ(result.stopped, std::vector{StopReason::length});
  EXPECT_TRUE(result.texts.empty());
  EXPECT_TRUE(result.cache.empty());
  EXPECT_TRUE(at::equal(model_.generate(prompt_[0], greedy(3)).tokens, result.tokens))
      << "a prompt of one axis";
}

TEST_F(SmallGeneration, LogProbabilitiesAreTheModelsOwn) {
  GenerateOptions options{.max_new_tokens = 4, .sampling = {.temperature = 3.0, .top_k = 5, .seed = 4}};
  const GenerateResult result = model_.generate(prompt_, options);
  const at::Tensor expected = continuation_log_probs(model_, prompt_, result.tokens.narrow(1, 4, 4));
  EXPECT_LT(relative_difference(result.log_probs, expected), kDoubleTolerance);
}

TEST_F(SmallGeneration, DrawsAreReproducible) {
  const auto tokens = [&](std::uint64_t seed) {
    return model_.generate(prompt_, {.max_new_tokens = 6, .sampling = {.temperature = 4.0, .seed = seed}})
        .tokens;
  };
  EXPECT_TRUE(at::equal(tokens(1), tokens(1)));
  EXPECT_FALSE(at::equal(tokens(1), tokens(2)));
}

TEST_F(SmallGeneration, RowsOfAPaddedBatchAreTheirOwnGenerations) {
  const at::Tensor rows = random_tokens(config_, {3, 5}, 9);
  // All of it, padding on the left, padding on the right.
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0}, at::kLong).view({3, 5});
  for (const bool is_greedy : {true, false}) {
    GenerateOptions options{.max_new_tokens = 4,
                            .sampling = {.greedy = is_greedy, .repetition_penalty = 1.4, .seed = 11}};
    const GenerateResult together = model_.generate({rows, {.attention_mask = mask}}, options);
    const std::vector<at::Tensor> alone = {rows.narrow(0, 0, 1), rows.narrow(0, 1, 1).narrow(1, 2, 3),
                                           rows.narrow(0, 2, 1).narrow(1, 0, 4)};
    for (std::int64_t r = 0; r < 3; ++r) {
      GenerateOptions own = options;
      own.sampling.seed = options.sampling.seed + static_cast<std::uint64_t>(r);
      const GenerateResult solo = model_.generate(alone[static_cast<std::size_t>(r)], own);
      EXPECT_TRUE(
          at::equal(together.tokens[r].narrow(0, 5, 4), solo.tokens[0].narrow(0, solo.tokens.size(1) - 4, 4)))
          << "row " << r;
      EXPECT_LT(relative_difference(together.log_probs[r], solo.log_probs[0]), kDoubleTolerance)
          << "row " << r;
    }
  }
}

TEST_F(SmallGeneration, PaddingOnTheRightDoesNotEatTheWindow) {
  config_.window = Window{.size = 3, .layers = {true, false, true}};
  const HookedTransformer model = random_model(config_);
  GenerateOptions options = greedy(4);
  const at::Tensor mask = at::tensor({1, 1, 1, 0, 0}, at::kLong).unsqueeze(0);
  const at::Tensor row = random_tokens(config_, {1, 5}, 13);
  EXPECT_TRUE(at::equal(model.generate({row, {.attention_mask = mask}}, options).tokens.narrow(1, 5, 4),
                        greedy_by_full_runs(model, row.narrow(1, 0, 3), 4).narrow(1, 3, 4)));
}

TEST_F(SmallGeneration, LogitsThatAreNoNumbersAreAnError) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor rows = random_tokens(config_, {2, 3});
  for (const bool is_greedy : {true, false}) {
    const std::string text = text_thrown_by<HookError>([&] {
      model_.generate(rows, {.max_new_tokens = 2,
                             .sampling = {.greedy = is_greedy},
                             .edits = {set(act::resid_post(0).row(1), nan)}});
    });
    EXPECT_NE(text.find("row 1"), std::string::npos) << text;
  }
}

TEST_F(SmallGeneration, ARowThatEndsLeavesTheOthersAlone) {
  const at::Tensor rows = random_tokens(config_, {3, 4}, 21);
  const GenerateResult free = model_.generate(rows, greedy(5));
  // A token that a row generates for the first time in the middle ends that row there.
  const std::int64_t stop = free.tokens[1][5].item<std::int64_t>();
  GenerateOptions options = greedy(5);
  options.stop.tokens = {stop};
  options.capture = act::everything;
  const GenerateResult result = model_.generate(rows, options);
  for (std::int64_t r = 0; r < 3; ++r) {
    bool ended = false;
    for (std::int64_t i = 4; i < result.tokens.size(1); ++i) {
      EXPECT_EQ(result.attention_mask[r][i].item<bool>(), !ended) << r << " " << i;
      if (ended) {
        EXPECT_EQ(result.log_probs[r][i - 4].item<double>(), 0.0);
        continue;
      }
      EXPECT_EQ(result.tokens[r][i].item<std::int64_t>(), free.tokens[r][i].item<std::int64_t>());
      ended = result.tokens[r][i].item<std::int64_t>() == stop;
    }
    EXPECT_EQ(result.stopped[static_cast<std::size_t>(r)],
              ended ? StopReason::stop_token : StopReason::length);
  }
  // Numbers of padding mean nothing, so only real columns are compared.
  const RunResult full =
      model_.run_with_cache({result.tokens, {.attention_mask = result.attention_mask}}, act::resid_post(2));
  const at::Tensor real = result.attention_mask.unsqueeze(-1);
  EXPECT_LT(
      relative_difference(result.cache[act::resid_post(2)] * real, full.cache[act::resid_post(2)] * real),
      1e-10);
}

TEST_F(SmallGeneration, HooksSeeThePromptAndThenOneColumnAtATime) {
  std::vector<std::int64_t> columns;
  const auto watch =
      model_.hook(act::resid_post(1), [&](const at::Tensor& x) { columns.push_back(x.size(1)); });
  model_.generate(prompt_, greedy(3));
  EXPECT_EQ(columns, (std::vector<std::int64_t>{4, 1, 1}));
}

TEST_F(SmallGeneration, LearnedPositionsAreAbsolute) {
  GenerateOptions options = greedy(3);
  options.capture = act::embed | act::pos_embed;
  const GenerateResult result = model_.generate(prompt_, options);
  const at::Tensor W_pos = model_.state_dict().at("pos_embed.W_pos");
  EXPECT_TRUE(at::equal(result.cache[act::pos_embed][0], W_pos.narrow(0, 0, 7)));
}

// An edit of the whole generation, against the same edit in full runs.
void expect_as_full_runs(const HookedTransformer& model, const at::Tensor& prompt, const Edit& edit) {
  GenerateOptions options = greedy(4);
  options.edits = {edit};
  const GenerateResult result = model.generate(prompt, options);
  at::Tensor row = prompt;
  for (int i = 0; i < 4; ++i) {
    const at::Tensor logits = model.run(row, {.edits = {edit}}).logits();
    row = at::cat({row, logits.select(1, -1).argmax(-1, /*keepdim=*/true)}, 1);
  }
  EXPECT_TRUE(at::equal(result.tokens, row));
}

TEST_F(SmallGeneration, EditsWorkAtEveryStep) {
  expect_as_full_runs(model_, prompt_, add(act::resid_post(0), 0.7));
  expect_as_full_runs(model_, prompt_, zero(act::z(1).head(2)));
  expect_as_full_runs(model_, prompt_, scale(act::v(0).head(1), -2.0));
  expect_as_full_runs(model_, prompt_, set(act::resid_pre(2).pos(1), 1.5));
  expect_as_full_runs(model_, prompt_, zero(act::pattern(1).key(0)));
  expect_as_full_runs(model_, prompt_, add(act::k(1).pos(AxisIndex::Range{.begin = 0, .end = 3}), 2.0));
}

TEST_F(SmallGeneration, EditsOfColumnsToComeWaitForThem) {
  GenerateOptions options = greedy(4);
  options.edits = {set(act::resid_post(1).pos(5), 3.0),
                   scale(act::resid_mid(0).pos(AxisIndex::Range{.begin = 5}), 2.0)};
  options.capture = act::resid_post(1) | act::resid_mid(0);
  const GenerateResult result = model_.generate(prompt_, options);
  const at::Tensor set_column = result.cache[act::resid_post(1)];  // [batch, pos, d_model]
  EXPECT_TRUE((set_column.select(1, 5) == 3.0).all().item<bool>());
  EXPECT_FALSE((set_column.select(1, 4) == 3.0).any().item<bool>());
  EXPECT_FALSE((set_column.select(1, 6) == 3.0).any().item<bool>());
  const RunResult full = model_.run_with_cache(result.tokens, act::resid_mid(0), {.edits = options.edits});
  EXPECT_LT(relative_difference(result.cache[act::resid_mid(0)], full.cache[act::resid_mid(0)]), 1e-10);
}

TEST_F(SmallGeneration, EditsOfThePromptAndOfNewTokensAreApart) {
  const auto resid = [&](const GenerateOptions& options) {
    return model_.generate(prompt_, options).cache[act::resid_post(0)];
  };
  GenerateOptions prompt_only = greedy(3), new_only = greedy(3);
  prompt_only.capture = new_only.capture = act::resid_post(0);
  prompt_only.prompt_edits = {set(act::resid_post(0), 2.0)};
  new_only.new_token_edits = {set(act::resid_post(0), 2.0)};
  const at::Tensor in_prompt = resid(prompt_only) == 2.0, in_new = resid(new_only) == 2.0;
  EXPECT_TRUE(in_prompt.narrow(1, 0, 4).all().item<bool>());
  EXPECT_FALSE(in_prompt.narrow(1, 4, 3).any().item<bool>());
  EXPECT_FALSE(in_new.narrow(1, 0, 4).any().item<bool>());
  EXPECT_TRUE(in_new.narrow(1, 4, 3).all().item<bool>());
}

TEST_F(SmallGeneration, KeepsOnlyThePositionsAskedFor) {
  GenerateOptions options = greedy(4);
  options.capture = act::resid_post(0) | act::pattern(1);
  options.keep.positions = AxisIndex::Range{.begin = 3, .end = 6};
  const GenerateResult result = model_.generate(prompt_, options);
  const RunResult full =
      model_.run_with_cache(result.tokens, options.capture, {.keep = {.positions = options.keep.positions}});
  for (const auto& entry : result.cache) {
    const std::int64_t keys = entry.name.site == Site::pattern ? entry.value().size(-1) : -1;
    at::Tensor expected = full.cache[entry.name];
    if (keys > 0) expected = expected.narrow(-1, 0, keys);
    EXPECT_LT(relative_difference(entry.value(), expected), 1e-10);
    EXPECT_EQ(entry.positions, (std::vector<std::int64_t>{3, 4, 5}));
  }
}

TEST_F(SmallGeneration, CallbacksSeeEachStepAndMayEndIt) {
  std::vector<std::int64_t> seen;
  GenerateOptions options = greedy(6);
  options.on_tokens = [&](const at::Tensor& tokens) {
    seen.push_back(tokens[0].item<std::int64_t>());
    return seen.size() < 3;
  };
  const GenerateResult result = model_.generate(prompt_, options);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(result.tokens.size(1), 7);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(seen[i], result.tokens[0][4 + static_cast<std::int64_t>(i)].item<std::int64_t>());
  EXPECT_EQ(result.stopped, std::vector{StopReason::callback});
}

TEST_F(SmallGeneration, WhatAHookThrowsPassesThroughAndNothingStays) {
  const GenerateResult before = model_.generate(prompt_, greedy(4));
  int calls = 0;
  {
    const auto bad = model_.hook(act::z(0), [&](const at::Tensor&) {
      if (++calls == 3) throw std::domain_error("enough");
    });
    EXPECT_THROW(model_.generate(prompt_, greedy(4)), std::domain_error);
  }
  EXPECT_TRUE(at::equal(model_.generate(prompt_, greedy(4)).tokens, before.tokens));
}

TEST_F(SmallGeneration, TooLongIsAnErrorBeforeTheStart) {
  bool ran = false;
  GenerateOptions options = greedy(7);
  options.on_tokens = [&](const at::Tensor&) { return ran = true; };
  const std::string text = text_thrown_by<ShapeError>([&] { model_.generate(prompt_, options); });
  for (const char* part : {"max_new_tokens", "10", "11"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_FALSE(ran);
}

TEST_F(SmallGeneration, CallbacksThatReturnNothingLetItGoOn) {
  GenerateOptions options = greedy(4);
  int steps = 0;
  options.on_tokens = [&](const at::Tensor&) { ++steps; };
  EXPECT_TRUE(
      at::equal(model_.generate(prompt_, options).tokens, model_.generate(prompt_, greedy(4)).tokens));
  EXPECT_EQ(steps, 4);
  using Tokens = const at::Tensor&;
  void (*none)(Tokens) = nullptr;
  const std::function<void(Tokens)> empty;
  for (const GenerateCallback<Tokens>& callback :
       {GenerateCallback<Tokens>(none), GenerateCallback<Tokens>(empty)}) {
    EXPECT_FALSE(callback) << "as an empty function that returns a bool";
    options.on_tokens = callback;
    EXPECT_EQ(model_.generate(prompt_, options).stopped, std::vector{StopReason::length});
  }
}

TEST_F(SmallGeneration, RefusesWhatCannotBe) {
  EXPECT_THROW(model_.generate(prompt_, {.max_new_tokens = 0}), ConfigError);
  EXPECT_THROW(model_.generate(prompt_, {.sampling = {.temperature = 0.0}}), ConfigError);
  EXPECT_THROW(model_.generate(prompt_, {.max_new_tokens = std::numeric_limits<std::int64_t>::max()}),
               ConfigError);
  EXPECT_THROW(
      model_.generate(prompt_, {.max_new_tokens = 2, .stop = {.tokens = std::vector<std::int64_t>{99}}}),
      ConfigError);
  EXPECT_THROW(model_.generate(prompt_, {.stop = {.strings = {"x"}}}), TokenizerError);
  EXPECT_THROW(model_.generate(prompt_, {.on_text = [](std::string_view) { return true; }}), TokenizerError);
  EXPECT_THROW(model_.generate(prompt_, {.max_new_tokens = 2, .capture = act::resid_post(9)}), HookError);
  EXPECT_THROW(model_.generate(prompt_, {.max_new_tokens = 2, .edits = {zero(act::resid_post(0).pos(20))}}),
               HookError);
  EXPECT_THROW(model_.generate(prompt_, {.keep = {.positions = AxisIndex(AxisIndex::Last{})}}), HookError);
  EXPECT_THROW(model_.generate(at::tensor({99}, at::kLong)), ShapeError);
  ModelConfig config = small_config();
  config.direction = AttentionDirection::bidirectional;
  EXPECT_THROW(random_model(config).generate(prompt_), ConfigError);
  config = small_config();
  config.unembedding->d_vocab = 7;
  EXPECT_THROW(random_model(config).generate(prompt_), ConfigError);
}

}  // namespace
}  // namespace hooked::generate_test
