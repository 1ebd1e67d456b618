// Dictionaries in runs, compared with hooks that are written by hand.
#include <ATen/Functions.h>

#include "hooked/dictionaries/dictionary.h"
#include "hooked/dictionaries/dictionary_set.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/hooks/act.h"
#include "tests/support/random_dictionaries.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

namespace hooked::dictionary_run_test {
namespace {

constexpr std::int64_t kFeatures = 40;

bool all_close(const at::Tensor& a, const at::Tensor& b, double most) {
  return a.sizes() == b.sizes() && largest(a.to(at::kDouble) - b.to(at::kDouble)) <= most;
}

at::Tensor numbers(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype = at::kDouble) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble).mul(0.4).to(dtype);
}

DictionaryConfig config_at(const std::string& place, std::int64_t width) {
  DictionaryConfig c;
  c.d_in = c.d_out = width;
  c.features = kFeatures;
  c.dtype = at::kDouble;
  c.input = c.output = place;
  c.subtracts_decoder_bias = true;
  return c;
}

Dictionary dictionary_of(const DictionaryConfig& c) { return random_dictionary(c, 0); }
DictionaryWeights weights_of(const DictionaryConfig& c) { return dictionary_of(c).weights(); }

ModelConfig model_config(at::ScalarType dtype = at::kDouble) {
  ModelConfig config = small_config();
  config.dtype = dtype;
  return config;
}

at::Tensor plain_codes(const DictionaryConfig& c, const at::Tensor& x) {
  const DictionaryWeights w = weights_of(c);
  const at::Tensor in = c.subtracts_decoder_bias ? x - w.b_dec : x;
  return at::relu(in.matmul(w.W_enc) + w.b_enc);
}

at::Tensor plain_decoded(const DictionaryConfig& c, const at::Tensor& codes) {
  const DictionaryWeights w = weights_of(c);
  return codes.matmul(w.W_dec) + w.b_dec;
}

const char* const kPlace = "blocks.1.hook_resid_post";
const Address kHost = act::resid_post(1);

TEST(DictionaryRun, HasPointsUnderSaeLensNames) {
  const auto model = random_model(model_config());
  const auto spliced = model.with_dictionary(dictionary_of(config_at(kPlace, 8)));
  EXPECT_EQ(spliced.names().size(), model.names().size() + 6);
  EXPECT_EQ(Address(act::sae_acts_post(kHost)).to_string(), std::string(kPlace) + ".hook_sae_acts_post");
  EXPECT_EQ(ActivationName::parse("blocks.1.hook_resid_post.hook_sae_error").to_string(),
            "blocks.1.hook_resid_post.hook_sae_error");
  const auto tokens = random_tokens(model.config(), {2, 6});
  const auto run = spliced.run(tokens, {.capture = "*.hook_sae_*"});
  EXPECT_EQ(run.cache.size(), 6U);
  EXPECT_EQ(run.cache[act::sae_acts_post(kHost)].sizes(), (std::vector<std::int64_t>{2, 6, kFeatures}));
  EXPECT_EQ(spliced.run(tokens, {.capture = act::sae_acts_post}).cache.size(), 1U);
  EXPECT_EQ(spliced.run(tokens, {.capture = act::defaults}).cache.size(),
            model.run(tokens, {.capture = act::defaults}).cache.size())
      << "kept only on request";
  EXPECT_THROW(model.run(tokens, {.capture = act::sae_acts_post}), HookError);
}

TEST(DictionaryRun, WithoutTheErrorTermEqualsAHookByHand) {
  for (const char* place :
       {kPlace, "blocks.0.hook_mlp_out", "blocks.2.attn.hook_z", "blocks.2.hook_resid_post"}) {
    const auto model = random_model(model_config());
    const bool heads = std::string(place).ends_with("hook_z");
    DictionaryConfig c = config_at(place, heads ? 24 : 8);
    const auto tokens = random_tokens(model.config(), {2, 6});
    const auto without_axis = model.with_dictionary(dictionary_of(c))(tokens);
    c.flattens_heads = heads;  // as SAELens saves a dictionary of all heads
    const auto spliced = model.with_dictionary(dictionary_of(c));
    EXPECT_TRUE(at::equal(spliced(tokens), without_axis)) << place;
    const auto by_hand =
        model.run_with_hooks(tokens, Hook(Selection(place), [&](const at::Tensor& x) {
                               return plain_decoded(c, plain_codes(c, x.flatten(2))).view(x.sizes());
                             }));
    EXPECT_TRUE(all_close(spliced(tokens), by_hand.logits(), 1e-12)) << place;
    const auto kept = spliced.run(tokens, {.capture = "*.hook_sae_acts_post,*.hook_sae_output"});
    EXPECT_TRUE(at::equal(kept.logits(), spliced(tokens)))
        << "with and without the features as a whole " << place;
  }
}

