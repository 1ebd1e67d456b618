// Published configs of DeepSeek-V2, V3 and Moonlight in our terms, and what happens to broken ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "families/family.h"
#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::deepseek_config_test {
namespace {

using Keys = std::map<std::string, std::string>;  // values as JSON; an empty one takes the key out

const Keys kV2Lite = {{"model_type", R"("deepseek_v2")"},
                      {"architectures", R"(["DeepseekV2ForCausalLM"])"},
                      {"attention_bias", "false"},
                      {"attention_dropout", "0.0"},
                      {"aux_loss_alpha", "0.001"},
                      {"bos_token_id", "100000"},
                      {"eos_token_id", "100001"},
                      {"first_k_dense_replace", "1"},
                      {"hidden_act", R"("silu")"},
                      {"hidden_size", "2048"},
                      {"initializer_range", "0.02"},
                      {"intermediate_size", "10944"},
                      {"kv_lora_rank", "512"},
                      {"max_position_embeddings", "163840"},
                      {"moe_intermediate_size", "1408"},
                      {"moe_layer_freq", "1"},
                      {"n_group", "1"},
                      {"n_routed_experts", "64"},
                      {"n_shared_experts", "2"},
                      {"norm_topk_prob", "false"},
                      {"num_attention_heads", "16"},
                      {"num_experts_per_tok", "6"},
                      {"num_hidden_layers", "27"},
                      {"num_key_value_heads", "16"},
                      {"pretraining_tp", "1"},
                      {"q_lora_rank", "null"},
                      {"qk_nope_head_dim", "128"},
                      {"qk_rope_head_dim", "64"},
                      {"rms_norm_eps", "1e-06"},
                      {"rope_scaling", R"({"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707,
                         "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096, "type": "yarn"})"},
                      {"rope_theta", "10000"},
                      {"routed_scaling_factor", "1.0"},
                      {"scoring_func", R"("softmax")"},
                      {"seq_aux", "true"},
                      {"tie_word_embeddings", "false"},
                      {"topk_group", "1"},
                      {"topk_method", R"("greedy")"},
                      {"torch_dtype", R"("bfloat16")"},
                      {"transformers_version", R"("4.33.1")"},
                      {"use_cache", "true"},
                      {"v_head_dim", "128"},
                      {"vocab_size", "102400"}};

Keys with(Keys keys, const Keys& changes) {
  for (const auto& [key, value] : changes) keys[key] = value;
  return keys;
}

const Keys kV2 = with(kV2Lite, {{"hidden_size", "5120"},
                                {"intermediate_size", "12288"},
                                {"moe_intermediate_size", "1536"},
                                {"n_group", "8"},
                                {"n_routed_experts", "160"},
                                {"num_attention_heads", "128"},
                                {"num_hidden_layers", "60"},
                                {"num_key_value_heads", "128"},
                                {"q_lora_rank", "1536"},
                                {"routed_scaling_factor", "16.0"},
                                {"topk_group", "3"},
                                {"topk_method", R"("group_limited_greedy")"}});

const Keys kV3 = with(kV2, {{"model_type", R"("deepseek_v3")"},
                            {"aux_loss_alpha", ""},
                            {"ep_size", "1"},
                            {"first_k_dense_replace", "3"},
                            {"hidden_size", "7168"},
                            {"intermediate_size", "18432"},
                            {"moe_intermediate_size", "2048"},
                            {"n_routed_experts", "256"},
                            {"n_shared_experts", "1"},
                            {"norm_topk_prob", "true"},
                            {"num_experts_per_tok", "8"},
                            {"num_hidden_layers", "61"},
                            {"num_nextn_predict_layers", "1"},
                            {"rope_scaling", R"({"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0,
                               "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"})"},
                            {"routed_scaling_factor", "2.5"},
                            {"scoring_func", R"("sigmoid")"},
                            {"topk_group", "4"},
                            {"topk_method", R"("noaux_tc")"},
                            {"vocab_size", "129280"}});

