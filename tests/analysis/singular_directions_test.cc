#include "hooked/analysis/singular_directions.h"

#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/minimum.h>

#include <array>
#include <sstream>

#include "tests/analysis/analysis_goldens.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::singular_directions_test {
namespace {

constexpr double kGoldenTolerance = 1e-9;
constexpr double kTolerance = 1e-10;

// `OV.1.3` after `singular.`.
SingularOptions options_of(const std::string& name, std::int64_t vectors) {
  const auto first = name.find('.');
  SingularOptions options{.directions = vectors, .circuits = {.norms = false}};
  options.layer = std::stoll(name.substr(first + 1));
  if (const auto head = name.find('.', first + 1); head != std::string::npos)
    options.index = std::stoll(name.substr(head + 1));
  const auto kind = name.substr(0, first);
  options.of = kind == "OV"     ? SingularOf::ov_written
               : kind == "w_in" ? SingularOf::mlp_in
                                : SingularOf::mlp_out;
  return options;
}

TEST(SingularDirections, AreThoseOfTransformerLens) {
  const std::string prefix = "singular.";
  int compared = 0;
  for (const AnalysedWeights& weights : analysed_weights("circuits")) {
    const auto model = weights.load();
    const auto tensors = weights.model.read(weights.processed);
    for (const auto& [name, recorded] : tensors) {
      if (!name.starts_with(prefix)) continue;
      SCOPED_TRACE(weights.name() + " " + name);
      const auto& logits = recorded.tensor();  // [vocab, vector]
      const auto of = name.substr(prefix.size());
      const auto ours = singular_directions(model, options_of(of, logits.size(1)));
      EXPECT_LE(largest(ours.values - tensors.at("singular_values." + of).tensor()), kGoldenTolerance);
      const auto theirs = logits.t();
      // Each vector may point the other way.
      const auto same = (ours.logits - theirs).abs().amax(1), other = (ours.logits + theirs).abs().amax(1);
      EXPECT_LE(largest(at::minimum(same, other)), kGoldenTolerance);
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

TEST(SingularDirections, OfEverySideAreSingularVectors) {
  auto config = two_layer_config();
  config.n_kv_heads = 2;
  const auto model = random_model(config);
  const auto ov = ov_circuits(model)[1][3].AB(), qk = qk_circuits(model)[1][3].AB();
  const auto w = model.weights();
  // With norms: rows of W_in weighted by ln2 and centred over the stream.
  const auto weighted = w.W_in(1) * w.ln2(1).w.unsqueeze(1);
  const auto in = weighted - weighted.mean(0, true);
  const std::vector<std::pair<SingularOf, at::Tensor>> sides{
      {SingularOf::ov_written, ov.t()}, {SingularOf::ov_read, ov}, {SingularOf::qk_query, qk},
      {SingularOf::qk_key, qk.t()},     {SingularOf::mlp_in, in},  {SingularOf::mlp_out, w.W_out(1).t()}};
  for (const auto& [of, matrix] : sides) {  // [d_model, n]
    SCOPED_TRACE(static_cast<int>(of));
    const auto read =
        singular_directions(model, {.of = of, .layer = -1, .index = 3, .directions = 4, .top_k = 2});
    EXPECT_LE(largest(read.values - at::linalg_svdvals(matrix).narrow(0, 0, 4)), kTolerance);
    // M M^T v = s^2 v.
    const auto back = matrix.matmul(matrix.t()).matmul(read.directions.t());
    EXPECT_LE(largest(back - read.directions.t() * read.values.square()), kTolerance * 100);
    EXPECT_LE(largest(read.directions.square().sum(1) - 1), kTolerance);
    // Through the final norm's weights, the largest logit positive.
    const auto normed = (read.directions - read.directions.mean(1, true)) * w.ln_final().w;
    EXPECT_LE(largest(read.logits - normed.matmul(w.W_U())), kTolerance);
    EXPECT_TRUE(read.logits.amax(1).ge(-read.logits.amin(1)).all().item<bool>());
    ASSERT_EQ(read.top.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto logits = read.logits[static_cast<std::int64_t>(i)];
      ASSERT_EQ(read.top[i].raised.size(), 2u);
      EXPECT_EQ(read.top[i].raised[0].token, logits.argmax().item<std::int64_t>());
      EXPECT_DOUBLE_EQ(read.top[i].lowered[0].logit, logits.min().item<double>());
      EXPECT_EQ(read.top[i].subspace, static_cast<std::int64_t>(i));
      EXPECT_EQ(read.top[i].dimensions, 1);
    }
  }
}

TEST(SingularDirections, OfAGateAreThoseOfItsWeights) {
  auto config = two_layer_config();
  config.mlp = MlpKind::gated;
  const auto model = random_model(config);
  const auto w = model.weights();
  const auto weighted = w.W_gate(0) * w.ln2(0).w.unsqueeze(1);
  const auto read = singular_directions(model, {.of = SingularOf::mlp_gate, .directions = 3});
  const auto expected = at::linalg_svdvals(weighted - weighted.mean(0, true)).narrow(0, 0, 3);
  EXPECT_LE(largest(read.values - expected), kTolerance);
  EXPECT_EQ(read.title, "mlp_gate 0");
}

TEST(SingularDirections, OfEqualSizeAreOneSubspace) {
  auto weights = HookedTransformer::create(two_layer_config(), {.seed = 2}).state_dict();
  // Singular values 3, 2, 2, 2, 1: W_out that stretches axes of the stream.
  auto W_out = at::zeros({20, 16}, at::kDouble);
  const std::array sizes{2.0, 3.0, 2.0, 1.0, 2.0};
  for (std::int64_t i = 0; i < 5; ++i) W_out[i][i] = sizes[static_cast<std::size_t>(i)];
  weights["blocks.0.mlp.W_out"] = W_out;
  const auto model = model_of(weights, two_layer_config());
  const auto read =
      singular_directions(model, {.of = SingularOf::mlp_out, .directions = 3, .circuits = {.norms = false}});
  EXPECT_EQ(read.title, "mlp_out 0");
  EXPECT_EQ(read.top[0].dimensions, 1);
  EXPECT_EQ(read.top[1].subspace, 1);
  EXPECT_EQ(read.top[2].subspace, 1);
  EXPECT_EQ(read.top[2].dimensions, 3);  // the fourth is not shown
  std::ostringstream out;
  out << read;
  EXPECT_THAT(out.str(), HasSubstr("one of 3 of equal size, from 1"));
}

TEST(SingularDirections, SayWhatTheyRefuse) {
  const auto model = random_model(two_layer_config());
  EXPECT_THROW(singular_directions(model, {.directions = 0}), ShapeError);
  EXPECT_THROW(singular_directions(model, {.layer = 2}), ShapeError);
  auto config = two_layer_config();
  config.qk_norm = QkNorm{};
  const auto normed = random_model(config);
  EXPECT_THAT(text_thrown_by<HookError>([&] { singular_directions(normed, {.of = SingularOf::qk_key}); }),
              HasSubstr("norms of their own"));
  EXPECT_NO_THROW(singular_directions(normed, {}));
  EXPECT_THAT(text_thrown_by<ConfigError>([&] { singular_directions(model, {.of = SingularOf::mlp_gate}); }),
              HasSubstr("W_gate"));
}

}  // namespace
}  // namespace hooked::singular_directions_test
