// Encoder-decoders: two stacks, what each reads, and what continued runs keep of the encoder.
#include <ATen/ops/argmax.h>

#include "hooked/engine/continuation.h"
#include "hooked/engine/trainable_transformer.h"
#include "tests/engine/continued_runs.h"
#include "tests/support/temp_folder.h"

namespace hooked::encoder_decoder_test {
namespace {

constexpr double kTolerance = 1e-12;

HookedTransformer random_two_stacks(const ModelConfig& config = two_stack_config()) {
  return random_model(config, WeightProcessing());
}

class EncoderDecoder : public testing::Test {
 protected:
  Input input() const { return {tokens_, {.decoder = {.tokens = decoder_tokens_}}}; }
  RunResult run(const RunOptions& options = {}) const { return model_.run(input(), options); }
  ActivationCache everything() const { return run({.capture = act::everything}).cache; }

  HookedTransformer model_ = random_two_stacks();
  at::Tensor tokens_ = random_tokens(two_stack_config(), {2, 6}, 1);
  at::Tensor decoder_tokens_ = random_tokens(two_stack_config(), {2, 4}, 2);
};

void expect_near(const at::Tensor& ours, const at::Tensor& expected, const std::string& what) {
  EXPECT_LT(relative_difference(ours, expected), kTolerance) << what;
}

TEST_F(EncoderDecoder, EveryNameOfBothStacksIsSeen) {
  const ActivationCache cache = everything();
  std::set<ActivationName> seen;
  for (const auto& entry : cache) seen.insert(entry.name);
  EXPECT_EQ(seen, std::set<ActivationName>(model_.names().begin(), model_.names().end()));
  EXPECT_EQ(cache["encoder.1.hook_resid_post"].size(1), 6);
  EXPECT_EQ(cache["decoder.2.hook_resid_post"].size(1), 4);
  EXPECT_EQ(cache[act::cross_pattern(0)].sizes(), (std::vector<std::int64_t>{2, 4, 4, 6}));
  EXPECT_EQ(cache[act::cross_k(-1)].sizes(), (std::vector<std::int64_t>{2, 6, 2, 6}));
  EXPECT_TRUE(at::equal(cache[act::resid_post.encoder(-1)], cache["encoder.1.hook_resid_post"]));
  EXPECT_TRUE(at::equal(cache[act::resid_post.decoder(-1)], cache["decoder.2.hook_resid_post"]));
}

TEST_F(EncoderDecoder, TheStreamsAddUp) {
  const ActivationCache cache = everything();
  for (const std::int32_t l : {0, 1}) {
    const at::Tensor mid = cache[act::resid_pre.encoder(l)] + cache[act::attn_out.encoder(l)];
    expect_near(cache[act::resid_mid.encoder(l)], mid, "encoder mid");
    expect_near(cache[act::resid_post.encoder(l)], mid + cache[act::mlp_out.encoder(l)], "encoder post");
  }
  for (const std::int32_t l : {0, 1, 2}) {
    const at::Tensor mid = cache[act::resid_pre.decoder(l)] + cache[act::attn_out.decoder(l)];
    const at::Tensor cross = mid + cache[act::cross_attn_out(l)];
    expect_near(cache[act::resid_mid_cross(l)], cross, "decoder cross");
    expect_near(cache[act::resid_post.decoder(l)], cross + cache[act::mlp_out.decoder(l)], "decoder post");
    expect_near(cache[act::cross_pattern(l)].sum(-1), at::ones({2, 4, 4}, at::kDouble), "rows sum to one");
    const at::Tensor b_O = model_.state_dict().at("decoder." + std::to_string(l) + ".cross_attn.b_O");
    expect_near(cache[act::cross_result(l)].sum(2) + b_O, cache[act::cross_attn_out(l)], "heads");
  }
}

TEST_F(EncoderDecoder, TheDecoderSeesItsPastAndAllOfTheSource) {
  const at::Tensor logits = run().logits();
  at::Tensor later = decoder_tokens_.clone();
  later.select(1, 3).fill_(9);
  const at::Tensor changed = model_.run({tokens_, {.decoder = {.tokens = later}}}).logits();
  EXPECT_TRUE(at::equal(changed.narrow(1, 0, 3), logits.narrow(1, 0, 3)));
  EXPECT_FALSE(at::equal(changed.narrow(1, 3, 1), logits.narrow(1, 3, 1)));
  at::Tensor source = tokens_.clone();
  source.select(1, 5).fill_(9);
  const auto other =
      model_.run({source, {.decoder = {.tokens = decoder_tokens_}}}, {.capture = act::everything});
  EXPECT_GT(relative_difference(other.cache[act::resid_post.encoder(0)].select(1, 0),
                                everything()[act::resid_post.encoder(0)].select(1, 0)),
            1e-3);
  EXPECT_GT(relative_difference(other.logits().select(1, 0), logits.select(1, 0)), 1e-3);
}

TEST_F(EncoderDecoder, PaddingOnEitherSideOfEitherStackChangesNothing) {
  const at::Tensor ones = at::ones({2, 1}, at::kLong);
  const at::Tensor alone = run().logits();
  for (const bool left : {true, false}) {
    const auto pad = [&](const at::Tensor& tokens, std::int64_t filler) {
      const at::Tensor padding = at::full({2, 3}, filler, at::kLong);
      return left ? at::cat({padding, tokens}, 1) : at::cat({tokens, padding}, 1);
    };
    const at::Tensor source_mask = pad(at::ones({2, 6}, at::kLong), 0);
    const at::Tensor decoder_mask = pad(at::ones({2, 4}, at::kLong), 0);
    const at::Tensor logits =
        model_
            .run({pad(tokens_, 7),
                  {.attention_mask = source_mask,
                   .decoder = {.tokens = pad(decoder_tokens_, 8), .attention_mask = decoder_mask}}})
            .logits();
    expect_near(logits.narrow(1, left ? 3 : 0, 4), alone, left ? "left" : "right");
    const auto watched =
        model_.run({pad(tokens_, 7),
                    {.attention_mask = source_mask,
                     .decoder = {.tokens = pad(decoder_tokens_, 8), .attention_mask = decoder_mask}}},
                   {.capture = act::pattern | act::cross_pattern});
    expect_near(watched.logits().narrow(1, left ? 3 : 0, 4), alone,
                left ? "left, watched" : "right, watched");
  }
}

TEST_F(EncoderDecoder, ARowOfABatchIsTheRowAlone) {
  const at::Tensor one = model_.run({tokens_[1], {.decoder = {.tokens = decoder_tokens_[1]}}}).logits();
  expect_near(one[0], run().logits()[1], "row 1");
}

TEST_F(EncoderDecoder, WithoutTokensTheDecoderReadsItsStartToken) {
  const at::Tensor start = at::full({2, 1}, 1, at::kLong);
  EXPECT_TRUE(at::equal(model_(tokens_), model_.run({tokens_, {.decoder = {.tokens = start}}}).logits()));
}

TEST_F(EncoderDecoder, GreedyTokensAndCapturesEqualThoseOfFullRuns) {
  const auto made = model_.generate(
      tokens_, {.max_new_tokens = 6, .sampling = {.greedy = true}, .capture = act::everything});
  at::Tensor row = at::full({2, 1}, 1, at::kLong);
  for (int i = 0; i < 6; ++i) {
    const at::Tensor logits = model_.run({tokens_, {.decoder = {.tokens = row}}}).logits();
    row = at::cat({row, logits.select(1, -1).argmax(-1, /*keepdim=*/true)}, 1);
  }
  EXPECT_TRUE(at::equal(made.tokens, row));
  const ActivationCache full =
      model_.run({tokens_, {.decoder = {.tokens = row}}}, {.capture = act::everything}).cache;
  ASSERT_EQ(made.cache.size(), full.size());
  for (const auto& entry : full) {
    expect_near(made.cache[entry.name.to_string()], entry.value(), entry.name.to_string());
  }
}

TEST_F(EncoderDecoder, ARunFromAPrefixIsTheEndOfTheWholeRun) {
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({2, 6});
  const auto part = [&](std::int64_t first, std::int64_t length) {
    return decoder_tokens_.narrow(1, first, length);
  };
  const Input whole{tokens_, {.attention_mask = mask, .decoder = {.tokens = decoder_tokens_}}};
  const Input beginning{tokens_, {.attention_mask = mask, .decoder = {.tokens = part(0, 2)}}};
  const Prefix prefix = prefix_of(model_, beginning);
  EXPECT_EQ(prefix.length(), 2);
  const Prefix longer = prefix_of(model_, {part(2, 1), {.prefix = prefix}});
  const RunResult full = model_.run_with_cache(whole, act::everything);
  for (const Selection& capture : {Selection(act::everything), Selection()}) {
    const RunResult rest = model_.run({part(2, 2), {.prefix = prefix}}, {.capture = capture});
    expect_end_of(full, rest, kTolerance);
    expect_near(model_.run({part(3, 1), {.prefix = longer}}, {.capture = capture}).logits(),
                full.logits().narrow(1, 3, 1), "rest of a longer prefix");
    for (const auto& entry : rest.cache) {
      EXPECT_NE(entry.name.stack, Stack::encoder) << entry.name.to_string();
      ASSERT_TRUE(axis_on(entry.name.site, Axis::pos)) << entry.name.to_string();
    }
  }
  EXPECT_TRUE(at::equal(model_.generate({part(2, 2), {.prefix = prefix}}, greedy(4)).tokens,
                        model_.generate(whole, greedy(4)).tokens.narrow(1, 2, 6)));
  EXPECT_THROW(model_.run({part(2, 2), {.prefix = prefix}}, {.capture = act::cross_k(0)}), HookError)
      << "the encoder does not run again";
}

TEST_F(EncoderDecoder, OneRowThatTheEncoderReadServesMany) {
  const at::Tensor one = tokens_.narrow(0, 0, 1);
  const Prefix prefix = prefix_of(model_, one);
  const at::Tensor start = at::full({2, 1}, 1, at::kLong);
  const Input whole{one.expand({2, 6}), {.decoder = {.tokens = at::cat({start, decoder_tokens_}, 1)}}};
  expect_near(model_.run({decoder_tokens_, {.prefix = prefix}}).logits(),
              model_.run(whole).logits().narrow(1, 1, 4), "two rows");
  const at::Tensor scored = continuation_log_probs(model_, one, decoder_tokens_.narrow(0, 1, 1));
  expect_near(
      continuation_log_probs(model_, {decoder_tokens_.narrow(0, 1, 1).narrow(1, 0, 1), {.prefix = prefix}},
                             decoder_tokens_.narrow(0, 1, 1).narrow(1, 1, 3)),
      scored.narrow(1, 1, 3), "log-probabilities");
}

TEST_F(EncoderDecoder, TheDecoderStartsFromAResidual) {
  const RunResult full = run({.capture = act::everything});
  for (std::int32_t layer = 0; layer <= 3; ++layer) {
    const at::Tensor resid =
        layer < 3 ? full.cache[act::resid_pre.decoder(layer)] : full.cache[act::resid_post.decoder(2)];
    const RunResult resumed =
        model_.run({tokens_, {.start = StartAtLayer{layer, resid}}}, {.capture = act::everything});
    EXPECT_TRUE(at::equal(resumed.logits(), full.logits())) << layer;
    for (const auto& entry : resumed.cache) {
      EXPECT_TRUE(at::equal(entry.value(), full.cache[entry.name])) << entry.name.to_string();
      EXPECT_TRUE(entry.name.stack != Stack::decoder || entry.name.layer >= layer);
    }
  }
  const RunResult stopped = run({.stop_at_layer = 1});
  const Input from_there{tokens_, {.start = StartAtLayer{1, stopped.residual()}}};
  expect_near(model_.run(from_there).logits(), full.logits(), "from the residual of another run");
  const Input beginning{tokens_, {.decoder = {.tokens = decoder_tokens_.narrow(1, 0, 2)}}};
  const Prefix prefix = prefix_of(model_, beginning);
  const at::Tensor rest = full.cache[act::resid_pre.decoder(1)].narrow(1, 2, 2);
  expect_near(model_.run(Input::start_at_layer(1, rest, {.prefix = prefix})).logits(),
              full.logits().narrow(1, 2, 2), "after a prefix");
}

TEST_F(EncoderDecoder, WhatDoesNotFitAPrefixOrAResidualIsRefused) {
  const Prefix prefix = model_.run(input(), {.keep_prefix = true}).prefix.value();
  const at::Tensor resid = run({.stop_at_layer = 1}).residual();
  const auto where_refused = [&](const Input& given) {
    const auto error = thrown_by<ShapeError>([&] { model_.run(given); });
    return error ? error->where() : std::string();
  };
  const DecoderInput decoder{.tokens = decoder_tokens_};
  EXPECT_EQ(where_refused({tokens_, {.decoder = decoder, .prefix = prefix}}), "decoder_tokens");
  EXPECT_EQ(where_refused({tokens_, {.decoder = decoder, .start = StartAtLayer{1, resid}}}),
            "start_at_layer");
  EXPECT_EQ(where_refused(Input::start_at_layer(1, resid)), "tokens") << "the encoder reads something";
  EXPECT_EQ(where_refused({tokens_.narrow(0, 0, 1), {.start = StartAtLayer{1, resid}}}), "residual");
  EXPECT_THROW(model_.generate({tokens_, {.start = StartAtLayer{1, resid}}}), ShapeError);
}

TEST_F(EncoderDecoder, GenerationGoesOnFromGivenTokensAndPaddedRows) {
  const at::Tensor alone = model_
                               .generate({tokens_[0], {.decoder = {.tokens = decoder_tokens_[0]}}},
                                         {.max_new_tokens = 4, .sampling = {.greedy = true}})
                               .tokens;
  const at::Tensor pad = at::zeros({1, 2}, at::kLong);
  const auto padded =
      model_.generate({at::cat({pad, tokens_.narrow(0, 0, 1)}, 1),
                       {.attention_mask = at::cat({pad, at::ones({1, 6}, at::kLong)}, 1),
                        .decoder = {.tokens = at::cat({pad, decoder_tokens_.narrow(0, 0, 1)}, 1),
                                    .attention_mask = at::cat({pad, at::ones({1, 4}, at::kLong)}, 1)}}},
                      {.max_new_tokens = 4, .sampling = {.greedy = true}});
  EXPECT_TRUE(at::equal(padded.tokens.narrow(1, 2, 8), alone));
}

TEST_F(EncoderDecoder, EditsReachTheSequenceTheyName) {
  const auto cross = [&](const Edit& edit, const at::Tensor& mask = {}) {
    return model_
        .run({tokens_, {.attention_mask = mask, .decoder = {.tokens = decoder_tokens_}}},
             {.edits = {edit}, .capture = act::everything})
        .cache;
  };
  const ActivationCache plain = everything();
  // Positions of activations computed from the source count the source.
  const ActivationCache last_key = cross(zero(act::cross_k(1).pos(-1)));
  EXPECT_TRUE(at::equal(last_key[act::cross_k(1)].select(1, 5), at::zeros({2, 2, 6}, at::kDouble)));
  EXPECT_TRUE(at::equal(last_key[act::cross_k(1)].narrow(1, 0, 5), plain[act::cross_k(1)].narrow(1, 0, 5)));
  // `last` is each row's own: row 1 of the source ends two tokens early.
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}, at::kLong).view({2, 6});
  const ActivationCache last =
      cross(set(EditTarget::parse("decoder.0.cross_attn.hook_v[pos=last]"), 7.0), mask);
  at::Tensor set_to_seven = at::zeros({2, 6, 2, 6}, at::kBool);
  set_to_seven[0][5].fill_(true);
  set_to_seven[1][3].fill_(true);
  EXPECT_TRUE(at::equal(last[act::cross_v(0)].eq(7.0), set_to_seven));
  const ActivationCache key = cross(set(act::cross_pattern(0).at(Axis::key, -1), 7.0));
  EXPECT_TRUE(at::equal(key[act::cross_pattern(0)].select(-1, 5), at::full({2, 4, 4}, 7.0, at::kDouble)));
  // What cross-attention reads is not what continues in the stream.
  const ActivationCache read = cross(zero(act::cross_attn_in(2)));
  EXPECT_TRUE(at::equal(read[act::resid_mid.decoder(2)], plain[act::resid_mid.decoder(2)]));
  EXPECT_FALSE(at::equal(read[act::cross_attn_out(2)], plain[act::cross_attn_out(2)]));
  expect_near(read[act::resid_mid_cross(2)], read[act::resid_mid.decoder(2)] + read[act::cross_attn_out(2)],
              "stream");
}

