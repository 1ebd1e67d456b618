// Edits of a generation are checked against its columns before anything runs.

#include "tests/support/tiny_model.h"

namespace hooked::generation_edits_test {
namespace {

using Range = AxisIndex::Range;

/// A prompt of 4 columns and 4 new tokens; steps compute the columns 4 to 6.
class GenerationEdits : public testing::Test {
 protected:
  GenerateOptions options() {
    GenerateOptions made{.max_new_tokens = 4, .sampling = {.greedy = true}};
    made.on_tokens = [this](const at::Tensor&) {
      ++steps_;
      return true;
    };
    return made;
  }
  std::string refusal(const GenerateOptions& options) {
    steps_ = 0;
    const std::string text = text_thrown_by<HookError>([&] { model_.generate(prompt_, options); });
    EXPECT_EQ(steps_, 0) << "a token was made before the error: " << text;
    return text;
  }
  std::string refusal_of_prompt_edit(Edit edit) {
    GenerateOptions wrong = options();
    wrong.prompt_edits = {std::move(edit)};
    return refusal(wrong);
  }
  std::string refusal_of_new_edit(Edit edit) {
    GenerateOptions wrong = options();
    wrong.new_token_edits = {std::move(edit)};
    return refusal(wrong);
  }

  HookedTransformer model_ = random_model();
  at::Tensor prompt_ = random_tokens(model_.config(), {1, 4});
  int steps_ = 0;
};

TEST_F(GenerationEdits, OfNewTokensNameNewColumns) {
  for (const AxisIndex& index : std::vector<AxisIndex>{3, 0, 7, 600, -2, -4, std::vector<std::int64_t>{3, 5},
                                                       Range{0, 4}, Range{7, 9}, Range{std::nullopt, -1}}) {
    EXPECT_THAT(refusal_of_new_edit(zero(act::resid_post(0).pos(index))),
                AllOf(HasSubstr("out of range for `new_token_edits`; expected 4 to 6"),
                      HasSubstr("column " + index.to_string().substr(0, 1))))
        << index.to_string();
  }
  EXPECT_THAT(refusal_of_new_edit(zero(act::pattern(0).query(3))), HasSubstr("column 3 is out of range"));
  for (const AxisIndex& index :
       std::vector<AxisIndex>{4, 6, -1, AxisIndex::Last{}, std::vector<std::int64_t>{4, 5}, Range{0, 5},
                              Range{3, std::nullopt}, Range{-2, std::nullopt}}) {
    GenerateOptions right = options();
    right.new_token_edits = {zero(act::resid_post(0).pos(index))};
    EXPECT_NO_THROW(model_.generate(prompt_, right)) << index.to_string();
  }
}

TEST_F(GenerationEdits, OfTheLastTokenNeedSomethingThatIsKept) {
  GenerateOptions last = options();
  last.edits = {zero(act::resid_post(0).pos(7))};
  EXPECT_THAT(refusal(last), HasSubstr("only computed where something is captured"));
  last.capture = act::resid_post(0);
  EXPECT_EQ(model_.generate(prompt_, last).cache[act::resid_post(0)][0][7].abs().max().item<double>(), 0);
  GenerateOptions one = options();
  one.max_new_tokens = 1;
  one.new_token_edits = {zero(act::resid_post(0).pos(4))};
  EXPECT_THAT(refusal(one), HasSubstr("column 4 is out of range"));
}

TEST_F(GenerationEdits, OfThePromptNameItsColumns) {
  for (const AxisIndex& index : std::vector<AxisIndex>{4, 6, 600, -5, std::vector<std::int64_t>{3, 4},
                                                       Range{4, std::nullopt}, Range{5, 7}}) {
    EXPECT_THAT(refusal_of_prompt_edit(zero(act::resid_post(0).pos(index))),
                HasSubstr("out of range for `prompt_edits`; expected 0 to 3"))
        << index.to_string();
  }
  for (const AxisIndex& index : std::vector<AxisIndex>{0, 3, -1, -4, AxisIndex::Last{}, Range{2, 6},
                                                       Range{std::nullopt, std::nullopt}}) {
    GenerateOptions right = options();
    right.prompt_edits = {zero(act::resid_post(0).pos(index))};
    EXPECT_NO_THROW(model_.generate(prompt_, right)) << index.to_string();
  }
}

TEST_F(GenerationEdits, HaveValuesThatFitAStep) {
  const auto values = [](at::IntArrayRef sizes) { return at::ones(sizes, at::kDouble); };
  const Address after = act::resid_post(0).pos(Range{4, std::nullopt});
  EXPECT_THAT(refusal_of_new_edit(add(after, values({3, 8}))), HasSubstr("expected a shape that broadcasts"));
  EXPECT_THAT(refusal_of_new_edit(add(after, values({9}))), HasSubstr("broadcasts to [1, 1, 8]"));
  EXPECT_THAT(refusal_of_new_edit(add(after, values({8}).to(at::kFloat))), HasSubstr("expected float64"));
  EXPECT_THAT(refusal_of_new_edit(project_out(after, values({7}))), HasSubstr("got [7]"));
  EXPECT_THAT(refusal_of_new_edit(set(act::pattern(0), values({1, 4, 1, 5}))), HasSubstr("[1, 4, 1, 6]"))
      << "the second step has one key more";
  // An edit that fits only the prompt is not an edit of every step.
  GenerateOptions of_all = options();
  of_all.edits = {set(act::resid_post(0), values({1, 4, 8}))};
  EXPECT_THAT(refusal(of_all), HasSubstr("broadcasts to [1, 1, 8]"));
  of_all.edits = {set(act::resid_post(0).pos(Range{0, 4}), values({1, 4, 8}))};
  EXPECT_NO_THROW(model_.generate(prompt_, of_all));
  GenerateOptions right = options();
  right.new_token_edits = {add(after, values({8})), set(act::pattern(0).query(4), values({1, 4, 5}) / 5)};
  EXPECT_NO_THROW(model_.generate(prompt_, right));
}

TEST_F(GenerationEdits, OfEveryStepNameSomeColumn) {
  GenerateOptions wrong = options();
  wrong.edits = {zero(act::resid_post(0).pos(7))};
  EXPECT_THAT(refusal(wrong), HasSubstr("column 7 is out of range for `edits`; expected 0 to 6"));
  const auto kept = model_.run(prompt_, {.keep_prefix = true});
  wrong.edits = {zero(act::resid_post(0).pos(2))};
  steps_ = 0;
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                model_.generate({random_tokens(model_.config(), {1, 2}), {.prefix = kept.prefix}}, wrong);
              }),
              HasSubstr("column 2 is out of range for `edits`; expected 4 to 8"))
      << "the prefix was run before";
  EXPECT_EQ(steps_, 0);
}

