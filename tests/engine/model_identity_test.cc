// A cache knows its model, and a run of another one refuses its values.

#include "hooked/engine/replicate.h"
#include "hooked/engine/trainable_transformer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::model_identity_test {
namespace {

HookedTransformer model_of_seed(std::uint64_t seed, const ModelConfig& config = small_config()) {
  return model_of(random_weights(config, seed), config);
}

class ModelIdentities : public testing::Test {
 protected:
  HookedTransformer model_ = random_model();
  HookedTransformer other_ = model_of_seed(8);  // of the same config
  at::Tensor tokens_ = random_tokens(model_.config(), {1, 5});
};

TEST_F(ModelIdentities, AreOfConfigAndWeights) {
  const std::string own = model_.identity()->fingerprint;
  EXPECT_EQ(own.size(), 40);
  EXPECT_EQ(own, random_model().identity()->fingerprint) << "the same weights once more";
  EXPECT_EQ(own, HookedTransformer(model_).identity()->fingerprint);
  EXPECT_EQ(own, replicate(model_, "cpu").front().identity()->fingerprint);
  EXPECT_EQ(own, TrainableTransformer::from(model_).freeze().identity()->fingerprint);
  EXPECT_NE(own, other_.identity()->fingerprint);
  const HookedTransformer narrow =
      HookedTransformer::from_state_dict(random_weights(model_.config()), model_.config(),
                                         {.dtype = at::kFloat, .processing = WeightProcessing::none()});
  EXPECT_NE(own, narrow.identity()->fingerprint);
  const HookedTransformer processed = random_model(model_.config(), WeightProcessing());
  EXPECT_NE(own, processed.identity()->fingerprint);
  // One number of one matrix, wherever the model was loaded from.
  StateDict weights = random_weights(model_.config());
  weights.at("blocks.1.attn.W_Q") = weights.at("blocks.1.attn.W_Q") + 1e-3;
  EXPECT_NE(own, model_of(weights, model_.config()).identity()->fingerprint);
}

TEST_F(ModelIdentities, OfASavedModelAreThoseOfTheModel) {
  const TempFolder folder;
  for (const bool packed : {false, true}) {
    const auto path = folder / (packed ? "packed" : "plain");
    model_.save(path, {.packed = packed});
    EXPECT_EQ(HookedTransformer::load(path.string()).identity()->fingerprint, model_.identity()->fingerprint);
  }
}

TEST_F(ModelIdentities, AreWithEveryCacheThatAModelMakes) {
  const auto of_model = [&](const ActivationCache& cache) {
    return cache.model() && cache.model()->fingerprint == model_.identity()->fingerprint;
  };
  const auto run = model_.run_with_cache(tokens_);
  EXPECT_TRUE(of_model(run.cache));
  EXPECT_TRUE(of_model(run.cache.row(0)));
  EXPECT_TRUE(of_model(run.cache.to(at::kCPU)));
  EXPECT_TRUE(of_model(ActivationCache::join({run.cache})));
  EXPECT_TRUE(of_model(model_.generate(tokens_, {.max_new_tokens = 2, .capture = act::z}).cache));
  const auto gradients = model_.run(
      tokens_, {.gradients = GradientRequest{
                    .of = act::z, .metric = [](const at::Tensor& logits) { return logits.sum(); }}});
  EXPECT_TRUE(of_model(gradients.gradients));
  const TempFolder folder;
  run.cache.save(folder / "run.safetensors");
  EXPECT_TRUE(of_model(ActivationCache::load(folder / "run.safetensors")));
  EXPECT_THROW(ActivationCache::join({run.cache, other_.run_with_cache(tokens_).cache}), HookError);
}

TEST_F(ModelIdentities, DecideWhatAnEditMayPutIn) {
  const ActivationCache there = other_.run_with_cache(tokens_).cache;
  const Edit edit = replace(act::z(1).head(3), there);
  const std::string text = text_thrown_by<HookError>([&] { model_.run(tokens_, {.edits = {edit}}); });
  EXPECT_THAT(text, HasSubstr("another model"));
  EXPECT_THAT(text, HasSubstr(model_.identity()->fingerprint.substr(0, 8)));
  EXPECT_THAT(text, HasSubstr(other_.identity()->fingerprint.substr(0, 8)));
  EXPECT_THROW(model_.generate(tokens_, {.max_new_tokens = 1, .prompt_edits = {edit}}), HookError);
  const Edit meant = replace(act::z(1).head(3), there.assigned_to(model_));
  EXPECT_TRUE(
      at::equal(model_.run(tokens_, {.edits = {meant}}).logits(),
                model_.run(tokens_, {.edits = {set(act::z(1).head(3), there[act::z(1).head(3)])}}).logits()));
}

TEST_F(ModelIdentities, AssigningComparesShapes) {
  ModelConfig wider = small_config();
  wider.n_heads = wider.n_kv_heads = 6;
  const ActivationCache there = model_of_seed(8, wider).run_with_cache(tokens_).cache;
  const std::string text = text_thrown_by<HookError>([&] { there.assigned_to(model_); });
  EXPECT_THAT(text, HasSubstr("expected [1, 5, 4, 6], got [1, 5, 6, 6]"));
  ModelConfig deeper = small_config();
  deeper.n_layers = 4;
  EXPECT_THROW(model_of_seed(8, deeper).run_with_cache(tokens_).cache.assigned_to(model_), HookError);
}

/// Activations put together by hand may belong to any model, but must have the right shape.
TEST_F(ModelIdentities, WhereNothingSaysItShapesAreCompared) {
  ActivationCache made(3);
  made.insert({.name = act::z(1).name(), .held = at::ones({1, 5, 12, 6}, at::kDouble)});
  made.insert({.name = act::z(2).name(), .held = at::ones({1, 5, 4, 6}, at::kDouble)});
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { model_.run(tokens_, {.edits = {replace(act::z(1).head(3), made)}}); }),
      HasSubstr("expected [1, 5, 4, 6], got [1, 5, 12, 6]"));
  EXPECT_NO_THROW(model_.run(tokens_, {.edits = {replace(act::z(2).head(3), made)}}));
}

