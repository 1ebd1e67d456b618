#include "hooked/analysis/logit_lens.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "hooked/io/safetensors.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"
#include "tests/support/zip_writer.h"

namespace hooked::logit_lens_test {
namespace {

constexpr double kFloat64Tolerance = 1e-10;

TEST(LogitLens, LastRowIsWhatTheRunPredicted) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto run = model.run_with_cache(tokens);
  const auto rows = logit_lens(model, run.cache, {.positions = {3}, .top_k = 4}).top;
  ASSERT_EQ(rows.size(), 3u);  // resid_pre(0) and two blocks
  EXPECT_EQ(rows[0].name.to_string(), "blocks.0.hook_resid_pre");
  EXPECT_EQ(rows[2].name.to_string(), "blocks.1.hook_resid_post");
  const auto logits = run.logits()[0][3];
  const auto order = logits.argsort(-1, true);
  ASSERT_EQ(rows[2].predictions.size(), 4u);
  for (std::int64_t k = 0; k < 4; ++k) {
    const auto& prediction = rows[2].predictions[static_cast<std::size_t>(k)];
    const auto token = order[k].item<std::int64_t>();
    EXPECT_EQ(prediction.token, token);
    EXPECT_EQ(prediction.piece, std::to_string(token));
    EXPECT_NEAR(prediction.logit, logits[token].item<double>(), kFloat64Tolerance);
    EXPECT_NEAR(prediction.probability, at::softmax(logits, -1)[token].item<double>(), kFloat64Tolerance);
  }
}

TEST(LogitLens, EarlierRowsAreTheRunsWithTheLaterBlocksSilenced) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto rows = logit_lens(model, model.run_with_cache(tokens).cache, {.top_k = 1}).top;
  const auto silenced =
      model.run(tokens, {.edits = {zero(act::attn_out(1)), zero(act::mlp_out(1))}}).logits()[0][5];
  EXPECT_EQ(rows[1].predictions[0].token, silenced.argmax().item<std::int64_t>());
  EXPECT_NEAR(rows[1].predictions[0].logit, silenced.max().item<double>(), kFloat64Tolerance);
}

TEST(LogitLens, GridsHoldChosenTokensAtEveryRowAndPosition) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 1).view({2, 3}));
  const auto lens = logit_lens(model, run.cache, {.positions = {}, .tokens = {7, 2}});
  ASSERT_EQ(lens.logits.values().sizes(), at::IntArrayRef({2, 2, 3, 3}));  // row, token, point, pos
  EXPECT_EQ(lens.logits.axis("token").labels, std::vector<std::string>({"7", "2"}));
  EXPECT_EQ(lens.logits.axis("point").labels,
            std::vector<std::string>({"resid_pre 0", "resid_post 0", "resid_post 1"}));
  EXPECT_EQ(lens.logits.axis("point").places[2], Address("blocks.1.hook_resid_post"));
  for (const std::int64_t token : {7, 2}) {
    const auto name = std::to_string(token);
    const auto at_end = lens.logits.slice("token", name).slice("point", -1).values();  // [row, pos]
    EXPECT_LT((at_end - run.logits().select(2, token)).abs().max().item<double>(), kFloat64Tolerance);
    const auto shares = lens.probabilities.slice("token", name).slice("point", -1).values();
    EXPECT_LT((shares - at::softmax(run.logits(), -1).select(2, token)).abs().max().item<double>(),
              kFloat64Tolerance);
  }
  EXPECT_EQ(lens.top.size(), 2u * 3 * 3);
  EXPECT_EQ(lens.top.back().row, 1);
  EXPECT_EQ(lens.top.back().column, 2);
  EXPECT_EQ(lens.top.back().predictions[0].token, run.logits()[1][2].argmax().item<std::int64_t>());
}

