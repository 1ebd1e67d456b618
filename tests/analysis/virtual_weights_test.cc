#include "hooked/analysis/virtual_weights.h"

#include <tuple>

#include "hooked/analysis/residual.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::virtual_weights_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number

/// The last position minus the first, [row, ..]: biases cancel.
at::Tensor difference(const at::Tensor& x) { return x.select(1, x.size(1) - 1) - x.select(1, 0); }

void expect_same(const at::Tensor& ours, const at::Tensor& shown, const std::string& what) {
  ASSERT_EQ(ours.sizes(), shown.sizes()) << what;
  EXPECT_LE(largest(ours - shown), kTolerance * std::max(1.0, largest(shown))) << what;
}

class StreamMatricesOfGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(StreamMatricesOfGolden, ReadAndWriteWhatARunDoes) {
  for (const bool processed : {false, true}) {
    const auto golden = golden_model(GetParam(), processed);
    const auto& [model, cache, logits, tokens] = golden;
    const auto& config = model.config();
    if (tokens.size(1) < 2) continue;
    if (config.qkv_clip > 0) {
      EXPECT_THROW(stream_matrix(model, {.matrix = StreamMatrix::query}), HookError);
    }
    for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
      if (!config.dense_mlp(layer)) continue;
      const bool on_stream = config.norms_stream() && config.norm_place == NormPlace::stream;
      const bool reads_norms = config.norms_inputs(layer) || on_stream;
      const auto part = [&](StreamMatrix matrix) {
        return stream_matrix(model, {.matrix = matrix, .layer = layer});
      };
      // After a norm on the stream itself, an MLP reads that norm's output.
      const bool post = config.norm_place == NormPlace::post;
      const bool crosses = config.has_encoder();
      auto stream = post && crosses ? cache[act::ln2_normalized(layer)] * model.weights().ln2(layer).w
                    : post          ? cache[act::ln1_normalized(layer)] * model.weights().ln1(layer).w
                                    : cache[config.has_encoder() ? act::resid_mid_cross(layer)
                                            : config.parallel()  ? act::resid_pre(layer)
                                                                 : act::resid_mid(layer)];
      if (reads_norms)
        stream =
            stream / (config.has_encoder() ? cache[act::ln3_scale(layer)] : cache[act::ln2_scale(layer)]);
      const bool gated = config.mlp == MlpKind::gated;
      expect_same(difference(stream).matmul(part(gated ? StreamMatrix::mlp_gate : StreamMatrix::mlp_in)),
                  difference(cache[act::pre(layer)]), "pre");
      if (gated)
        expect_same(difference(stream).matmul(part(StreamMatrix::mlp_in)),
                    difference(cache[act::pre_linear(layer)]), "pre_linear");
      const auto written = cache[act::post(layer)].matmul(part(StreamMatrix::mlp_out));
      if (cache.contains(act::ln2_post_scale(layer).name())) {
        // The norm's scale differs between positions, so that b_out does not cancel in the difference.
        const auto neurons = residual_parts(
            model, cache, {.of = act::mlp_out(layer), .grain = Grain::neuron, .positions = {}});
        const auto shown =
            neurons.values().narrow(1, 0, config.mlp_width(layer)).sum(1);  // [row, pos, d_model]
        expect_same(written / cache[act::ln2_post_scale(layer)], shown, "mlp_out after its norm");
        continue;
      }
      expect_same(difference(written), difference(cache[act::mlp_out(layer)]), "mlp_out");
    }
    // The matrices that write tokens to the stream and read logits from it.
    if (!config.has_encoder() && !config.summed_embedding()) {
      const auto E = stream_matrix(model, {.matrix = StreamMatrix::embedding});
      expect_same(E.index_select(0, tokens.flatten()).view_as(cache[act::embed]), cache[act::embed], "embed");
    }
    if (!config.has_unembedding() || config.has_mlm_head()) {
      EXPECT_THROW(stream_matrix(model, {.matrix = StreamMatrix::unembedding}), HookError);
      continue;
    }
    auto end = config.norms_stream() && config.norm_place == NormPlace::post
                   ? cache[act::normalized_resid_post(static_cast<std::int32_t>(config.n_layers) - 1)]
                   : cache[act::resid_post(static_cast<std::int32_t>(config.n_layers) - 1)];
    if (config.final_norm != NormKind::none)
      end = end / (config.has_encoder() ? cache[act::decoder_final_ln_scale] : cache[act::ln_final_scale]);
    expect_same(difference(end).matmul(stream_matrix(model, {.matrix = StreamMatrix::unembedding})),
                difference(cache[act::unembed_out]), "unembedding");
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StreamMatricesOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

// A run's later head, whose query changes by the earlier head's z through the two matrices only.
TEST(VirtualWeights, AreWhatALaterPartSees) {
  auto config = two_layer_config();
  config.n_kv_heads = 2;
  const auto model = random_model(config);
  const auto tokens = random_row(5, 11, 3);
  const auto held = [&](Site site, std::int32_t layer) {
    return set(Address(ActivationName{.site = site, .stack = Stack::blocks, .layer = layer}), 1.0);
  };
  // Scales and the MLP's output are held fixed, so that the stream is the only way.
  const std::vector<Edit> scales{held(Site::ln1_scale, 1), held(Site::ln2_scale, 0), zero(act::mlp_out(0))};
  const auto run = [&](double factor) {
    auto edits = scales;
    edits.push_back(scale(act::z(0).head(3), factor));
    return model.run_with_cache(tokens, act::everything, {.edits = edits}).cache;
  };
  const auto once = run(1.0), twice = run(2.0);
  const auto z = once[act::z(0)][0].select(1, 3);  // [pos, d_head]
  const StreamPart writer{.matrix = StreamMatrix::head_out, .layer = 0, .index = 3};
  for (const auto& [matrix, site] : {std::tuple{StreamMatrix::query, act::q}, {StreamMatrix::key, act::k}}) {
    const auto weights = virtual_weights(model, writer, {.matrix = matrix, .layer = -1, .index = 2});
    EXPECT_EQ(weights.sizes(), std::vector<std::int64_t>({6, 6}));
    const auto head = matrix == StreamMatrix::key ? 1 : 2;  // two heads share a key
    const auto gained = (twice[site(1)] - once[site(1)])[0].select(1, head);
    EXPECT_LT(largest(z.matmul(weights.AB()) - gained), kTolerance);
  }
  const auto neurons = virtual_weights(model, writer, {.matrix = StreamMatrix::mlp_in, .layer = 0});
  EXPECT_LT(largest(z.matmul(neurons.AB()) - (twice[act::pre(0)] - once[act::pre(0)])[0]), kTolerance);
}

// Experts with norms of their own read the stream through theirs, and write through two.
TEST(VirtualWeights, OfExpertsBehindNormsOfTheirOwn) {
  ModelConfig config = two_layer_config();
  config.norm = config.final_norm = NormKind::rms_norm;
  config.norm_place = NormPlace::both;
  config.mlp = MlpKind::gated;
  config.experts = Experts{
      .n_experts = 3, .per_token = 1, .d_expert = 20, .d_shared = 5, .own_norms = true, .expert_scale = true};
  for (const auto& processing :
       {WeightProcessing::none(), WeightProcessing::only({ProcessingStep::fold_ln})}) {
    const auto model = random_model(config, processing);
    const auto cache = model.run_with_cache(random_row(6, 11, 4)).cache;
    const auto row = [&](const Address& address, std::int64_t pos) { return cache[address][0][pos]; };
    const auto scale = model.state_dict().at("blocks.1.mlp.expert_scale");
    std::vector<std::int64_t> seen(3, 0);  // tokens of each expert so far
    for (std::int64_t pos = 0; pos < 6; ++pos) {
      const auto expert = row(act::expert_indices(1), pos)[0].item<std::int64_t>();
      const auto at = seen[static_cast<std::size_t>(expert)]++;
      const auto e = static_cast<std::int32_t>(expert);
      const auto part = [&](StreamMatrix matrix) {
        return stream_matrix(model, {.matrix = matrix, .layer = 1, .index = expert});
      };
      const auto read = row(act::resid_mid(1), pos) / row(act::experts_ln_scale(1), pos);
      expect_same(read.matmul(part(StreamMatrix::mlp_gate)), cache[act::expert_gate(1, e)][at], "gate");
      expect_same(read.matmul(part(StreamMatrix::mlp_in)), cache[act::expert_pre(1, e)][at], "up");
      const auto weight = row(act::expert_weights(1), pos)[expert] * scale[expert];
      const auto written = weight * cache[act::expert_post(1, e)][at].matmul(part(StreamMatrix::mlp_out)) /
                           (row(act::experts_ln_post_scale(1), pos) * row(act::ln2_post_scale(1), pos));
      const auto parts = residual_parts(
          model, cache,
          {.of = act::mlp_out(1), .grain = Grain::expert, .positions = {static_cast<std::int32_t>(pos)}});
      expect_same(written, parts.values()[0][expert][0], "written");
    }
  }
}

TEST(VirtualWeights, OfTheBareMatricesAreTheirProducts) {
  const auto model = random_model(two_layer_config());
  const auto w = model.weights();
  const CircuitOptions bare{.norms = false};
  const auto direct = virtual_weights(model, {.matrix = StreamMatrix::embedding},
                                      {.matrix = StreamMatrix::unembedding}, bare);
  EXPECT_LT(largest(direct.AB() - w.W_E().matmul(w.W_U())), kTolerance);
  const auto mlps = virtual_weights(model, {.matrix = StreamMatrix::mlp_out, .layer = 0},
                                    {.matrix = StreamMatrix::mlp_in, .layer = 1}, bare);
  EXPECT_LT(largest(mlps.AB() - w.W_out(0).matmul(w.W_in(1))), kTolerance);
  const auto of_pos = virtual_weights(model, {.matrix = StreamMatrix::positions},
                                      {.matrix = StreamMatrix::value, .layer = 1, .index = 1}, bare);
  EXPECT_LT(largest(of_pos.AB() - w.W_pos().matmul(w.W_V(1, 1))), kTolerance);
  // Composition is the number that composition_scores has.
  const auto ov = ov_circuits(model), qk = qk_circuits(model);
  const auto scores = composition_scores(model, HeadInput::query).scores;
  EXPECT_NEAR(composition(ov[0][3], qk[1][2]).item<double>(), scores.at({0, 3, 1, 2}), 1e-12);
  EXPECT_EQ(composition(ov[0].unsqueeze(1), qk[1]).sizes(), at::IntArrayRef({4, 4}));
}

TEST(VirtualWeights, RefusePartsThatDoNotMeet) {
  const auto model = random_model(two_layer_config());
  const StreamPart query{.matrix = StreamMatrix::query, .layer = 1, .index = 2};
  const auto text = [&](const StreamPart& writer, const StreamPart& reader) {
    return text_thrown_by<ShapeError>([&] { virtual_weights(model, writer, reader); });
  };
  EXPECT_THAT(text({.matrix = StreamMatrix::head_out, .layer = 1}, query),
              HasSubstr("comes before the first"));
  EXPECT_THAT(text(query, query), HasSubstr("query 1.2 and query 1.2 do not meet: the first one reads"));
  EXPECT_THAT(text({.matrix = StreamMatrix::mlp_out, .layer = 0}, {.matrix = StreamMatrix::embedding}),
              HasSubstr("the second one writes"));
  EXPECT_THAT(text({.matrix = StreamMatrix::mlp_out, .layer = 2}, query), HasSubstr("no layer 2"));
  auto parallel = two_layer_config();
  parallel.layout = BlockLayout::parallel_two_norms;
  const auto side_by_side = random_model(parallel);
  EXPECT_THROW(virtual_weights(side_by_side, {.matrix = StreamMatrix::head_out, .layer = 0},
                               {.matrix = StreamMatrix::mlp_in, .layer = 0}),
               ShapeError);
}

TEST(SubspaceOverlap, IsTheAnglesOfPlanes) {
  // Written: the first two axes. Read: the first, and one rotated by 60 degrees away from the second.
  const auto axes = at::eye(5, at::kDouble);
  const auto written = at::stack({axes[0] * 7, axes[0] + axes[1], axes[1] - axes[0]});  // [3, 5], of rank 2
  const auto read = at::stack({axes[0], axes[1] * 0.5 + axes[2] * std::sqrt(0.75)}, 1);
  const auto overlap = subspace_overlap(written, read);
  EXPECT_EQ(overlap.written, 2);
  EXPECT_EQ(overlap.read, 2);
  EXPECT_NEAR(overlap.cosines[0].item<double>(), 1.0, 1e-12);
  EXPECT_NEAR(overlap.cosines[1].item<double>(), 0.5, 1e-12);
  EXPECT_NEAR(overlap.overlap, (1 + 0.25) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(overlap.random, 2.0 / 5);
  EXPECT_NEAR(subspace_overlap(at::stack({axes[3]}), read).overlap, 0.0, 1e-12);
  EXPECT_THROW(subspace_overlap(at::zeros({2, 5}, at::kDouble), read), ShapeError);
  EXPECT_THROW(subspace_overlap(read, read), ShapeError);
}

TEST(SubspaceOverlap, OfRandomSpacesIsTheirShare) {
  auto generator = at::detail::createCPUGenerator(5);
  double sum = 0;
  constexpr int kDraws = 200;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto written = at::randn({4, 24}, generator, at::TensorOptions(at::kDouble));
    const auto read = at::randn({24, 6}, generator, at::TensorOptions(at::kDouble));
    const auto overlap = subspace_overlap(written, read);
    EXPECT_EQ(overlap.cosines.size(0), 4);
    sum += overlap.overlap / overlap.random;
  }
  EXPECT_NEAR(sum / kDraws, 1.0, 0.1);
  // The size of what is written does not matter, and an MLP spans the whole stream.
  const auto model = random_model(two_layer_config());
  const auto all = subspace_overlap(model, {.matrix = StreamMatrix::head_out, .layer = 0, .index = 1},
                                    {.matrix = StreamMatrix::mlp_in, .layer = 1}, {.norms = false});
  EXPECT_EQ(all.read, 16);
  EXPECT_NEAR(all.overlap, 1.0, 1e-12);
  // Centring takes the ones direction away from what is read.
  const auto centred = subspace_overlap(model, {.matrix = StreamMatrix::head_out, .layer = 0, .index = 1},
                                        {.matrix = StreamMatrix::mlp_in, .layer = 1});
  EXPECT_EQ(centred.read, 15);
  EXPECT_LT(centred.overlap, 1.0 - 1e-6);
}

}  // namespace
}  // namespace hooked::virtual_weights_test
