// The bias that heads add to scores for the distance of query and key is a part of its own: what the papers'
// formulas say, number by number, of golden checkpoints in float64, of a row and of one with padding.
#include <c10/util/BFloat16.h>

#include "hooked/analysis/score_attribution.h"
#include "tests/support/golden_model.h"

namespace hooked::score_position_bias_test {
namespace {

constexpr double kTolerance = 1e-12;  // float64, biases of size 1
constexpr std::int64_t kPadding = 2;  // before the second row

/// One query and one key, by their places among the real tokens.
struct Pair {
  std::int64_t query, key;
};

/// Press et al. 2022; Falcon rounds each end to bfloat16.
double alibi_bias(const ModelConfig& config, std::int64_t head, const Pair& pair) {
  const auto& alibi = *config.alibi();
  const double slope = alibi.slopes[static_cast<std::size_t>(head)];
  double bias = -slope * static_cast<double>(std::max<std::int64_t>(pair.query - pair.key, 0));
  if (alibi.in_bfloat16) {
    const auto ramp = [&](std::int64_t place) {
      const c10::BFloat16 rounded(static_cast<float>(slope));
      return static_cast<double>(
          static_cast<float>(c10::BFloat16(static_cast<float>(rounded) * static_cast<float>(place))));
    };
    bias = ramp(pair.key) - ramp(pair.query);
  }
  return alibi.scaled ? bias / config.attn_scale : bias;
}

/// Raffel et al. 2020: the number of the distance's bucket.
std::int64_t bucket_of(const RelativePositions& relative, bool both_ways, const Pair& pair) {
  const auto ahead = pair.key - pair.query;
  const auto buckets = both_ways ? relative.buckets / 2 : relative.buckets;
  const auto away = both_ways ? std::abs(ahead) : std::max<std::int64_t>(-ahead, 0);
  const auto first = both_ways && ahead > 0 ? buckets : 0, exact = buckets / 2;
  if (away < exact) return first + away;
  const auto part = std::log(static_cast<float>(away) / static_cast<float>(exact)) /
                    static_cast<float>(std::log(static_cast<double>(relative.max_distance) / exact));
  const auto beyond = static_cast<std::int64_t>(part * static_cast<float>(buckets - exact));
  return first + std::min(exact + beyond, buckets - 1);
}

double relative_bias(const HookedTransformer& model, const Address& scores, std::int64_t head,
                     const Pair& pair) {
  const ModelConfig& config = model.config();
  const ActivationName name = scores.name();
  const BlockPlace owner{name.stack, config.relative()->in_every_block ? name.layer : 0};
  const auto bucket = bucket_of(*config.relative(), config.bidirectional(name.stack), pair);
  return model.weights()[owner.path() + ".attn.rel_pos_bias.weight"][bucket][head].item<double>();
}

class PositionBiasOf : public testing::TestWithParam<const char*> {
 protected:
  PositionBiasOf() : model_(load_golden(golden_case(GetParam()))) {
    const auto recorded = read_golden(golden_case(GetParam()));
    const auto padded = [](const at::Tensor& tokens) {
      auto mask = at::ones_like(tokens);
      mask[1].slice(0, 0, kPadding).zero_();
      return mask;
    };
    Input input{recorded.tokens, {.attention_mask = padded(recorded.tokens)}};
    if (recorded.decoder_tokens.defined())
      input.decoder = {.tokens = recorded.decoder_tokens, .attention_mask = padded(recorded.decoder_tokens)};
    cache_ = model_.run_with_cache(input, act::everything, {.output = Output::none}).cache;
  }

  HookedTransformer model_;
  ActivationCache cache_;
};

TEST_P(PositionBiasOf, IsAPartOfItsOwn) {
  const ModelConfig& config = model_.config();
  for (const auto& name : model_.names()) {
    if (name.site != Site::attn_scores) continue;
    for (std::int64_t head = 0; head < config.n_heads; ++head) {
      SCOPED_TRACE(name.to_string() + ", head " + std::to_string(head));
      const Address scores = Address(name).head(head);
      const auto grid = score_attribution(model_, cache_, {.scores = scores, .queries = {}, .keys = {}});
      const auto of_query = grid.slice("query_part", "position bias");
      const auto part = of_query.slice("key_part", "position bias").values();  // [row, query, key]
      // Paired with other parts it is zero.
      const auto of_key = grid.slice("key_part", "position bias");
      for (const auto* side : {&of_query, &of_key}) {
        const auto others = side->values().abs().sum(1) - part.abs();
        EXPECT_EQ(others.nan_to_num(0.0).abs().max().item<double>(), 0);
      }
      for (std::int64_t row = 0; row < 2; ++row) {
        const auto first = row == 0 ? 0 : kPadding;
        for (auto query = first; query < part.size(1); ++query) {
          for (auto key = first; key < part.size(2); ++key) {
            const auto value = part[row][query][key].item<double>();
            const Pair pair{query - first, key - first};
            const bool hidden = key > query && !config.bidirectional(name.stack);
            const double expected = hidden                      ? 0.0
                                    : config.alibi() != nullptr ? alibi_bias(config, head, pair)
                                                                : relative_bias(model_, scores, head, pair);
            ASSERT_NEAR(value, expected, kTolerance) << row << ", " << query << ", " << key;
          }
        }
      }
      EXPECT_TRUE(part[1].slice(0, 0, kPadding).isnan().all().item<bool>());
      EXPECT_TRUE(part[1].slice(1, 0, kPadding).isnan().all().item<bool>());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PositionBiasOf,
                         testing::Values("bloom", "mpt", "falcon_parallel_alibi", "falcon_serial_alibi",
                                         "hf_bloom", "tl_alibi_three_heads", "tl_bidirectional_alibi",
                                         "tl_score_cap_alibi", "t5", "t5_encoder", "t5_long", "mt5", "umt5",
                                         "umt5_plain"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace hooked::score_position_bias_test
