#include "hooked/analysis/circuits.h"

#include <ATen/ops/complex.h>
#include <ATen/ops/linalg_eigvals.h>
#include <ATen/ops/real.h>

#include <tuple>

#include "hooked/analysis/positional_circuits.h"
#include "hooked/analysis/residual.h"
#include "tests/analysis/analysis_goldens.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::circuits_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number
constexpr double kGoldenTolerance = 1e-9;

// --- On every golden checkpoint.

class CircuitsOfGolden : public testing::TestWithParam<GoldenCase> {};

/// The last position minus the first, [row, ..]: biases cancel.
at::Tensor difference(const at::Tensor& x) { return x.select(1, x.size(1) - 1) - x.select(1, 0); }

/// Whether `stream` [row, d_model] through matrices [head, d_model, d_head] is `made` [row, head or kv_head,
/// d_head].
void expect_reads(const at::Tensor& stream, const at::Tensor& matrices, const at::Tensor& made,
                  const char* what) {
  const auto read = at::einsum("rm,hmd->rhd", {stream, matrices});
  const auto shown = made.repeat_interleave(read.size(1) / made.size(1), 1);
  EXPECT_LE(largest(read - shown), kTolerance * std::max(1.0, largest(shown))) << what;
}

TEST_P(CircuitsOfGolden, ReadWhatARunReads) {
  for (const bool processed : {false, true}) {
    const auto golden = golden_model(GetParam(), processed);
    const auto& [model, cache] = std::tie(golden.model, golden.cache);
    const auto& config = model.config();
    if (config.latent_attention()) {
      EXPECT_THAT(text_thrown_by<ConfigError>([&] { ov_circuits(model); }), HasSubstr("latent"));
      EXPECT_THAT(text_thrown_by<ConfigError>([&] { qk_circuits(model); }), HasSubstr("latent"));
      continue;
    }
    if (config.gated_heads) {
      EXPECT_THAT(text_thrown_by<HookError>([&] { ov_circuits(model); }), HasSubstr("gated"));
      continue;
    }
    if (config.value_norm && config.qkv_clip == 0) {
      EXPECT_THAT(text_thrown_by<HookError>([&] { ov_circuits(model); }), HasSubstr("value_norm"));
      continue;
    }
    if (config.qkv_clip > 0) {
      EXPECT_THAT(text_thrown_by<HookError>([&] { ov_circuits(model); }), HasSubstr("clipping"));
      continue;
    }
    for (const Stack stack :
         config.has_encoder() ? std::vector{Stack::encoder, Stack::none} : std::vector{Stack::none}) {
      const auto ov = ov_circuits(model, {.stack = stack});
      for (std::int32_t layer = 0; layer < cache.n_layers(stack); ++layer) {
        if (stack != Stack::encoder && !config.attends(layer)) {
          EXPECT_TRUE(ov.A()[layer].isnan().all().item<bool>()) << layer;
          EXPECT_TRUE(ov[layer].svd().S.isnan().all().item<bool>()) << layer;
          continue;
        }
        const auto name = [&](act::BlockSite site) { return site.in(stack, layer); };
        if (cache[name(act::resid_pre)].size(1) < 2) continue;
        auto stream = cache[name(act::resid_pre)];
        if (cache.contains(name(act::ln1_scale).name()) && config.norm_place != NormPlace::post)
          stream = stream / cache[name(act::ln1_scale)];
        expect_reads(difference(stream), ov.A()[layer], difference(cache[name(act::v)]), "values");
        // What a head writes goes through its half of the circuit, and the norm after it at the run's scale.
        auto written = at::einsum("rphd,hdm->rhpm", {cache[name(act::z)], ov.B()[layer]});
        auto shown = cache[name(act::result)].transpose(1, 2);
        if (cache.contains(name(act::ln1_post_scale).name())) {
          written = written / cache[name(act::ln1_post_scale)].unsqueeze(1);
          const auto parts = residual_parts(
              model, cache, {.of = name(act::attn_out), .grain = Grain::head, .positions = {}});
          shown = parts.values().narrow(1, 0, written.size(1));
        }
        EXPECT_LE(largest(written - shown), kTolerance * std::max(1.0, largest(shown)));
        if (config.qk_norm) {
          EXPECT_THAT(text_thrown_by<HookError>([&] { qk_circuits(model, {.stack = stack}); }),
                      HasSubstr("norms of their own"));
          continue;
        }
        if (config.shortformer()) continue;  // positions are added to what queries and keys read
        const auto qk = qk_circuits(model, {.stack = stack});
        expect_reads(difference(stream), qk.A()[layer], difference(cache[name(act::q)]), "queries");
        expect_reads(difference(stream), qk.B()[layer].mT(), difference(cache[name(act::k)]), "keys");
      }
    }
  }
}

