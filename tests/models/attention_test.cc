#include "models/attention/attention.h"

#include <c10/util/BFloat16.h>

#include "tests/models/random_graph.h"

namespace hooked::attention_test {
namespace {

constexpr std::uint64_t kRandomConfigs = 150;

std::vector<int> attending_layers(const ModelConfig& c) {
  std::vector<int> layers;
  for (int layer = 0; layer < c.n_layers; ++layer) {
    if (c.attends(layer)) layers.push_back(layer);
  }
  return layers;
}

/// Row 0 begins with two paddings, row 1 ends with one.
at::Tensor padding_on_both_sides() {
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 0, 2).zero_();
  mask[1].narrow(0, 5, 1).zero_();
  return mask;
}

// `mask` [pos] int64 of the row; undefined: all columns hold tokens.
bool may_attend(const ModelConfig& c, int layer, std::int64_t query, std::int64_t key,
                const at::Tensor& mask = {}) {
  if (c.direction == AttentionDirection::causal && key > query) return false;
  if (!c.windowed(layer)) return true;
  if (c.window->kind == Window::sliding) return std::abs(key - query) < c.window->size;
  const auto chunk = [&](std::int64_t column) {
    const std::int64_t token =
        mask.defined() ? mask.narrow(0, 0, column + 1).sum().item<std::int64_t>() - 1 : column;
    return token / c.window->size;
  };
  return chunk(query) == chunk(key);
}

TEST(Pattern, RowsSumToOneAndSeeOnlyWhatTheyMay) {
  for_random_configs(kRandomConfigs, [&](const ModelConfig& c) {
    const ActivationCache cache = RandomGraph(c).everything();
    for (const int layer : attending_layers(c)) {
      const at::Tensor pattern = cache[act::pattern(layer)], scores = cache[act::attn_scores(layer)];
      if (c.attention_sinks) {
        // A row whose scores are far above the sink's may round to 1.
        EXPECT_LE(pattern.sum(-1).max().item<double>(), 1.0 + kDoubleTolerance);
        EXPECT_LT(pattern.sum(-1).mean().item<double>(), 1.0 - 1e-6);
        EXPECT_GT(pattern.sum(-1).min().item<double>(), 0.0);
      } else {
        EXPECT_LT(relative_difference(pattern.sum(-1), at::ones_like(pattern.sum(-1))), kDoubleTolerance);
      }
      EXPECT_GE(pattern.min().item<double>(), 0.0);
      for (std::int64_t query = 0; query < 6; ++query) {
        for (std::int64_t key = 0; key < 6; ++key) {
          const bool allowed = may_attend(c, layer, query, key);
          const at::Tensor score = scores.select(3, key).select(2, query);
          EXPECT_EQ(score.isinf().any().item<bool>(), !allowed) << layer << " " << query << " " << key;
          EXPECT_EQ(score.isinf().all().item<bool>(), !allowed) << layer << " " << query << " " << key;
          if (!allowed) {
            EXPECT_EQ(pattern.select(3, key).select(2, query).abs().max().item<double>(), 0.0);
          }
        }
      }
    }
  });
}

TEST(Pattern, PaddingIsNotSeenAndFullyMaskedRowsAreZero) {
  std::int64_t below_one = 0;  // rows with sinks
  for_random_configs(kRandomConfigs, [&](const ModelConfig& c) {
    const RandomGraph graph(c);
    const at::Tensor mask = padding_on_both_sides();
    const auto [logits, cache] =
        graph.run(graph.tokens(), {.capture = act::everything, .attention_mask = mask});
    EXPECT_FALSE(logits.isnan().any().item<bool>());
    for (const int layer : attending_layers(c)) {
      const at::Tensor pattern = cache[act::pattern(layer)];
      for (std::int64_t row = 0; row < 2; ++row) {
        for (std::int64_t query = 0; query < 6; ++query) {
          // Padding is in no chunk.
          const bool in_chunks = c.windowed(layer) && c.window->kind == Window::chunks;
          if (in_chunks && mask[row][query].item<std::int64_t>() == 0) continue;
          bool sees_anything = false;
          for (std::int64_t key = 0; key < 6; ++key) {
            const bool allowed =
                may_attend(c, layer, query, key, mask[row]) && mask[row][key].item<std::int64_t>() == 1;
            sees_anything |= allowed;
            if (!allowed) {
              EXPECT_EQ(pattern[row].select(2, key).select(1, query).abs().max().item<double>(), 0.0);
            }
          }
          const at::Tensor sums = pattern[row].select(1, query).sum(-1);
          if (c.attention_sinks && sees_anything) {
            // A sink far below the scores rounds away.
            EXPECT_TRUE((sums > 0.0).logical_and(sums < 1.0 + kDoubleTolerance).all().item<bool>())
                << row << query << sums;
            below_one += (sums < 1.0).sum().item<std::int64_t>();
            continue;
          }
          EXPECT_LT((sums - (sees_anything ? 1.0 : 0.0)).abs().max().item<double>(), kDoubleTolerance)
              << row << query;
        }
      }
    }
  });
  EXPECT_GT(below_one, 100);
}

TEST(Result, SumsToAttnOutWithTheBias) {
  int checked = 0;
  for_random_configs(kRandomConfigs, [&](const ModelConfig& c) {
    const RandomGraph graph(c);
    const ActivationCache cache = graph.everything();
    for (const int layer : attending_layers(c)) {
      const std::string attn = "blocks." + std::to_string(layer) + ".attn";
      const at::Tensor result = cache[act::result(layer)];
      const at::Tensor by_hand =
          cache[act::z(layer)].unsqueeze(-2).matmul(graph.weight(attn + ".W_O")).squeeze(-2);
      EXPECT_LT(relative_difference(result, by_hand), kDoubleTolerance);
      if (c.norms_outputs(layer)) continue;
      at::Tensor sum = result.sum(2);
      if (c.attn_out_bias) sum = sum + graph.weight(attn + ".b_O");
      EXPECT_LT(relative_difference(sum, cache[act::attn_out(layer)]), kDoubleTolerance);
      ++checked;
    }
  });
  EXPECT_GT(checked, 100);
}

// Head h reads the key/value head h / (heads per key/value head).
TEST(Attention, ConsecutiveHeadsShareKeysAndValues) {
  int grouped = 0;
  for_random_configs(kRandomConfigs, [&](const ModelConfig& c) {
    const ActivationCache cache = RandomGraph(c).everything();
    grouped += c.grouped_query();
    for (const int layer : attending_layers(c)) {
      const std::int64_t group = c.heads_per_kv(layer);
      const auto made_in = static_cast<std::int32_t>(c.key_layer(layer));
      for (std::int64_t head = 0; head < c.n_heads; ++head) {
        at::Tensor values =
            cache[(c.value_norm ? act::v_norm_normalized(made_in) : act::v(made_in)).head(head / group)];
        if (c.qkv_clip > 0) values = values.clamp(-c.qkv_clip, c.qkv_clip);
        at::Tensor mixed = cache[act::pattern(layer).head(head)].matmul(values);
        if (c.gated_heads) mixed = mixed * cache[act::head_gate(layer).head(head)].sigmoid();
        EXPECT_LT(relative_difference(cache[act::z(layer).head(head)], mixed), kDoubleTolerance);
      }
    }
  });
  EXPECT_GT(grouped, 30);
}

double to_bfloat16(double x) { return static_cast<float>(c10::BFloat16(static_cast<float>(x))); }

double alibi(const ModelConfig& c, std::int64_t head, std::int64_t query, std::int64_t key) {
  const double slope = c.alibi()->slopes[static_cast<std::size_t>(head)];
  double bias = -slope * static_cast<double>(std::max<std::int64_t>(0, query - key));
  if (c.alibi()->in_bfloat16) {
    const double rounded = to_bfloat16(slope);
    bias =
        to_bfloat16(rounded * static_cast<double>(key)) - to_bfloat16(rounded * static_cast<double>(query));
  }
  return c.alibi()->scaled ? bias / c.attn_scale : bias;
}

TEST(Attention, ScoresAreScaledCappedBiasedProducts) {
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    SCOPED_TRACE(seed);
    const ModelConfig c = random_double_config(seed);
    const ActivationCache cache = RandomGraph(c).everything();
    for (const int layer : attending_layers(c)) {
      const bool rotary = c.rotates(layer);
      const auto made_in = static_cast<std::int32_t>(c.key_layer(layer));
      // Without rotary the normed or clamped q is not a point.
      if (!(rotary && c.rotates(made_in)) && (c.qk_norm || c.qkv_clip > 0)) continue;
      if (c.qk_norm && c.qk_norm->after_rotary) continue;
      const bool placed = rotary || c.grows_queries(layer);
      const at::Tensor q = placed ? cache[act::rot_q(layer)] : cache[act::q(layer)];
      const at::Tensor k = c.rotates(made_in) ? cache[act::rot_k(made_in)] : cache[act::k(made_in)];
      const at::Tensor scores = cache[act::attn_scores(layer)];
      for (std::int64_t head = 0; head < c.n_heads; ++head) {
        const std::int64_t kv_head = head / c.heads_per_kv(layer);
        for (std::int64_t query = 0; query < 6; ++query) {
          for (std::int64_t key = 0; key < 6; ++key) {
            if (!may_attend(c, layer, query, key)) continue;
            double score = (q[1][query][head] * k[1][key][kv_head]).sum().item<double>() / c.attn_scale;
            if (c.scale_by_inverse_layer) score /= layer + 1;
            if (c.score_soft_cap > 0) score = c.score_soft_cap * std::tanh(score / c.score_soft_cap);
            if (c.alibi() != nullptr) score += alibi(c, head, query, key);
            if (c.relative() != nullptr)
              score +=
                  cache[act::relative_bias(c.relative()->in_every_block ? layer : 0)][1][head][query][key]
                      .item<double>();
            EXPECT_NEAR(scores[1][head][query][key].item<double>(), score,
                        1e-12 * std::max(1.0, std::abs(score)));
          }
        }
      }
    }
    if (seed > 60) break;  // element by element is slow
  }
}

