#include "hooked/engine/run_options.h"

#include "tests/support/start_at_layer.h"
#include "tests/support/tiny_model.h"

namespace hooked::run_options_test {
namespace {

using Range = AxisIndex::Range;
using List = std::vector<std::int64_t>;
using Last = AxisIndex::Last;

class Options : public testing::Test {
 protected:
  HookedTransformer model_ = random_model();
  at::Tensor tokens_ = random_tokens(model_.config(), {2, 6});
  RunResult full_ = model_.run_with_cache(tokens_, act::everything);
};

TEST_F(Options, OutputModes) {
  const auto logits = model_.run(tokens_);
  EXPECT_EQ(logits.logits().sizes(), (at::IntArrayRef{2, 6, 11}));
  EXPECT_EQ(logits.output(), Output::logits);
  EXPECT_TRUE(logits.cache.empty());

  const auto loss = model_.run(tokens_, {.output = Output::loss});
  EXPECT_EQ(loss.loss().dim(), 0);
  EXPECT_EQ(loss.output(), Output::loss);

  const auto residual = model_.run(tokens_, {.output = Output::residual});
  EXPECT_TRUE(at::equal(residual.residual(),
                        model_.run_with_cache(tokens_, act::resid_post(2)).cache[act::resid_post(2)]));
  EXPECT_EQ(residual.output(), Output::residual);

  const auto none = model_.run(tokens_, {.capture = act::resid_post(0), .output = Output::none});
  EXPECT_EQ(none.output(), Output::none);
  EXPECT_EQ(none.cache.size(), 1u);
}

TEST_F(Options, AnOutputThatARunDidNotMakeIsAnErrorThatNamesTheOneItMade) {
  const auto message = [](const auto& read) {
    try {
      read();
    } catch (const HookError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto stopped = model_.run(tokens_, {.stop_at_layer = 1});
  EXPECT_EQ(message([&] { stopped.logits(); }),
            "[logits] this run made no logits but its residual; read `residual()`, or ask for the output "
            "`logits` "
            "and let the run go to its end");
  EXPECT_NE(message([&] { model_.run(tokens_).residual(); }).find("`logits()`"), std::string::npos);
  const auto none = model_.run(tokens_, {.capture = act::resid_post(0), .output = Output::none});
  EXPECT_EQ(message([&] { none.loss(); }),
            "[loss] this run made no loss; expected the output `loss` in its options");
  EXPECT_NE(message([&] { none.metric(); }).find("expected `gradients`"), std::string::npos);
}

TEST_F(Options, OutputNoneStopsAtTheDeepestWatchedLayer) {
  // A scoped or run's hook on a later layer is watched too, so a model whose later blocks would fail shows
  // the stop.
  ModelConfig config = small_config();
  StateDict weights = random_weights(config);
  weights["blocks.2.mlp.W_in"].fill_(NAN);
  int last_block = 0;
  const auto model = model_of(weights, config);
  const auto none = model.run(tokens_, {.capture = act::resid_post(1), .output = Output::none});
  EXPECT_FALSE(none.cache[act::resid_post(1)].isnan().any().item<bool>());
  model.run(tokens_, {.hooks = {{act::resid_post(2),
                                 [&](const at::Tensor& x) { last_block += x.isnan().any().item<bool>(); }}},
                      .capture = act::resid_post(1),
                      .output = Output::none});
  EXPECT_EQ(last_block, 1) << "the run must go as far as somebody watches";
  EXPECT_TRUE(at::equal(none.cache[act::resid_post(1)],
                        model_.run_with_cache(tokens_, act::resid_post(1)).cache[act::resid_post(1)]));
}

TEST_F(Options, OutputNoneKeepsEverythingThatIsAskedFor) {
  const auto none = model_.run(tokens_, {.capture = act::everything, .output = Output::none});
  EXPECT_EQ(none.cache.names(), full_.cache.names());
  EXPECT_TRUE(at::equal(none.cache[act::unembed_out], full_.cache[act::unembed_out]));
}

TEST_F(Options, StopAtLayerEndsBeforeThatBlock) {
  for (int layer = 0; layer <= 3; ++layer) {
    const auto run = model_.run(tokens_, {.capture = act::everything, .stop_at_layer = layer});
    const at::Tensor expected =
        layer < 3 ? full_.cache[act::resid_pre(layer)] : full_.cache[act::resid_post(2)];
    EXPECT_TRUE(at::equal(run.residual(), expected)) << layer;
    EXPECT_EQ(run.output(), Output::residual);
    for (const auto& entry : run.cache) {
      EXPECT_TRUE(at::equal(entry.value(), full_.cache[Address(entry.name)])) << entry.name.to_string();
      EXPECT_LT(entry.name.layer, layer);
      EXPECT_NE(row(entry.name.site).scope, SiteScope::exit);
    }
    const auto reached = std::ranges::count_if(model_.names(), [&](const ActivationName& name) {
      return name.layer < layer && row(name.site).scope != SiteScope::exit;
    });
    EXPECT_EQ(run.cache.size(), static_cast<std::size_t>(reached));
  }
  EXPECT_TRUE(at::equal(model_.run(tokens_, {.stop_at_layer = -1}).residual(),
                        model_.run(tokens_, {.stop_at_layer = 2}).residual()));
}

TEST_F(Options, PointBeyondStopAtLayerIsRefused) {
  for (const Selection& beyond :
       {Selection(act::resid_pre(2)), Selection(act::unembed_in), Selection(act::z(-1))}) {
    EXPECT_THROW(model_.run(tokens_, {.capture = beyond, .stop_at_layer = 2}), HookError);
    EXPECT_THROW(model_.run(tokens_, {.hooks = {{beyond, [](const at::Tensor&) {}}}, .stop_at_layer = 2}),
                 HookError);
  }
  EXPECT_THROW(model_.run(tokens_, {.edits = {zero(act::z(2))}, .stop_at_layer = 2}), HookError);
}

TEST_F(Options, StopAtLayerHasNoLogits) {
  EXPECT_THROW(model_.run(tokens_, {.output = Output::loss, .stop_at_layer = 2}), HookError);
  EXPECT_THROW(model_.run(tokens_, {.logit_positions = List{0}, .stop_at_layer = 2}), HookError);
  const GradientRequest request{act::z(0), [](const at::Tensor& logits) { return logits.sum(); }};
  EXPECT_THROW(model_.run(tokens_, {.stop_at_layer = 2, .gradients = request}), HookError);
}

// A run that ends with the residual has no logits for a metric or for positions either: not to be ignored
// silently.
TEST_F(Options, OutputResidualHasNoLogits) {
  const GradientRequest request{act::z(0), [](const at::Tensor& logits) { return logits.sum(); }};
  EXPECT_THROW(model_.run(tokens_, {.output = Output::residual, .gradients = request}), HookError);
  EXPECT_THROW(model_.run(tokens_, {.output = Output::residual, .logit_positions = List{0}}), HookError);
}

TEST_F(Options, StartAtLayerGoesOnFromAResidual) {
  for (int layer = 0; layer <= 3; ++layer) {
    const at::Tensor resid = layer < 3 ? full_.cache[act::resid_pre(layer)] : full_.cache[act::resid_post(2)];
    const auto run = model_.run(Input::start_at_layer(layer, resid), {.capture = act::everything});
    EXPECT_TRUE(at::equal(run.logits(), full_.logits())) << layer;
    for (const auto& entry : run.cache) {
      EXPECT_TRUE(at::equal(entry.value(), full_.cache[Address(entry.name)])) << entry.name.to_string();
      EXPECT_NE(row(entry.name.site).scope, SiteScope::entry);
    }
  }
}

TEST_F(Options, StartAndStopTogetherAreAPieceOfTheRun) {
  const auto piece = model_.run(Input::start_at_layer(1, full_.cache[act::resid_pre(1)]),
                                {.capture = act::defaults, .stop_at_layer = 2});
  EXPECT_LT(relative_difference(piece.residual(), full_.cache[act::resid_pre(2)]), kDoubleTolerance);
  for (const auto& entry : piece.cache) EXPECT_EQ(entry.name.layer, 1);
  const auto nothing =
      model_.run(Input::start_at_layer(1, full_.cache[act::resid_pre(1)]), {.stop_at_layer = 1});
  EXPECT_TRUE(at::equal(nothing.residual(), full_.cache[act::resid_pre(1)]));
}

TEST(OptionsOfRandomModels, StartAndStopAtLayerEqualTheFullRun) {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_double_config(seed);
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 5});
    at::Tensor mask = at::ones({2, 5}, at::kLong);
    if (seed % 2 == 1) mask[0].narrow(0, 0, 2).zero_();
    const auto full = model.run({tokens, {.attention_mask = mask}}, {.capture = act::defaults});
    const auto layer = static_cast<std::int32_t>(config.last_start(1, config.n_layers));
    const auto stopped = model.run({tokens, {.attention_mask = mask}}, {.stop_at_layer = layer});
    EXPECT_LT(relative_difference(stopped.residual(), full.cache[act::resid_pre(layer)]), kDoubleTolerance);
    const auto resumed =
        model.run(start_at_layer(config, layer, stopped.residual(), tokens, {.attention_mask = mask}));
    EXPECT_LT(relative_difference(resumed.logits(), full.logits()), kDoubleTolerance);
  }
}

TEST_F(Options, LayersOutOfRangeAreRefused) {
  for (const int layer : {4, -4}) {
    EXPECT_TRUE(throws<ShapeError>([&] { model_.run(tokens_, {.stop_at_layer = layer}); }, "stop_at_layer",
                                   {"layer " + std::to_string(layer)}));
  }
  EXPECT_THROW(model_.run(Input::start_at_layer(2, full_.cache[act::resid_pre(1)]), {.stop_at_layer = 1}),
               ShapeError);
}

TEST_F(Options, StartResidualIsCheckedAndCopied) {
  const at::Tensor resid = full_.cache[act::resid_pre(1)];
  EXPECT_THROW(model_.run(Input::start_at_layer(1, tokens_)), ShapeError);
  EXPECT_THROW(model_.run(Input::start_at_layer(1, resid.narrow(2, 0, 7))), ShapeError);
  EXPECT_THROW(model_.run(Input::start_at_layer(1, resid.to(at::kFloat))), ShapeError);
  const auto run = model_.run(Input::start_at_layer(1, resid), {.capture = act::resid_pre(1)});
  EXPECT_FALSE(run.cache[act::resid_pre(1)].is_alias_of(resid)) << "points never alias the caller's tensors";
}

TEST_F(Options, LogitPositionsAreSlices) {
  for (const List& positions : {List{-1}, List{0}, List{2, 4}, List{5, 1, 0}}) {
    List absolute;
    for (const std::int64_t p : positions) absolute.push_back(p < 0 ? p + 6 : p);
    const at::Tensor at = at::tensor(absolute, at::kLong);
    const auto run = model_.run(tokens_, {.capture = act::everything, .logit_positions = positions});
    EXPECT_LT(relative_difference(run.logits(), full_.logits().index_select(1, at)), kDoubleTolerance);
    for (const auto& entry : run.cache) {
      const bool cut = entry.name.site == Site::unembed_in || entry.name.site == Site::unembed_out;
      const at::Tensor whole = full_.cache[Address(entry.name)];
      EXPECT_LT(relative_difference(entry.value(), cut ? whole.index_select(1, at) : whole), kDoubleTolerance)
          << entry.name.to_string();
      EXPECT_EQ(entry.positions, cut ? absolute : List{}) << entry.name.to_string();
    }
    // Without a watched final norm only the requested positions are normalized.
    EXPECT_LT(relative_difference(model_.run(tokens_, {.logit_positions = positions}).logits(), run.logits()),
              kDoubleTolerance);
  }
}

TEST_F(Options, LogitTokensAreSlices) {
  for (const List& tokens : {List{3}, List{4, 0, 4}, List{7, 6, 5, 4, 3, 2, 1, 0}}) {
    const at::Tensor expected = full_.logits().index_select(2, at::tensor(tokens, at::kLong));
    EXPECT_LT(relative_difference(model_.run(tokens_, {.logit_tokens = tokens}).logits(), expected),
              kDoubleTolerance);
    const auto watched = model_.run(
        tokens_, {.capture = act::unembed_out, .logit_positions = List{-1}, .logit_tokens = tokens});
    EXPECT_LT(relative_difference(watched.logits(), expected.slice(1, 5)), kDoubleTolerance);
    EXPECT_LT(relative_difference(watched.cache[act::unembed_out], full_.logits().slice(1, 5)),
              kDoubleTolerance)
        << "a watched point is whole";
  }
  const Address first = Address(act::unembed_out).pos(2);
  EXPECT_TRUE(model_.run(tokens_, {.edits = {zero(first)}, .logit_tokens = List{3}})
                  .logits()
                  .select(1, 2)
                  .eq(0)
                  .all()
                  .item<bool>());
}

TEST_F(Options, AFunctionOfTheRunGetsTheTokensThatAreAskedFor) {
  const auto gradient = [&](const List& tokens, std::int64_t place, const RunMetric& reads = {}) {
    RunMetric metric = reads;
    metric.function = [place](const at::Tensor& logits, const ActivationCache&) {
      return logits.select(2, place).sum();
    };
    RunOptions options{.gradients = GradientRequest{.of = act::resid_pre(0), .of_run = metric}};
    if (!tokens.empty()) options.logit_tokens = tokens;
    return model_.run(tokens_, options).gradients[act::resid_pre(0)];
  };
  EXPECT_LT(relative_difference(gradient({5, 2}, 1), gradient({}, 2)), kDoubleTolerance);
  EXPECT_LT(relative_difference(gradient({5, 2}, 1, {.logit_tokens = List{5, 2}}), gradient({}, 2)),
            kDoubleTolerance);
  EXPECT_THROW(gradient({5, 2}, 1, {.logit_tokens = List{2, 5}}), HookError);
  EXPECT_THROW(gradient({}, 1, {.logit_tokens = List{5, 2}}), HookError);
  EXPECT_THROW(gradient({5, 2}, 1, {.logit_positions = List{1}}), HookError);
}

TEST_F(Options, ALogitMetricIsGivenTheVocabulary) {
  const LogitMetric metric([](const at::Tensor& logits) { return logits.select(2, 1).sum(); });
  EXPECT_THROW(model_.run(tokens_, {.logit_tokens = List{5, 2},
                                    .gradients = GradientRequest{.of = act::resid_pre(0), .metric = metric}}),
               HookError);
}

TEST_F(Options, ARunSaysWhatItsLogitsStandFor) {
  const auto some = model_.run(tokens_, {.logit_positions = List{-1, 2}, .logit_tokens = List{4, 0}});
  for (const RunResult& run : {some, some.to(at::kCPU)}) {
    EXPECT_EQ(run.logit_positions(), List({5, 2}));
    EXPECT_EQ(run.logit_tokens(), List({4, 0}));
  }
  EXPECT_EQ(full_.logit_positions(), std::nullopt);
  EXPECT_EQ(full_.logit_tokens(), std::nullopt);
}

TEST_F(Options, LogitTokensOutsideTheVocabularyAreRefused) {
  for (const List& tokens : {List{}, List{-1}, List{0, model_.config().d_vocab_out()}}) {
    EXPECT_THROW(model_.run(tokens_, {.logit_tokens = tokens}), ShapeError);
  }
  EXPECT_THROW(model_.run(tokens_, {.output = Output::loss, .logit_tokens = List{0}}), ShapeError);
  EXPECT_THROW(model_.run(tokens_, {.output = Output::residual, .logit_tokens = List{0}}), HookError);
  EXPECT_THROW(model_.run(tokens_, {.output = Output::none, .logit_tokens = List{0}}), HookError);
  EXPECT_THROW(model_.run(tokens_, {.logit_tokens = List{0}, .stop_at_layer = 2}), HookError);
}

TEST_F(Options, LogitPositionsOutOfRangeAreRefused) {
  for (const List& positions : {List{6}, List{-7}, List{0, 6}, List{}}) {
    EXPECT_THROW(model_.run(tokens_, {.logit_positions = positions}), ShapeError);
  }
  EXPECT_THROW(model_.run(tokens_, {.output = Output::loss, .logit_positions = List{0}}), ShapeError);
}

// Bit by bit, except heads' results: their product covers only the positions that were asked for, and
// LibTorch's libraries add up in another order for another number of rows.
void expect_same(const ActivationCache::Entry& entry, const at::Tensor& expected) {
  if (entry.name.site == Site::result) {
    EXPECT_LT(relative_difference(entry.value(), expected), kDoubleTolerance) << entry.name.to_string();
  } else {
    EXPECT_TRUE(at::equal(entry.value(), expected)) << entry.name.to_string();
  }
}

TEST_F(Options, PositionsCutEverySiteAlongItsOwnAxis) {
  struct Case {
    AxisIndex index;
    List places;
  };
  for (const Case& c : {Case{2, {2}}, Case{-1, {5}}, Case{Range{1, 4}, {1, 2, 3}}, Case{List{4, 0}, {4, 0}},
                        Case{List{-2}, {4}}}) {
    const auto run = model_.run(tokens_, {.capture = act::everything, .keep = {.positions = c.index}});
    ASSERT_EQ(run.cache.names(), full_.cache.names());
    for (const auto& entry : run.cache) {
      const AxisList& axes = row(entry.name.site).axes;
      const auto query = axes.find(Axis::query);
      const std::int64_t dim = query ? *query : *axes.find(Axis::pos);
      const at::Tensor expected =
          full_.cache[Address(entry.name)].index_select(dim, at::tensor(c.places, at::kLong));
      SCOPED_TRACE(c.index.to_string());
      expect_same(entry, expected);
      EXPECT_EQ(entry.positions, c.places) << entry.name.to_string();
    }
    EXPECT_TRUE(at::equal(run.logits(), full_.logits())) << "positions are about the cache only";
  }
}

TEST_F(Options, PositionsOutOfRangeAreRefused) {
  EXPECT_THROW(model_.run(tokens_, {.capture = act::z, .keep = {.positions = 6}}), HookError);
  EXPECT_THROW(model_.run(tokens_, {.capture = act::z, .keep = {.positions = Range{3, 9}}}), HookError);
}

TEST_F(Options, LastPositionIsEachRowsOwn) {
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].narrow(0, 3, 3).zero_();  // row 1 ends at position 2
  const auto whole = model_.run({tokens_, {.attention_mask = mask}}, {.capture = act::everything});
  const auto last = model_.run({tokens_, {.attention_mask = mask}},
                               {.capture = act::everything, .keep = {.positions = Last{}}});
  for (const auto& entry : last.cache) {
    const AxisList& axes = row(entry.name.site).axes;
    const auto query = axes.find(Axis::query);
    const std::int64_t dim = query ? *query : *axes.find(Axis::pos);
    const at::Tensor full = whole.cache[Address(entry.name)];
    const at::Tensor expected =
        at::cat({full.narrow(0, 0, 1).narrow(dim, 5, 1), full.narrow(0, 1, 1).narrow(dim, 2, 1)}, 0);
    expect_same(entry, expected);
  }
}