TEST_P(CircuitsOfGolden, OfRawAndFoldedWeightsAreTheSame) {
  const auto raw = golden_model(GetParam(), false).model;
  const auto folded = load_golden(GetParam(), WeightProcessing::all_that_apply());
  const auto& steps = folded.config().processing;
  const auto applied = [&](const char* step) { return std::ranges::find(steps, step) != steps.end(); };
  if (raw.config().latent_attention() || raw.config().qkv_clip > 0 || raw.config().qk_norm ||
      !raw.config().attends_everywhere() || !applied("fold_ln"))
    return;
  const auto before = qk_circuits(raw), after = qk_circuits(folded);
  EXPECT_LE(largest(before.AB() - after.AB()), kTolerance * std::max(1.0, largest(before.AB())));
}

INSTANTIATE_TEST_SUITE_P(Golden, CircuitsOfGolden, testing::ValuesIn(golden_cases()), golden_test_name);

// --- Compared with TransformerLens.

/// Each recorded model, raw and processed, with its tensors by the names that TransformerLens or PyTorch gave
/// them.
template <class Check>
void for_each_recorded_model(const Check& check) {
  for (const AnalysedWeights& weights : analysed_weights("circuits")) {
    SCOPED_TRACE(weights.name());
    const auto tensors = weights.model.read(weights.processed);
    check(weights.load(), [&](const std::string& name) { return tensors.at(name).tensor(); });
  }
}

TEST(Circuits, CompositionEqualsTransformerLenss) {
  for_each_recorded_model([](const HookedTransformer& model, const auto& recorded) {
    for (const auto& [input, mode] :
         {std::pair{HeadInput::query, "Q"}, {HeadInput::key, "K"}, {HeadInput::value, "V"}}) {
      const auto ours = composition_scores(model, input, {.circuits = {.norms = false}}).scores.values();
      const at::Tensor theirs = recorded(mode);  // zero for no composition
      ASSERT_EQ(ours.sizes(), theirs.sizes());
      EXPECT_TRUE(ours.isnan().equal(theirs.eq(0))) << mode;
      EXPECT_LE(largest(ours.nan_to_num(0) - theirs), kGoldenTolerance) << mode;
    }
    const auto parts = recorded("eigenvalues");  // [layer, head, d_head, 2]
    const auto theirs = at::complex(parts.select(-1, 0), parts.select(-1, 1));
    const auto ours = ov_circuits(model, {.norms = false}).eigenvalues();
    const auto distance = (ours.unsqueeze(-1) - theirs.unsqueeze(-2)).abs();
    EXPECT_LE(largest(std::get<0>(distance.min(-1))), kGoldenTolerance);
    EXPECT_LE(largest(std::get<0>(distance.min(-2))), kGoldenTolerance);
  });
}

TEST(Circuits, CopyingEqualsPyTorchs) {
  for_each_recorded_model([](const HookedTransformer& model, const auto& recorded) {
    const at::Tensor theirs = recorded("copying");
    const auto ours = copying_scores(model, {.circuits = {.norms = false}, .top_k = 3});
    EXPECT_LE(largest(ours.eigenvalues.values() - theirs.select(-1, 0)), kGoldenTolerance);
    EXPECT_LE(largest(ours.top_k.values() - theirs.select(-1, 1)), kGoldenTolerance);
    for (std::int64_t layer = 0; layer < theirs.size(0); ++layer) {
      for (std::int64_t head = 0; head < theirs.size(1); ++head) {
        const auto trace =
            full_ov_circuit(model, {layer, head}, CircuitEnd::token, {.norms = false}).AB().trace();
        EXPECT_NEAR(trace.item<double>(), theirs[layer][head][2].item<double>(), kGoldenTolerance);
      }
    }
  });
}