TEST(LogitLens, PaddingIsNotANumberAndNoPrediction) {
  const auto model = random_model(two_layer_config());
  const auto mask = at::tensor({1, 1, 1, 0, 0, 1}, at::kLong).view({2, 3});
  const auto run = model.run_with_cache({random_row(6, 11, 1).view({2, 3}), {.attention_mask = mask}});
  const auto lens = logit_lens(model, run.cache, {.positions = {}, .tokens = {4}});
  EXPECT_TRUE(lens.logits.values()[1][0][0].isnan().equal(mask[1].eq(0)));
  EXPECT_FALSE(lens.logits.values()[0].isnan().any().item<bool>());
  EXPECT_EQ(lens.top.size(), 3u * 4);
  const auto first = text_thrown_by<ShapeError>([&] { logit_lens(model, run.cache, {.positions = {0}}); });
  EXPECT_THAT(first, AllOf(HasSubstr("[position 0]"), HasSubstr("padding in row 1")));
}

TEST(LogitLens, ReadsKeptPositions) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 1).view({2, 3});
  const auto last = model.run(tokens).logits().select(1, 2).argmax(1);  // [row]
  for (const AxisIndex& kept : {AxisIndex(2), AxisIndex(AxisIndex::Last{})}) {
    const auto cache = model.run_with_cache(tokens, act::defaults, {.keep = {.positions = kept}}).cache;
    for (const Position& position : {Position(2), Position(-1), Position::last()}) {
      const auto lens = logit_lens(model, cache, {.positions = {position}, .top_k = 1});
      EXPECT_EQ(lens.top[2].predictions[0].token, last[0].item<std::int64_t>());
      EXPECT_EQ(lens.top[5].predictions[0].token, last[1].item<std::int64_t>());
    }
    EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache, {.positions = {1}}); }),
                HasSubstr("position 1 of row 0 was not kept"));
  }
}

TEST(LogitLens, CountsTheColumnsOfAPrefix) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto whole = logit_lens(model, model.run_with_cache(tokens).cache, {.positions = {4}, .tokens = {3}});
  const auto prefix = model.run(tokens.narrow(1, 0, 2), {.keep_prefix = true}).prefix;
  const auto cache = model.run_with_cache({tokens.narrow(1, 2, 4), {.prefix = prefix}}).cache;
  const auto rest = logit_lens(model, cache, {.positions = {4}, .tokens = {3}});
  EXPECT_LT((whole.logits.values() - rest.logits.values()).abs().max().item<double>(), kFloat64Tolerance);
  EXPECT_EQ(logit_lens(model, cache, {.positions = {}, .tokens = {3}}).logits.axis("pos").labels,
            std::vector<std::string>({"2", "3", "4", "5"}));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model, cache, {.positions = {1}}); }),
              HasSubstr("expected 2 to 5"));
}

TEST(LogitLens, SaysWhatIsMissing) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 1), act::resid_post).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache); }),
              HasSubstr("blocks.0.hook_resid_pre"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache, {.top_k = 0}); }),
              HasSubstr("top_k is 0"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model, cache, {.tokens = {11}}); }),
              HasSubstr("token id 11"));
}

TEST(LogitLens, RefusesPostNorm) {
  auto config = two_layer_config();
  config.norm_place = NormPlace::post;
  config.final_norm = NormKind::none;
  const auto model = random_model(config);
  const auto cache = model.run_with_cache(random_row(6, 11, 1)).cache;
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(model, cache); }),
              HasSubstr("norms on the stream itself"));
}

TEST(LogitLens, PrintsAHeadingWhereThereAreSeveralPlaces) {
  const auto model = random_model(two_layer_config());
  const auto cache = model.run_with_cache(random_row(6, 11, 1)).cache;
  std::ostringstream one, two;
  one << logit_lens(model, cache, {.top_k = 1});
  two << logit_lens(model, cache, {.positions = {0, -1}, .top_k = 1});
  EXPECT_THAT(one.str(), testing::StartsWith("blocks.0.hook_resid_pre"));
  EXPECT_THAT(two.str(), testing::StartsWith("row 0, pos 0\nblocks.0.hook_resid_pre"));
  EXPECT_THAT(two.str(), testing::EndsWith(one.str()));
  EXPECT_THAT(two.str(), HasSubstr("\nrow 0, pos 5\n"));
}