TEST_F(EncoderDecoder, TheRelativeBiasIsSharedByEveryBlock) {
  StateDict weights = model_.state_dict();
  weights.at("encoder.0.attn.rel_pos_bias.weight").zero_();
  const auto without = HookedTransformer::from_state_dict(weights, model_.config());
  const at::Tensor expected = without.run({tokens_, {.decoder = {.tokens = decoder_tokens_}}}).logits();
  expect_near(run({.edits = {zero(act::relative_bias.encoder(0))}}).logits(), expected, "edited");
  EXPECT_GT(relative_difference(run().logits(), expected), 1e-3);
}

TEST_F(EncoderDecoder, OrEveryBlockHasABiasOfItsOwn) {
  ModelConfig config = model_.config();
  config.relative()->in_every_block = true;
  const auto model = random_two_stacks(config);
  const auto plain = model.run(input(), {.capture = act::everything});
  StateDict weights = model.state_dict();
  weights.at("decoder.1.attn.rel_pos_bias.weight").zero_();
  const auto without = HookedTransformer::from_state_dict(weights, config);
  const at::Tensor expected = without.run(input()).logits();
  const auto edited =
      model.run(input(), {.edits = {zero(act::relative_bias.decoder(1))}, .capture = act::everything});
  expect_near(edited.logits(), expected, "edited");
  EXPECT_TRUE(at::equal(edited.cache[act::z.decoder(0)], plain.cache[act::z.decoder(0)]));
  EXPECT_GT(relative_difference(plain.logits(), expected), 1e-3);
}