const Keys kMoonlight = with(kV3, {{"first_k_dense_replace", "1"},
                                   {"hidden_size", "2048"},
                                   {"intermediate_size", "11264"},
                                   {"max_position_embeddings", "8192"},
                                   {"moe_intermediate_size", "1408"},
                                   {"n_group", "1"},
                                   {"n_routed_experts", "64"},
                                   {"n_shared_experts", "2"},
                                   {"num_attention_heads", "16"},
                                   {"num_experts_per_tok", "6"},
                                   {"num_hidden_layers", "27"},
                                   {"num_key_value_heads", "16"},
                                   {"num_nextn_predict_layers", "0"},
                                   {"q_lora_rank", "null"},
                                   {"rms_norm_eps", "1e-05"},
                                   {"rope_scaling", ""},
                                   {"rope_theta", "50000.0"},
                                   {"routed_scaling_factor", "2.446"},
                                   {"topk_group", "1"},
                                   {"vocab_size", "163840"}});

FamilyConfig read(const Keys& keys) {
  std::string text;
  for (const auto& [key, value] : keys) {
    if (!value.empty()) text += fmt::format("{}\"{}\": {}", text.empty() ? "{" : ", ", key, value);
  }
  const std::string& type = keys.at("model_type");
  return read_family_config(family_of(type.substr(1, type.size() - 2), "config.json"),
                            {text + "}", "config.json"});
}

void expect_refused(const Keys& keys, std::string_view key, std::string_view said = "expected") {
  const auto error = thrown_by<ConfigError>([&] { read(keys); });
  ASSERT_TRUE(error) << key;
  EXPECT_EQ(error->where(), fmt::format("config.json: {}", key)) << error->what();
  EXPECT_NE(std::string(error->what()).find(said), std::string::npos) << error->what();
}