// --- Without an oracle.

ModelConfig grouped_config() {
  auto config = two_layer_config();
  config.n_kv_heads = 2;
  return config;
}

TEST(Circuits, CompositionIsThatOfTheWholeMatrices) {
  const auto model = random_model(grouped_config());
  const auto ov = ov_circuits(model).AB(), qk = qk_circuits(model).AB();  // [layer, head, d_model, d_model]
  const auto queries = composition_scores(model, HeadInput::query, {.random_draws = 200, .seed = 3});
  const auto keys = composition_scores(model, HeadInput::key);
  const auto values = composition_scores(model, HeadInput::value);
  EXPECT_EQ(queries.scores.axes()[2].name, "to_layer");
  const auto norm = [](const at::Tensor& x) { return x.square().sum().sqrt().item<double>(); };
  for (std::int64_t from = 0; from < 4; ++from) {
    for (std::int64_t to = 0; to < 4; ++to) {
      const auto L = ov[0][from];
      const auto score = [&](const at::Tensor& R) { return norm(at::matmul(L, R)) / (norm(L) * norm(R)); };
      EXPECT_NEAR(queries.scores.at({0, from, 1, to}), score(qk[1][to]), 1e-12);
      EXPECT_NEAR(keys.scores.at({0, from, 1, to}), score(qk[1][to].t()), 1e-12);
      EXPECT_NEAR(values.scores.at({0, from, 1, to}), score(ov[1][to]), 1e-12);
      EXPECT_TRUE(std::isnan(queries.scores.at({1, from, 0, to})));
      EXPECT_TRUE(std::isnan(queries.scores.at({0, from, 0, to})));
    }
  }
  // The baseline: |L R| of random matrices, drawn here as whole products.
  auto generator = at::detail::createCPUGenerator(11);
  const auto random = [&] {
    const auto A = at::randn({16, 6}, generator, at::TensorOptions(at::kDouble));
    return at::matmul(A, at::randn({6, 16}, generator, at::TensorOptions(at::kDouble)));
  };
  double sum = 0, squares = 0;
  constexpr int kDraws = 400;
  for (int draw = 0; draw < kDraws; ++draw) {
    const auto L = random(), R = random();
    const double score = norm(at::matmul(L, R)) / (norm(L) * norm(R));
    sum += score;
    squares += score * score;
  }
  const double mean = sum / kDraws, deviation = std::sqrt(squares / kDraws - mean * mean);
  EXPECT_NEAR(queries.random_mean, mean, 4 * deviation * std::sqrt(1.0 / 200 + 1.0 / kDraws));
  EXPECT_NEAR(queries.random_deviation, deviation, 0.3 * deviation);
  EXPECT_EQ(composition_scores(model, HeadInput::query, {.random_draws = 200, .seed = 3}).random_mean,
            queries.random_mean);
  EXPECT_NE(composition_scores(model, HeadInput::query, {.random_draws = 200, .seed = 4}).random_mean,
            queries.random_mean);
}

/// Three layers; the second one has a short convolution instead of attention.
ModelConfig convolving_config() {
  auto config = two_layer_config();
  config.n_layers = 3;
  config.n_kv_heads = 2;
  config.short_conv = ShortConvolution{.kernel = 3, .layers = {false, true, false}};
  return config;
}