// Kept positions and requested logits meet in unembed.*: places there are absolute as well.
TEST_F(Options, PositionsAndLogitPositionsMeet) {
  const auto run = model_.run(
      tokens_, {.capture = act::unembed_out, .keep = {.positions = 4}, .logit_positions = List{1, 4}});
  EXPECT_LT(relative_difference(run.cache[act::unembed_out], full_.cache[act::unembed_out].narrow(1, 4, 1)),
            kDoubleTolerance);
  EXPECT_EQ(run.cache.begin()->positions, (List{4}));
  EXPECT_THROW(
      model_.run(tokens_,
                 {.capture = act::unembed_out, .keep = {.positions = 2}, .logit_positions = List{1, 4}}),
      HookError);
}

TEST_F(Options, LastPositionAmongTheAskedForLogits) {
  const auto run = model_.run(
      tokens_, {.capture = act::unembed_out, .keep = {.positions = Last{}}, .logit_positions = List{5}});
  EXPECT_LT(relative_difference(run.cache[act::unembed_out], full_.cache[act::unembed_out].narrow(1, 5, 1)),
            kDoubleTolerance);
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[1].narrow(0, 3, 3).zero_();
  const auto whole =
      model_.run({tokens_, {.attention_mask = mask}}, {.capture = act::unembed_out}).cache[act::unembed_out];
  const auto cut =
      model_.run({tokens_, {.attention_mask = mask}},
                 {.capture = act::unembed_out, .keep = {.positions = Last{}}, .logit_positions = List{2, 5}});
  EXPECT_LT(relative_difference(
                cut.cache[act::unembed_out],
                at::cat({whole.narrow(0, 0, 1).narrow(1, 5, 1), whole.narrow(0, 1, 1).narrow(1, 2, 1)}, 0)),
            kDoubleTolerance);
  EXPECT_THROW(
      model_.run(tokens_,
                 {.capture = act::unembed_out, .keep = {.positions = Last{}}, .logit_positions = List{0}}),
      HookError);
}