TEST_F(EncoderDecoder, ARunEndsWithWhatIsAskedFor) {
  const auto encoder = model_.run(tokens_, {.capture = act::resid_post.encoder(0), .output = Output::none});
  EXPECT_EQ(encoder.cache.size(), 1U);
  expect_near(encoder.cache[act::resid_post.encoder(0)], everything()[act::resid_post.encoder(0)], "encoder");
  const auto output =
      model_.run(tokens_, {.capture = Selection("encoder_final_ln.hook_normalized"), .output = Output::none});
  EXPECT_EQ(output.cache.size(), 1U);
  const auto stopped = run({.capture = act::everything, .stop_at_layer = 1});
  expect_near(stopped.residual(), everything()[act::resid_post.decoder(0)], "stopped");
  for (const auto& entry : stopped.cache) {
    EXPECT_NE(row(entry.name.site).scope, SiteScope::exit);
    EXPECT_TRUE(entry.name.stack != Stack::decoder || entry.name.layer < 1) << entry.name.to_string();
  }
  EXPECT_TRUE(stopped.cache.contains({Site::resid_post, Stack::encoder, 1, -1}));
}

TEST_F(EncoderDecoder, GradientsAreThoseOfSmallChanges) {
  const LogitMetric metric = [](const at::Tensor& logits) { return logits[0][3][2] - logits[0][3][5]; };
  for (const Address& where : {Address(act::resid_post.encoder(0)), Address(act::relative_bias.encoder(0)),
                               Address(act::relative_bias.decoder(0)), act::cross_z(1), act::cross_v(0),
                               Address(act::resid_pre.decoder(0)), Address(act::embed)}) {
    const auto result = run({.gradients = GradientRequest{.of = where, .metric = metric}});
    const at::Tensor gradient = result.gradients[where];
    auto generator = at::detail::createCPUGenerator(8);
    const at::Tensor step = at::rand(gradient.sizes(), generator, gradient.options()) - 0.5;
    constexpr double kSmall = 1e-5;
    const at::Tensor up = metric(run({.edits = {add(where, step * kSmall)}}).logits());
    const at::Tensor down = metric(run({.edits = {add(where, step * -kSmall)}}).logits());
    const double slope = ((up - down) / (2 * kSmall)).item<double>();
    EXPECT_NEAR((gradient * step).sum().item<double>(), slope, 1e-6 * std::max(1.0, std::abs(slope)))
        << where.name().to_string();
  }
}