TEST(LogitLens, ReadsBetweenSublayersToo) {
  const auto model = random_model(two_layer_config());
  const auto tokens = random_row(6, 11, 1);
  const auto run = model.run_with_cache(tokens);
  const auto lens = logit_lens(model, run.cache, {.tokens = {4}, .mid = true});
  EXPECT_THAT(lens.logits.axis("point").labels,
              ElementsAre("resid_pre 0", "resid_mid 0", "resid_post 0", "resid_mid 1", "resid_post 1"));
  const auto silenced = model.run(tokens, {.edits = {zero(act::mlp_out(1))}}).logits()[0][5];
  EXPECT_NEAR(lens.logits.at({0, 0, 3, 0}), silenced[4].item<double>(), kFloat64Tolerance);
}

// A part alone: the final stage of the model reads it as it would the stream.
TEST(LogitLens, ReadsWhatEachPartWrote) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 1), act::everything);
  const auto lens = logit_lens(model, run.cache, {.positions = {2}, .tokens = {4}, .parts = Grain::head});
  const auto& points = lens.logits.axis("point");
  EXPECT_EQ(points.labels[3], "head 0.1");
  EXPECT_EQ(points.places[3], Address("blocks.0.attn.hook_result[head=1]"));
  const auto written = run.cache[act::result(0).head(1)].narrow(1, 2, 1);  // [row, one, d_model]
  const auto logits = model.run(Input::start_at_layer(2, written)).logits()[0][0];
  EXPECT_NEAR(lens.logits.at({0, 0, 3, 0}), logits[4].item<double>(), kFloat64Tolerance);
  EXPECT_EQ(lens.top[3].part, "head 0.1");
  std::ostringstream out;
  out << lens.top[3];
  EXPECT_THAT(out.str(), testing::StartsWith("head 0.1 "));
}

// Of two rows at two positions each, a point is four readings.
TEST(LogitLens, GivesWhatItHasWhereItIsEnded) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 1).view({2, 3}));
  std::vector<std::int64_t> told;
  LogitLensOptions options{.positions = {0, 2}, .tokens = {4}, .parts = Grain::head};
  const auto whole = logit_lens(model, run.cache, options);
  const auto points = static_cast<std::int64_t>(whole.logits.axis("point").labels.size());
  options.progress = [&](const SweepProgress& now) {
    told.push_back(now.done);
    EXPECT_EQ(now.total, 4 * points);
    return now.done < 4 * 3;
  };
  const auto some = logit_lens(model, run.cache, options);
  EXPECT_TRUE(whole.complete);
  EXPECT_FALSE(some.complete);
  // The embeddings, and the heads of the first layer together.
  EXPECT_EQ(told, (std::vector<std::int64_t>{4, 8, 24}));
  EXPECT_EQ(some.logits.axis("point").labels, whole.logits.axis("point").labels);
  for (const auto& [all, part] : {std::pair{whole.logits, some.logits},
                                  {whole.probabilities, some.probabilities},
                                  {whole.ranks, some.ranks}}) {
    EXPECT_TRUE(part.values().narrow(2, 0, 6).equal(all.values().narrow(2, 0, 6)));
    EXPECT_TRUE(part.values().narrow(2, 6, points - 6).isnan().all().item<bool>());
  }
  ASSERT_EQ(some.top.size(), 4u * 6);
  EXPECT_EQ(some.top[6].column, 2);
  EXPECT_EQ(some.top[6].part, "embed");
  EXPECT_EQ(some.top[6].predictions[0].logit,
            whole.top[static_cast<std::size_t>(points)].predictions[0].logit);

  told.clear();
  options.parts = std::nullopt;
  options.progress = [&](const SweepProgress& now) {
    told.push_back(now.done);
    return now.done < now.total;
  };
  EXPECT_TRUE(logit_lens(model, run.cache, options).complete) << "with the last there is nothing to end";
  EXPECT_EQ(told, (std::vector<std::int64_t>{4, 8, 12}));
}

