// Rows of one run that begin at columns of their own after a shared prefix.
#include "hooks/ragged_rows.h"

#include <ATen/ops/isnan.h>
#include <ATen/ops/nan_to_num.h>

#include "tests/engine/continued_runs.h"
#include "tests/support/start_at_layer.h"

namespace hooked::ragged_rows_test {
namespace {

constexpr double kTolerance = 1e-10;
const std::vector<std::int64_t> kFirstColumns{5, 2, 6, 2, 4};
constexpr std::int64_t kFirst = 2, kColumns = 7;

/// Whether two tensors [row, column, ...] agree in the columns from each row's first on, and `ragged` is NaN
/// in the others.
void expect_own_columns(const at::Tensor& ragged, const at::Tensor& whole, const std::string& what) {
  ASSERT_EQ(ragged.sizes(), whole.sizes()) << what;
  for (std::size_t r = 0; r < kFirstColumns.size(); ++r) {
    const auto row = static_cast<std::int64_t>(r);
    const std::int64_t before = kFirstColumns[r] - kFirst;
    EXPECT_LT(relative_difference(ragged[row].slice(0, before), whole[row].slice(0, before)), kTolerance)
        << what << ", row " << row;
    if (before > 0 && ragged.is_floating_point()) {
      EXPECT_TRUE(at::isnan(ragged[row].slice(0, 0, before)).all().item<bool>()) << what << ", row " << row;
    }
  }
}

struct Rows {
  at::Tensor shared;  // [1, column]
  at::Tensor whole;   // [row, column]: each is the shared one up to its first column

