#include "hooked/analysis/repetition.h"

#include "tests/support/tiny_model.h"

namespace hooked::repetition_test {
namespace {

constexpr std::int64_t kHalf = 5;

RepeatedTokensOptions options() {
  return {.rows = 3, .half = kHalf, .vocab_begin = 1, .vocab_end = 11, .bos = 0, .seed = 2};
}

TEST(Repetition, TokensRepeatDifferentIds) {
  const auto tokens = repeated_random_tokens(options());
  ASSERT_EQ(tokens.sizes(), at::IntArrayRef({3, 1 + 2 * kHalf}));
  for (std::int64_t row = 0; row < 3; ++row) {
    std::set<std::int64_t> ids;
    EXPECT_EQ(tokens[row][0].item<std::int64_t>(), 0);
    for (std::int64_t i = 1; i <= kHalf; ++i) {
      const auto id = tokens[row][i].item<std::int64_t>();
      EXPECT_EQ(tokens[row][i + kHalf].item<std::int64_t>(), id);
      EXPECT_TRUE(1 <= id && id < 11) << id;
      ids.insert(id);
    }
    EXPECT_EQ(ids.size(), static_cast<std::size_t>(kHalf));
  }
  EXPECT_TRUE(repeated_random_tokens(options()).equal(tokens)) << "the same seed gave other tokens";
  EXPECT_THAT(text_thrown_by<ShapeError>(
                  [] { repeated_random_tokens({.half = 5, .vocab_begin = 1, .vocab_end = 4}); }),
              AllOf(HasSubstr("5 different ids"), HasSubstr("from 3 ids")));
}

TEST(Repetition, ScoresAreThoseOfThePredictionsOneByOne) {
  const auto model = random_model(two_layer_config());
  for (const std::int64_t bos : {0, -1}) {
    auto own = options();
    own.bos = bos;
    const auto tokens = repeated_random_tokens(own);
    const auto log_probabilities = at::log_softmax(model(tokens), -1);
    const auto scores = repetition_scores(model, own);
    ASSERT_EQ(scores.loss.axes()[1].labels, (std::vector<std::string>{"first", "second"}));
    for (std::int64_t row = 0; row < 3; ++row) {
      for (std::int64_t half = 0; half < 2; ++half) {
        double loss = 0, right = 0;
        for (std::int64_t i = 1; i < kHalf; ++i) {
          const auto column = (bos >= 0 ? 1 : 0) + half * kHalf + i;
          const auto by = log_probabilities[row][column - 1];
          const auto id = tokens[row][column].item<std::int64_t>();
          loss -= by[id].item<double>();
          right += by.argmax().item<std::int64_t>() == id ? 1 : 0;
        }
        EXPECT_NEAR(scores.loss.at({row, half}), loss / (kHalf - 1), 1e-12);
        EXPECT_NEAR(scores.accuracy.at({row, half}), right / (kHalf - 1), 1e-12);
      }
    }
  }
}

TEST(Repetition, TheShippedModelRepeats) {
  const auto model = HookedTransformer::load(std::string(HOOKED_SOURCE_DIR) + "/examples/toy_model");
  const auto whole = repeated_tokens_of(model);
  EXPECT_EQ(whole.vocab_end, model.config().d_vocab);
  EXPECT_EQ(whole.bos, model.tokenizer().bos_id());
  const auto [loss, accuracy, complete] = repetition_scores(model);
  EXPECT_TRUE(complete);
  EXPECT_LT(accuracy.mean("row").at({0}), 0.1);
  EXPECT_GT(accuracy.mean("row").at({1}), 0.8);
  EXPECT_LT(loss.mean("row").at({1}), 0.25 * loss.mean("row").at({0}));
}

TEST(Repetition, EditsHold) {
  const auto model = random_model(two_layer_config());
  const Edit ablated = zero(act::z(1).head(2));
  const auto scores = repetition_scores(model, options(), {.edits = {ablated}});
  const auto tokens = repeated_random_tokens(options());
  const auto losses =
      model
          .run(tokens,
               {.edits = {ablated}, .output = Output::loss, .loss = {.reduction = LossReduction::per_token}})
          .loss();
  EXPECT_LT(
      (scores.loss.slice("half", 1).values() - losses.slice(1, 1 + kHalf).mean(1)).abs().max().item<double>(),
      1e-12);
  EXPECT_GT((scores.loss - repetition_scores(model, options()).loss).values().abs().max().item<double>(),
            1e-6);
}

// More rows than are run together.
TEST(Repetition, GivesWhatItHasWhereItIsEnded) {
  const auto model = random_model(two_layer_config());
  auto many = options();
  many.rows = 200;
  constexpr std::int64_t kTogether = 1024 / (1 + 2 * kHalf);
  const auto whole = repetition_scores(model, many);
  EXPECT_TRUE(whole.complete);
  std::vector<std::int64_t> told;
  const auto some = repetition_scores(model, many, {}, [&](const SweepProgress& now) {
    told.push_back(now.done);
    EXPECT_EQ(now.total, 200);
    return now.done == 0;
  });
  EXPECT_FALSE(some.complete);
  EXPECT_EQ(told.back(), kTogether);
  const auto none = repetition_scores(model, many, {}, [](const SweepProgress&) { return false; });
  EXPECT_FALSE(none.complete);
  EXPECT_EQ(none.loss.values().sizes(), (at::IntArrayRef{200, 2}));
  EXPECT_TRUE(none.accuracy.values().isnan().all().item<bool>()) << "given up in the first run";
  for (const auto& [all, part] : {std::pair{whole.loss, some.loss}, {whole.accuracy, some.accuracy}}) {
    EXPECT_TRUE(part.values().narrow(0, 0, kTogether).equal(all.values().narrow(0, 0, kTogether)));
    EXPECT_TRUE(part.values().narrow(0, kTogether, 200 - kTogether).isnan().all().item<bool>());
    EXPECT_FALSE(all.values().isnan().any().item<bool>());
  }
  // An edit of one row applies to that row, in whichever run it is.
  const auto edited = repetition_scores(model, many, {.edits = {zero(act::mlp_out(1).row(150))}});
  const auto changed = (edited.loss - whole.loss).values().abs().sum(1);  // [row]
  EXPECT_GT(changed[150].item<double>(), 1e-6);
  EXPECT_LT((changed.sum() - changed[150]).item<double>(), 1e-10);
}

TEST(Repetition, RefusesModelsThatPredictNoNextToken) {
  auto config = two_layer_config();
  config.direction = AttentionDirection::bidirectional;
  EXPECT_THAT(text_thrown_by<HookError>([&] { repetition_scores(random_model(config)); }),
              HasSubstr("both ways"));
  auto bare = two_layer_config();
  bare.unembedding.reset();
  EXPECT_THAT(text_thrown_by<HookError>([&] { repetition_scores(random_model(bare)); }),
              HasSubstr("unembedding"));
  auto one = options();
  one.half = 1;
  EXPECT_THROW(repetition_scores(random_model(two_layer_config()), one), ShapeError);
}

}  // namespace
}  // namespace hooked::repetition_test
