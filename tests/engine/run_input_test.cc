// Bad input of a run: the error's class, what it names, both values, and a good run afterwards.

#include "hooked/engine/input.h"
#include "tests/support/tiny_model.h"

namespace hooked::run_input_test {
namespace {

class BadInput : public testing::Test {
 protected:
  /// Checks that running `input` throws a ShapeError about `where` whose text holds all of `words`.
  void expect_refused(const Input& input, const RunOptions& options, const std::string& where,
                      const std::vector<std::string>& words) {
    int calls = 0;
    RunOptions watched = options;
    if (!input.start) watched.hooks.push_back({act::tokens, [&](const at::Tensor&) { ++calls; }});
    const auto error = thrown_by<ShapeError>([&] { model_.run(input, watched); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->where(), where);
    for (const std::string& word : words) {
      EXPECT_NE(std::string(error->what()).find(word), std::string::npos) << error->what();
    }
    EXPECT_EQ(calls, 0) << "the error came after the run began";
    EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  }

  HookedTransformer model_ = random_model();
  at::Tensor tokens_ = random_tokens(model_.config(), {2, 6});
  at::Tensor plain_ = model_(tokens_);
};

TEST_F(BadInput, IdsOutsideTheVocabulary) {
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{11}, std::int64_t{1} << 31,
                                std::int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
    at::Tensor tokens = tokens_.clone();
    tokens[1][3].fill_(id);
    expect_refused(tokens, {}, "tokens", {std::to_string(id), "row 1", "position 3", "0 to 10"});
  }
}

TEST_F(BadInput, IdsOfAnotherDtype) {
  expect_refused(tokens_.to(at::kInt), {}, "tokens", {"int64", "int32"});
  expect_refused(tokens_.to(at::kFloat), {}, "tokens", {"int64", "float32"});
  expect_refused(tokens_.to(at::kBool), {}, "tokens", {"int64", "bool"});
}

TEST_F(BadInput, IdsOfAnotherShape) {
  const auto options = at::TensorOptions(at::kLong);
  expect_refused(at::empty({2, 0}, options), {}, "tokens", {"[2, 0]"});
  expect_refused(at::empty({0, 3}, options), {}, "tokens", {"[0, 3]"});
  expect_refused(at::empty({0}, options), {}, "tokens", {"[1, 0]"});
  expect_refused(tokens_.unsqueeze(0), {}, "tokens", {"[1, 2, 6]"});
  expect_refused(at::full({}, 3, options), {}, "tokens", {"[]"});
  expect_refused(at::Tensor(), {}, "tokens", {"undefined"});
}

TEST_F(BadInput, SequencesLongerThanTheContext) {
  expect_refused(random_tokens(model_.config(), {1, 11}), {}, "tokens", {"10", "11"});
  EXPECT_EQ(model_(random_tokens(model_.config(), {1, 10})).size(1), 10) << "exactly n_ctx works";
}

TEST_F(BadInput, Masks) {
  expect_refused({tokens_, {.attention_mask = at::ones({2, 5}, at::kLong)}}, {}, "attention_mask",
                 {"[2, 6]", "[2, 5]"});
  expect_refused({tokens_, {.attention_mask = at::ones({6}, at::kLong)}}, {}, "attention_mask",
                 {"[2, 6]", "[6]"});
  expect_refused({tokens_, {.attention_mask = at::ones({1, 6}, at::kLong)}}, {}, "attention_mask",
                 {"[2, 6]", "[1, 6]"});
  expect_refused({tokens_, {.attention_mask = at::ones({2, 6}, at::kLong) * 2}}, {}, "attention_mask",
                 {"0 and 1"});
  expect_refused({tokens_, {.attention_mask = at::full({2, 6}, 0.5)}}, {}, "attention_mask", {"0 and 1"});
  expect_refused({tokens_, {.attention_mask = at::full({2, 6}, NAN)}}, {}, "attention_mask", {"0 and 1"});
  at::Tensor empty_row = at::ones({2, 6}, at::kLong);
  empty_row[1].zero_();
  expect_refused({tokens_, {.attention_mask = empty_row}}, {}, "attention_mask", {"all padding"});
}

TEST_F(BadInput, MasksOfAnyDtypeMeanTheSame) {
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 0, 2).zero_();
  const at::Tensor expected = model_.run({tokens_, {.attention_mask = mask}}).logits();
  for (const at::ScalarType dtype : {at::kBool, at::kInt, at::kFloat, at::kDouble, at::kByte}) {
    EXPECT_TRUE(at::equal(model_.run({tokens_, {.attention_mask = mask.to(dtype)}}).logits(), expected))
        << dtype;
  }
  EXPECT_TRUE(
      at::equal(model_.run({tokens_, {.attention_mask = at::ones({2, 6}, at::kBool)}}).logits(), plain_))
      << "a mask of ones is dropped";
}

TEST_F(BadInput, StridedTokensAreRead) {
  EXPECT_TRUE(at::equal(model_(tokens_.t().contiguous().t()), plain_));
}

TEST_F(BadInput, Targets) {
  RunOptions options{.output = Output::loss};
  options.loss.targets = tokens_.narrow(1, 0, 5);
  expect_refused(tokens_, options, "target_tokens", {"[2, 6]", "[2, 5]"});
  options.loss.targets = tokens_.clone();
  options.loss.targets[0][0].fill_(11);
  expect_refused(tokens_, options, "target_tokens", {"11", "0 to 10"});
  expect_refused(tokens_.narrow(1, 0, 1), {.output = Output::loss}, "tokens", {"2", "1"});
  const at::Tensor resid = model_.run(tokens_, {.stop_at_layer = 1}).residual();
  expect_refused(Input::start_at_layer(1, resid), {.output = Output::loss}, "target_tokens",
                 {"[batch, pos]"});
}

TEST_F(BadInput, TextNeedsATokenizer) {
  EXPECT_FALSE(model_.has_tokenizer());
  EXPECT_THROW(model_.to_tokens("hello"), TokenizerError);
  EXPECT_THROW(model_.to_token("hello"), TokenizerError);
  EXPECT_THROW(model_.to_string(tokens_[0]), TokenizerError);
  EXPECT_THROW(model_.to_str_tokens(tokens_[0]), TokenizerError);
}

TEST_F(BadInput, NotFiniteWeightsRunToTheEnd) {
  StateDict weights = random_weights(model_.config());
  weights["blocks.1.attn.W_V"].fill_(NAN);
  const auto broken = model_of(weights, model_.config());
  const auto run = broken.run_with_cache(tokens_);
  std::string first;
  for (const auto& entry : run.cache) {
    if (first.empty() && entry.value().isnan().any().item<bool>()) first = entry.name.to_string();
  }
  EXPECT_EQ(first, "blocks.1.attn.hook_v");
}

TEST(Devices, UnknownAndAbsentOnesAreRefused) {
  EXPECT_THROW(HookedTransformer::create(small_config(), {.device = "toaster"}), ConfigError);
  EXPECT_THROW(HookedTransformer::create(small_config(), {.device = ""}), ConfigError);
  EXPECT_THROW(HookedTransformer::create(small_config(), {.device = "meta"}), ConfigError);
  EXPECT_THROW(HookedTransformer::create(small_config(), {.device = "cuda:99"}), IoError);
}

}  // namespace
}  // namespace hooked::run_input_test