TEST(DictionaryRun, WithTheErrorTermIsThePlainRunToTheLastBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const auto model = random_model(model_config(dtype));
    DictionaryConfig c = config_at(kPlace, 8);
    c.dtype = at::kFloat;
    const auto spliced = model.with_dictionary(dictionary_of(c), {.with_error = true});
    const auto tokens = random_tokens(model.config(), {3, 7});
    const auto plain = model(tokens);
    EXPECT_TRUE(at::equal(spliced(tokens), plain));
    const auto run = spliced.run(tokens, {.capture = "*.hook_sae_*,blocks.1.hook_resid_post"});
    EXPECT_TRUE(at::equal(run.logits(), plain));
    const auto x = run.cache[kHost];
    EXPECT_TRUE(at::equal(run.cache[act::sae_output(kHost)], x));
    EXPECT_TRUE(at::equal(run.cache[act::sae_acts_post(kHost)], dictionary_of(c).encode(x)))
        << "codes are computed in the dictionary's dtype";
    EXPECT_TRUE(all_close(run.cache[act::sae_error(kHost)] + run.cache[act::sae_recons(kHost)],
                          x.to(at::kFloat), dtype == at::kBFloat16 ? 1e-2 : 1e-5));
    RunOptions gradients{.gradients = GradientRequest{
                             .of = "blocks.0.hook_resid_post",
                             .metric = [](const at::Tensor& logits) { return logits.select(1, -1).sum(); }}};
    EXPECT_TRUE(at::equal(spliced.run(tokens, gradients).logits(), plain)) << "while gradients are recorded";
    const GenerateOptions greedy{.max_new_tokens = 3, .sampling = {.greedy = true}};
    const auto prompt = tokens.slice(0, 0, 1).slice(1, 0, 4);
    EXPECT_TRUE(at::equal(spliced.generate(prompt, greedy).tokens, model.generate(prompt, greedy).tokens));
  }
}

TEST(DictionaryRun, EditsOfFeaturesMoveTheActivationAlongTheirDirections) {
  const auto model = random_model(model_config());
  const DictionaryConfig c = config_at(kPlace, 8);
  const DictionaryWeights w = weights_of(c);
  const auto tokens = random_tokens(model.config(), {2, 6});
  const auto plain = model.run(tokens, {.capture = kHost});
  const auto codes = plain_codes(c, plain.cache[kHost]);
  const Address features = act::sae_acts_post(kHost);
  const auto expected = [&](const at::Tensor& edited) {
    return model
        .run_with_hooks(
            tokens,
            Hook(kHost.name(), [&](const at::Tensor& x) { return x + (edited - codes).matmul(w.W_dec); }))
        .logits();
  };
  const auto with_error = model.with_dictionary(dictionary_of(c), {.with_error = true});
  at::Tensor ablated = codes.clone();
  ablated.select(2, 5).zero_();
  EXPECT_TRUE(all_close(with_error.run(tokens, {.edits = zero(features.feature(5))}).logits(),
                        expected(ablated), 1e-12));
  at::Tensor clamped = codes.clone();
  clamped.select(1, 3).select(1, 7).fill_(2.5);
  EXPECT_TRUE(all_close(with_error.run(tokens, {.edits = set(features.feature(7).pos(3), 2.5)}).logits(),
                        expected(clamped), 1e-12));
  // Rows of a batch with edits of their own.
  at::Tensor each = codes.clone();
  each[0].select(1, 1).add_(1.0);
  each[1].select(1, 2).mul_(3.0);
  EXPECT_TRUE(all_close(with_error
                            .run(tokens, {.edits = {add(features.row(0).feature(1), 1.0),
                                                    scale(features.row(1).feature(2), 3.0)}})
                            .logits(),
                        expected(each), 1e-12));
  // The error term alone.
  const auto without = with_error.run(tokens, {.edits = zero(act::sae_error(kHost))});
  const auto by_hand = model.run_with_hooks(
      tokens, Hook(kHost.name(), [&](const at::Tensor&) { return plain_decoded(c, codes); }));
  EXPECT_TRUE(all_close(without.logits(), by_hand.logits(), 1e-12));
  // An edit during a generation is that of whole runs.
  const auto prompt = tokens.slice(0, 0, 1).slice(1, 0, 4);
  const GenerateOptions greedy{
      .max_new_tokens = 4, .sampling = {.greedy = true}, .edits = set(features.feature(7), 9.0)};
  const auto made = with_error.generate(prompt, greedy).tokens;
  at::Tensor so_far = prompt;
  for (int i = 0; i < 4; ++i) {
    const auto logits = with_error.run(so_far, {.edits = set(features.feature(7), 9.0)}).logits();
    so_far = at::cat({so_far, logits.select(1, -1).argmax(-1, true)}, 1);
  }
  EXPECT_TRUE(at::equal(made, so_far));
}

