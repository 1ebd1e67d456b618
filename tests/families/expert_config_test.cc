// The configs of published mixtures in our terms.
#include "families/shared/expert_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::expert_config_test {
namespace {

FamilyConfig read(std::string_view family, const std::string& keys) {
  const std::string text = fmt::format(
      R"({{"model_type": "{}", "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 23, "max_position_embeddings": 32{}}})",
      family, keys.empty() ? "" : ", " + keys);
  return read_family_config(family_of(family, "config.json"), {text, "config.json"});
}

void expect_refused(std::string_view family, const std::string& keys, std::string_view key) {
  const auto error = thrown_by<ConfigError>([&] { read(family, keys); });
  ASSERT_TRUE(error) << key;
  EXPECT_EQ(error->where(), fmt::format("config.json: {}", key)) << error->what();
}

TEST(MixtureConfigs, Mixtral) {
  const FamilyConfig got = read("mixtral", R"("num_local_experts": 8, "num_experts_per_tok": 2,
      "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02,
      "output_router_logits": false, "sliding_window": null)");
  EXPECT_EQ(got.config.experts,
            (Experts{.n_experts = 8, .per_token = 2, .d_expert = 20, .renormalised = true}));
  EXPECT_FALSE(got.config.window);
  EXPECT_TRUE(got.ignored_keys.empty());
  expect_refused("mixtral", R"("num_local_experts": 2, "num_experts_per_tok": 3)", "num_experts_per_tok");
  expect_refused("mixtral", R"("num_local_experts": 0)", "num_local_experts");
  EXPECT_EQ(read("mixtral", R"("moe_surprise": 3)").ignored_keys, std::vector<std::string>{"moe_surprise"});
}

TEST(MixtureConfigs, QwensDenseLayers) {
  const std::string published = R"("moe_intermediate_size": 6, "norm_topk_prob": true, "num_experts": 5,
      "num_experts_per_tok": 3, "max_window_layers": 48, "sliding_window": null, "use_sliding_window": false)";
  const ModelConfig every =
      read("qwen3_moe", published + R"(, "decoder_sparse_step": 1, "mlp_only_layers": [])").config;
  EXPECT_TRUE(every.experts->dense_layers.empty());
  EXPECT_EQ(every.d_mlp, 6);
  EXPECT_TRUE(every.experts->renormalised);
  const ModelConfig some =
      read("qwen3_moe", published + R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3])").config;
  EXPECT_EQ(some.experts->dense_layers, (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(some.d_mlp, 20);
  EXPECT_EQ(some.experts->d_expert, 6);
  const ModelConfig none = read("qwen3_moe", published + R"(, "mlp_only_layers": [0, 1, 2, 3])").config;
  EXPECT_FALSE(none.experts);
  EXPECT_EQ(none.d_mlp, 20);
}

TEST(MixtureConfigs, Qwen2SharedExpertAndWindows) {
  const ModelConfig c = read("qwen2_moe", R"("moe_intermediate_size": 6, "num_experts": 5,
      "num_experts_per_tok": 3, "shared_expert_intermediate_size": 9, "use_sliding_window": true,
      "sliding_window": 7, "max_window_layers": 3)")
                            .config;
  EXPECT_EQ(c.experts->d_shared, 9);
  EXPECT_TRUE(c.experts->shared_gate);
  EXPECT_FALSE(c.experts->renormalised);
  EXPECT_EQ(c.window->layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(c.window->size, 7);
}

TEST(MixtureConfigs, GptOss) {
  const std::string published = R"("attention_bias": true, "experts_per_token": 4, "head_dim": 64,
      "hidden_act": "silu", "initial_context_length": 4096, "num_experts_per_tok": 4, "num_local_experts": 32,
      "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 150000, "router_aux_loss_coef": 0.9,
      "sliding_window": 128, "swiglu_limit": 7.0)";
  const ModelConfig c = read("gpt_oss", published + R"(, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0,
      "factor": 32.0, "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false})")
                            .config;
  EXPECT_TRUE(c.attention_sinks && c.up_offset && c.experts->bias && c.experts->router_bias);
  EXPECT_EQ(c.experts->router, RouterKind::choose_then_softmax);
  EXPECT_EQ(c.window->layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(c.activation, Activation::swish_with(1.702));
  EXPECT_EQ(read("gpt_oss", published).config, c) << "its usual scaling is meant where none is given";
  EXPECT_TRUE(read("gpt_oss", published + R"(, "quantization_config": {"quant_method": "mxfp4"})").storage);
  expect_refused("gpt_oss", published + R"(, "quantization_config": {"quant_method": "bitnet"})",
                 "quantization_config.quant_method");
}

TEST(MixtureConfigs, Phimoe) {
  const std::string rope = R"(, "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5],
      "long_factor": [2.0, 3.0], "short_mscale": 1.25, "long_mscale": 1.5,
      "original_max_position_embeddings": 8}, "original_max_position_embeddings": 8)";
  const std::string published = R"("attention_bias": true, "input_jitter_noise": 0.01, "lm_head_bias": true,
      "num_experts_per_tok": 2, "num_local_experts": 16, "router_jitter_noise": 0.01, "sliding_window": 131072)";
  const FamilyConfig got = read("phimoe", published + rope);
  const auto& scaling = std::get<LongropeScaling>(got.config.rotary()->scaling);
  EXPECT_EQ(scaling.attention_factor, 1.25);
  EXPECT_EQ(scaling.long_attention_factor, 1.5);
  EXPECT_EQ(scaling.long_factors, scaling.short_factors);
  EXPECT_EQ(got.notes.size(), 1u);
  EXPECT_EQ(got.config.experts->mixer_tolerance, 0.02);
  EXPECT_TRUE(got.config.unembedding->bias);
  expect_refused("phimoe", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0})",
                 "rope_scaling.rope_type");
}