TEST_F(ModelIdentities, CachesKnowTheirIds) {
  at::Tensor ids = tokens_.clone();
  const auto run = model_.run_with_cache(ids);
  ids.fill_(0);
  EXPECT_TRUE(at::equal(run.cache.tokens()->ids, tokens_)) << "the caller's tensor is the caller's";
  const auto made = model_.generate(tokens_, {.max_new_tokens = 3, .capture = act::z});
  EXPECT_TRUE(at::equal(made.cache.tokens()->ids, made.tokens));
  const auto edited = model_.run(tokens_, {.edits = {set(act::tokens, 3.0)}, .capture = act::z});
  EXPECT_FALSE(edited.cache.tokens()->ids.defined()) << "the model read others";
}

class PaddedPlaces : public ModelIdentities {
 protected:
  at::Tensor rows_ = random_tokens(model_.config(), {2, 6});
  at::Tensor right_ = at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({2, 6});
  at::Tensor left_ = right_.flip(1);
};

TEST_F(PaddedPlaces, FromTheEndAreRefusedInEdits) {
  const Input right{rows_, {.attention_mask = right_}}, left{rows_, {.attention_mask = left_}};
  const auto refused = [&](const Edit& edit) {
    return text_thrown_by<HookError>([&] { model_.run(right, {.edits = {edit}}); });
  };
  EXPECT_THAT(refused(zero(act::resid_post(0).pos(-1))),
              HasSubstr("position -1 is padding in row 1, whose last token is at 3"));
  EXPECT_THAT(refused(zero(act::resid_post(0).pos(AxisIndex::Range{-2, std::nullopt}))),
              HasSubstr("padding in row 1"));
  EXPECT_THAT(refused(zero(act::resid_post(0).pos(std::vector<std::int64_t>{0, -1}))),
              HasSubstr("padding in row 1"));
  EXPECT_THAT(refused(zero(act::pattern(0).query(-1))), HasSubstr("padding in row 1"));
  EXPECT_THAT(refused(zero(act::pattern(0).key(-1))), HasSubstr("padding in row 1"));
  EXPECT_THAT(refused(zero("blocks.*.hook_resid_post[pos=-1]")), HasSubstr("padding in row 1"));
  const at::Tensor plain = model_.run(right).logits();
  // If every addressed row has a token there, and counted from 0, an index means what it says.
  EXPECT_NO_THROW(model_.run(right, {.edits = {zero(act::resid_post(0).pos(-1).row(0))}}));
  EXPECT_NO_THROW(model_.run(right, {.edits = {zero(act::resid_post(0).pos(5))}}));
  EXPECT_NO_THROW(model_.run(left, {.edits = {zero(act::resid_post(0).pos(-1))}}));
  const at::Tensor edited =
      model_.run(right, {.edits = {zero(act::resid_post(0).pos(AxisIndex::Last{}))}}).logits();
  EXPECT_FALSE(at::equal(edited[0][5], plain[0][5]));
  EXPECT_FALSE(at::equal(edited[1][3], plain[1][3]));
}