// A layer without heads has no number, and the others have the numbers that they have alone.
TEST(Circuits, OfLayersWithoutAttentionAreNoNumbers) {
  const auto model = random_model(convolving_config());
  const auto w = model.weights();
  const auto ov = ov_circuits(model, {.norms = false}), qk = qk_circuits(model, {.norms = false});
  const auto values = ov.eigenvalues(), singular = ov.svd().S;
  EXPECT_EQ(ov.sizes(), std::vector<std::int64_t>({3, 4, 16, 16}));
  for (const auto& numbers : {ov[1].AB(), qk[1].AB(), at::real(values[1]), singular[1], ov[1].norm()})
    EXPECT_TRUE(numbers.isnan().all().item<bool>());
  for (const std::int64_t layer : {0, 2}) {
    for (std::int64_t head = 0; head < 4; ++head) {
      const auto whole = at::matmul(w.W_V(layer, head), w.W_O(layer, head));
      EXPECT_LE(largest(ov[layer][head].AB() - whole), 1e-12);
      EXPECT_LE(largest(qk[layer][head].AB() - at::matmul(w.W_Q(layer, head), w.W_K(layer, head).t())),
                1e-12);
      EXPECT_NEAR(singular[layer][head].square().sum().item<double>(), whole.square().sum().item<double>(),
                  1e-10);
      EXPECT_NEAR(at::real(values[layer][head]).sum().item<double>(), whole.trace().item<double>(), 1e-10);
    }
  }
  for (const HeadInput input : {HeadInput::query, HeadInput::key, HeadInput::value}) {
    const auto scores = composition_scores(model, input, {.circuits = {.norms = false}});
    EXPECT_TRUE(scores.complete);
    const auto R = input == HeadInput::value   ? at::matmul(w.W_V(2, 3), w.W_O(2, 3))
                   : input == HeadInput::query ? at::matmul(w.W_Q(2, 3), w.W_K(2, 3).t())
                                               : at::matmul(w.W_K(2, 3), w.W_Q(2, 3).t());
    const auto L = at::matmul(w.W_V(0, 1), w.W_O(0, 1));
    const auto norm = [](const at::Tensor& x) { return x.norm().item<double>(); };
    EXPECT_NEAR(scores.scores.at({0, 1, 2, 3}), norm(at::matmul(L, R)) / (norm(L) * norm(R)), 1e-12);
    EXPECT_EQ(scores.scores.values().isnan().logical_not().sum().item<std::int64_t>(), 4 * 4);
  }
  std::int64_t told = 0;
  const auto copying = copying_scores(model, {.progress = [&](const SweepProgress& now) {
                                        told = now.done;
                                        return now.done <= now.total;
                                      }});
  EXPECT_TRUE(copying.complete);
  EXPECT_EQ(told, 12);
  for (const Grid* grid : {&copying.eigenvalues, &copying.top_k}) {
    EXPECT_TRUE(grid->slice("layer", 1).values().isnan().all().item<bool>());
    EXPECT_FALSE(grid->slice("layer", 2).values().isnan().any().item<bool>());
  }
}

// Heads of two sizes: the smaller ones' factors are padded with zeros, their products are unchanged.
TEST(Circuits, OfHeadsOfSeveralSizesAreTheirProducts) {
  auto config = two_layer_config();
  config.window = Window{.size = 4, .layers = {true, false}};
  config.full_heads = FullHeads{.d_head = 8, .n_kv_heads = 2};
  const auto model = random_model(config);
  const auto w = model.weights();
  const auto ov = ov_circuits(model, {.norms = false}), qk = qk_circuits(model, {.norms = false});
  EXPECT_EQ(ov.inner(), 8);
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t head = 0; head < 4; ++head) {
      const auto whole = at::matmul(w.W_V(layer, head), w.W_O(layer, head));
      EXPECT_LE(largest(ov[layer][head].AB() - whole), 1e-12);
      EXPECT_LE(largest(qk[layer][head].AB() - at::matmul(w.W_Q(layer, head), w.W_K(layer, head).t())),
                1e-12);
      EXPECT_NEAR(at::real(ov[layer][head].eigenvalues()).sum().item<double>(), whole.trace().item<double>(),
                  1e-10);
    }
  }
  const auto scores = composition_scores(model, HeadInput::key, {.circuits = {.norms = false}});
  const auto L = at::matmul(w.W_V(0, 1), w.W_O(0, 1)), R = at::matmul(w.W_K(1, 3), w.W_Q(1, 3).t());
  const double expected = (at::matmul(L, R).norm() / (L.norm() * R.norm())).item<double>();
  EXPECT_NEAR(scores.scores.at({0, 1, 1, 3}), expected, 1e-12);
}