TEST(DictionaryRun, GradientsOfFeaturesAreThoseOfTheDecodersPath) {
  const auto model = random_model(model_config());
  const DictionaryConfig c = config_at(kPlace, 8);
  const DictionaryWeights w = weights_of(c);
  const auto tokens = random_tokens(model.config(), {2, 6});
  const auto metric = [](const at::Tensor& logits) { return logits.select(1, -1).select(1, 4).sum(); };
  // At resid_post itself, of a run in which the dictionary does not stand.
  const auto plain = model.run(tokens, {.gradients = GradientRequest{.of = kHost, .metric = metric}});
  for (const bool with_error : {true, false}) {
    const auto spliced = model.with_dictionary(dictionary_of(c), {.with_error = with_error});
    const auto run = spliced.run(
        tokens, {.gradients = GradientRequest{.of = "*.hook_sae_acts_post,*.hook_sae_error,*.hook_sae_output",
                                              .metric = metric}});
    const at::Tensor above = run.gradients[act::sae_output(kHost)];
    if (with_error) {
      EXPECT_TRUE(all_close(above, plain.gradients[kHost], 1e-12));
    }
    EXPECT_TRUE(all_close(run.gradients[act::sae_acts_post(kHost)], above.matmul(w.W_dec.t()), 1e-12));
    EXPECT_TRUE(
        all_close(run.gradients[act::sae_error(kHost)], with_error ? above : at::zeros_like(above), 1e-12));
  }
  // Earlier activations: through the codes only, because the error is a constant.
  const auto spliced = model.with_dictionary(dictionary_of(c), {.with_error = true});
  const auto run = spliced.run(
      tokens, {.capture = kHost,
               .gradients = GradientRequest{.of = kHost | Selection(act::sae_acts_pre), .metric = metric}});
  EXPECT_TRUE(
      all_close(run.gradients[kHost], run.gradients[act::sae_acts_pre(kHost)].matmul(w.W_enc.t()), 1e-12));
}

TEST(DictionaryRun, ATranscoderReadsAtOnePlaceAndWritesAtAnother) {
  const auto model = random_model(model_config());
  DictionaryConfig c = config_at("blocks.1.mlp.hook_in", 8);
  c.output = "blocks.1.hook_mlp_out";
  c.transcodes = c.skips = true;
  c.subtracts_decoder_bias = false;
  const DictionaryWeights w = weights_of(c);
  const auto tokens = random_tokens(model.config(), {2, 6});
  const auto plain = model.run(tokens, {.capture = "blocks.1.mlp.hook_in,blocks.1.ln2.hook_normalized"});
  const auto x = plain.cache["blocks.1.mlp.hook_in"];
  const StateDict weights = model.state_dict();
  EXPECT_TRUE(all_close(
      x, plain.cache[act::ln2_normalized(1)] * weights.at("blocks.1.ln2.w") + weights.at("blocks.1.ln2.b"),
      1e-12))
      << "what the MLP reads has the norm's weight";
  const auto by_hand =
      model.run_with_hooks(tokens, Hook(act::mlp_out(1).name(), [&](const at::Tensor&) {
                             return plain_decoded(c, plain_codes(c, x)) + x.matmul(w.W_skip.t());
                           }));
  const auto spliced = model.with_dictionary(dictionary_of(c));
  EXPECT_TRUE(all_close(spliced(tokens), by_hand.logits(), 1e-12));
  const auto with_error = model.with_dictionary(dictionary_of(c), {.with_error = true});
  EXPECT_TRUE(at::equal(with_error(tokens), model(tokens)));
  EXPECT_EQ(Address(act::sae_acts_post(act::mlp_out(1))).to_string(),
            "blocks.1.hook_mlp_out.hook_sae_acts_post");
  EXPECT_THROW(with_error.run(Input::start_at_layer(2, x), {.capture = act::sae_acts_post}), HookError);
}