TEST_F(GenerationEdits, AtPaddingOfAPromptAreRefused) {
  const at::Tensor mask = at::tensor({1, 1, 0, 0}, at::kLong).unsqueeze(0);
  const Input padded{at::cat({prompt_, prompt_}),
                     {.attention_mask = at::cat({at::ones({1, 4}, at::kLong), mask})}};
  GenerateOptions wrong = options();
  wrong.prompt_edits = {zero(act::resid_post(0).pos(-1))};
  EXPECT_THAT(text_thrown_by<HookError>([&] { model_.generate(padded, wrong); }),
              HasSubstr("position -1 is padding in row 1, whose last token is at 1"));
  EXPECT_EQ(steps_, 0);
  wrong.prompt_edits = {zero(act::resid_post(0).pos(AxisIndex::Last{}))};
  EXPECT_NO_THROW(model_.generate(padded, wrong));
}

// What the encoder read does not move from step to step, as a decoder's columns do.
TEST(GenerationEditsOfTwoStacks, AtPaddingOfTheEncoderAreRefused) {
  const HookedTransformer model = random_model(two_stack_config());
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({2, 4});
  const Input input{random_tokens(model.config(), {2, 4}), {.attention_mask = mask}};
  GenerateOptions options{.max_new_tokens = 3, .sampling = {.greedy = true}};
  options.new_token_edits = {zero(act::cross_pattern(0).at(Axis::source_key, -1))};
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { model.generate(input, options); }),
      HasSubstr("position -1 is padding in row 1, whose last token is at 1; expected a token in every "
                "row; give positions from 0 on, or pad on the left"));
  options.new_token_edits = {zero(act::cross_pattern(0).at(Axis::source_key, -1).row(0))};
  EXPECT_NO_THROW(model.generate(input, options));
}

}  // namespace
}  // namespace hooked::generation_edits_test