TEST_F(EncoderDecoder, TheLossIsTheDecoders) {
  const at::Tensor logits = run().logits();
  const at::Tensor loss = run({.output = Output::loss}).loss();
  const at::Tensor expected = -logits.narrow(1, 0, 3)
                                   .log_softmax(-1)
                                   .gather(-1, decoder_tokens_.narrow(1, 1, 3).unsqueeze(-1))
                                   .mean();
  expect_near(loss, expected, "loss");
}

TEST_F(EncoderDecoder, ASavedModelLoadsUnchanged) {
  const TempFolder folder;
  model_.save(folder.path() / "m");
  const auto again = HookedTransformer::load((folder.path() / "m").string());
  EXPECT_EQ(again.config(), model_.config());
  EXPECT_TRUE(
      at::equal(again.run({tokens_, {.decoder = {.tokens = decoder_tokens_}}}).logits(), run().logits()));
  std::int64_t count = 0;
  for (const auto& [name, weight] : model_.state_dict()) count += weight.numel();
  EXPECT_EQ(model_.config().parameter_count(), count);
}

TEST_F(EncoderDecoder, ACacheIsSavedWithItsLayers) {
  const TempFolder folder;
  everything().save(folder.path() / "c.safetensors");
  const auto again = ActivationCache::load(folder.path() / "c.safetensors");
  EXPECT_TRUE(at::equal(again[act::resid_pre.encoder(-1)], everything()[act::resid_pre.encoder(1)]));
}