TEST(LogitLens, RanksCountTheLargerLogits) {
  const auto model = random_model(two_layer_config());
  const auto run = model.run_with_cache(random_row(6, 11, 1));
  const auto lens = logit_lens(model, run.cache, {.positions = {}, .tokens = {4, 9}});
  const auto rank = run.logits()[0].gt(run.logits()[0].select(1, 9).unsqueeze(1)).sum(1);  // [pos]
  EXPECT_TRUE(lens.ranks.values()[0][1][2].eq(rank).all().item<bool>());
  EXPECT_EQ(lens.ranks.unit(), "rank");
}

class LensFile : public testing::Test {
 protected:
  LensMaps written(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const {
    save_safetensors(folder_ / "lens.safetensors", tensors);
    return LensMaps::load(folder_ / "lens.safetensors");
  }
  std::string refused(const std::vector<std::pair<std::string, at::Tensor>>& tensors) const {
    return text_thrown_by<CheckpointError>([&] { written(tensors); });
  }

  TempFolder folder_;
  at::Tensor A_ = at::arange(256, at::kDouble).sin().view({16, 16});
  at::Tensor B_ = at::arange(256, at::kDouble).cos().view({16, 16});
  at::Tensor b_ = at::arange(16, at::kDouble).cos();
  HookedTransformer model_ = random_model(two_layer_config());
  RunResult run_ = model_.run_with_cache(random_row(6, 11, 1));

  /// The logit of token 4 that the model reads from a point of the stream.
  double read(const at::Tensor& x) const {
    return model_.run(Input::start_at_layer(2, x.view({1, 1, 16}))).logits()[0][0][4].item<double>();
  }
};

TEST_F(LensFile, ATunedLensAddsAnAffineMap) {
  const auto maps = written({{"0.weight", A_}, {"0.bias", b_}, {"1.weight", B_}, {"1.bias", b_}});
  const auto lens = logit_lens(model_, run_.cache, {.positions = {3}, .tokens = {4}, .maps = maps});
  EXPECT_THAT(lens.logits.axis("point").labels, ElementsAre("resid_pre 0", "resid_post 0", "resid_post 1"));
  const auto first = run_.cache[act::resid_pre(0)][0][3], second = run_.cache[act::resid_post(0)][0][3];
  EXPECT_NEAR(lens.logits.at({0, 0, 0, 0}), read(first + A_.matmul(first) + b_), kFloat64Tolerance);
  EXPECT_NEAR(lens.logits.at({0, 0, 1, 0}), read(second + B_.matmul(second) + b_), kFloat64Tolerance);
  EXPECT_NEAR(lens.logits.at({0, 0, 2, 0}), run_.logits()[0][3][4].item<double>(), kFloat64Tolerance);
}

TEST_F(LensFile, AJacobianLensMapsTheStreamBehindItsLayers) {
  const auto one = written({{"J.0", A_}});
  const auto all = written({{"J", A_.unsqueeze(0)}, {"source_layers", at::tensor({0}, at::kLong)}});
  const auto x = run_.cache[act::resid_post(0)][0][3];
  for (const auto& maps : {one, all}) {
    const auto lens = logit_lens(model_, run_.cache, {.positions = {3}, .tokens = {4}, .maps = maps});
    EXPECT_THAT(lens.logits.axis("point").labels, ElementsAre("resid_post 0", "resid_post 1"));
    EXPECT_NEAR(lens.logits.at({0, 0, 0, 0}), read(A_.matmul(x)), kFloat64Tolerance);
  }
}

TEST_F(LensFile, SaysWhatIsWrong) {
  EXPECT_THAT(refused({{"0.bias", b_}}), HasSubstr("without '0.weight'"));
  EXPECT_THAT(refused({{"0.weight", b_}}), HasSubstr("not square"));
  EXPECT_THAT(refused({{"0.weight", A_}, {"0.bias", A_}}), HasSubstr("'0.bias'"));
  EXPECT_THAT(refused({{"unembed", A_}}), HasSubstr("'unembed'"));
  EXPECT_THAT(refused({{"J", A_.unsqueeze(0)}}), HasSubstr("source_layers"));
  const auto maps = written({{"J.0", A_.narrow(0, 0, 4).narrow(1, 0, 4).contiguous()}});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model_, run_.cache, {.maps = maps}); }),
              HasSubstr("width 4"));
  const auto of_a_deeper = written({{"J.0", A_}, {"J.2", A_}});
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model_, run_.cache, {.maps = of_a_deeper}); }),
              HasSubstr("after 3 blocks; expected one of a model with 2"));
  auto of_a_target = written({{"J.0", A_}});
  of_a_target.target_depth = 1;
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { logit_lens(model_, run_.cache, {.maps = of_a_target}); }),
              HasSubstr("leads to the stream after 1 blocks; expected the end of this model, after 2"));
  EXPECT_THAT(refused({{"0.weight", A_}, {"J.0", A_}}), HasSubstr("two kinds"));
  EXPECT_THAT(refused({{"0.weight", A_}, {"1.weight", at::ones({4, 4})}}),
              HasSubstr("not those of one model"));
  const auto processed = random_model(two_layer_config(), {});
  EXPECT_THAT(text_thrown_by<HookError>([&] { logit_lens(processed, run_.cache, {.maps = maps}); }),
              HasSubstr("without weight processing"));
}

