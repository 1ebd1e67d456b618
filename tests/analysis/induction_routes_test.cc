// What docs/analysis/positional-circuits.md says of positions in the stream and outside it: the routes to
// induction heads, and what stays the same when a window moves. On models whose weights are set by hand.

#include "hooked/analysis/heads.h"
#include "hooked/analysis/positional_circuits.h"
#include "hooked/analysis/repetition.h"
#include "tests/support/tiny_model.h"

namespace hooked::induction_routes_test {
namespace {

constexpr std::int64_t kVocab = 12, kPositions = 13, kHeadSize = kVocab + kPositions;
constexpr double kSharp = 60;  // scores far enough apart for a softmax to choose

/// The coordinates of the stream that each thing occupies.
struct Part {
  std::int64_t begin, size;
};
constexpr Part kToken{0, kVocab}, kPosition{kVocab, kPositions}, kBefore{kHeadSize, kVocab},
    kMoved{kHeadSize + kVocab, kPositions};
constexpr std::int64_t kWidth = kMoved.begin + kPositions;

enum class Route { keys, queries };

/// Two layers of one head without norms and MLPs.
ModelConfig config(const Positions& positions) {
  ModelConfig config;
  config.n_layers = 2;
  config.d_model = kWidth;
  config.n_ctx = kPositions;
  config.n_heads = config.n_kv_heads = 1;
  config.d_head = kHeadSize;
  config.attn_scale = 1;
  config.mlp = MlpKind::none;
  config.d_mlp = 0;
  config.norm = config.final_norm = NormKind::none;
  config.positions = positions;
  config.d_vocab = kVocab;
  config.unembedding = Unembedding{.d_vocab = kVocab};
  config.dtype = at::kDouble;
  return config;
}

/// What a head reads: coordinates of its own from `head_begin` on are those of the part.
void read(at::Tensor& W, Part part, std::int64_t head_begin, double factor = 1) {
  W[0].narrow(0, part.begin, part.size)
      .narrow(1, head_begin, part.size)
      .copy_(factor * at::eye(part.size, at::kDouble));
}
void write(at::Tensor& W_O, std::int64_t head_begin, Part part) {
  W_O[0]
      .narrow(0, head_begin, part.size)
      .narrow(1, part.begin, part.size)
      .copy_(at::eye(part.size, at::kDouble));
}
/// The same for position p as coordinate p + by, if it exists.
void read_shifted(at::Tensor& W, Part part, std::int64_t by, double factor) {
  auto block = W[0].narrow(0, part.begin, kPositions).narrow(1, kVocab, kPositions);
  for (std::int64_t p = std::max<std::int64_t>(0, -by); p < std::min(kPositions, kPositions - by); ++p)
    block[p][p + by] = factor;
}

/// A model whose second head looks at what followed the token's earlier occurrence.
///
/// By keys: the first head copies the token before into the stream, where keys find it. By queries: the first
/// head looks at the earlier occurrence and copies its position; queries look one further.
HookedTransformer by(Route route, const Positions& positions) {
  const auto settings = config(positions);
  auto weights = HookedTransformer::create(settings, {.seed = 1}).state_dict();
  for (auto& [name, weight] : weights) weight = at::zeros_like(weight, at::kDouble);
  const auto layer = [&](int number, const char* name) -> at::Tensor& {
    return weights["blocks." + std::to_string(number) + ".attn." + name];
  };
  weights["embed.W_E"].narrow(1, kToken.begin, kVocab).copy_(at::eye(kVocab, at::kDouble));
  weights["pos_embed.W_pos"].narrow(1, kPosition.begin, kPositions).copy_(at::eye(kPositions, at::kDouble));
  if (route == Route::keys) {
    read_shifted(layer(0, "W_Q"), kPosition, -1, kSharp);
    read(layer(0, "W_K"), kPosition, kVocab);
    read(layer(0, "W_V"), kToken, 0);
    write(layer(0, "W_O"), 0, kBefore);
    read(layer(1, "W_Q"), kToken, 0, kSharp);
    read(layer(1, "W_K"), kBefore, 0);
  } else {
    read(layer(0, "W_Q"), kToken, 0, kSharp);
    read(layer(0, "W_Q"), kPosition, kVocab, -2 * kSharp);  // not the token itself
    read(layer(0, "W_K"), kToken, 0);
    read(layer(0, "W_K"), kPosition, kVocab);
    read(layer(0, "W_V"), kPosition, 0);
    write(layer(0, "W_O"), 0, kMoved);
    read_shifted(layer(1, "W_Q"), kMoved, 1, kSharp);
    read(layer(1, "W_K"), kPosition, kVocab);
  }
  return model_of(weights, settings);
}

double induction_of(const HookedTransformer& model) {
  const auto tokens = repeated_random_tokens(
      {.rows = 4, .half = 6, .vocab_begin = 1, .vocab_end = kVocab, .bos = 0, .seed = 1});
  return head_scores(model.run_with_cache(tokens, act::pattern).cache, HeadScore::induction,
                     {.tokens = tokens})
      .at({1, 0});
}

/// How often a row of M has its largest number `behind` places after the diagonal, of the rows before `end`.
double share_on_diagonal(const at::Tensor& M, std::int64_t behind, std::int64_t end) {
  const auto largest = M.narrow(0, 0, end).argmax(1);
  return largest.eq(at::arange(end, at::kLong) + behind).to(at::kDouble).mean().item<double>();
}

TEST(InductionRoutes, PositionsInTheStreamLeaveTwoAndBesideItOne) {
  EXPECT_GT(induction_of(by(Route::keys, LearnedPositions{})), 0.99);
  EXPECT_GT(induction_of(by(Route::keys, ShortformerPositions{})), 0.99);
  EXPECT_GT(induction_of(by(Route::queries, LearnedPositions{})), 0.99);
  EXPECT_LT(induction_of(by(Route::queries, ShortformerPositions{})), 0.3)
      << "no value has a position that could be moved";
}

// E W_QK (E W_OV)^T: whether a key knows the token before it. P W_OV W_QK P^T: where a query looks that
// received a position.
TEST(InductionRoutes, CircuitsTellThemApart) {
  for (const auto route : {Route::keys, Route::queries}) {
    const auto model = by(route, LearnedPositions{});
    const auto w = model.weights();
    const auto ov = ov_circuits(model)[0][0], qk = qk_circuits(model)[1][0];
    const auto by_keys = matmul(matmul(w.W_E(), qk), matmul(w.W_E(), ov).t());
    const auto by_queries = matmul(matmul(matmul(w.W_pos(), ov), qk), w.W_pos().t());
    const bool keys = route == Route::keys;
    EXPECT_EQ(share_on_diagonal(by_keys.AB(), 0, kVocab), keys ? 1.0 : 1.0 / kVocab);
    if (keys) {
      EXPECT_EQ(by_queries.norm().item<double>(), 0);
    } else {
      EXPECT_EQ(share_on_diagonal(by_queries.AB(), 1, kPositions - 1), 1.0);
    }
  }
  const auto beside = by(Route::queries, ShortformerPositions{});
  EXPECT_THAT(text_thrown_by<HookError>([&] {
                full_ov_circuit(beside, {0, 0}, CircuitEnd::position);
              }),
              HasSubstr("position"));
}

/// A model of two layers, and itself with the same tokens three places further on: its W_pos begins with the
/// fourth row.
struct Moved {
  HookedTransformer before, after;
  at::Tensor step;  ///< by how much each position changes, [pos, d_model]
  at::Tensor tokens = random_row(6, 11, 1);
  ActivationCache here = before.run_with_cache(tokens, act::everything).cache,
                  there = after.run_with_cache(tokens, act::everything).cache;

