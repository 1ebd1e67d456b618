#include "hooked/analysis/positional_circuits.h"

#include <tuple>

#include "hooked/analysis/score_attribution.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::positional_circuits_test {
namespace {

constexpr double kTolerance = 1e-10;  // of the largest number

bool has_qk_circuits(const ModelConfig& config, std::int64_t layer) {
  return !config.latent_attention() && config.qkv_clip == 0 && config.attends(layer) &&
         !config.norms_heads(layer);
}

/// Whether queries of the layer are scaled within rows of that length.
bool grows_within(const ModelConfig& config, std::int64_t layer, std::int64_t length) {
  return config.grows_queries(layer) && static_cast<double>(length) > config.query_growth->tokens;
}

class PositionalCircuitsOfGolden : public testing::TestWithParam<GoldenCase> {};

/// The norms' scales that divide the token or position at a place on its way to queries and keys.
double scale_at(const GoldenModel& golden, std::int32_t layer, std::int64_t pos) {
  const auto& config = golden.model.config();
  const auto& cache = golden.cache;
  const auto number = [&](const Address& name) { return cache[name][0][pos].item<double>(); };
  double scale = 1.0;
  if (config.embedding_sum_norm) scale *= number(act::embed_ln_scale);
  const bool stream_is_normed = config.norms_stream() && config.norm_place != NormPlace::post;
  if (stream_is_normed || config.reads_through_ln1(layer)) scale *= number(act::ln1_scale(layer));
  return scale;
}

// score_attribution asks the model itself to carry each part of its stream.
TEST_P(PositionalCircuitsOfGolden, FullQkIsTheScoreOfEmbeddings) {
  for (const bool processed : {false, true}) {
    const auto golden = golden_model(GetParam(), processed);
    const auto& config = golden.model.config();
    const std::int64_t pos = golden.tokens.size(1) - 1, head = config.n_heads - 1;
    // The tokens and positions of a decoder with an encoder are one part, and their norm shows no scale.
    const bool one_part = config.has_encoder() && config.learned_positions();
    if (one_part && config.embedding_sum_norm) continue;
    for (const std::int32_t layer : {0, 1}) {
      if (layer >= config.n_layers) continue;
      if (!has_qk_circuits(config, layer)) {
        EXPECT_ANY_THROW(full_qk_circuit(golden.model, {layer, head}));
        continue;
      }
      if (grows_within(config, layer, pos + 1)) {
        EXPECT_THAT(text_thrown_by<HookError>([&] {
                      full_qk_circuit(golden.model, {layer, head}, {.row_length = pos + 1});
                    }),
                    HasSubstr("queries grow"));
        continue;
      }
      if (layer > 0 && config.norms_stream()) {
        EXPECT_THAT(text_thrown_by<HookError>([&] {
                      full_qk_circuit(golden.model, {layer, head});
                    }),
                    HasSubstr("norms on the stream itself"));
        continue;
      }
      const auto parts = score_attribution(
          golden.model, golden.cache,
          {.scores = act::attn_scores(layer).head(head), .queries = {pos}, .keys = {0, pos}});
      const double divisor = config.attn_scale * (config.scale_by_inverse_layer ? layer + 1.0 : 1.0);
      const double size = std::max(1.0, largest(parts.values().nan_to_num(0)));
      double of_both[2] = {};  // of the first column and of the last
      for (const CircuitEnd query : {CircuitEnd::token, CircuitEnd::position}) {
        for (const CircuitEnd key : {CircuitEnd::token, CircuitEnd::position}) {
          const bool positions = query == CircuitEnd::position || key == CircuitEnd::position;
          if (positions && !config.learned_positions()) continue;
          const auto part = [&](CircuitEnd end) {
            return end == CircuitEnd::token || one_part ? "embed" : "pos_embed";
          };
          const auto shown = parts.slice("query_part", part(query)).slice("key_part", part(key));
          for (const std::int64_t at : {std::int64_t{0}, pos}) {
            const auto circuit =
                full_qk_circuit(golden.model, {layer, head},
                                {.query = query, .key = key, .distance = pos - at, .row_length = pos + 1});
            const auto place = [&](CircuitEnd end, std::int64_t column) {
              return end == CircuitEnd::token ? golden.tokens[0][column].item<std::int64_t>() : column;
            };
            const double score = circuit.at(place(query, pos), place(key, at)).item<double>() /
                                 (divisor * scale_at(golden, layer, pos) * scale_at(golden, layer, at));
            of_both[at == 0 ? 0 : 1] += score;
            if (one_part) continue;
            EXPECT_NEAR(score, shown.at({0, 0, at == 0 ? 0 : 1}), kTolerance * size)
                << part(query) << " " << part(key) << " layer " << layer << " at " << at;
          }
        }
      }
      if (!one_part) continue;
      const auto shown = parts.slice("query_part", "embed").slice("key_part", "embed");
      for (const std::int64_t at : {0, 1}) EXPECT_NEAR(of_both[at], shown.at({0, 0, at}), kTolerance * size);
    }
  }
}

// Scores of the stream's tokens: what a run's queries and keys give, however they are rotated.
TEST_P(PositionalCircuitsOfGolden, QkAtADistanceIsThatOfARun) {
  const auto golden = golden_model(GetParam(), false);
  const auto& config = golden.model.config();
  if (config.rotary() == nullptr || config.has_encoder()) return;
  const std::int64_t length = golden.tokens.size(1), head = 0;
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    if (!has_qk_circuits(config, layer)) continue;
    const auto made_circuits = [&] {
      return qk_circuits_at(golden.model, {layer, head}, {length - 1, 0, 1 - length}, {.row_length = length});
    };
    if (grows_within(config, layer, length)) {
      EXPECT_THAT(text_thrown_by<HookError>(made_circuits), HasSubstr("queries grow"));
      continue;
    }
    const auto circuits = made_circuits();
    ASSERT_EQ(circuits.sizes(), std::vector<std::int64_t>({3, config.d_model, config.d_model}));
    // Without biases: queries and keys of two streams minus those of a stream of zeros.
    const auto made = [&](Site site, std::int64_t column, const at::Tensor& x) {
      auto residual = at::zeros({2, length, config.d_model}, at::kDouble);
      residual[0][column].copy_(x);
      RunOptions options{.capture = act::everything, .output = Output::none};
      if (config.reads_through_ln1(layer)) options.edits = {set(act::ln1_scale(layer), 1.0)};
      options.stop_at_layer = layer + 1;
      const auto run = golden.model.run(Input::start_at_layer(layer, residual), options);
      const auto shown = run.cache[ActivationName{.site = site, .stack = Stack::blocks, .layer = layer}];
      return (shown[0][column] - shown[1][column])[0];  // of the first head
    };
    const bool turned = config.rotates(layer);
    const auto x = golden.cache[act::resid_pre(layer)][0][0], y = golden.cache[act::resid_pre(layer)][0][1];
    for (const auto& [index, query, key] : {std::tuple{0, length - 1, std::int64_t{0}},
                                            {1, length - 1, length - 1},
                                            {2, std::int64_t{0}, length - 1}}) {
      const auto q = made(turned ? Site::rot_q : Site::q, query, x);
      const auto k = made(turned ? Site::rot_k : Site::k, key, y);
      const double score = q.dot(k).item<double>();
      EXPECT_NEAR(circuits[index].mv(y).dot(x).item<double>(), score,
                  kTolerance * std::max(1.0, largest(q) * largest(k) * 10))
          << "layer " << layer << " place " << index;
    }
  }
}

