// Runs whose numbers are NaN or infinite at real tokens say so; padding, and intended infinities, do
// not.

#include "tests/support/tiny_model.h"

namespace hooked::not_finite_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool notes_it(const RunResult& run) {
  return std::ranges::any_of(run.notes, [](const std::string& note) { return note.starts_with(kNotFinite); });
}

// NaN at one row and position of the last stream.
Edit spoiled(std::int64_t row, std::int64_t position, double value = kNan) {
  return set(act::resid_post(2).at(Axis::batch, row).pos(position), value);
}

TEST(NotFinite, AFiniteRunSaysNothing) {
  const HookedTransformer model = random_model();
  for (const Output output : {Output::logits, Output::loss, Output::residual, Output::none}) {
    const auto run =
        model.run(random_tokens(model.config(), {2, 5}), {.capture = act::defaults, .output = output});
    EXPECT_FALSE(run.not_finite());
    EXPECT_FALSE(notes_it(run));
  }
}

TEST(NotFinite, TheFirstPlaceIsNamed) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {3, 5});
  for (const double value : {kNan, kInfinity, -kInfinity}) {
    const auto run = model.run(tokens, {.edits = {spoiled(1, 3, value), spoiled(2, 0, value)}});
    const auto found = run.not_finite();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->values, "logits");
    EXPECT_EQ(found->positions, 2);
    EXPECT_EQ(found->looked_at, 15);
    EXPECT_EQ(found->row, 1);
    EXPECT_EQ(found->position, 3);
    EXPECT_TRUE(notes_it(run));
    EXPECT_EQ(run.to(at::kCPU).not_finite()->position, 3);
  }
}

// Heads exclude padding of the vocabulary by -inf, and probabilities are right.
TEST(NotFinite, ATokenThatIsRuledOutIsFine) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 5});
  const auto ruled_out = [&](std::int64_t first, double value) {
    return model.run(tokens, {.hooks = {{act::unembed_out, [=](const at::Tensor& logits) {
                                           at::Tensor changed = logits.clone();
                                           changed.select(0, 1).slice(-1, first).fill_(value);
                                           return changed;
                                         }}}});
  };
  EXPECT_FALSE(ruled_out(3, -kInfinity).not_finite());
  EXPECT_FALSE(notes_it(ruled_out(3, -kInfinity)));
  EXPECT_EQ(ruled_out(0, -kInfinity).not_finite()->positions, 5) << "no token is left";
  EXPECT_EQ(ruled_out(3, kInfinity).not_finite()->positions, 5);
  EXPECT_EQ(ruled_out(3, kNan).not_finite()->positions, 5);
}

TEST(NotFinite, WhateverIsAskedFor) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 5});
  const std::vector<Edit> edits{spoiled(1, 3)};
  EXPECT_TRUE(notes_it(model.run(tokens, {.edits = edits, .output = Output::loss})));
  EXPECT_EQ(model.run(tokens, {.edits = edits, .output = Output::residual}).not_finite()->values, "residual");
  const auto kept =
      model.run(tokens, {.edits = edits, .capture = act::resid_post(2), .output = Output::none});
  EXPECT_EQ(kept.not_finite()->values, "blocks.2.hook_resid_post");
  EXPECT_EQ(kept.not_finite()->position, 3);
  // The second of two positions, which is column 3.
  const auto some = model.run(tokens, {.edits = edits, .logit_positions = std::vector<std::int64_t>{1, 3}});
  EXPECT_EQ(some.not_finite()->position, 3);
  EXPECT_EQ(some.not_finite()->looked_at, 4);
  EXPECT_FALSE(
      notes_it(model.run(tokens, {.edits = edits, .logit_positions = std::vector<std::int64_t>{1}})));
}

TEST(NotFinite, PaddingIsNotLookedAt) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {2, 5});
  const at::Tensor mask = at::tensor({0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, at::kLong).view({2, 5});
  const Input input{tokens, {.attention_mask = mask}};
  EXPECT_FALSE(notes_it(model.run(input, {.edits = {spoiled(0, 1)}})));
  const auto run = model.run(input, {.edits = {spoiled(0, 1), spoiled(0, 2)}});
  EXPECT_EQ(run.not_finite()->position, 2);
  EXPECT_EQ(run.not_finite()->positions, 1);
  EXPECT_EQ(run.not_finite()->looked_at, 8);
}

TEST(NotFinite, ScoresOfUnseenKeysAndLargeSumsAreFine) {
  ModelConfig config = small_config();
  config.dtype = at::kFloat;
  const HookedTransformer model = random_model(config);
  const at::Tensor tokens = random_tokens(config, {1, 5});
  EXPECT_FALSE(notes_it(model.run(tokens, {.capture = act::attn_scores, .output = Output::none})));
  // Each number is finite, their sum is not.
  const auto run = model.run(tokens, {.edits = {set(act::unembed_out, 3e38)}});
  EXPECT_FALSE(notes_it(run));
}

TEST(NotFinite, TheSentenceNamesTheCureInFloat16) {
  const NotFinite found{
      .values = "logits", .positions = 2, .looked_at = 9, .row = 0, .position = 4, .dtype = at::kHalf};
  EXPECT_EQ(
      found.text(),
      "not finite: logits at 2 of 9 positions, first in row 0 at position 4, are NaN or infinite, and so "
      "is what is computed from them; float16 ends at 65504: load the model in bfloat16 or float32");
}

}  // namespace
}  // namespace hooked::not_finite_test
