// Weights that families keep in float32 in narrower models: loaded, saved, packed and copied they keep their
// numbers, and computations with them are not rounded.
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>

#include <array>
#include <tuple>

#include "hooked/core/tensor_text.h"
#include "hooked/engine/replicate.h"
#include "hooked/engine/trainable_transformer.h"
#include "tests/support/goldens.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::least_dtypes_test {
namespace {

constexpr std::array kHalfDtypes = {at::kBFloat16, at::kHalf};

/// A weight of a family, and in which dtypes of the model it stays in float32.
struct Kept {
  const char* golden;
  const char* weight;
  bool in_bfloat16, in_float16;

  bool in(at::ScalarType dtype) const { return dtype == at::kBFloat16 ? in_bfloat16 : in_float16; }
};

// Weights that from_pretrained of transformers 5.24 makes float32: `_keep_in_fp32_modules` (float16 alone),
// `_keep_in_fp32_modules_strict`, and parameters that a module itself makes in float32.
constexpr Kept kKept[] = {{"deepseek_v3", "blocks.1.mlp.choice_bias", true, true},
                          {"deepseek_v32", "blocks.1.mlp.choice_bias", true, true},
                          {"glm4_moe", "blocks.1.mlp.choice_bias", true, true},
                          {"glm4_moe_lite", "blocks.1.mlp.choice_bias", true, true},
                          {"glm_moe_dsa", "blocks.1.mlp.choice_bias", true, true},
                          {"dots1", "blocks.1.mlp.choice_bias", true, true},
                          {"exaone_moe", "blocks.1.mlp.choice_bias", true, true},
                          {"solar_open", "blocks.1.mlp.choice_bias", true, true},
                          {"hy_v3", "blocks.1.mlp.choice_bias", true, true},
                          {"ernie4_5_moe", "blocks.1.mlp.choice_bias", true, true},
                          {"ernie4_5_moe", "blocks.1.mlp.W_gate.weight", true, true},
                          {"afmoe", "blocks.1.mlp.choice_bias", true, true},
                          {"afmoe", "blocks.0.attn.q_norm.w", false, true},
                          {"afmoe", "blocks.1.ln2_post.w", false, true},
                          {"gpt_oss", "ln_final.w", false, true},
                          {"gpt_oss", "blocks.0.ln1.w", false, true},
                          {"gpt_oss_mxfp4", "blocks.0.ln2.w", false, true},
                          {"gpt_oss", "blocks.0.mlp.W_gate.weight", false, false},
                          {"t5_gated", "decoder.0.mlp.W_out", false, true},
                          {"t5", "encoder.1.mlp.W_out", false, true},
                          {"mt5", "encoder.0.mlp.W_out", false, true},
                          {"umt5", "decoder.1.mlp.W_out", false, true},
                          {"t5_encoder", "blocks.0.mlp.W_out", false, true},
                          {"t5_gated", "decoder.0.mlp.W_in", false, false},
                          {"minimax_m2", "blocks.0.mlp.choice_bias", false, false},
                          {"mixtral", "blocks.0.mlp.W_gate.weight", false, false},
                          {"deepseek_v2", "blocks.1.mlp.W_gate.weight", true, true},
                          {"deepseek_v3", "blocks.1.mlp.W_gate.weight", true, true},
                          {"deepseek_v32", "blocks.1.mlp.W_gate.weight", true, true},
                          {"glm4_moe", "blocks.1.mlp.W_gate.weight", true, true},
                          {"glm4_moe_lite", "blocks.1.mlp.W_gate.weight", true, true},
                          {"glm_moe_dsa", "blocks.1.mlp.W_gate.weight", true, true},
                          {"dots1", "blocks.1.mlp.W_gate.weight", true, true},
                          {"exaone_moe", "blocks.1.mlp.W_gate.weight", true, true},
                          {"solar_open", "blocks.1.mlp.W_gate.weight", true, true},
                          {"hy_v3", "blocks.1.mlp.W_gate.weight", true, true},
                          {"hunyuan_v1_moe", "blocks.1.mlp.W_gate.weight", true, true},
                          {"afmoe", "blocks.1.mlp.W_gate.weight", false, false}};

HookedTransformer load(const std::string& folder, std::optional<at::ScalarType> dtype) {
  return HookedTransformer::load(folder, {.dtype = dtype, .processing = WeightProcessing::none()});
}

HookedTransformer load_golden(const char* name, at::ScalarType dtype) {
  return load(golden_case(name).folder().string(), dtype);
}

bool same(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && at::equal(one, other);
}

TEST(LeastDtypes, WeightsAreThoseOfTheFile) {
  for (const Kept& kept : kKept) {
    const at::Tensor stored = load_golden(kept.golden, at::kFloat).weights()[kept.weight];
    for (const at::ScalarType dtype : kHalfDtypes) {
      const at::Tensor expected = kept.in(dtype) ? stored : stored.to(dtype);
      EXPECT_TRUE(same(load_golden(kept.golden, dtype).weights()[kept.weight], expected))
          << kept.golden << " " << kept.weight << " in " << dtype_text(dtype);
    }
  }
}

// The goldens' numbers are float16 numbers, so bfloat16 and a file in between could hide a rounding.
TEST(LeastDtypes, SavedPackedAndCopiedModelsKeepThem) {
  const TempFolder folder;
  int number = 0;
  for (const Kept& kept : kKept) {
    for (const at::ScalarType dtype : kHalfDtypes) {
      if (!kept.in(dtype)) continue;
      SCOPED_TRACE(std::string(kept.golden) + " " + kept.weight);
      const HookedTransformer given = load_golden(kept.golden, dtype);
      StateDict weights = given.state_dict();
      at::Tensor& fine = weights.at(kept.weight);
      fine = fine * 1.0001 + 1e-5;  // in neither half precision
      const at::Tensor expected = fine.clone();
      ModelConfig config = given.config();
      const auto model =
          HookedTransformer::from_state_dict(weights, config, {.processing = WeightProcessing::none()});
      EXPECT_TRUE(same(model.weights()[kept.weight], expected));
      const auto plain = folder / ("plain" + std::to_string(number));
      const auto packed = folder / ("packed" + std::to_string(number++));
      model.save(plain);
      model.save(packed, {.packed = true});
      EXPECT_TRUE(same(load(plain.string(), std::nullopt).weights()[kept.weight], expected));
      EXPECT_TRUE(same(load(packed.string(), std::nullopt).weights()[kept.weight], expected));
      EXPECT_TRUE(same(TrainableTransformer::from(model).freeze().weights()[kept.weight], expected));
      EXPECT_TRUE(same(replicate(model, "cpu").front().weights()[kept.weight], expected));
    }
  }
}

// A step of processing computes in float64 and leaves a kept weight in float32.
TEST(LeastDtypes, ProcessedWeightsAreKeptToo) {
  const auto folder = golden_case("ernie4_5_moe").folder().string();
  const auto exact = HookedTransformer::load(folder, {.dtype = at::kFloat});
  const auto half = HookedTransformer::load(folder, {.dtype = at::kBFloat16});
  constexpr const char* kRouter = "blocks.1.mlp.W_gate.weight";
  EXPECT_TRUE(same(half.weights()[kRouter], exact.weights()[kRouter]));
}

ModelConfig sigmoid_config(at::ScalarType dtype) {
  ModelConfig config = small_config();
  config.mlp = MlpKind::gated;
  config.d_model = 32;
  config.experts = Experts{.n_experts = 16, .per_token = 4, .d_expert = config.d_mlp};
  config.experts->router = RouterKind::sigmoid_then_choose;
  config.experts->choice_bias = config.experts->renormalised = true;
  config.experts->router_in_float32 = true;
  config.experts->added_to_sum = 1e-20;
  config.least_dtypes.choice_bias = KeptInFloat32::in_half;
  config.dtype = dtype;
  return config;
}

// From the router's input, in plain float32 arithmetic.
TEST(LeastDtypes, ARouterInFloat32ChoosesByUnroundedLogits) {
  for (const at::ScalarType dtype : kHalfDtypes) {
    StateDict weights = random_model(sigmoid_config(at::kFloat)).state_dict();
    for (int layer = 0; layer < 3; ++layer) {  // biases that are the same number in half precision
      at::Tensor& bias = weights.at("blocks." + std::to_string(layer) + ".mlp.choice_bias");
      bias = 34.5 + 0.01 * bias;
    }
    const auto model = HookedTransformer::from_state_dict(weights, sigmoid_config(dtype),
                                                          {.processing = WeightProcessing::none()});
    const at::Tensor tokens = random_tokens(model.config(), {16, 10});
    const auto cache = model.run_with_cache(tokens).cache;
    for (int layer = 0; layer < 3; ++layer) {
      const std::string block = "blocks." + std::to_string(layer);
      const auto weight = [&](const char* name) { return model.weights()[block + name].to(at::kFloat); };
      const at::Tensor read =
          (cache[act::ln2_normalized(layer)].to(at::kFloat) * weight(".ln2.w") + weight(".ln2.b"))
              .to(dtype)
              .to(at::kFloat);
      const at::Tensor ranking =
          at::sigmoid(read.matmul(weight(".mlp.W_gate.weight").t())) + weight(".mlp.choice_bias");
      const at::Tensor expected = std::get<0>(at::sort(std::get<1>(at::topk(ranking, 4, -1)), -1));
      const at::Tensor chosen = std::get<0>(at::sort(cache[act::expert_indices(layer)], -1));
      // ln2's own rounding is not seen here: a token in a hundred may differ.
      EXPECT_GT(chosen.eq(expected).all(-1).to(at::kFloat).mean().item<double>(), 0.98) << layer;
    }
  }
}

// For DeepSeek-V3 and similar models: w / (sum of w + 1e-20), however small the sigmoids are.
TEST(SharesOfExperts, AreThoseOfTheFormulaNearZero) {
  for (const double logit : {-20.0, -46.0, -80.0, -200.0}) {
    ModelConfig config = sigmoid_config(at::kDouble);
    config.n_layers = 1;
    config.experts->router_bias = true;
    StateDict weights = random_model(config).state_dict();
    at::Tensor& gate = weights.at("blocks.0.mlp.W_gate.weight");
    gate = at::zeros_like(gate);
    at::Tensor& bias = weights.at("blocks.0.mlp.W_gate.bias");
    bias = at::full(bias.sizes(), logit, bias.options());
    // All experts are the same, so the MLP's output is scaled by the sum of the shares.
    for (const auto& name : {"W_gate", "W_in", "W_out"}) {
      for (int e = 1; e < 16; ++e) {
        weights.at("blocks.0.mlp.experts." + std::to_string(e) + "." + name + ".weight") =
            weights.at(std::string("blocks.0.mlp.experts.0.") + name + ".weight");
      }
    }
    const auto written = [&](double added) {
      config.experts->added_to_sum = added;
      const auto model =
          HookedTransformer::from_state_dict(weights, config, {.processing = WeightProcessing::none()});
      return model.run_with_cache(random_tokens(config, {1, 5}), act::mlp_out(0)).cache[act::mlp_out(0)];
    };
    const double sum = 4.0 / (1.0 + std::exp(-logit));
    const at::Tensor whole = written(0.0);  // shares that sum to 1
    EXPECT_TRUE(whole.isfinite().all().item<bool>()) << logit;
    EXPECT_LT((written(1e-20) - whole * (sum / (sum + 1e-20))).abs().max().item<double>(), 1e-12) << logit;
  }
}

// bug-reports.md's eleventh recipe: sums of W_out that float16 cannot hold.
TEST(T5InFloat16, IsFiniteAndNearFloat32) {
  for (const char* name : {"t5_gated", "mt5", "umt5"}) {
    StateDict weights = load_golden(name, at::kFloat).state_dict();
    ModelConfig config = load_golden(name, at::kFloat).config();
    for (auto& [weight, values] : weights) {
      if (weight.ends_with("mlp.W_out")) values = values * 12000.0;
      if (weight.ends_with("mlp.W_in")) values = values * 8.0;
    }
    const auto logits = [&](at::ScalarType dtype) {
      const auto model = HookedTransformer::from_state_dict(
          weights, config, {.dtype = dtype, .processing = WeightProcessing::none()});
      const GoldenRun golden = read_golden(golden_case(name));
      const auto run = model.run({golden.tokens, {.decoder = {.tokens = golden.decoder_tokens}}},
                                 {.capture = act::resid_post(0)});
      EXPECT_EQ(run.cache[act::resid_post(0)].scalar_type(), at::kFloat);
      EXPECT_GT(run.cache[act::resid_post(0)].abs().max().item<double>(), 65504.0) << name;
      return run.logits();
    };
    const at::Tensor half = logits(at::kHalf), whole = logits(at::kFloat);
    EXPECT_TRUE(half.isfinite().all().item<bool>()) << name;
    EXPECT_LT(((half - whole).abs().max() / whole.abs().max()).item<double>(), 0.03) << name;
  }
}

}  // namespace
}  // namespace hooked::least_dtypes_test