TEST_P(PositionalCircuitsOfGolden, BiasesAreThoseOfARunsScores) {
  const auto golden = golden_model(GetParam(), false);
  const auto& config = golden.model.config();
  if (config.alibi() == nullptr && config.relative() == nullptr) {
    EXPECT_THAT(text_thrown_by<HookError>([&] { position_biases(golden.model); }), HasSubstr("no bias"));
    return;
  }
  for (const Stack stack :
       config.has_encoder() ? std::vector{Stack::encoder, Stack::none} : std::vector{Stack::none}) {
    // Of the first block, which the others share, or of one with numbers of its own.
    const std::int32_t layer = config.relative() != nullptr && config.relative()->in_every_block ? 1 : 0;
    const auto layers = stack == Stack::encoder ? config.n_encoder_layers() : config.n_layers;
    if (layer >= layers) continue;
    const auto scores = golden.cache[act::attn_scores.in(stack, layer)];
    auto q = golden.cache[act::q.in(stack, layer)], k = golden.cache[act::k.in(stack, layer)];
    if (config.qkv_clip > 0) {
      q = q.clamp(-config.qkv_clip, config.qkv_clip);
      k = k.clamp(-config.qkv_clip, config.qkv_clip);
    }
    const std::int64_t length = scores.size(2), heads = scores.size(1);
    if (length < 2) continue;
    const auto biases = position_biases(golden.model, {.reach = length - 1, .stack = stack, .layer = layer});
    const bool both = config.bidirectional(stack == Stack::encoder ? stack : config.main_stack());
    ASSERT_EQ(biases.values().size(1), both ? 2 * length - 1 : length);
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t query = 0; query < length; ++query) {
        for (std::int64_t key = 0; key < (both ? length : query + 1); ++key) {
          const double product =
              q[0][query][head].dot(k[0][key][head / (heads / k.size(2))]).item<double>() / config.attn_scale;
          const double cap = config.score_soft_cap;
          const double score = cap > 0 ? cap * std::tanh(product / cap) : product;
          const double bias = scores[0][head][query][key].item<double>() - score;
          const auto label = std::to_string(query - key);
          EXPECT_NEAR(biases.slice("distance", label).at({head}), bias,
                      1e-9 * std::max(1.0, std::abs(product)));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, PositionalCircuitsOfGolden, testing::ValuesIn(golden_cases()),
                         golden_test_name);

TEST(PositionalCircuits, ShortformerPositionsStandBesideTheNorm) {
  auto config = two_layer_config();
  config.positions = ShortformerPositions{};
  const auto model = random_model(config);
  const auto w = model.weights();
  const auto at_ends =
      full_qk_circuit(model, {1, 2}, {.query = CircuitEnd::position, .key = CircuitEnd::position});
  const auto expected = w.W_pos().matmul(w.W_Q(1, 2)).matmul(w.W_pos().matmul(w.W_K(1, 2)).t());
  EXPECT_LT(largest(at_ends.AB() - expected), kTolerance);
  // The scores of a run: all four kinds, and biases, which cancel in differences of differences.
  const auto tokens = random_row(6, 11, 3);
  const auto cache = model.run_with_cache(tokens, act::everything).cache;
  const auto scale = cache[act::ln1_scale(0)][0];
  const auto part = [&](CircuitEnd query, CircuitEnd key, std::int64_t q, std::int64_t k) {
    const auto place = [&](CircuitEnd end, std::int64_t column) {
      return end == CircuitEnd::token ? tokens[0][column].item<std::int64_t>() : column;
    };
    const auto number =
        full_qk_circuit(model, {0, 1}, {.query = query, .key = key}).at(place(query, q), place(key, k));
    const auto held = [&](CircuitEnd end, std::int64_t column) {
      return end == CircuitEnd::token ? scale[column].item<double>() : 1.0;
    };
    return number.item<double>() / (held(query, q) * held(key, k) * config.attn_scale);
  };
  const auto all = [&](std::int64_t q, std::int64_t k) {
    double sum = 0;
    for (const auto query : {CircuitEnd::token, CircuitEnd::position})
      for (const auto key : {CircuitEnd::token, CircuitEnd::position}) sum += part(query, key, q, k);
    return sum;
  };
  const auto twice = [](const auto& f) { return f(5, 2) - f(5, 1) - f(4, 2) + f(4, 1); };
  const auto score = [&](std::int64_t q, std::int64_t k) {
    return cache[act::attn_scores(0)][0][1][q][k].item<double>();
  };
  EXPECT_NEAR(twice(all), twice(score), kTolerance);
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                full_ov_circuit(model, {0, 1}, CircuitEnd::position);
              }),
              HasSubstr("queries and keys only"));
}

