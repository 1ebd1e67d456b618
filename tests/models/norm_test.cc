#include "models/graph/norm.h"

#include "tests/models/random_graph.h"

namespace hooked::norm_test {
namespace {

struct Case {
  std::string name;
  NormKind kind;
  bool offset = false;
  bool bias = true;
  at::ScalarType dtype = at::kDouble;
};

class NormOf : public testing::TestWithParam<Case> {
 protected:
  static ModelConfig config() {
    ModelConfig c = graph_config();
    c.norm = c.final_norm = GetParam().kind;
    c.norm_offset = GetParam().offset;
    c.norm_bias = GetParam().bias;
    c.dtype = GetParam().dtype;
    c.eps = 0.01;
    return c;
  }
  double tolerance() const { return GetParam().dtype == at::kDouble ? kDoubleTolerance : kFloatTolerance; }
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, NormOf,
    testing::Values(Case{"layer_norm", NormKind::layer_norm},
                    Case{"layer_norm_without_bias", NormKind::layer_norm, false, false},
                    Case{"rms_norm", NormKind::rms_norm},
                    Case{"rms_norm_with_offset", NormKind::rms_norm, true},
                    Case{"layer_norm_float32", NormKind::layer_norm, false, true, at::kFloat},
                    Case{"rms_norm_float32", NormKind::rms_norm, true, true, at::kFloat}),
    named);

TEST_P(NormOf, PointsAndOutputFollowTheFormula) {
  const RandomGraph graph(config());
  const ActivationCache cache = graph.everything();
  const at::Tensor x = cache[act::resid_post(1)].to(at::kDouble);
  const at::Tensor centred = GetParam().kind == NormKind::layer_norm ? x - x.mean(-1, true) : x;
  const at::Tensor scale = (centred.square().mean(-1, true) + 0.01).sqrt();
  EXPECT_LT(relative_difference(cache[act::ln_final_scale], scale), tolerance());
  EXPECT_LT(relative_difference(cache[act::ln_final_normalized], centred / scale), tolerance());
  at::Tensor y =
      centred / scale * (graph.weight("ln_final.w").to(at::kDouble) + (GetParam().offset ? 1.0 : 0.0));
  if (GetParam().kind == NormKind::layer_norm && GetParam().bias)
    y = y + graph.weight("ln_final.b").to(at::kDouble);
  EXPECT_LT(relative_difference(cache[act::unembed_in], y), tolerance());
}

TEST_P(NormOf, FusedAndWatchedAgree) {
  const RandomGraph graph(config());
  const auto fused = graph.run(graph.tokens(), {.capture = act::unembed_in});
  EXPECT_LT(relative_difference(fused.cache[act::unembed_in], graph.everything()[act::unembed_in]),
            tolerance());
}

TEST_P(NormOf, StatisticsOfHalfPrecisionModelsAreFloat32) {
  ModelConfig c = config();
  c.dtype = at::kBFloat16;
  const ActivationCache cache = RandomGraph(c).everything();
  EXPECT_EQ(cache[act::ln1_scale(0)].scalar_type(), at::kFloat);
  EXPECT_EQ(cache[act::ln1_normalized(0)].scalar_type(), at::kBFloat16);
  const at::Tensor x = cache[act::resid_pre(0)].to(at::kDouble);
  const at::Tensor centred = GetParam().kind == NormKind::layer_norm ? x - x.mean(-1, true) : x;
  EXPECT_LT(relative_difference(cache[act::ln1_scale(0)], (centred.square().mean(-1, true) + 0.01).sqrt()),
            1e-5);
}

// An unwatched norm is rounded once: by the weight, which is 1 + w in float32 if it is an offset.
TEST(Norm, OfHalfPrecisionRoundsOnce) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    for (const bool offset : {false, true}) {
      for (const KeptInFloat32 kept : {KeptInFloat32::never, KeptInFloat32::in_half}) {
        ModelConfig c = graph_config();
        c.norm = c.final_norm = NormKind::rms_norm;
        c.norm_offset = offset;
        c.dtype = dtype;
        c.least_dtypes.norms = kept;
        const RandomGraph graph(c);
        const auto cache = graph.run(graph.tokens(), {.capture = act::resid_post(1) | act::unembed_in}).cache;
        const at::Tensor x = cache[act::resid_post(1)].to(at::kDouble);
        const at::Tensor normed = x / (x.square().mean(-1, true) + c.eps).sqrt();
        const at::Tensor w = graph.weight("ln_final.w");
        EXPECT_EQ(w.scalar_type(), c.dtype_of(kept));
        const at::Tensor expected = (normed * (w.to(at::kDouble) + (offset ? 1.0 : 0.0))).to(dtype);
        const at::Tensor got = cache[act::unembed_in];
        ASSERT_EQ(got.scalar_type(), dtype);
        // Only a value between two numbers may round to the other side.
        EXPECT_GT(got.eq(expected).to(at::kDouble).mean().item<double>(), 0.97) << dtype << offset;
      }
    }
  }
}

// Large numbers whose squares overflow float16 and whose mean hides their spread.
TEST(Norm, KeepsPrecisionFarFromZero) {
  ModelConfig c = graph_config();
  c.dtype = at::kFloat;
  const RandomGraph graph(c);
  const ActivationCache cache =
      graph.run(graph.tokens(), {.capture = act::everything, .edits = {add(act::embed, 1000.0)}}).cache;
  const at::Tensor x = cache[act::resid_pre(0)].to(at::kDouble);
  const at::Tensor centred = x - x.mean(-1, true);
  EXPECT_LT(relative_difference(cache[act::ln1_scale(0)], (centred.square().mean(-1, true) + c.eps).sqrt()),
            1e-4);
}

}  // namespace
}  // namespace hooked::norm_test