TEST_F(EncoderDecoder, TheTrainableModelAgrees) {
  const auto trainable = TrainableTransformer::from(model_);
  const at::Tensor logits = trainable.forward({tokens_, {.decoder = {.tokens = decoder_tokens_}}});
  expect_near(logits.detach(), run().logits(), "logits");
  logits.sum().backward();
  for (const auto& [name, parameter] : trainable.named_parameters())
    EXPECT_TRUE(parameter.grad().defined()) << name;
  const at::Tensor loss = trainable.loss({tokens_, {.decoder = {.tokens = decoder_tokens_}}});
  expect_near(loss.detach(), run({.output = Output::loss}).loss(), "loss");
}

TEST_F(EncoderDecoder, WeightsAreProcessedAsThoseOfOneStack) {
  const auto outcome = [&](ProcessingStep step) {
    return model_.processing()[static_cast<std::size_t>(step)].outcome;
  };
  for (const ProcessingStep step :
       {ProcessingStep::fold_ln, ProcessingStep::center_unembed, ProcessingStep::fold_value_biases}) {
    EXPECT_EQ(outcome(step), "applied");
  }
  EXPECT_NE(outcome(ProcessingStep::center_writing_weights).find("RMSNorm"), std::string::npos);
  const StateDict weights = model_.state_dict();
  for (const char* gone :
       {"encoder.0.ln1.w", "decoder.0.ln3.w", "encoder_final_ln.w", "decoder_final_ln.w"}) {
    EXPECT_FALSE(weights.contains(gone)) << gone;
  }
}