// An edit's position is absolute too, not a place among the requested ones.
TEST_F(Options, EditsOfUnembedMeanAbsolutePositions) {
  const auto run =
      model_.run(tokens_, {.edits = {zero(Address(act::unembed_out).pos(4))}, .logit_positions = List{1, 4}});
  EXPECT_LT(relative_difference(run.logits().select(1, 0), full_.logits().select(1, 1)), kDoubleTolerance);
  EXPECT_EQ(run.logits().select(1, 1).abs().max().item<double>(), 0.0);
  const auto edit_elsewhere = [&] {
    return model_.run(tokens_,
                      {.edits = {zero(Address(act::unembed_out).pos(0))}, .logit_positions = List{1, 4}});
  };
  EXPECT_THROW(edit_elsewhere(), HookError);
}

TEST_F(Options, CacheDevice) {
  const auto run = model_.run(tokens_, {.capture = act::defaults, .keep = {.device = "cpu"}});
  for (const auto& entry : run.cache) EXPECT_TRUE(entry.value().device().is_cpu());
  EXPECT_THROW(model_.run(tokens_, {.capture = act::defaults, .keep = {.device = "toaster"}}), ConfigError);
}

TEST_F(Options, OneRowMayBeGivenWithoutABatchAxis) {
  const at::Tensor row = tokens_[0];
  EXPECT_TRUE(at::equal(model_(row), model_(row.unsqueeze(0))));
  EXPECT_EQ(model_(row).dim(), 3);
}

}  // namespace
}  // namespace hooked::run_options_test