TEST(DictionaryRun, LeavesExcludedTokensAsTheyAre) {
  const auto model = random_model(model_config());
  DictionaryConfig c = config_at(kPlace, 8);
  c.excluded.ids = {4, 9};
  const auto tokens = at::tensor({4, 1, 2, 9, 3, 4}, at::kLong).view({1, 6});
  const auto stays = tokens.eq(4).logical_or(tokens.eq(9)).unsqueeze(-1);
  const auto by_hand = model.run_with_hooks(tokens, Hook(kHost.name(), [&](const at::Tensor& x) {
                                              return at::where(stays, x, plain_decoded(c, plain_codes(c, x)));
                                            }));
  const auto spliced = model.with_dictionary(dictionary_of(c));
  const auto run = spliced.run(tokens, {.capture = act::sae_error});
  EXPECT_TRUE(all_close(run.logits(), by_hand.logits(), 1e-12));
  EXPECT_EQ(run.cache[act::sae_error(kHost)].masked_select(stays).abs().max().item<double>(), 0.0);
  const auto prompt = tokens.slice(1, 0, 4);
  const auto made = spliced.generate(prompt, {.max_new_tokens = 2, .sampling = {.greedy = true}}).tokens;
  const auto next = spliced(prompt).select(1, -1).argmax(-1, true);
  EXPECT_TRUE(at::equal(made.slice(1, 4, 5), next));
}

TEST(DictionaryRun, StandsWithOthers) {
  const auto model = random_model(model_config());
  const DictionaryConfig first = config_at("blocks.0.hook_resid_post", 8), second = config_at(kPlace, 8);
  const auto both = model.with_dictionary(dictionary_of(first)).with_dictionary(dictionary_of(second));
  const auto tokens = random_tokens(model.config(), {2, 6});
  const auto hook_of = [](const DictionaryConfig& c) {
    return Hook(Selection(c.input), [c](const at::Tensor& x) { return plain_decoded(c, plain_codes(c, x)); });
  };
  EXPECT_TRUE(all_close(both(tokens),
                        model.run_with_hooks(tokens, {hook_of(first), hook_of(second)}).logits(), 1e-12));
  EXPECT_EQ(both.run(tokens, {.capture = act::sae_acts_post}).cache.size(), 2U);
  EXPECT_THROW(both.with_dictionary(dictionary_of(second)), HookError) << "one stands there";
}

// What is fitted to a centred stream reads the raw one without its mean, which is what centring leaves; the
// mean goes on, because the model's norms remove it.
TEST(DictionaryRun, IsCarriedIntoOtherBasesWhereThatIsExact) {
  const ModelConfig config = model_config();
  const auto raw = random_model(config);
  const auto processed = random_model(config, WeightProcessing());
  const auto tokens = random_tokens(config, {2, 6});
  DictionaryConfig c = config_at(kPlace, 8);
  c.basis = {
      .folded_norms = true, .centred_writes = true, .centred_unembedding = true, .folded_value_biases = true};
  const auto fitted = dictionary_of(c);
  const auto there = processed.with_dictionary(fitted).run(tokens, {.capture = act::sae_acts_post});
  const auto here = raw.with_dictionary(fitted).run(tokens, {.capture = act::sae_acts_post});
  EXPECT_TRUE(
      all_close(here.cache[act::sae_acts_post(kHost)], there.cache[act::sae_acts_post(kHost)], 1e-10));
  EXPECT_TRUE(all_close(here.logits().log_softmax(-1), there.logits().log_softmax(-1), 1e-10));
  // Fitted to the raw stream: its mean is lost in a centred model.
  DictionaryConfig of_raw = c;
  of_raw.basis = {};
  EXPECT_THROW(processed.with_dictionary(dictionary_of(of_raw)), ConfigError);
  EXPECT_NO_THROW(random_model(config, WeightProcessing::only({ProcessingStep::fold_ln}))
                      .with_dictionary(dictionary_of(of_raw)))
      << "folding does not change the stream";
  // What the MLP reads: a folded norm's output is the raw one's before its weight.
  DictionaryConfig mlp = config_at("blocks.1.mlp.hook_in", 8);
  mlp.output = "blocks.1.hook_mlp_out";
  mlp.transcodes = true;
  mlp.subtracts_decoder_bias = false;
  mlp.basis.folded_norms = true;
  const auto folded = random_model(config, WeightProcessing::only({ProcessingStep::fold_ln}));
  EXPECT_TRUE(all_close(raw.with_dictionary(dictionary_of(mlp))(tokens).log_softmax(-1),
                        folded.with_dictionary(dictionary_of(mlp))(tokens).log_softmax(-1), 1e-10));
  mlp.basis.folded_norms = false;
  EXPECT_THROW(folded.with_dictionary(dictionary_of(mlp)), ConfigError);
}

