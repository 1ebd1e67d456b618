// A cache knows the tokens of its columns: `last` and padding in what is read from it.
#include <ATen/TensorIndexing.h>

#include <random>
#include <variant>

#include "hooked/hooks/axis_block.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::cached_tokens_test {
namespace {

constexpr AxisIndex::Last kLast{};

// Three rows of 5, 2 and 3 real tokens, padded on the right, the left and both sides.
class CachedTokens : public testing::Test {
 protected:
  CachedTokens() {
    mask_ = at::tensor({1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({3, 5});
    mask_[1] = at::tensor({0, 0, 0, 1, 1}, at::kLong);
    mask_[2] = at::tensor({0, 1, 1, 1, 0}, at::kLong);
    input_ = {random_tokens(model_.config(), {3, 5}), {.attention_mask = mask_}};
  }

  static at::Tensor last_of(const at::Tensor& value) {
    return at::stack({value[0][4], value[1][4], value[2][3]});
  }

  HookedTransformer model_ = random_model();
  at::Tensor mask_;
  Input input_ = at::Tensor();
};

TEST_F(CachedTokens, LastIsEachRowsLastRealToken) {
  const auto run = model_.run_with_cache(input_);
  const at::Tensor resid = run.cache[act::resid_post(1)];
  EXPECT_TRUE(at::equal(run.cache[act::resid_post(1).pos(kLast)], last_of(resid)));
  EXPECT_TRUE(at::equal(run.cache["blocks.1.hook_resid_post[pos=last]"], last_of(resid)));
  EXPECT_TRUE(at::equal(run.cache["resid_post1[pos=last]"], last_of(resid)));
  const at::Tensor pattern = run.cache[act::pattern(0)];
  EXPECT_TRUE(at::equal(run.cache[act::pattern(0).pos(kLast).head(2)], last_of(pattern.select(1, 2))));
  // The same token that the option of the run keeps.
  const auto kept = model_.run_with_cache(input_, act::resid_post, {.keep = {.positions = kLast}});
  const auto expect_last = [&](const at::Tensor& value) {  // other fused operations, so the last bits differ
    EXPECT_LT(relative_difference(value, last_of(resid)), kDoubleTolerance);
  };
  expect_last(kept.cache[act::resid_post(1)].squeeze(1));
  expect_last(kept.cache[act::resid_post(1).pos(kLast)]);
  EXPECT_TRUE(at::equal(kept.cache.entry(act::resid_post(1).name()).row_positions,
                        at::tensor({4, 4, 3}, at::kLong).unsqueeze(1)));
}

TEST_F(CachedTokens, WithoutPaddingLastIsTheLastColumn) {
  const auto run = model_.run_with_cache(input_.tokens);
  EXPECT_TRUE(at::equal(run.cache["resid_post0[pos=last]"], run.cache["resid_post0[pos=-1]"]));
  ASSERT_TRUE(run.cache.tokens());
  EXPECT_FALSE(run.cache.tokens()->mask.defined());
  EXPECT_EQ(run.cache.tokens()->end, 5);
  EXPECT_FALSE(run.cache.tokens(Stack::encoder));
}

TEST_F(CachedTokens, RowsDevicesAndFilesKeepWhatIsKnown) {
  const auto run = model_.run_with_cache(input_);
  const at::Tensor expected = last_of(run.cache[act::resid_post(0)]);
  const ActivationCache row = run.cache.row(-1);
  EXPECT_TRUE(at::equal(row["resid_post0[pos=last]"][0], expected[2]));
  EXPECT_TRUE(at::equal(run.cache.to(c10::Device("cpu"))["resid_post0[pos=last]"], expected));
  const TempFolder folder;
  run.cache.save(folder / "cache.safetensors");
  const ActivationCache loaded = ActivationCache::load(folder / "cache.safetensors");
  EXPECT_TRUE(at::equal(loaded["resid_post0[pos=last]"], expected));
  EXPECT_TRUE(at::equal(loaded.tokens()->mask, mask_.to(at::kBool)));
  const auto kept = model_.run_with_cache(input_, act::resid_post, {.keep = {.positions = kLast}});
  kept.cache.save(folder / "kept.safetensors");
  const ActivationCache kept_loaded = ActivationCache::load(folder / "kept.safetensors");
  EXPECT_TRUE(at::equal(kept_loaded["resid_post0[pos=last]"], kept.cache["resid_post0[pos=last]"]));
  EXPECT_LT(relative_difference(kept_loaded["resid_post0[pos=last]"], expected), kDoubleTolerance);
}

TEST_F(CachedTokens, WhatIsNotKnownOrNotKeptIsRefused) {
  ActivationCache made(model_.config().n_layers);
  made.insert({act::resid_post(0).name(), at::zeros({2, 3, 4})});
  EXPECT_NE(text_thrown_by<HookError>([&] { made["resid_post0[pos=last]"]; }).find("does not know where"),
            std::string::npos);
  const auto some = model_.run_with_cache(input_, act::resid_post,
                                          {.keep = {.positions = std::vector<std::int64_t>{0, 4}}});
  const std::string text = text_thrown_by<HookError>([&] { some.cache["resid_post0[pos=last]"]; });
  EXPECT_NE(text.find("the last token of row 2 is at column 3, which is not held"), std::string::npos)
      << text;
}

TEST_F(CachedTokens, AGenerationKnowsWhereItsRowsEnd) {
  const auto made = model_.generate(input_, {.max_new_tokens = 3, .capture = act::resid_post});
  const at::Tensor resid = made.cache[act::resid_post(2)];
  ASSERT_EQ(resid.size(1), 8);
  ASSERT_TRUE(made.cache.tokens());
  EXPECT_TRUE(at::equal(made.cache.tokens()->mask, made.attention_mask.to(at::kBool)));
  EXPECT_TRUE(at::equal(made.cache["resid_post2[pos=last]"],
                        resid.index({at::arange(3), made.cache.tokens()->last(3)})));
}

// A step that keeps nothing is a part of the sequence too: its end and its keys are there.
TEST_F(CachedTokens, AGenerationThatKeepsSomeColumnsKnowsItsEnd) {
  const auto capture = act::resid_post | act::pattern;
  const auto whole = model_.generate(input_.tokens, {.max_new_tokens = 3, .capture = capture}).cache;
  for (const std::vector<std::int64_t>& kept : {std::vector<std::int64_t>{1, 4}, {2, 6}}) {
    const auto some =
        model_.generate(input_.tokens, {.max_new_tokens = 3, .capture = capture, .keep = {.positions = kept}})
            .cache;
    ASSERT_TRUE(some.tokens());
    EXPECT_EQ(some.tokens()->end, 8);
    for (const std::int64_t column : kept) {
      for (const Address& name : {act::resid_post(1), act::pattern(1)}) {
        EXPECT_LT(relative_difference(some[name.pos(column - 8)], whole[name.pos(column)]), kFloatTolerance);
      }
    }
    EXPECT_LT(relative_difference(some[act::pattern(0).key(-2)],
                                  at::stack({whole[act::pattern(0).pos(kept[0]).key(6)],
                                             whole[act::pattern(0).pos(kept[1]).key(6)]},
                                            2)),
              kFloatTolerance);
    EXPECT_THROW(some[act::resid_post(1).pos(-1)], HookError);
  }
  // The embedding of a model without an encoder counts the same columns.
  const auto some =
      model_.generate(input_.tokens, {.max_new_tokens = 3,
                                      .capture = act::embed | act::resid_post(1),
                                      .keep = {.positions = AxisIndex::Range{std::nullopt, 6}}});
  for (const char* name : {"hook_embed[pos=:-4]", "resid_post1[pos=:-4]"})
    EXPECT_EQ(some.cache[name].size(1), 4) << name;
}

TEST_F(CachedTokens, BehindAPrefixPositionsAreAbsolute) {
  const auto first = model_.run(random_tokens(model_.config(), {1, 2}, 9), {.keep_prefix = true});
  const auto run = model_.run_with_cache({input_.tokens, {.attention_mask = mask_, .prefix = first.prefix}});
  EXPECT_TRUE(at::equal(run.cache["resid_post0[pos=last]"], last_of(run.cache[act::resid_post(0)])));
  EXPECT_TRUE(at::equal(run.cache.tokens()->last(3), at::tensor({6, 6, 5}, at::kLong)));
}

/// Draws at random what is kept of a run, and places in it.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(count));
  }
  /// Some columns from `first` on, in any order.
  std::vector<std::int64_t> columns(std::int64_t first, std::int64_t end) {
    std::vector<std::int64_t> some;
    for (std::int64_t column = first; column < end; ++column) {
      if (below(2) == 1) some.insert(some.begin() + below(std::ssize(some) + 1), column);
    }
    return some.empty() ? std::vector<std::int64_t>{end - 1} : some;
  }
  AxisIndex index(std::int64_t end) {
    const std::int64_t one = below(end);
    switch (below(5)) {
      case 0:
        return one;
      case 1:
        return one - end;
      case 2:
        return AxisIndex::Range{one, one + 1 + below(end - one)};
      case 3:
        return std::vector<std::int64_t>{one, below(end)};
      default:
        return kLast;
    }
  }