TEST(Circuits, KeepTheDtypeOfTheWeights) {
  const auto model = HookedTransformer::create(two_layer_config(), {.seed = 1});
  EXPECT_EQ(ov_circuits(model).A().scalar_type(), at::kDouble);
  auto half = two_layer_config();
  half.dtype = at::kBFloat16;
  const auto narrow = HookedTransformer::create(half, {.seed = 1});
  EXPECT_EQ(qk_circuits(narrow).A().scalar_type(), at::kBFloat16);
  EXPECT_FALSE(composition_scores(narrow, HeadInput::key)
                   .scores.slice("layer", 0)
                   .slice("to_layer", 1)
                   .values()
                   .isnan()
                   .any()
                   .item<bool>());
}

TEST(Circuits, CopyingIsThatOfTheFullCircuit) {
  const auto model = random_model(grouped_config());
  const auto w = model.weights();
  const auto scores = copying_scores(model, {.circuits = {.norms = false}, .top_k = 3});
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t head = 0; head < 4; ++head) {
      const auto ov = at::matmul(w.W_V(layer, head), w.W_O(layer, head));
      const auto full = at::matmul(at::matmul(w.W_E(), ov), w.W_U());  // [vocab, vocab]
      const auto eigenvalues = at::linalg_eigvals(full);
      EXPECT_NEAR(scores.eigenvalues.at({layer, head}),
                  (at::real(eigenvalues).sum() / eigenvalues.abs().sum()).item<double>(), 1e-4)
          << "zeros of the big matrix are not quite zero";
      EXPECT_NEAR(scores.eigenvalues.at({layer, head}),
                  (full.trace() / eigenvalues.abs().sum()).item<double>(), 1e-4);
      double top = 0;
      for (std::int64_t token = 0; token < 11; ++token)
        top += full[token].gt(full[token][token]).sum().item<std::int64_t>() < 3 ? 1 : 0;
      EXPECT_NEAR(scores.top_k.at({layer, head}), top / 11, 1e-12);
    }
  }
}

// Tokens after a norm of the embedding, and the final norm's weight: checked by runs of single tokens.
TEST(Circuits, CopyingReadsTheEmbeddingsNorm) {
  auto config = two_layer_config();
  config.post_embedding_norm = true;
  config.positions = NoPositions{};
  const auto model = random_model(config);
  const auto w = model.weights();
  const auto tokens = at::arange(11, at::kLong).unsqueeze(1);
  const auto E = model.run_with_cache(tokens, act::embed).cache[act::embed].select(1, 0);
  EXPECT_GT(largest(E - w.W_E()), 0.1);
  const auto scores = copying_scores(model, {.top_k = 3});
  const auto weighted = w.W_U() * w.ln_final().w.unsqueeze(1);
  const auto W_U = weighted - weighted.mean(0, true);
  const auto full = at::matmul(at::matmul(E, ov_circuits(model)[1][2].AB()), W_U);
  double top = 0;
  for (std::int64_t token = 0; token < 11; ++token)
    top += full[token].gt(full[token][token]).sum().item<std::int64_t>() < 3 ? 1 : 0;
  EXPECT_NEAR(scores.top_k.at({1, 2}), top / 11, 1e-12);
  const auto sizes = at::linalg_eigvals(full).abs().sum();
  EXPECT_NEAR(scores.eigenvalues.at({1, 2}), (full.trace() / sizes).item<double>(), 1e-4);
}

TEST(Circuits, AHeadThatCopiesHasOnes) {
  // Values and outputs that are each other's transposes, and an embedding that is the unembedding's.
  auto weights = HookedTransformer::create(two_layer_config(), {.seed = 2}).state_dict();
  weights["unembed.W_U"] = weights["embed.W_E"].t().contiguous();
  weights["blocks.0.attn.W_O"] = weights["blocks.0.attn.W_V"].transpose(1, 2).contiguous();
  weights["blocks.1.attn.W_O"] = -weights["blocks.1.attn.W_V"].transpose(1, 2).contiguous();
  const auto model = model_of(weights, two_layer_config());
  const auto scores = copying_scores(model, {.circuits = {.norms = false}});
  EXPECT_LT(largest(scores.eigenvalues.slice("layer", 0).values() - 1), 1e-12);
  EXPECT_LT(largest(scores.eigenvalues.slice("layer", 1).values() + 1), 1e-12);
}