TEST(DictionaryRun, ACrossLayerTranscoderWritesToLaterLayers) {
  const auto model = random_model(model_config());
  std::vector<Dictionary> members;
  std::vector<DictionaryWeights> weights;
  std::vector<DictionaryConfig> configs;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    DictionaryConfig c = config_at("blocks." + std::to_string(layer) + ".mlp.hook_in", 8);
    c.output = "blocks." + std::to_string(layer) + ".hook_mlp_out";
    c.layer = layer;
    c.transcodes = c.crosses_layers = true;
    c.subtracts_decoder_bias = false;
    DictionaryWeights w = weights_of(c);
    w.W_enc = numbers({8, kFeatures}, 50 + static_cast<std::uint64_t>(layer));
    w.W_dec = numbers({kFeatures, 3 - layer, 8}, 60 + static_cast<std::uint64_t>(layer));
    members.emplace_back(c, w);
    weights.push_back(w);
    configs.push_back(c);
  }
  const auto tokens = random_tokens(model.config(), {2, 6});
  std::vector<at::Tensor> codes(3);
  std::vector<Hook> hooks;
  double step = 0;  // added to a feature of layer 0
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    const auto i = static_cast<std::size_t>(layer);
    hooks.emplace_back(Selection(configs[i].input), [&, i](const at::Tensor& x) {
      codes[i] = at::relu(x.matmul(weights[i].W_enc) + weights[i].b_enc);
      if (i == 0) codes[0].select(2, 9).add_(step);
    });
    hooks.emplace_back(Selection(configs[i].output), [&, i](const at::Tensor&) {
      at::Tensor sum = weights[i].b_dec.expand({2, 6, 8});
      for (std::size_t from = 0; from <= i; ++from)
        sum = sum + codes[from].matmul(weights[from].W_dec.select(1, static_cast<std::int64_t>(i - from)));
      return sum;
    });
  }
  const DictionarySet set(members);
  const auto spliced = model.with_dictionaries(set);
  EXPECT_TRUE(all_close(spliced(tokens), model.run_with_hooks(tokens, hooks).logits(), 1e-11));
  step = 1.5;
  const Edit moved = add(act::sae_acts_post(act::mlp_out(0)).feature(9), step);
  EXPECT_TRUE(all_close(spliced.run(tokens, {.edits = moved}).logits(),
                        model.run_with_hooks(tokens, hooks).logits(), 1e-11));
  const auto with_error = model.with_dictionaries(set, true);
  EXPECT_TRUE(at::equal(with_error(tokens), model(tokens)));
  // Each layer's MLP computes on what the step has changed, and its error is held.
  const at::Tensor direction = weights[0].W_dec.select(0, 9) * step;  // [layer, d_model]
  std::vector<Hook> moves;
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    moves.emplace_back(act::mlp_out(static_cast<std::int32_t>(layer)).name(),
                       [&, layer](const at::Tensor& x) { return x + direction[layer]; });
  }
  EXPECT_TRUE(all_close(with_error.run(tokens, {.edits = moved}).logits(),
                        model.run_with_hooks(tokens, moves).logits(), 1e-11));
  EXPECT_TRUE(with_error.without_dictionary(act::mlp_out(1).name()).dictionaries().empty());
  EXPECT_THROW(model.with_dictionary(members[0]), ConfigError);
}

TEST(DictionaryRun, RefusesPlacesThatDoNotFit) {
  const auto model = random_model(model_config());
  const auto sized = [](std::int64_t width) { return dictionary_of(config_at("", width)); };
  const auto at_place = [](const Address& place) { return DictionaryPlace{.input = place.name()}; };
  EXPECT_THROW(model.with_dictionary(sized(8)), HookError) << "its files name no place";
  EXPECT_THROW(model.with_dictionary(sized(9), at_place(kHost)), ShapeError);
  EXPECT_THROW(model.with_dictionary(sized(8), at_place(act::resid_post(3))), HookError) << "no such layer";
  EXPECT_THROW(model.with_dictionary(sized(8), at_place(act::pattern(0))), HookError);
  EXPECT_THROW(model.with_dictionary(sized(8), at_place(act::tokens)), HookError);
  EXPECT_NO_THROW(model.with_dictionary(sized(8), at_place(act::resid_post(-1))));
}

}  // namespace
}  // namespace hooked::dictionary_run_test