  at::Tensor change(const Address& name) const { return there[name] - here[name]; }
};

Moved moved(const Positions& positions) {
  auto settings = two_layer_config();
  settings.positions = positions;
  const auto before = random_model(settings);
  auto weights = before.state_dict();
  const auto W_pos = weights["pos_embed.W_pos"], further = W_pos.roll({-3}, {0});
  weights["pos_embed.W_pos"] = further;
  return {.before = before,
          .after = model_of(weights, before.config()),
          .step = (further - W_pos).narrow(0, 0, 6)};
}

TEST(MovedWindow, BesideTheStreamOnlyQueriesAndKeysKnowOfIt) {
  const auto beside = moved(ShortformerPositions{}), inside = moved(LearnedPositions{});
  for (const auto& name : {Address(act::resid_pre(0)), Address(act::ln1_normalized(0)), Address(act::v(0))}) {
    EXPECT_EQ(beside.change(name).abs().max().item<double>(), 0) << name;
    EXPECT_GT(inside.change(name).abs().max().item<double>(), 1e-3) << name;
  }
  // The change of a key needs no run: W_K of the difference of two positions.
  const auto step = beside.step.matmul(beside.before.weights().W_K(0)[2]);  // [pos, d_head]
  EXPECT_LT((beside.change(act::k(0))[0].select(1, 2) - step).abs().max().item<double>(), 1e-12);
}

// In deeper layers only the patterns pass the move on: the same patterns give the same stream.
TEST(MovedWindow, WithHeldPatternsTheStreamBesidePositionsStays) {
  for (const bool inside : {false, true}) {
    const auto m = inside ? moved(LearnedPositions{}) : moved(ShortformerPositions{});
    std::vector<Edit> held;
    for (const auto layer : {0, 1}) held.push_back(set(act::pattern(layer), m.here[act::pattern(layer)]));
    const auto cache = m.after.run(m.tokens, {.edits = held, .capture = act::resid_post}).cache;
    const double change = (cache[act::resid_post(1)] - m.here[act::resid_post(1)]).abs().max().item<double>();
    if (inside) {
      EXPECT_GT(change, 1e-3);
    } else {
      EXPECT_LT(change, 1e-12);
    }
  }
}

}  // namespace
}  // namespace hooked::induction_routes_test