// Keys are columns of the prefix too. It has six, and the first two of row 1 are padding.
TEST_F(PaddedPlaces, FromTheEndAreRefusedAmongKeysOfAPrefix) {
  const Prefix prefix = model_.run({rows_, {.attention_mask = left_}}, {.keep_prefix = true}).prefix.value();
  const at::Tensor later = random_tokens(model_.config(), {2, 2}, 5);
  const Input rest{later, {.prefix = prefix}};
  const Input masked{later,
                     {.attention_mask = at::tensor({1, 1, 0, 1}, at::kLong).view({2, 2}), .prefix = prefix}};
  for (const Input& input : {rest, masked}) {
    const auto refused = [&](const AxisIndex& keys) {
      return text_thrown_by<HookError>(
          [&] { model_.run(input, {.edits = {zero(act::pattern(0).key(keys))}}); });
    };
    EXPECT_THAT(refused(-7),
                HasSubstr("position -7 is padding in row 1, whose last token is at 7; expected a "
                          "token in every row; give positions from 0 on, or address only rows that "
                          "have a token there"));
    EXPECT_THAT(refused(std::vector<std::int64_t>{-1, -8}), HasSubstr("position -8 is padding in row 1"));
    for (const Address& real :
         {act::pattern(0).key(-6), act::pattern(0).key(1), act::pattern(0).key(-7).row(0)})
      EXPECT_NO_THROW(model_.run(input, {.edits = {zero(real)}})) << real.to_string();
  }
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { model_.run(rest, {.edits = {zero(act::resid_post(0).pos(-7))}}); }),
      HasSubstr("a position is not among those that this run computes"));
  const TempFolder folder;
  const ActivationCache cache = model_.run_with_cache(rest).cache;
  cache.save(folder / "cache.safetensors");
  const auto first = model_.run({rows_, {.attention_mask = left_}}, {.capture = act::pattern}).cache;
  for (const ActivationCache& read :
       {cache, ActivationCache::load(folder / "cache.safetensors"), ActivationCache::join({first, cache})}) {
    EXPECT_THAT(text_thrown_by<HookError>([&] { read["pattern0[key=-7]"]; }), HasSubstr("padding in row 1"));
    EXPECT_NO_THROW(read["pattern0[key=-6]"]);
    EXPECT_NO_THROW(read.row(0)["pattern0[key=-7]"]);
    EXPECT_TRUE(read.tokens()->is_padding(1, 1));
    EXPECT_FALSE(read.tokens()->is_padding(1, 2));
    EXPECT_FALSE(read.tokens()->is_padding(0, 1));
  }
}

// Of a range that begins from the end, all columns: padding may be in the middle, and so may what follows it.
TEST_F(PaddedPlaces, InTheMiddleOfARangeAreRefused) {
  const Prefix prefix = model_.run({rows_, {.attention_mask = right_}}, {.keep_prefix = true}).prefix.value();
  const Input rest{random_tokens(model_.config(), {2, 2}, 5),
                   {.prefix = prefix}};  // 4 and 5 of row 1 are padding
  const auto refused = [&](const AxisIndex& keys) {
    return text_thrown_by<HookError>([&] { model_.run(rest, {.edits = {zero(act::pattern(0).key(keys))}}); });
  };
  EXPECT_THAT(refused(AxisIndex::Range{-5, std::nullopt}),
              AllOf(HasSubstr("position -4 is padding in row 1"), HasSubstr("or pad on the left")));
  EXPECT_THAT(refused(AxisIndex::Range{-8, -1}), HasSubstr("position -4 is padding in row 1"));
  EXPECT_THAT(refused(AxisIndex::Range{-4, 5}), HasSubstr("position -4 is padding in row 1"));
  for (const AxisIndex& keys :
       std::vector<AxisIndex>{AxisIndex::Range{-8, 4}, AxisIndex::Range{-2, std::nullopt},
                              AxisIndex::Range{3, -1}, AxisIndex::Range{0, std::nullopt}})
    EXPECT_NO_THROW(model_.run(rest, {.edits = {zero(act::pattern(0).key(keys))}})) << keys.to_string();
}