// A run's head that sees one token alone, through the final norm by hand: biases cancel in the difference.
TEST(PositionalCircuits, FullOvIsWhatLogitsGainByAHead) {
  auto config = two_layer_config();
  config.n_kv_heads = 2;
  config.n_layers = 1;
  config.mlp = MlpKind::none;
  config.d_mlp = 0;
  config.unembedding->scale = 0.7;
  const auto model = random_model(config);
  const auto circuit = full_ov_circuit(model, {0, 3});
  const auto of_positions = full_ov_circuit(model, {0, 3}, CircuitEnd::position);
  ASSERT_EQ(circuit.sizes(), std::vector<std::int64_t>({11, 11}));
  const auto with = [&](std::int64_t token) {
    const auto tokens = at::full({1, 1}, token, at::kLong);
    const auto run = model.run_with_cache(
        tokens, act::everything, {.edits = {set(act::ln1_scale(0), 1.0), set(act::ln_final_scale, 1.0)}});
    return run.cache[act::result(0)][0][0][3];
  };
  const auto w = model.weights();
  const auto norm = w.ln_final();
  const auto final = [&](const at::Tensor& x) { return ((x - x.mean()) * norm.w).matmul(w.W_U()) * 0.7; };
  const auto gained = final(with(4) - with(7));
  EXPECT_LT(largest(circuit.row(4) - circuit.row(7) - gained), kTolerance);
  EXPECT_EQ(of_positions.sizes(), std::vector<std::int64_t>({12, 11}));
}

TEST(PositionalCircuits, SayWhatTheyRefuse) {
  auto config = two_layer_config();
  config.positions = NoPositions{};
  const auto model = random_model(config);
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                full_qk_circuit(model, {0, 0}, {.key = CircuitEnd::position});
              }),
              HasSubstr("no embeddings of positions"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { full_qk_circuit(model, {2, 0}); }), HasSubstr("no layer 2"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] { full_ov_circuit(model, {1, 4}); }), HasSubstr("no head 4"));
  EXPECT_THAT(text_thrown_by<ShapeError>([&] {
                full_qk_circuit(model, {0, 0}, {.distance = -12});
              }),
              HasSubstr("no distance -12 in a row of 13"));
  EXPECT_THROW(qk_circuits_at(model, {0, 0}, {}), ShapeError);
  auto alibi = two_layer_config();
  alibi.positions = AlibiPositions{.slopes = geometric_alibi_slopes(4)};
  const auto biases = position_biases(random_model(alibi), {.reach = 3});
  EXPECT_THAT(biases.axis("distance").labels, ElementsAre("0", "1", "2", "3"));
  EXPECT_DOUBLE_EQ(biases.at({1, 2}), -2 * geometric_alibi_slopes(4)[1]);
  EXPECT_THROW(position_biases(random_model(alibi), {.reach = 12}), ShapeError);
}

}  // namespace
}  // namespace hooked::positional_circuits_test