 private:
  std::mt19937_64 engine_;
};

constexpr std::int64_t kColumns = 7;
const std::vector<std::int64_t> kLengths{7, 5, 6};  // of the rows, the rest is padding

/// Which columns an index means in a row.
std::vector<std::int64_t> meant(const AxisIndex& index, std::int64_t last) {
  if (std::holds_alternative<AxisIndex::Last>(index.value)) return {last};
  return resolve_places(index, {{Site::resid_post, "", {}}, Axis::pos, kColumns});
}

// An address means columns of the sequence, whatever part a cache holds: all reads are those of one run over
// all columns, and what is not held is an error.
TEST(HeldColumns, AnAddressMeansTheSameInEveryCache) {
  const HookedTransformer model = random_model();
  const at::Tensor tokens = random_tokens(model.config(), {3, kColumns});
  std::int64_t read = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const bool left = draw.below(2) == 1;
    at::Tensor mask = at::ones({3, kColumns}, at::kLong);
    std::vector<std::int64_t> last;
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t length = kLengths[static_cast<std::size_t>(row)];
      mask[row].narrow(0, left ? 0 : length, kColumns - length).fill_(0);
      last.push_back(left ? kColumns - 1 : length - 1);
    }
    const Selection names = act::resid_post | act::pattern(1) | act::k(0);
    const RunResult whole = model.run_with_cache({tokens, {.attention_mask = mask}}, names);
    // With or without a prefix, some columns or each row's last, joined or not.
    const std::int64_t first = draw.below(2) == 1 ? 4 : 0;
    const bool keeps_last = draw.below(3) == 0, joins = first > 0 && draw.below(2) == 1;
    const std::vector<std::int64_t> some = draw.columns(first, kColumns), before = draw.columns(0, 4);
    std::vector<std::set<std::int64_t>> held(3);
    RunOptions options{.capture = names};
    if (keeps_last) {
      options.keep.positions = kLast;
      for (std::size_t row = 0; row < 3; ++row) held[row].insert(last[row]);
    } else {
      options.keep.positions = some;
      for (auto& row : held) row.insert(some.begin(), some.end());
    }
    Input input{tokens.narrow(1, first, kColumns - first),
                {.attention_mask = mask.narrow(1, first, kColumns - first)}};
    ActivationCache cache;
    if (first == 0) {
      cache = model.run(input, options).cache;
    } else {
      RunOptions start{.capture = names, .keep = {.positions = before}, .keep_prefix = true};
      const RunResult prefix =
          model.run({tokens.narrow(1, 0, first), {.attention_mask = mask.narrow(1, 0, first)}}, start);
      input.prefix = prefix.prefix;
      cache = model.run(input, options).cache;
      if (joins) {
        cache = ActivationCache::join({prefix.cache, cache});
        for (auto& row : held) row.insert(before.begin(), before.end());
      }
    }
    for (int reads = 0; reads < 6; ++reads) {
      const AxisIndex index = draw.index(kColumns);
      Address address = reads % 3 == 0   ? Address(act::resid_post(1))
                        : reads % 3 == 1 ? Address(act::pattern(1)).head(2)
                                         : Address(act::k(0));
      address = address.pos(index);
      std::vector<std::int64_t> rows{0, 1, 2};
      if (draw.below(2) == 1) {
        rows = {draw.below(3)};
        address = address.row(AxisIndex::Range{rows.front(), rows.front() + 1});
      }
      // Counted from the end, a place must be a token in every row.
      const auto* number = std::get_if<std::int64_t>(&index.value);
      const bool from_end = number != nullptr && *number < 0;
      bool is_there = true;
      for (const std::int64_t row : rows) {
        for (const std::int64_t column : meant(index, last[static_cast<std::size_t>(row)])) {
          const bool real = mask[row][column].item<std::int64_t>() == 1;
          is_there = is_there && held[static_cast<std::size_t>(row)].contains(column) && (real || !from_end);
        }
      }
      if (!is_there) {
        ++refused;
        EXPECT_THROW(cache[address], HookError) << address.to_string();
        continue;
      }
      ++read;
      const at::Tensor expected = whole.cache[address], got = cache[address];
      ASSERT_EQ(got.sizes(), expected.sizes()) << address.to_string();
      // What padding attends to, and what is read from it, is meaningless.
      if (std::holds_alternative<AxisIndex::Last>(index.value) || !mask.eq(0).any().item<bool>()) {
        EXPECT_LT(relative_difference(got, expected), 1e-10) << address.to_string();
      } else {
        for (std::size_t i = 0; i < rows.size(); ++i) {
          const at::Tensor own = got[static_cast<std::int64_t>(i)],
                           other = expected[static_cast<std::int64_t>(i)];
          const bool real = std::ranges::all_of(meant(index, 0), [&](std::int64_t column) {
            return mask[rows[i]][column].item<std::int64_t>() != 0;
          });
          if (real) {
            EXPECT_LT(relative_difference(own, other), 1e-10) << address.to_string();
          }
        }
      }
    }
  }
  EXPECT_GT(read, 200);
  EXPECT_GT(refused, 200);
}