/// Files like torch.save's, put together here: the golden lenses are written by torch itself.
class PickledLens : public LensFile {
 protected:
  using Items = std::vector<std::pair<std::string, std::string>>;

  /// A matrix of ones as a pickled value, over storage 0.
  static std::string ones(std::int64_t size = 16) {
    return pickled_tensor(pickled_storage("DoubleStorage", "0", pickled(std::int64_t{256})),
                          {.sizes = {size, size}, .strides = {size, 1}});
  }
  static std::string matrices(const std::vector<std::int64_t>& layers) {
    std::string dict = "}(";
    for (const auto layer : layers) dict += pickled(layer) + ones();
    return dict + "u";
  }
  std::filesystem::path save(const Items& items, const std::string& name = "lens.pt") const {
    const auto all = at::ones({256}, at::kDouble);
    std::ofstream(folder_ / name, std::ios::binary)
        << checkpoint_bytes(pickle_of(pickled_dict(items)),
                            {std::string(static_cast<const char*>(all.const_data_ptr()), all.nbytes())});
    return folder_ / name;
  }
  std::string not_taken(const Items& items) const {
    return text_thrown_by<CheckpointError>([&] { LensMaps::load(save(items)); });
  }
  std::string not_taken_with_config(const Items& items, std::string_view config) const {
    std::ofstream(folder_ / "config.json") << config;
    save(items, "params.pt");
    return text_thrown_by<Error>([&] { LensMaps::load(folder_.path()); });
  }
};

