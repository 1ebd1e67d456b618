// Sweeps and their estimates over mixers that replace attention in some layers: gated delta nets and short
// convolutions.

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/sweep.h"
#include "tests/support/golden_model.h"
#include "tests/support/tiny_model.h"

namespace hooked::sweep_mixers_test {
namespace {

constexpr double kFloat64Tolerance = 1e-10;
constexpr std::int64_t kAnswer = 3, kAgainst = 7;

struct MixerSite {
  const char* golden;
  const char* name;
  act::BlockSite site;
  std::vector<Axis> over;  // after the layer
};

class SweepOverMixers : public testing::TestWithParam<MixerSite> {
 protected:
  SweepOptions options() const {
    std::vector<SweptAxis> over = {Axis::layer};
    for (const Axis axis : GetParam().over) over.emplace_back(axis);
    return {.site = GetParam().site,
            .over = over,
            .from = clean_,
            .into = corrupted_,
            .metric = logit_difference(kAnswer, kAgainst)};
  }
  bool has_site(std::int64_t layer) const {
    return clean_.contains(ActivationName{
        .site = GetParam().site.site, .stack = Stack::blocks, .layer = static_cast<std::int32_t>(layer)});
  }
  Address place(const std::vector<std::int64_t>& index) const {
    Address address = GetParam().site(static_cast<std::int32_t>(index[0]));
    for (std::size_t i = 1; i < index.size(); ++i) address = address.at(GetParam().over[i - 1], index[i]);
    return address;
  }
  /// Calls `check` with the index of each cell of a layer that has the site, and expects NaN in the others.
  template <class Check>
  void each_cell(const Grid& grid, const Check& check) const {
    const at::IntArrayRef sizes = grid.values().sizes();
    ASSERT_EQ(sizes.size(), GetParam().over.size() + 1);
    ASSERT_EQ(sizes[0], model_.config().n_layers);
    std::int64_t lacking = 0;
    std::vector<std::int64_t> index(sizes.size(), 0);
    for (std::int64_t cell = 0; cell < grid.values().numel(); ++cell) {
      std::int64_t rest = cell;
      for (std::size_t i = sizes.size(); i-- > 0; rest /= sizes[i]) index[i] = rest % sizes[i];
      if (has_site(index[0])) {
        check(index, grid.values().flatten()[cell].item<double>());
      } else {
        ++lacking;
        EXPECT_TRUE(std::isnan(grid.values().flatten()[cell].item<double>())) << cell;
      }
    }
    EXPECT_GT(lacking, 0) << "every layer has the site";
    EXPECT_LT(lacking, grid.values().numel()) << "no layer has it";
  }
  double difference(const at::Tensor& logits) const {
    return (logits[0][-1][kAnswer] - logits[0][-1][kAgainst]).item<double>();
  }

  HookedTransformer model_ =
      HookedTransformer::load(golden_case(GetParam().golden).folder().string(), {.dtype = at::kDouble});
  at::Tensor corrupted_ = random_row(6, model_.config().d_vocab, 2);
  ActivationCache clean_ =
      model_.run_with_cache(random_row(6, model_.config().d_vocab, 1), act::everything).cache;
};

TEST_P(SweepOverMixers, EqualsOneFullRunPerPlace) {
  const double unpatched = difference(model_.run(corrupted_).logits());
  double largest = 0;
  each_cell(sweep(model_, options()), [&](const std::vector<std::int64_t>& index, double value) {
    const Address address = place(index);
    const RunOptions patched{.edits = {replace(address, clean_)}};
    EXPECT_NEAR(value, difference(model_.run(corrupted_, patched).logits()), kFloat64Tolerance)
        << address.to_string();
    largest = std::max(largest, std::abs(value - unpatched));
  });
  EXPECT_GT(largest, 1e-3) << "no patch changed anything";
}

TEST_P(SweepOverMixers, TheirEstimatesAreChangesTimesGradients) {
  const act::BlockSite& site = GetParam().site;
  const auto run = model_.run(
      corrupted_, {.capture = site, .gradients = GradientRequest{site, logit_difference(kAnswer, kAgainst)}});
  double largest = 0;
  each_cell(attribution_patching(model_, {.sweep = options()}),
            [&](const std::vector<std::int64_t>& index, double value) {
              const Address address = place(index);
              const at::Tensor change = clean_[address] - run.cache[address];
              EXPECT_NEAR(value, (change * run.gradients[address]).sum().item<double>(), kFloat64Tolerance)
                  << address.to_string();
              largest = std::max(largest, std::abs(value));
            });
  EXPECT_GT(largest, 1e-3) << "all estimates are zero";
}

constexpr const char* kDelta = "qwen3_next";
constexpr const char* kHybrid = "olmo_hybrid";  // whose betas are doubled
constexpr const char* kConv = "lfm2";

INSTANTIATE_TEST_SUITE_P(
    Sites, SweepOverMixers,
    testing::Values(MixerSite{kDelta, "out", act::linear_out, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "out_of_its_own_axis", act::linear_out, {Axis::lin_head}},
                    MixerSite{kDelta, "v", act::linear_v, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "v_by_position", act::linear_v, {Axis::pos}},
                    MixerSite{kDelta, "q", act::linear_q, {Axis::lin_key_head, Axis::pos}},
                    MixerSite{kDelta, "k", act::linear_k, {Axis::lin_key_head}},
                    MixerSite{kDelta, "qkv", act::linear_qkv, {Axis::pos}},
                    MixerSite{kDelta, "beta", act::linear_beta, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "decay", act::linear_decay, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "state_by_head", act::linear_state, {Axis::head}},
                    MixerSite{kDelta, "state_by_position", act::linear_state, {Axis::pos}},
                    MixerSite{kDelta, "gate", act::linear_gate, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "norm_scale", act::linear_norm_scale, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "gated", act::linear_gated, {Axis::head, Axis::pos}},
                    MixerSite{kDelta, "z_of_the_others", act::z, {Axis::head, Axis::pos}},
                    MixerSite{kHybrid, "out", act::linear_out, {Axis::head, Axis::pos}},
                    MixerSite{kHybrid, "beta", act::linear_beta, {Axis::head}},
                    MixerSite{kConv, "b", act::conv_b, {Axis::pos}},
                    MixerSite{kConv, "c", act::conv_c, {Axis::pos}},
                    MixerSite{kConv, "x", act::conv_x, {Axis::pos}},
                    MixerSite{kConv, "bx", act::conv_bx, {Axis::pos}},
                    MixerSite{kConv, "convolved", act::convolved, {Axis::pos}},
                    MixerSite{kConv, "gated", act::conv_gated, {Axis::pos}},
                    MixerSite{kConv, "gated_by_dimension", act::conv_gated, {Axis::d_conv}}),
    [](const auto& info) { return std::string(info.param.golden) + "_" + info.param.name; });

}  // namespace
}  // namespace hooked::sweep_mixers_test