TEST(MixtureConfigs, Ernie) {
  const ModelConfig c = read("ernie4_5_moe", R"("moe_capacity": [64, 64, 64], "moe_gate": "topk",
      "moe_intermediate_size": 6, "moe_k": 3, "moe_layer_interval": 1, "moe_layer_start_index": 1,
      "moe_layer_end_index": 2, "moe_num_experts": 7, "moe_num_shared_experts": 2, "moe_use_aux_free": true,
      "num_nextn_predict_layers": 1, "use_bias": false)")
                            .config;
  EXPECT_EQ(c.experts->dense_layers, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(c.experts->d_shared, 12);
  EXPECT_TRUE(c.experts->choice_bias && c.experts->renormalised && c.tied_unembedding());
}

TEST(MixtureConfigs, DeepseekV3sMixturesBehindOtherAttention) {
  const std::string published =
      R"("n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 6,
      "n_shared_experts": 2, "first_k_dense_replace": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
      "n_group": 1, "topk_group": 1, "rope_theta": 1000000, "rope_scaling": null, "head_dim": 8)";
  Experts expected{.n_experts = 8,
                   .per_token = 3,
                   .d_expert = 6,
                   .dense_layers = {true, false, false, false},
                   .router = RouterKind::sigmoid_then_choose,
                   .router_in_float32 = true,
                   .choice_bias = true,
                   .renormalised = true,
                   .added_to_sum = 1e-20,
                   .d_shared = 12};
  const ModelConfig glm =
      read("glm4_moe",
           published + R"(, "attention_bias": true, "partial_rotary_factor": 0.5, "use_qk_norm": true,
                                        "num_nextn_predict_layers": 1)")
          .config;
  EXPECT_EQ(glm.experts, expected);
  EXPECT_EQ(glm.rotary()->dim, 4);
  EXPECT_TRUE(glm.qk_norm && glm.qkv_bias && !glm.attn_out_bias);
  const ModelConfig dots =
      read("dots1",
           published + R"(, "scoring_func": "noaux_tc", "moe_layer_freq": 1, "sliding_window": null)")
          .config;
  EXPECT_EQ(dots.experts, expected);
  EXPECT_FALSE(dots.window);
  for (const std::string_view family : {"glm4_moe", "dots1"}) {
    expect_refused(family, published + R"(, "scoring_func": "softmax")", "scoring_func");
    expect_refused(family, published + R"(, "topk_method": "greedy")", "topk_method");
    EXPECT_EQ(read(family, published + R"(, "moe_surprise": 3)").ignored_keys,
              std::vector<std::string>{"moe_surprise"});
  }
  expect_refused("dots1", published + R"(, "layer_types": ["sliding_attention", "full_attention"])",
                 "layer_types");
}