TEST_F(PickledLens, AJacobianLensAndWhatItSaysOfItself) {
  const auto layers = pickled_tuple({pickled(std::int64_t{0}), pickled(std::int64_t{2})});
  const auto maps = LensMaps::load(save({{"J", matrices({0, 2})},
                                         {"n_prompts", pickled(std::int64_t{3})},
                                         {"source_layers", layers},
                                         {"d_model", pickled(std::int64_t{16})},
                                         {"target_layer", pickled(std::int64_t{5})},
                                         {"provenance", pickled_dict({{"by", pickled("hand")}})}}));
  ASSERT_EQ(maps.by_depth.size(), 2u);
  EXPECT_TRUE(maps.by_depth.contains(1) && maps.by_depth.contains(3));
  EXPECT_EQ(maps.target_depth, 6);
  EXPECT_EQ(maps.by_depth.at(1).matrix.sum().item<double>(), 256);
  EXPECT_FALSE(maps.by_depth.at(1).adds);

  EXPECT_THAT(
      not_taken({{"J", matrices({0, 1})}, {"source_layers", layers}}),
      HasSubstr("source_layers of the lens is not what the file says of it; expected 0, 2, got matrices "
                "of 0, 1"));
  EXPECT_THAT(not_taken({{"J", matrices({0})}, {"d_model", pickled(std::int64_t{8})}}),
              HasSubstr("d_model of the lens is not what the file says of it; expected 8, got 16"));
  EXPECT_THAT(not_taken({{"J", matrices({0, 0})}}), HasSubstr("'J.0': the name occurs twice"));
  EXPECT_THAT(not_taken({{"J", matrices({-1})}}), HasSubstr("'J.-1' is not a map"));
  EXPECT_THAT(not_taken({{"jacobian_sum", matrices({0})}, {"n_done", pickled(std::int64_t{2})}}),
              HasSubstr("a fit that has not ended"));
  EXPECT_THAT(not_taken({{"J", matrices({0})}, {"unembed", ones()}}), HasSubstr("'unembed' is not a map"));
  EXPECT_THAT(not_taken({{"J", pickled("none")}}), HasSubstr("holds no map"));
}

TEST_F(PickledLens, ATunedLensAndItsConfig) {
  const Items two{{"0.weight", ones()}, {"1.weight", ones()}};
  const auto maps = LensMaps::load(save(two, "params.pt"));
  EXPECT_TRUE(maps.by_depth.at(1).adds);
  EXPECT_EQ(maps.target_depth, std::nullopt);
  std::ofstream(folder_ / "config.json") << R"({"d_model": 16, "num_hidden_layers": 2, "bias": false})";
  EXPECT_EQ(LensMaps::load(folder_.path()).target_depth, 2);

  EXPECT_THAT(not_taken_with_config(two, R"({"num_hidden_layers": 3, "bias": false})"),
              HasSubstr("expected maps of 3 layers without biases, but '2.weight' is missing"));
  EXPECT_THAT(not_taken_with_config(two, R"({"num_hidden_layers": 2, "bias": true})"),
              HasSubstr("but '0.bias' is missing, '1.bias' is missing"));
  EXPECT_THAT(not_taken_with_config(two, R"({"num_hidden_layers": 1, "bias": false})"),
              HasSubstr("'1.weight' is there"));
  EXPECT_THAT(not_taken_with_config(two, R"({"d_model": 8, "bias": false})"),
              HasSubstr("expected 8, got 16"));
  EXPECT_THAT(not_taken_with_config(two, R"({"lens_type": "affine", "bias": false})"),
              HasSubstr("expected 'linear_tuned_lens'"));
  EXPECT_THAT(not_taken_with_config(two, R"({"num_hidden_layers": "2"})"), HasSubstr("num_hidden_layers"));
}

TEST_F(PickledLens, AFolderHasOneLens) {
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { LensMaps::load(folder_.path()); }),
              HasSubstr("the folder has no lens; expected one file of tensors"));
  save({{"J", matrices({0})}});
  EXPECT_EQ(LensMaps::load(folder_.path()).by_depth.size(), 1u);
  save({{"J", matrices({1})}}, "other.pt");
  EXPECT_THAT(text_thrown_by<CheckpointError>([&] { LensMaps::load(folder_.path()); }),
              HasSubstr("2 files of tensors: lens.pt, other.pt; expected one; give the path of the lens"));
}

TEST(LogitLens, RowsPrint) {
  std::ostringstream out;
  out << LogitLensRow{.name = ActivationName::parse("blocks.1.hook_resid_post"),
                      .row = 0,
                      .column = 0,
                      .predictions = {{.token = 5, .piece = "Mary", .logit = 3, .probability = 0.9712}}};
  EXPECT_EQ(out.str(), "blocks.1.hook_resid_post    Mary            97.1 %");
}

}  // namespace
}  // namespace hooked::logit_lens_test