TEST(DeepseekConfigs, V2Lite) {
  const FamilyConfig got = read(kV2Lite);
  const ModelConfig& c = got.config;
  EXPECT_EQ(c.latent, (Latents{.d_kv = 512, .d_shared_key = 64, .d_value = 128}));
  EXPECT_EQ(c.d_head, 192);
  EXPECT_EQ(c.value_dim(0), 128);
  EXPECT_EQ(c.rotary_dim(0), 64);
  EXPECT_TRUE(c.rotary()->at_end && c.rotary()->adjacent_pairs);
  const double magnitude = 0.1 * 0.707 * std::log(40.0) + 1.0;
  EXPECT_NEAR(c.attn_scale, std::sqrt(192.0) / (magnitude * magnitude), 1e-12);
  EXPECT_EQ(std::get<YarnScaling>(c.rotary()->scaling).attention_factor, 1.0)
      << "both magnitudes are the same";
  EXPECT_EQ(c.experts->d_shared, 2816);
  EXPECT_EQ(c.experts->n_groups, 1);
  EXPECT_TRUE(c.experts->dense_layers.front() && !c.experts->dense_layers[1]);
  EXPECT_EQ(c.parameter_count(), 15'706'484'224);  // the published model
  EXPECT_EQ(got.ignored_keys, (std::vector<std::string>()));
  EXPECT_TRUE(got.notes.empty());
}

TEST(DeepseekConfigs, V2) {
  const ModelConfig c = read(kV2).config;
  EXPECT_EQ(c.latent->d_query, 1536);
  EXPECT_EQ(c.experts->n_groups, 8);
  EXPECT_EQ(c.experts->groups_per_token, 3);
  EXPECT_EQ(c.experts->group_score, GroupScore::best);
  EXPECT_EQ(c.parameter_count(), 235'741'434'880);  // the published model
}

TEST(DeepseekConfigs, V3) {
  const ModelConfig c = read(kV3).config;
  EXPECT_EQ(c.experts->router, RouterKind::sigmoid_then_choose);
  EXPECT_TRUE(c.experts->choice_bias && c.experts->renormalised);
  EXPECT_EQ(c.experts->group_score, GroupScore::best_two);
  EXPECT_EQ(c.parameter_count(), 671'026'419'200);  // the published model, without its next-token layer
  EXPECT_TRUE(read(with(kV3, {{"quantization_config", R"({"activation_scheme": "dynamic", "fmt": "e4m3",
      "quant_method": "fp8", "weight_block_size": [128, 128]})"}}))
                  .storage);
}

TEST(DeepseekConfigs, Moonlight) {
  const ModelConfig c = read(kMoonlight).config;
  EXPECT_EQ(c.latent->d_query, 0);
  EXPECT_EQ(c.latent->eps, 1e-6) << "whatever rms_norm_eps says";
  EXPECT_EQ(c.eps, 1e-5);
  EXPECT_EQ(c.attn_scale, std::sqrt(192.0));
  EXPECT_EQ(c.experts->n_groups, 1);
  EXPECT_EQ(c.experts->group_score, GroupScore::best);
  EXPECT_EQ(c.rotary()->base, 50000.0);
}

TEST(DeepseekConfigs, EveryWidthMustBeThereAndMakeSense) {
  for (const Keys& keys : {kV2, kV3}) {
    for (const char* key :
         {"kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
          "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
      for (const char* value : {"", "-1", "0", "\"12\"", "1.5", "true", "[3]", "100000000"}) {
        SCOPED_TRACE(value);
        expect_refused(with(keys, {{key, value}}), key);
      }
    }
    for (const char* key : {"kv_lora_rank", "v_head_dim"}) expect_refused(with(keys, {{key, "null"}}), key);
    expect_refused(with(keys, {{"qk_rope_head_dim", "7"}}), "qk_rope_head_dim", "even");
    expect_refused(with(keys, {{"num_key_value_heads", "8"}}), "num_key_value_heads", "128");
    expect_refused(with(keys, {{"first_k_dense_replace", "-1"}}), "first_k_dense_replace");
    expect_refused(with(keys, {{"n_shared_experts", "-1"}}), "n_shared_experts");
    expect_refused(with(keys, {{"routed_scaling_factor", "0"}}), "routed_scaling_factor");
    expect_refused(with(keys, {{"partial_rotary_factor", "0.5"}}), "partial_rotary_factor");
    expect_refused(with(keys, {{"n_group", "7"}}), "n_group", "divisor");
    expect_refused(with(keys, {{"n_group", "-8"}}), "n_group");
    expect_refused(with(keys, {{"topk_group", "9"}}), "topk_group", "8");
    expect_refused(with(keys, {{"topk_group", "0"}}), "topk_group");
    expect_refused(with(keys, {{"num_experts_per_tok", "140"}, {"topk_group", "1"}}), "topk_group");
    EXPECT_EQ(read(with(keys, {{"qk_surprise", "3"}})).ignored_keys, std::vector<std::string>{"qk_surprise"});
  }
  expect_refused(with(kV3, {{"n_group", "256"}}), "n_group", "at least 2");
}

TEST(DeepseekConfigs, UnknownWaysOfRoutingAreRefusedWithTheKnownOnes) {
  expect_refused(with(kV2, {{"topk_method", R"("noaux_tc")"}}), "topk_method",
                 "greedy or group_limited_greedy");
  expect_refused(with(kV2, {{"scoring_func", R"("sigmoid")"}}), "scoring_func", "softmax");
  expect_refused(with(kV3, {{"topk_method", R"("greedy")"}}), "topk_method", "noaux_tc");
  expect_refused(with(kV3, {{"scoring_func", R"("softmax")"}}), "scoring_func", "sigmoid");
  expect_refused(with(kV3, {{"scoring_func", "3"}}), "scoring_func");
}

TEST(DeepseekConfigs, WhatTransformersDoesNotReadIsNoted) {
  EXPECT_EQ(read(with(kV2, {{"norm_topk_prob", "true"}})).notes.size(), 1u);
  EXPECT_EQ(read(with(kV3, {{"moe_layer_freq", "2"}})).notes.size(), 1u);
  EXPECT_FALSE(read(with(kV2, {{"norm_topk_prob", "true"}})).config.experts->renormalised);
}

TEST(DeepseekConfigs, OtherShapes) {
  const ModelConfig dense = read(with(kV3, {{"first_k_dense_replace", "61"}})).config;
  EXPECT_FALSE(dense.experts);
  EXPECT_EQ(dense.d_mlp, 18432);
  const ModelConfig every = read(with(kV3, {{"first_k_dense_replace", "0"}})).config;
  EXPECT_EQ(every.d_mlp, 2048);
  EXPECT_FALSE(read(with(kV3, {{"rope_interleave", "false"}})).config.rotary()->adjacent_pairs);
  EXPECT_FALSE(read(with(kV3, {{"rope_interleave", "null"}})).config.rotary()->adjacent_pairs)
      << "transformers takes null for false";
  const ModelConfig biased = read(with(kV2, {{"attention_bias", "true"}})).config;
  EXPECT_TRUE(biased.qkv_bias && biased.attn_out_bias);
}

// DeepSeek-V3.2: with no more tokens than its indexer chooses, its attention is V3's.
TEST(DeepseekConfigs, V32IsV3UpToWhatItsIndexerChooses) {
  const Keys kV32 = with(kV3, {{"model_type", R"("deepseek_v32")"},
                               {"index_topk", "2048"},
                               {"index_head_dim", "128"},
                               {"index_n_heads", "64"}});
  const FamilyConfig got = read(kV32);
  ModelConfig as_v3 = read(kV3).config;
  EXPECT_EQ(as_v3.n_ctx, 163840);
  as_v3.n_ctx = 2048;
  EXPECT_EQ(got.config, as_v3);
  ASSERT_EQ(got.notes.size(), 1u);
  EXPECT_NE(got.notes.front().find("more than index_topk = 2048 tokens"), std::string::npos)
      << got.notes.front();
  EXPECT_TRUE(read(with(kV32, {{"index_topk", "200000"}})).notes.empty());
  expect_refused(with(kV32, {{"index_topk", "0"}}), "index_topk");
  expect_refused(with(kV32, {{"q_lora_rank", "null"}}), "q_lora_rank");
  expect_refused(with(kV32, {{"layer_types", R"(["full_attention"])"}}), "layer_types", "indexed_attention");
  expect_refused(with(kV32, {{"mlp_layer_types", R"(["dense"])"}}), "mlp_layer_types");
  expect_refused(with(kV32, {{"rope_interleave", "false"}}), "rope_interleave", "true");
}

// GLM-5, whose layers may share an index, and GLM 4.7 Flash, which has none.
TEST(DeepseekConfigs, GlmsOfItsKind) {
  const Keys kGlm5 = with(kV3, {{"model_type", R"("glm_moe_dsa")"},
                                {"n_group", ""},
                                {"topk_group", ""},
                                {"index_topk", "2048"},
                                {"index_head_dim", "128"},
                                {"index_n_heads", "32"},
                                {"index_topk_freq", "4"},
                                {"index_skip_topk_offset", "3"},
                                {"indexer_rope_interleave", "true"},
                                {"rope_interleave", "true"}});
  EXPECT_EQ(read(kGlm5).config.n_ctx, 2048);
  EXPECT_EQ(read(kGlm5).config.experts->n_groups, 1);
  const Keys kFlash = with(kV3, {{"model_type", R"("glm4_moe_lite")"},
                                 {"first_k_dense_replace", "1"},
                                 {"n_group", "1"},
                                 {"topk_group", "1"},
                                 {"routed_scaling_factor", ""}});
  const ModelConfig flash = read(kFlash).config;
  EXPECT_EQ(flash.n_ctx, 163840);
  EXPECT_TRUE(flash.dense_mlp(0) && flash.mixture(1) && flash.query_latent());
  expect_refused(with(kFlash, {{"first_k_dense_replace", "3"}}), "first_k_dense_replace");
}

}  // namespace
}  // namespace hooked::deepseek_config_test