TEST(MixtureConfigs, KExaonesLayersByName) {
  const std::string published = R"("num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 6,
      "num_shared_experts": 1, "sliding_window": 4, "sliding_window_pattern": "LLLG",
      "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])";
  const ModelConfig c =
      read("exaone_moe", published + R"(, "mlp_layer_types": ["dense", "sparse", "sparse", "dense"])").config;
  EXPECT_EQ(c.experts->dense_layers, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(c.window, (Window{.size = 4, .layers = {true, true, true, false}}));
  EXPECT_EQ(c.rotary()->unrotated_layers, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(read("exaone_moe", published).config.experts->dense_layers,
            (std::vector<bool>{true, false, false, false}));
  expect_refused("exaone_moe", published + R"(, "mlp_layer_types": ["dense", "sparse"])", "mlp_layer_types");
  expect_refused("exaone_moe", published + R"(, "mlp_layer_types": ["dense", "sparse", "sparse", "moe"])",
                 "mlp_layer_types");
}

TEST(MixtureConfigs, MiniMaxM2AsPublished) {
  const std::string sizes = R"("num_local_experts": 8, "num_experts_per_tok": 3, "head_dim": 8, )";
  const ModelConfig c = read("minimax_m2", sizes + R"("rotary_dim": 4, "attn_type_list": [1, 1, 1, 1],
      "qk_norm_type": "per_layer", "use_qk_norm": true, "scoring_func": "sigmoid", "use_routing_bias": true,
      "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid", "use_mtp": true, "mtp_transformer_layers": 1,
      "num_mtp_modules": 3, "layernorm_full_attention_beta": 1.0)")
                            .config;
  EXPECT_EQ(c.experts, (Experts{.n_experts = 8,
                                .per_token = 3,
                                .d_expert = 20,
                                .router = RouterKind::sigmoid_then_choose,
                                .choice_bias = true,
                                .renormalised = true}));
  EXPECT_EQ(c.rotary()->dim, 4);
  EXPECT_EQ(c.qk_norm->span, QkNorm::whole_projection);
  expect_refused("minimax_m2", sizes + R"("attn_type_list": [1, 0, 1, 1])", "attn_type_list");
  expect_refused("minimax_m2", sizes + R"("qk_norm_type": "per_head")", "qk_norm_type");
  expect_refused("minimax_m2", sizes + R"("use_routing_bias": false)", "use_routing_bias");
  expect_refused("minimax_m2", sizes + R"("shared_intermediate_size": 4)", "shared_intermediate_size");
  expect_refused("minimax_m2", sizes + R"("rotary_dim": 3)", "rotary_dim");
  expect_refused("minimax_m2", sizes + R"("rotary_dim": 10)", "rotary_dim");
  expect_refused("minimax_m2", sizes + R"("layernorm_mlp_beta": 2.0)", "layernorm_mlp_beta");
}

TEST(MixtureConfigs, Llama4AsPublished) {
  const std::string published =
      R"("intermediate_size_mlp": 30, "num_local_experts": 8, "num_experts_per_tok": 1,
      "head_dim": 8, "attention_chunk_size": 8192, "attn_scale": 0.1, "attn_temperature_tuning": true,
      "floor_scale": 8192, "use_qk_norm": true, "no_rope_layers": [], "for_llm_compressor": false,
      "rope_theta": 500000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "output_router_logits": false)";
  const ModelConfig scout = read("llama4_text", published + R"(, "interleave_moe_layer_step": 1)").config;
  EXPECT_EQ(scout.experts, (Experts{.n_experts = 8,
                                    .per_token = 1,
                                    .d_expert = 20,
                                    .weighted_inputs = true,
                                    .router = RouterKind::sigmoid_then_choose,
                                    .d_shared = 20}));
  const std::vector<bool> rotated{true, true, true, false}, fourth{false, false, false, true};
  EXPECT_EQ(scout.window, (Window{.kind = Window::chunks, .size = 8192, .layers = rotated}));
  EXPECT_EQ(scout.rotary()->unrotated_layers, fourth);
  EXPECT_EQ(scout.qk_norm, (QkNorm{.span = QkNorm::per_head, .after_rotary = true, .layers = rotated}));
  EXPECT_EQ(scout.query_growth,
            (QueryGrowth{.growth = 0.1, .tokens = 8192.0, .offset = 1, .layers = fourth}));
  const ModelConfig maverick = read("llama4_text", published + R"(, "interleave_moe_layer_step": 2)").config;
  EXPECT_EQ(maverick.experts->dense_layers, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(maverick.d_mlp, 30);
  EXPECT_EQ(read("llama4_text", published + R"(, "moe_layers": [])").config.experts, std::nullopt);
  expect_refused("llama4_text", R"("attention_chunk_size": null)", "attention_chunk_size");
  expect_refused("llama4_text", R"("no_rope_layers": [1, 0])", "no_rope_layers");
  expect_refused("llama4_text", R"("layer_types": ["sliding_attention", "full_attention"])", "layer_types");
  expect_refused("llama4_text", R"("attn_scale": -0.1)", "attn_scale");
  expect_refused("llama4_text", R"("floor_scale": 0)", "floor_scale");
  expect_refused("llama4_text", R"("num_local_experts": 2, "num_experts_per_tok": 3)", "num_experts_per_tok");
}

TEST(MixtureConfigs, SolarOpenRefusesWhatIsNotReadForIt) {
  const std::string sizes = R"("n_routed_experts": 8, "moe_intermediate_size": 6, "head_dim": 8, )";
  expect_refused("solar_open", sizes + R"("first_k_dense_replace": 1)", "first_k_dense_replace");
  expect_refused("solar_open", sizes + R"("use_qk_norm": true)", "use_qk_norm");
  EXPECT_EQ(read("solar_open", sizes + R"("first_k_dense_replace": 0)").config.d_mlp, 6);
}

TEST(MixtureConfigs, GraniteWithAnMlpBesideTheExperts) {
  const std::string keys = R"("num_local_experts": 5, "num_experts_per_tok": 2, "residual_multiplier": 0.5)";
  const ModelConfig beside = read("granitemoeshared", keys + R"(, "shared_intermediate_size": 9)").config;
  EXPECT_EQ(beside.experts->d_shared, 9);
  EXPECT_EQ(beside.experts->router, RouterKind::choose_then_softmax);
  EXPECT_EQ(read("granitemoeshared", keys).config.experts->d_shared, 0);
  expect_refused("granitemoeshared", R"("num_local_experts": 0, "shared_intermediate_size": 9)",
                 "num_local_experts");
  expect_refused("granitemoeshared", R"("shared_intermediate_size": -1)", "shared_intermediate_size");
}

// As Granite 4.0 350M and 1B are published.
TEST(MixtureConfigs, GraniteHybridsOfAttentionAlone) {
  const std::string attention = R"("layer_types": ["attention", "attention", "attention", "attention"])";
  const std::string dense = attention + R"(, "num_local_experts": 0, "num_experts_per_tok": 0,
      "shared_intermediate_size": 9, "mamba_d_conv": 4, "mamba_expand": 2, "rope_theta": 500.0)";
  const FamilyConfig got = read("granitemoehybrid", dense + R"(, "position_embedding_type": "rope")");
  EXPECT_FALSE(got.config.experts);
  EXPECT_EQ(got.config.d_mlp, 9);
  ASSERT_NE(got.config.rotary(), nullptr);
  EXPECT_EQ(got.config.rotary()->base, 500.0);
  for (const char* none :
       {"", R"(, "position_embedding_type": null)", R"(, "position_embedding_type": "nope")"}) {
    EXPECT_EQ(read("granitemoehybrid", dense + none).config.positions, Positions(NoPositions{})) << none;
  }
  const ModelConfig mixtures = read("granitemoehybrid", attention).config;
  EXPECT_EQ(mixtures.experts->n_experts, 8);
  EXPECT_EQ(mixtures.experts->d_shared, 1024);
  expect_refused("granitemoehybrid", dense + R"(, "position_embedding_type": "alibi")",
                 "position_embedding_type");
}

TEST(MixtureConfigs, GraniteHybridsWithStateSpaceLayersAreRefusedByName) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const std::string types = fmt::format(R"("{}": ["attention", "mamba", "attention", "attention"])", key);
    const auto error = thrown_by<ConfigError>([&] { read("granitemoehybrid", types); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->where(), fmt::format("config.json: {}", key));
    EXPECT_NE(std::string(error->what()).find("Mamba"), std::string::npos);
  }
  expect_refused("granitemoehybrid", "", "layer_types");  // transformers takes state-space layers then
  expect_refused("granitemoehybrid", R"("layer_types": ["attention"])", "layer_types");
}

}  // namespace
}  // namespace hooked::expert_config_test