// Rows that begin before the prefix ends; and a file with a tensor of the caller's own that is called like
// the mask.
TEST_F(PaddedPlaces, OfAPrefixAreReadBackFromFiles) {
  const Input one{rows_.narrow(0, 1, 1), {.attention_mask = left_.narrow(0, 1, 1)}};
  const Prefix prefix = model_.run(one, {.keep_prefix = true}).prefix.value();
  const TempFolder folder;
  const auto ragged =
      model_.run({random_tokens(model_.config(), {2, 2}, 5), {.prefix = prefix, .first_columns = {4, 5}}},
                 {.capture = act::resid_post});
  ragged.cache.save(folder / "ragged.safetensors");
  EXPECT_TRUE(ActivationCache::load(folder / "ragged.safetensors").tokens()->is_padding(0, 1));
  const at::Tensor own = at::ones({2, 9}, at::kBool);
  model_.run_with_cache(rows_).cache.save(folder / "own.safetensors",
                                          {.beside = {{.name = "prefix_attention_mask", .value = own}}});
  EXPECT_FALSE(ActivationCache::load(folder / "own.safetensors").tokens()->prefix_mask.defined());
  // What a caller writes into a cache's mask is not the prefix's.
  const Input rest{random_tokens(model_.config(), {1, 2}, 5), {.prefix = prefix}};
  model_.run_with_cache(rest).cache.tokens()->prefix_mask.fill_(true);
  EXPECT_TRUE(model_.run_with_cache(rest).cache.tokens()->is_padding(0, 1));
}

// A prefix of one row serves several.
TEST_F(PaddedPlaces, OfAPrefixOfOneRowAreThoseOfAllRows) {
  const Input one{rows_.narrow(0, 1, 1), {.attention_mask = left_.narrow(0, 1, 1)}};
  const Input rest{random_tokens(model_.config(), {3, 2}, 5),
                   {.prefix = model_.run(one, {.keep_prefix = true}).prefix.value()}};
  EXPECT_THAT(
      text_thrown_by<HookError>([&] { model_.run(rest, {.edits = {zero(act::pattern(0).key(-7).row(2))}}); }),
      HasSubstr("position -7 is padding in row 2"));
}

TEST_F(PaddedPlaces, FromTheEndAreRefusedInWhatIsKept) {
  const Input right{rows_, {.attention_mask = right_}};
  EXPECT_THAT(
      text_thrown_by<HookError>([&] {
        model_.run(right, {.capture = act::resid_post, .keep = {.positions = std::vector<std::int64_t>{-1}}});
      }),
      HasSubstr("position -1 is padding in row 1"));
  const auto run = model_.run_with_cache(right);
  EXPECT_THAT(text_thrown_by<HookError>([&] { run.cache[act::resid_post(0).pos(-1)]; }),
              HasSubstr("position -1 is padding in row 1"));
  EXPECT_THAT(text_thrown_by<HookError>([&] { run.cache["pattern0[query=-2]"]; }),
              HasSubstr("padding in row 1"));
  EXPECT_NO_THROW(run.cache[act::resid_post(0).pos(-1).row(0)]);
  EXPECT_NO_THROW(run.cache[act::resid_post(0).pos(5)]);
  EXPECT_NO_THROW(run.cache.row(0)[act::resid_post(0).pos(-1)]);
}

TEST_F(ModelIdentities, AnEditOfNothingIsRefused) {
  const auto none = Selection::matching([](const ActivationName&) { return false; });
  const EditTarget nowhere{none, {}};
  EXPECT_THAT(text_thrown_by<HookError>([&] { model_.run(tokens_, {.edits = {zero(nowhere)}}); }),
              HasSubstr("matches no activation of this model"));
  EXPECT_THROW(model_.generate(tokens_, {.max_new_tokens = 1, .edits = {zero(nowhere)}}), HookError);
  const auto late = Selection::matching([](const ActivationName& name) { return name.layer == 2; });
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                model_.run(tokens_, {.edits = {zero(EditTarget{late, {}})}, .stop_at_layer = 1});
              }),
              HasSubstr("reaches none of the activations"));
  EXPECT_NO_THROW(model_.run(tokens_, {.capture = none}));
}

}  // namespace
}  // namespace hooked::model_identity_test