  explicit Rows(const ModelConfig& config) : shared(random_tokens(config, {1, kColumns})) {
    const at::Tensor other = random_tokens(config, {5, kColumns}, 8);
    whole = shared.expand({5, kColumns}).clone();
    for (std::int64_t r = 0; r < 5; ++r) {
      const std::int64_t first = kFirstColumns[static_cast<std::size_t>(r)];
      whole[r].slice(0, first).copy_(other[r].slice(0, first));
    }
  }
  at::Tensor own() const { return whole.slice(1, kFirst); }
};

TEST(RaggedRows, EqualWholeRunsInEveryConfiguration) {
  const auto wanted = [](const ModelConfig& c) {
    return can_continue(c) && !c.has_encoder() && c.has_unembedding() && !c.delta_net;
  };
  const int tried = for_random_configs(120, wanted, [](const ModelConfig& config) {
    const HookedTransformer model = random_model(config);
    const Rows rows(config);
    const RunResult whole = model.run_with_cache(rows.whole, act::everything);
    const InputDetails details{.prefix = prefix_of(model, rows.shared), .first_columns = kFirstColumns};

    const at::Tensor logits = model.run({rows.own(), details}).logits();
    expect_own_columns(logits, whole.logits().slice(1, kFirst), "logits");
    const at::Tensor last = model.run({rows.own(), details}, {.logit_positions = {{-1}}}).logits();
    EXPECT_LT(relative_difference(last, whole.logits().slice(1, kColumns - 1)), kTolerance);

    Selection watched;
    for (const ActivationName& name : model.names()) {
      if (RaggedRows::can_show(name.site)) watched = watched | Selection(name);
    }
    const RunResult seen = model.run({rows.own(), details}, {.capture = watched});
    expect_own_columns(seen.logits(), whole.logits().slice(1, kFirst), "logits of a watched run");
    for (const auto& entry : seen.cache) {
      expect_own_columns(entry.value(), whole.cache[entry.name].slice(1, kFirst), entry.name.to_string());
    }

    // From a layer on, where nothing before a row's own columns is read.
    const auto layer = static_cast<std::int32_t>(config.last_start(1, config.n_layers));
    const at::Tensor stream = whole.cache[act::resid_pre(layer)].slice(1, kFirst).clone();
    for (std::int64_t r = 0; r < 5; ++r) {
      stream[r].slice(0, 0, kFirstColumns[static_cast<std::size_t>(r)] - kFirst).zero_();
    }
    for (const std::optional<std::vector<std::int64_t>>& positions :
         {std::optional<std::vector<std::int64_t>>(), {{6}}}) {
      const at::Tensor after =
          model
              .run(start_at_layer(config, layer, stream, rows.own(), details), {.logit_positions = positions})
              .logits();
      if (positions) {
        EXPECT_LT(relative_difference(after, whole.logits().slice(1, 6)), kTolerance);
      } else {
        expect_own_columns(after, whole.logits().slice(1, kFirst), "logits from layer 1 on");
      }
    }
  });
  EXPECT_GT(tried, 40);
}

class SmallRagged : public testing::Test {
 protected:
  ModelConfig config_ = small_config();
  HookedTransformer model_ = random_model(config_);
  Rows rows_{config_};
  InputDetails details_{.prefix = prefix_of(model_, rows_.shared), .first_columns = kFirstColumns};
};

// What activation patching does: one run for all places of a layer, each row from its place on.
TEST_F(SmallRagged, PatchesOfOneLayerEqualOneFullRunEach) {
  const at::Tensor clean = random_tokens(config_, {1, kColumns}, 8);
  const auto from = model_.run_with_cache(clean, act::defaults).cache;
  const auto into = model_.run_with_cache(rows_.shared, act::defaults).cache;
  for (std::int32_t layer = 0; layer < 3; ++layer) {
    at::Tensor stream = into[act::resid_pre(layer)].expand({kColumns, -1, -1}).clone();
    InputDetails details{.prefix = details_.prefix};
    for (std::int64_t p = 0; p < kColumns; ++p) {
      stream[p][p].copy_(from[act::resid_pre(layer)][0][p]);
      details.first_columns.push_back(p);
    }
    const at::Tensor patched =
        model_.run(Input::start_at_layer(layer, stream, details), {.logit_positions = {{-1}}}).logits();
    for (std::int64_t p = 0; p < kColumns; ++p) {
      const at::Tensor alone =
          model_
              .run(rows_.shared,
                   {.edits = {set(act::resid_pre(layer).pos(p), from[act::resid_pre(layer)].select(1, p))},
                    .logit_positions = {{-1}}})
              .logits();
      EXPECT_LT(relative_difference(patched[p], alone[0]), kTolerance) << layer << " " << p;
    }
  }
}

TEST_F(SmallRagged, HooksAndEditsAreThoseOfRowsAndPositions) {
  const std::vector<Edit> edits{zero(act::z(1).row(2).pos(6).head(1)), scale(act::mlp_out(0).pos(-1), 0.5),
                                add(act::resid_mid(2).row(1), 0.25)};
  const at::Tensor whole = model_.run(rows_.whole, {.edits = edits}).logits();
  // An edit of a whole row also covers columns of the prefix; it applies to the row's own columns.
  const std::vector<std::int64_t> rows{0, 2, 3, 4};
  const at::Tensor ragged = model_.run({rows_.own(), details_}, {.edits = edits}).logits();
  for (const std::int64_t r : rows) {
    EXPECT_LT(relative_difference(ragged[r][-1], whole[r][-1]), kTolerance) << r;
  }
  int calls = 0;
  const Hook half(act::attn_out(1), [&](const at::Tensor& x, const ActivationName&) {
    ++calls;
    EXPECT_EQ(x.sizes(), (at::IntArrayRef{5, kColumns - kFirst, 8}));
    return x * 0.5;
  });
  const at::Tensor hooked = model_.run_with_hooks({rows_.own(), details_}, {half}).logits();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(at::isnan(hooked.select(1, -1)).any().item<bool>());
}

TEST_F(SmallRagged, TheCacheKnowsWhichColumnsAreARowsOwn) {
  const auto cache =
      model_.run({rows_.own(), details_}, {.capture = act::resid_pre, .output = Output::none}).cache;
  EXPECT_EQ(cache.tokens()->first, kFirst);
  EXPECT_TRUE(cache.tokens()->is_padding(0, 4));
  EXPECT_FALSE(cache.tokens()->is_padding(0, 5));
}

TEST_F(SmallRagged, WhatDoesNotFitIsRefused) {
  const auto thrown = [&](InputDetails details, const RunOptions& options = {}) {
    return text_thrown_by<Error>([&] { model_.run({rows_.own(), std::move(details)}, options); });
  };
  InputDetails details = details_;
  details.first_columns = {5, 2, 6, 2};
  EXPECT_THAT(thrown(details), HasSubstr("expected 5, got 4"));
  details.first_columns = {5, 2, 7, 2, 4};
  EXPECT_THAT(thrown(details), HasSubstr("row 2 cannot begin at column 7; expected 0 to 6"));
  details.first_columns = kFirstColumns;
  details.prefix = details_.prefix->first(5);
  EXPECT_THAT(thrown(details), HasSubstr("row 2 cannot begin at column 6; expected 0 to 5"));
  details.prefix.reset();
  EXPECT_THAT(thrown(details), HasSubstr("expected such a prefix"));
  EXPECT_THAT(thrown(details_, {.capture = act::pattern(0)}), HasSubstr("blocks.0.attn.hook_pattern"));
  EXPECT_THAT(thrown(details_, {.logit_positions = {{3}}}),
              HasSubstr("row 0 begins at column 5, after position 3"));
  EXPECT_THAT(thrown(details_, {.output = Output::loss}), HasSubstr("no gradients, loss or prefix"));
  EXPECT_THAT(text_thrown_by<Error>([&] {
                model_.generate({rows_.own(), details_}, {.max_new_tokens = 1});
              }),
              HasSubstr("first_columns"));
}

TEST_F(SmallRagged, APrefixIsCutToItsFirstColumns) {
  const Prefix cut = details_.prefix->first(3);
  EXPECT_EQ(cut.length(), 3);
  EXPECT_EQ(details_.prefix->length(), kColumns);
  const at::Tensor rest = rows_.shared.slice(1, 3);
  EXPECT_LT(
      relative_difference(model_.run({rest, {.prefix = cut}}).logits(), model_(rows_.shared).slice(1, 3)),
      kTolerance);
  const at::Tensor stream = model_.run_with_cache(rows_.shared).cache[act::resid_pre(2)].slice(1, 3);
  EXPECT_LT(relative_difference(model_.run(Input::start_at_layer(2, stream, {.prefix = cut})).logits(),
                                model_(rows_.shared).slice(1, 3)),
            kTolerance)
      << "start_at_layer after a prefix";
  EXPECT_THAT(text_thrown_by<Error>([&] { return details_.prefix->first(8); }), HasSubstr("expected 1 to 7"));
  EXPECT_THAT(text_thrown_by<Error>([&] { return details_.prefix->first(0); }), HasSubstr("expected 1 to 7"));
}

}  // namespace
}  // namespace hooked::ragged_rows_test