TEST_F(CachedTokens, ColumnsThatAreKeptStandInTheOrderThatWasAskedFor) {
  const Prefix prefix = model_.run(input_.tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix.value();
  const Input rest(input_.tokens.narrow(1, 2, 3), {.prefix = prefix});
  const auto keeping = [&](std::vector<std::int64_t> columns) {
    return model_.run(rest, {.capture = act::resid_post, .keep = {.positions = std::move(columns)}}).cache;
  };
  const at::Tensor all = model_.run_with_cache(rest, act::resid_post).cache["resid_post1"];
  const ActivationCache kept = keeping({4, 2});
  EXPECT_EQ(kept.entry(act::resid_post(1).name()).positions, (std::vector<std::int64_t>{4, 2}));
  EXPECT_TRUE(at::equal(kept["resid_post1"], all.index_select(1, at::tensor({2, 0}, at::kLong))));
  const std::string text = text_thrown_by<HookError>([&] { keeping({1, 4}); });
  EXPECT_NE(text.find("position 1 is to be kept"), std::string::npos) << text;
  EXPECT_NE(text.find("prefix"), std::string::npos) << text;
  EXPECT_THROW(model_.run(input_, {.capture = act::unembed_in,
                                   .keep = {.positions = std::vector<std::int64_t>{3, 4}},
                                   .logit_positions = std::vector<std::int64_t>{3}}),
               HookError);
  EXPECT_THROW(model_.generate(rest, {.max_new_tokens = 2,
                                      .capture = act::resid_post,
                                      .keep = {.positions = std::vector<std::int64_t>{1, 5}}}),
               HookError);
}

TEST_F(CachedTokens, JoinedCachesAreThoseOfOneRun) {
  const at::Tensor tokens = random_tokens(model_.config(), {2, 6});
  const auto first = model_.run(tokens.narrow(1, 0, 4), {.capture = act::defaults, .keep_prefix = true});
  const auto rest =
      model_.run({tokens.narrow(1, 4, 2), {.prefix = first.prefix}}, {.capture = act::defaults});
  const ActivationCache joined = ActivationCache::join({first.cache, rest.cache});
  const ActivationCache whole = model_.run_with_cache(tokens).cache;
  for (const auto& entry : whole) {
    EXPECT_TRUE(joined.entry(entry.name).positions.empty()) << entry.name.to_string();
    EXPECT_LT(relative_difference(joined[entry.name], whole[entry.name]), 1e-10) << entry.name.to_string();
  }
  EXPECT_LT(relative_difference(joined["resid_post1[pos=last]"], whole["resid_post1[pos=last]"]), 1e-10);
  // A part that begins at 0 is not everything: the later columns are missing.
  const ActivationCache part = ActivationCache::join(
      {first.cache,
       model_.run({tokens.narrow(1, 4, 2), {.prefix = first.prefix}}, {.capture = act::embed}).cache});
  EXPECT_LT(relative_difference(part["resid_post1[pos=3]"], whole["resid_post1[pos=3]"]), 1e-10);
  EXPECT_THROW(part["resid_post1[pos=-1]"], HookError);
}

// A cache's columns go to the same columns of another run, or nowhere.
TEST_F(CachedTokens, ReplacingMeansTheSameColumns) {
  const at::Tensor one = random_tokens(model_.config(), {2, 6}),
                   other = random_tokens(model_.config(), {2, 6}, 9);
  const ActivationCache whole = model_.run_with_cache(one, act::resid_post).cache;
  const ActivationCache some =
      model_.run(one, {.capture = act::resid_post, .keep = {.positions = AxisIndex::Range{2, 6}}}).cache;
  const auto logits = [&](const Input& input, const Edit& edit) {
    return model_.run(input, {.edits = {edit}}).logits();
  };
  for (const AxisIndex& index : {AxisIndex(3), AxisIndex(AxisIndex::Range{3, 5}),
                                 AxisIndex(std::vector<std::int64_t>{5, 2}), AxisIndex(-1)}) {
    const Address place = act::resid_post(0).pos(index);
    EXPECT_TRUE(at::equal(logits(other, replace(place, some)), logits(other, replace(place, whole))));
  }
  EXPECT_THROW(replace(act::resid_post(0).pos(1), some), HookError);
  EXPECT_THROW(replace(act::resid_post(0), some), HookError) << "all columns, and only some are held";
  // After a prefix all columns are those of the run.
  const Prefix prefix = model_.run(one.narrow(1, 0, 2), {.keep_prefix = true}).prefix.value();
  const Input rest(one.narrow(1, 2, 4), {.prefix = prefix}),
      others(other.narrow(1, 2, 4), {.prefix = prefix});
  const ActivationCache behind = model_.run_with_cache(rest, act::resid_post).cache;
  EXPECT_LT(
      relative_difference(logits(others, replace(act::resid_post(1), behind)), model_.run(rest).logits()),
      1e-10);
  const ActivationCache short_one = model_.run_with_cache(one.narrow(1, 0, 4), act::resid_post).cache;
  EXPECT_THROW(logits(others, replace(act::resid_post(1), short_one)), HookError) << "columns 0 to 3";
}

TEST_F(CachedTokens, LogitsOfPaddingAreRefused) {
  const std::string text =
      text_thrown_by<ShapeError>([&] { model_.run(input_, {.logit_positions = {{-1}}}); });
  EXPECT_NE(text.find("position -1 is padding in row 2, whose last token is at 3"), std::string::npos)
      << text;
  EXPECT_EQ(model_.run(input_, {.logit_positions = {{3, 4}}}).logits().size(1), 2) << "asked for by number";
}

TEST_F(CachedTokens, WritingIntoACachedTensorIsFoundAtTheNextRead) {
  const auto run = model_.run_with_cache(input_);
  at::Tensor z = run.cache[act::z(0)];
  EXPECT_NO_THROW(run.cache[act::z(0)]);
  z.zero_();
  EXPECT_NE(text_thrown_by<HookError>([&] { run.cache[act::z(0)]; }).find("this tensor was written into"),
            std::string::npos);
  at::Tensor head = run.cache[act::z(1).head(0)];
  head.add_(1);
  EXPECT_THROW(run.cache[act::z(1)], HookError) << "a view writes as well";
  EXPECT_NO_THROW(run.cache[act::z(2)]);
}

TEST_F(CachedTokens, ARunIsTakenApartAsLogitsAndCache) {
  const auto [logits, cache] = model_.run_with_cache(input_, act::z);
  EXPECT_TRUE(at::equal(logits, model_(input_)));
  EXPECT_EQ(cache.size(), 3U);
  const auto stopped = model_.run_with_cache(input_, act::z, {.stop_at_layer = 1});
  EXPECT_NE(text_thrown_by<HookError>([&] { get<0>(stopped); }).find("read `residual()`"), std::string::npos);
  EXPECT_EQ(get<1>(stopped).size(), 1U);
}

}  // namespace
}  // namespace hooked::cached_tokens_test