TEST_F(EncoderDecoder, WeightViewsHaveBothStacks) {
  const HookedTransformer raw = HookedTransformer::create(two_stack_config(), {.seed = 3});
  const StateDict weights = raw.state_dict();
  const WeightView decoder = raw.weights(), encoder = decoder.encoder(), cross = decoder.cross_attention();
  EXPECT_TRUE(at::equal(decoder.W_Q(-1), weights.at("decoder.2.attn.W_Q")));
  EXPECT_TRUE(at::equal(encoder.W_K(1), weights.at("encoder.1.attn._W_K")));
  EXPECT_TRUE(at::equal(cross.W_V(0), weights.at("decoder.0.cross_attn._W_V")));
  EXPECT_TRUE(at::equal(cross.b_O(2), weights.at("decoder.2.cross_attn.b_O")));
  EXPECT_TRUE(at::equal(decoder.ln3(1).w, weights.at("decoder.1.ln3.w")));
  EXPECT_TRUE(at::equal(encoder.ln_final().w, weights.at("encoder_final_ln.w")));
  EXPECT_TRUE(at::equal(decoder["decoder.0.attn.rel_pos_bias.weight"],
                        weights.at("decoder.0.attn.rel_pos_bias.weight")));
  EXPECT_EQ(encoder.W_Q().sizes(), (std::vector<std::int64_t>{2, 4, 8, 6}));
  EXPECT_EQ(decoder.W_in().sizes(), (std::vector<std::int64_t>{3, 8, 12}));
  EXPECT_THROW(encoder.W_Q(2), ConfigError);
  EXPECT_THROW(encoder.cross_attention(), ConfigError);
  EXPECT_THROW(encoder.ln3(0), ConfigError);
  EXPECT_THROW(random_model().weights().encoder(), ConfigError);
  EXPECT_THROW(random_model().weights().cross_attention(), ConfigError);
  EXPECT_NE(text_thrown_by<ConfigError>([&] { decoder["decoder.0.attn.W_K"]; }).find("decoder.0.attn._W_K"),
            std::string::npos);
}