class FusedAttention : public testing::TestWithParam<at::ScalarType> {};

INSTANTIATE_TEST_SUITE_P(Dtypes, FusedAttention, testing::Values(at::kDouble, at::kFloat),
                         [](const auto& info) { return info.param == at::kDouble ? "float64" : "float32"; });

TEST_P(FusedAttention, EqualsTheExplicitPath) {
  const double tolerance = GetParam() == at::kDouble ? kDoubleTolerance : kFloatTolerance;
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig c = random_config(seed);
    c.dtype = GetParam();
    const RandomGraph graph(c);
    for (const at::Tensor& mask : {at::Tensor(), padding_on_both_sides()}) {
      const auto fused = graph.run(graph.tokens(), {.capture = act::z, .attention_mask = mask});
      const auto explicitly =
          graph.run(graph.tokens(), {.capture = act::z | act::pattern, .attention_mask = mask});
      for (const int layer : attending_layers(c)) {
        EXPECT_LT(relative_difference(fused.cache[act::z(layer)], explicitly.cache[act::z(layer)]), tolerance)
            << "layer " << layer << (mask.defined() ? " masked" : "");
      }
      EXPECT_LT(relative_difference(fused.logits, explicitly.logits), tolerance);
    }
  }
}

}  // namespace
}  // namespace hooked::attention_test