// Work that is stopped keeps what was done.
TEST(Circuits, EndWhereTheyAreTold) {
  const auto model = random_model(grouped_config());
  std::vector<std::int64_t> told;
  const auto until = [&](std::int64_t last) {
    return [&told, last](const SweepProgress& now) {
      told.push_back(now.done);
      EXPECT_GE(now.total, now.done);
      return now.done < last;
    };
  };
  const auto whole = copying_scores(model);
  const auto some = copying_scores(model, {.progress = until(6)});
  EXPECT_TRUE(whole.complete);
  EXPECT_FALSE(some.complete);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  for (std::int64_t head = 0; head < 4; ++head) {
    EXPECT_EQ(some.eigenvalues.at({0, head}), whole.eigenvalues.at({0, head}));
    EXPECT_EQ(std::isnan(some.top_k.at({1, head})), head > 1);
    EXPECT_EQ(std::isnan(some.eigenvalues.at({1, head})), head > 1);
  }
  told.clear();
  auto deep = two_layer_config();
  deep.n_layers = 3;
  const auto composed = composition_scores(random_model(deep), HeadInput::key, {.progress = until(2)});
  EXPECT_FALSE(composed.complete);
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2}));
  EXPECT_FALSE(std::isnan(composed.scores.at({0, 0, 2, 0})));
  EXPECT_TRUE(std::isnan(composed.scores.at({1, 0, 2, 0})));
  EXPECT_EQ(composed.draws, 0);
  EXPECT_TRUE(std::isnan(composed.random_mean));

  // One pair of layers, then the draws.
  const auto all = composition_scores(model, HeadInput::key, {.random_draws = 4, .progress = until(5)});
  EXPECT_TRUE(all.complete) << "there was nothing left";
  EXPECT_EQ(all.draws, 4);
  told.clear();
  const auto drawn = composition_scores(model, HeadInput::key, {.random_draws = 4, .progress = until(3)});
  EXPECT_EQ(told, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_FALSE(drawn.complete);
  EXPECT_TRUE(drawn.scores.values().allclose(all.scores.values(), 0, 0, /*equal_nan=*/true));
  EXPECT_EQ(drawn.draws, 2);
  const auto two = composition_scores(model, HeadInput::key, {.random_draws = 2});
  EXPECT_EQ(drawn.random_mean, two.random_mean) << "of the draws that were made";
  EXPECT_EQ(drawn.random_deviation, two.random_deviation);
  const auto one = composition_scores(model, HeadInput::key, {.random_draws = 4, .progress = until(2)});
  EXPECT_EQ(one.draws, 1);
  EXPECT_TRUE(std::isnan(one.random_deviation));
}

TEST(Circuits, RefuseByName) {
  auto clipped = two_layer_config();
  clipped.qkv_clip = 2.0;
  EXPECT_THAT(text_thrown_by<HookError>([&] { ov_circuits(random_model(clipped)); }),
              HasSubstr("ov_circuits"));
  EXPECT_THROW(composition_scores(random_model(two_layer_config()), HeadInput::query, {.random_draws = 1}),
               ShapeError);
  // A norm on the stream is between the heads: what one writes is not what the other reads.
  auto post = two_layer_config();
  post.norm_place = NormPlace::post;
  post.final_norm = NormKind::none;
  EXPECT_THAT(text_thrown_by<HookError>([&] { composition_scores(random_model(post), HeadInput::query); }),
              HasSubstr("[composition_scores] this model has norms on the stream itself"));
  EXPECT_NO_THROW(composition_scores(random_model(post), HeadInput::query, {.circuits = {.norms = false}}));
  auto other = two_layer_config();
  other.unembedding->d_vocab = 7;
  EXPECT_THAT(text_thrown_by<HookError>([&] { copying_scores(random_model(other)); }),
              HasSubstr("another vocabulary"));
  EXPECT_THROW(copying_scores(random_model(two_layer_config()), {.top_k = 0}), ShapeError);
}

}  // namespace
}  // namespace hooked::circuits_test
