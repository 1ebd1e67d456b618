// How documents become contexts. The rules of packing are SAELens's (tokenization_and_batching.py, version
// 6); the Python tests compare with SAELens itself.
#include "harvest/contexts.h"

#include <gtest/gtest.h>

#include <vector>

#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"
#include "tests/support/tiny_model.h"

namespace hooked::contexts_test {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr std::int64_t kNone = ContextOptions::kNone;

struct Case {
  std::int64_t length;
  std::int64_t begin_context, begin_document, separator;
  std::vector<Ids> documents;
  std::vector<Ids> contexts;
};

Contexts made(const Case& given, bool packed) {
  const ContextRules rules{.length = given.length,
                           .packed = packed,
                           .begin_context = given.begin_context,
                           .begin_document = given.begin_document,
                           .separator = given.separator,
                           .tokenizer = std::nullopt,
                           .encode = {},
                           .around = {}};
  std::vector<CorpusDocument> documents;
  for (const Ids& ids : given.documents)
    documents.push_back({.number = static_cast<std::int64_t>(documents.size()), .content = ids});
  return contexts_of(documents, rules);
}

std::vector<Ids> rows_of(const Contexts& contexts) {
  std::vector<Ids> rows;
  for (std::size_t i = 0; i < contexts.ends.size(); ++i) {
    const auto begin = contexts.tokens.begin() + static_cast<std::ptrdiff_t>(contexts.begin(i));
    rows.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(contexts.length(i)));
  }
  return rows;
}

TEST(PackedContexts, FollowTheThreeRules) {
  const std::vector<Case> cases = {
      // No tokens are put there; the incomplete context at the end is dropped.
      {3, kNone, kNone, kNone, {{1, 2}, {3, 4, 5}, {6, 7}}, {{1, 2, 3}, {4, 5, 6}}},
      // One opens each context, and stands between documents.
      {4, 0, kNone, 0, {{1, 2, 3, 4}, {5, 6}, {7, 8}}, {{0, 1, 2, 3}, {0, 4, 0, 5}, {0, 6, 0, 7}}},
      // Not where it stands already.
      {4, 0, kNone, 0, {{0, 1, 2, 3, 4}, {0, 5, 6}}, {{0, 1, 2, 3}, {0, 4, 0, 5}}},
      // A document's own opening token follows what is between documents.
      {5, 0, 9, 8, {{1, 2}, {3}, {9, 4, 5, 6}}, {{0, 9, 1, 2, 8}, {0, 9, 3, 8, 9}, {0, 4, 5, 6}}},
      // The same token for both is there once.
      {4, 9, 9, 9, {{1}, {2}, {3}}, {{9, 1, 9, 2}, {9, 3}}},
      // Empty documents are none.
      {2, kNone, kNone, 8, {{}, {1}, {}, {2, 3}}, {{1, 8}, {2, 3}}},
  };
  for (Case given : cases) {
    auto expected = given.contexts;
    if (expected.back().size() < static_cast<std::size_t>(given.length)) expected.pop_back();
    EXPECT_EQ(rows_of(made(given, true)), expected) << testing::PrintToString(given.documents);
  }
}

TEST(PackedContexts, KnowWhereTokensAreFrom) {
  const auto contexts = made({4, 0, kNone, 0, {{1, 2, 3, 4}, {5, 6}}, {}}, true);
  EXPECT_EQ(contexts.tokens, (Ids{0, 1, 2, 3, 0, 4, 0, 5}));
  EXPECT_EQ(contexts.documents, (Ids{0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(contexts.offsets, (Ids{-1, 0, 1, 2, -1, 3, -1, 0}));
}

TEST(ContextsOfDocuments, LongerOnesGoOn) {
  const auto rows = rows_of(made({3, 0, kNone, kNone, {{1, 2, 3}, {0, 4}, {}, {5}}, {}}, false));
  EXPECT_EQ(rows, (std::vector<Ids>{{0, 1, 2}, {0, 3}, {0, 4}, {0, 5}}));
  EXPECT_EQ(rows_of(made({3, 0, 9, kNone, {{1, 2}}, {}}, false)), (std::vector<Ids>{{0, 9, 1}, {0, 2}}));
}

TEST(ContextRules, DecideWhatOptionsLeaveOpen) {
  const HookedTransformer model = random_model();
  const Corpus ids = Corpus::of({Ids{1, 2}});
  const ContextRules rules = ContextRules::of(model, ids, {.length = 5});
  EXPECT_FALSE(rules.packed);
  EXPECT_EQ(rules.begin_context, kNone);
  EXPECT_TRUE(ContextRules::of(model, ids, {.length = 5, .packing = Packing::packed}).packed);
  EXPECT_EQ(ContextRules::of(model, ids, {.length = 5, .begin_context = 3}).separator, 3);
  EXPECT_TRUE(throws<ConfigError>([&] { ContextRules::of(model, ids, {.length = 11}); }, "context length",
                                  {"1 to 10"}));
  EXPECT_TRUE(throws<ConfigError>([&] { ContextRules::of(model, ids, {.length = 5, .separator = 11}); },
                                  "separator", {"0 to 10"}));
  EXPECT_TRUE(throws<ConfigError>([&] { ContextRules::of(model, ids, {.length = 1, .begin_context = 3}); },
                                  "context length", {"no room"}));
  EXPECT_THROW(ContextRules::of(model, Corpus::of({std::string("text")}), {.length = 5}), TokenizerError);
}

TEST(RowRules, KeepTheSameTokensOfTheSameSeed) {
  const HookedTransformer model = random_model();
  Contexts contexts;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    contexts.tokens.push_back(i % 5);
    contexts.documents.push_back(i / 100);
    contexts.offsets.push_back(i % 100);
    if (i % 10 == 9) contexts.ends.push_back(contexts.tokens.size());
  }
  const auto kept = [&](const RowOptions& options) { return RowRules(model, options, 10).kept(contexts); };
  EXPECT_EQ(kept({}).size(), 20'000U);
  EXPECT_EQ(kept({.exclude_tokens = {1, 3}}).size(), 12'000U);
  EXPECT_EQ(kept({.skip_first = 4}).size(), 12'000U);
  const auto some = kept({.share = 0.25, .seed = 1});
  EXPECT_NEAR(static_cast<double>(some.size()), 5000, 4 * 61);  // four standard deviations
  EXPECT_EQ(kept({.share = 0.25, .seed = 1}), some);
  EXPECT_NE(kept({.share = 0.25, .seed = 2}), some);
  // A larger share keeps what a smaller one keeps.
  const auto more = kept({.share = 0.5, .seed = 1});
  EXPECT_TRUE(std::ranges::includes(more, some));
  EXPECT_THROW(kept({.share = 0}), ConfigError);
  EXPECT_THROW(kept({.skip_first = 10}), ConfigError);
  EXPECT_THROW(kept({.exclude_special_tokens = true}), TokenizerError);
}

}  // namespace
}  // namespace hooked::contexts_test