TEST_F(EncoderDecoder, BadInputIsRefused) {
  const auto refused = [&](const InputDetails& details, const std::string& where) {
    EXPECT_TRUE(throws<ShapeError>([&] { model_.run({tokens_, details}); }, where)) << where;
  };
  refused({.decoder = {.tokens = at::full({1, 3}, 1, at::kLong)}}, "decoder_tokens");
  refused({.decoder = {.tokens = at::full({2, 3}, 11, at::kLong)}}, "decoder_tokens");
  refused({.decoder = {.tokens = at::ones({2, 3}, at::kDouble)}}, "decoder_tokens");
  refused({.decoder = {.attention_mask = at::ones({2, 3}, at::kLong)}}, "decoder_attention_mask");
  refused({.attention_mask = at::ones({2, 3}, at::kLong)}, "attention_mask");
  EXPECT_TRUE(throws<ShapeError>(
      [&] {
        random_model().run({tokens_, {.decoder = {.tokens = decoder_tokens_}}});
      },
      "decoder_tokens"));
  ModelConfig nameless = two_stack_config();
  nameless.encoder->decoder_start_token.reset();
  EXPECT_TRUE(throws<ShapeError>([&] { random_two_stacks(nameless)(tokens_); }, "decoder_tokens"));
}

TEST_F(EncoderDecoder, ANameOfAnotherStackIsAMiss) {
  const std::string text =
      text_thrown_by<HookError>([&] { run({.capture = act::pattern.in(Stack::blocks, 1)}); });
  EXPECT_NE(text.find("coder.1.attn.hook_pattern"), std::string::npos) << text;
  EXPECT_THROW(run({.capture = act::resid_pre.encoder(2)}), HookError);
  EXPECT_THROW(random_model().run(tokens_, {.capture = act::resid_pre.encoder(0)}), HookError);
  EXPECT_THROW(random_model().run(tokens_, {.capture = act::cross_pattern}), HookError);
  for (const Address& once : {act::resid_post.encoder(0), act::cross_k(0)}) {
    EXPECT_THROW(
        model_.generate(tokens_,
                        {.max_new_tokens = 2, .sampling = {.greedy = true}, .new_token_edits = {zero(once)}}),
        HookError);
  }
}

}  // namespace
}  // namespace hooked::encoder_decoder_test
