#include "families/family.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::family_test {
namespace {

// A Llama config of few keys; `more` is spliced in, so that a key given twice is an error of the test.
std::string llama(const std::string& more = "") {
  return R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 23,
             "max_position_embeddings": 32)" +
         (more.empty() ? "" : ", " + more) + "}";
}

FamilyConfig read(const std::string& text, std::string_view family = "llama") {
  return read_family_config(family_of(family, "config.json"), {text, "config.json"});
}

void expect_refused(const std::string& text, std::string_view key, const std::vector<std::string>& said,
                    std::string_view family = "llama") {
  const auto error = thrown_by<ConfigError>([&] { read(text, family); });
  ASSERT_TRUE(error) << key;
  EXPECT_EQ(error->where(), fmt::format("config.json: {}", key));
  for (const std::string& words : said) {
    EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
  }
}

TEST(Families, StandInOrderAndOnce) {
  std::string_view last;
  for (const Family& family : all_families()) {
    EXPECT_LT(last, family.model_type);
    last = family.model_type;
  }
}

TEST(Families, AnUnknownOneIsRefusedWithTheNearestName) {
  const auto error = thrown_by<ConfigError>([] { family_of("gema2", "m/config.json"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "m/config.json");
  EXPECT_NE(std::string(error->what()).find("'gema2'"), std::string::npos);
  EXPECT_NE(std::string(error->what()).find("the nearest name is 'gemma2'"), std::string::npos);
}

TEST(FamilyConfigs, FewKeysAreEnough) {
  const ModelConfig c = read(llama()).config;
  EXPECT_EQ(c.d_head, 4);
  EXPECT_EQ(c.n_kv_heads, 2);
  EXPECT_EQ(c.rotary()->base, 10000.0);
  EXPECT_FALSE(c.tied_unembedding());
  EXPECT_FALSE(c.qkv_bias);
}

TEST(FamilyConfigs, BothStylesOfRotaryKeysSayTheSame) {
  const ModelConfig older =
      read(llama(R"("rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0})")).config;
  const ModelConfig newer =
      read(llama(R"("rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0})")).config;
  EXPECT_EQ(older, newer);
  EXPECT_EQ(older.rotary()->base, 500.0);
  EXPECT_EQ(older.rotary()->scaling, RopeScaling(LinearScaling{.factor = 4.0}));
}

TEST(FamilyConfigs, AnUnknownKindOfScalingIsRefusedAtItsKey) {
  expect_refused(llama(R"("rope_scaling": {"rope_type": "spiral", "factor": 2.0})"), "rope_scaling.rope_type",
                 {"\"spiral\"", "longrope"});
}

TEST(FamilyConfigs, AnUnknownKeyOfAScalingIsRefused) {
  expect_refused(llama(R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "twist": 1})"),
                 "rope_scaling.twist", {"unknown field"});
}

// Keys that transformers' class of the family does not read have no effect there either. A note names keys
// whose names sound as if they had one.
TEST(FamilyConfigs, KeysThatOnlyOtherFamiliesReadAreNoted) {
  for (const char* key : {"sliding_window", "num_experts", "attn_logit_softcapping", "attention_multiplier",
                          "rotary_pct", "use_attention_sinks", "max_window_layers", "scale_attn_weights"}) {
    const FamilyConfig got = read(llama(fmt::format("\"{}\": 3", key)));
    EXPECT_EQ(got.config, read(llama()).config) << key;
    EXPECT_EQ(got.ignored_keys, std::vector<std::string>{key});
    ASSERT_EQ(got.notes.size(), 1U) << key;
    EXPECT_EQ(
        got.notes[0],
        fmt::format("[config.json] {} has no effect: transformers does not read it for this family", key));
  }
}

TEST(FamilyConfigs, SuchKeysThatSayNoAreIgnored) {
  const FamilyConfig read_config =
      read(llama(R"("sliding_window": null, "num_experts": 0, "use_attention_sinks": false)"));
  EXPECT_EQ(read_config.ignored_keys,
            (std::vector<std::string>{"sliding_window", "num_experts", "use_attention_sinks"}));
  EXPECT_TRUE(read_config.notes.empty());
}

TEST(FamilyConfigs, KeysThatChooseAnImplementationSayNothing) {
  const FamilyConfig got =
      read(llama(R"("use_flash_attention_2": true, "_flash_attn_2_enabled": true, "flash_attn": true,
      "attn_implementation": "sdpa", "_attn_implementation_autoset": true, "use_flash_attn": true, "use_sdpa": true)"));
  EXPECT_TRUE(got.ignored_keys.empty());
  EXPECT_TRUE(got.notes.empty());
}

TEST(FamilyConfigs, KeysThatChangeEveryFamilyAreRefused) {
  for (const char* key : {"quantization_config", "quantization", "per_layer_config"}) {
    expect_refused(llama(fmt::format("\"{}\": 3", key)), key, {"expected null"});
  }
  expect_refused(llama(R"("sliding_window": 8)"), "sliding_window", {"expected null"}, "olmoe");
}

// transformers knows a size under two names, and the usual one overrides the family's.
TEST(FamilyConfigs, TwoNamesOfOneSizeAgree) {
  const std::string gpt2 =
      R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 8, "vocab_size": 9, )";
  EXPECT_EQ(read(gpt2 + R"("num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 1})", "gpt2")
                .config.n_heads,
            2);
  expect_refused(gpt2 + R"("num_attention_heads": 4})", "num_attention_heads", {"4", "n_head = 2"}, "gpt2");
  expect_refused(gpt2 + R"("num_hidden_layers": 2})", "num_hidden_layers", {"2", "n_layer = 1"}, "gpt2");
  expect_refused(gpt2 + R"("hidden_size": 16})", "hidden_size", {"16", "n_embd = 8"}, "gpt2");
}

TEST(FamilyConfigs, OtherUnreadKeysAreListed) {
  EXPECT_EQ(read(llama(R"("favourite_colour": "green", "attention_dropout": 0.1)")).ignored_keys,
            (std::vector<std::string>{"favourite_colour"}));
}

TEST(FamilyConfigs, SizesAreRefusedAtTheFilesOwnKey) {
  const auto with = [&](std::string_view key, std::string_view value) {
    std::string changed = llama();
    const auto at = changed.find(fmt::format("\"{}\":", key));
    const auto colon = changed.find(':', at), end = changed.find_first_of(",}", colon);
    return changed.replace(colon + 1, end - colon - 1, value);
  };
  for (const char* value : {"0", "-1", "2147483648", "1000000000"}) {
    expect_refused(with("num_hidden_layers", value), "num_hidden_layers", {value, "expected 1 to"});
  }
  expect_refused(with("num_hidden_layers", "\"2\""), "num_hidden_layers", {"expected an integer"});
  expect_refused(with("num_key_value_heads", "3"), "num_key_value_heads", {"3", "num_attention_heads = 4"});
  expect_refused(with("num_attention_heads", "5"), "num_key_value_heads", {"does not divide"});
  expect_refused(llama(R"("rms_norm_eps": 0.0)"), "rms_norm_eps", {"above 0"});
  expect_refused(llama(R"("hidden_act": "tanhshrink")"), "hidden_act", {"tanhshrink", "silu"});
  expect_refused(llama(R"("head_dim": 5)"), "partial_rotary_factor", {"5"});
}

TEST(FamilyConfigs, KindsOfLayersAreCheckedOneByOne) {
  const std::string qwen = R"("use_sliding_window": true, "sliding_window": 4, "layer_types": )";
  EXPECT_EQ(read(llama(qwen + R"(["sliding_attention", "full_attention"])"), "qwen2").config.window->layers,
            (std::vector<bool>{true, false}));
  expect_refused(llama(qwen + R"(["sliding_attention"])"), "layer_types", {"1 entries", "2 layers"}, "qwen2");
  expect_refused(llama(qwen + R"(["sliding_attention", "chunked_attention"])"), "layer_types",
                 {"chunked_attention", "full_attention"}, "qwen2");
}

TEST(FamilyConfigs, WindowedLayersNeedToKnowHowFarTheySee) {
  const std::string windowed = R"("layer_types": ["sliding_attention", "full_attention"])";
  const std::string full = R"("layer_types": ["full_attention", "full_attention"])";
  const std::string null = R"("head_dim": 4, "sliding_window": null)";
  for (const char* family :
       {"gemma2", "gemma3_text", "olmo3", "cohere2", "gpt_oss", "exaone4", "smollm3", "mistral"}) {
    expect_refused(llama(null + ", " + windowed), "sliding_window", {"null", "expected their number"},
                   family);
    EXPECT_FALSE(read(llama(null + ", " + full), family).config.window) << family;
  }
  for (const char* family : {"qwen2", "qwen3"}) {
    const std::string used = R"("use_sliding_window": true, "max_window_layers": 0, )";
    expect_refused(llama(used + null + ", " + windowed), "sliding_window", {"null"}, family);
    EXPECT_FALSE(read(llama(used + null), family).config.window) << family;
    expect_refused(llama(windowed), "layer_types", {"use_sliding_window"}, family);
  }
  for (const char* family : {"mistral", "starcoder2", "phi3"}) {
    EXPECT_FALSE(read(llama(R"("sliding_window": null)"), family).config.window) << family;
  }
}

TEST(FamilyConfigs, BidirectionalGemma3SeesHalfAWindowToEachSide) {
  const std::string both = R"("use_bidirectional_attention": true, "head_dim": 4, )";
  const ModelConfig c = read(llama(both + R"("sliding_window": 8)"), "gemma3_text").config;
  EXPECT_EQ(c.direction, AttentionDirection::bidirectional);
  EXPECT_EQ(c.window->size, 5);
  expect_refused(llama(both + R"("sliding_window": null)"), "sliding_window", {"expected"}, "gemma3_text");
  expect_refused(llama(R"("use_bidirectional_attention": true, "head_dim": 4)"),
                 "use_bidirectional_attention", {"true"}, "gemma2");
}

TEST(FamilyConfigs, ActivationsWithTrainedNumbersBelongToFamiliesThatStoreThem) {
  EXPECT_EQ(read(llama(R"("hidden_act": "mish")")).config.activation, Activation::mish);
  EXPECT_EQ(read(llama(R"("hidden_act": "gelu_accurate")")).config.activation, Activation::gelu_tanh);
  expect_refused(llama(R"("hidden_act": "xielu")"), "hidden_act", {"trained numbers"});
  expect_refused(llama(R"("hidden_act": "prelu")"), "hidden_act", {"prelu", "hardswish"});
}

TEST(FamilyConfigs, BloomMayAddToItsNormedStream) {
  const std::string bloom =
      R"({"model_type": "bloom", "n_layer": 1, "hidden_size": 8, "n_head": 2, "vocab_size": 9,
          "apply_residual_connection_post_layernorm": )";
  EXPECT_EQ(read(bloom + "true}", "bloom").config.norm_place, NormPlace::stream);
  EXPECT_EQ(read(bloom + "false}", "bloom").config.norm_place, NormPlace::pre);
}

TEST(FamilyConfigs, Gpt2NotesKeysOfOtherFamilies) {
  const std::string text =
      R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 8, "vocab_size": 9, )";
  EXPECT_EQ(read(text + R"("n_ctx": 8})", "gpt2").config.d_mlp, 32);
  EXPECT_EQ(read(text + R"("rope_theta": 100.0})", "gpt2").notes.size(), 1U);
  expect_refused(text + R"("add_cross_attention": true})", "add_cross_attention", {"true"}, "gpt2");
}

TEST(FamilyConfigs, GptNeoReadsRepeatedPatternsOfLayers) {
  const auto neo = [](const std::string& types) {
    return R"({"model_type": "gpt_neo", "hidden_size": 8, "num_layers": 4, "num_heads": 2, "vocab_size": 9,
               "max_position_embeddings": 8, "window_size": 3, )" +
           types + "}";
  };
  const ModelConfig c = read(neo(R"("attention_types": [[["global", "local"], 2]])"), "gpt_neo").config;
  EXPECT_EQ(c.window->layers, (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(c.attn_scale, 1.0);
  expect_refused(neo(R"("attention_types": [[["global"], 3]])"), "attention_types", {"num_layers"},
                 "gpt_neo");
  expect_refused(neo(R"("attention_layers": ["global", "local", "global", "strided"])"), "attention_layers",
                 {"strided"}, "gpt_neo");
}

// Keys of published configs that are always the same, or belong to the models' own code.
TEST(FamilyConfigs, KeysOfPublishedConfigsAreKnown) {
  const std::string gptj = R"({"model_type": "gptj", "activation_function": "gelu_new", "attn_pdrop": 0.0,
      "gradient_checkpointing": false, "layer_norm_epsilon": 1e-05, "n_embd": 16, "n_head": 2, "n_inner": null,
      "n_layer": 1, "n_positions": 8, "rotary": true, "rotary_dim": 4, "scale_attn_weights": true,
      "summary_type": "cls_index", "tie_word_embeddings": false, "vocab_size": 9})";
  EXPECT_TRUE(read(gptj, "gptj").ignored_keys.empty());
  EXPECT_TRUE(
      read(llama(R"("sliding_window": 4, "sliding_window_size": 4, "cache_implementation": "hybrid")"),
           "gemma2")
          .ignored_keys.empty());
  EXPECT_TRUE(read(llama(R"("full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": false)"), "phi3")
                  .config.rotary()
                  ->dim == 0);
  EXPECT_TRUE(read(llama(R"("rotary_scaling_factor": 1.0, "partial_rotary_factor": 0.5)"), "stablelm")
                  .ignored_keys.empty());
  EXPECT_FALSE(
      read(llama(R"("use_sliding_window": false, "sliding_window": 131072, "max_window_layers": 28)"),
           "qwen2")
          .config.window);
  EXPECT_EQ(read(llama(R"("rope_interleaved": false, "is_llama_config": true)")).ignored_keys,
            (std::vector<std::string>{"rope_interleaved", "is_llama_config"}));
}

TEST(FamilyConfigs, MistralMayNameItsWindowedLayers) {
  EXPECT_EQ(read(llama(R"("layer_types": ["full_attention", "sliding_attention"])"), "mistral")
                .config.window->layers,
            (std::vector<bool>{false, true}));
}

// If a key is absent, transformers takes the family's own default; if it is null, no layer has a window.
TEST(FamilyConfigs, AbsentWindowsAreTheFamiliesDefaults) {
  EXPECT_EQ(read(llama(), "mistral").config.window->size, 4096);
  EXPECT_EQ(read(llama(R"("sliding_window": null)"), "mistral").config.window, std::nullopt);
  EXPECT_EQ(read(llama(), "starcoder2").config.window, std::nullopt);
  const ModelConfig gemma3 = read(llama(R"("rope_local_base_freq": 100.0)"), "gemma3_text").config;
  EXPECT_EQ(gemma3.window->size, 4096);
  EXPECT_EQ(gemma3.rotary()->local_base, 100.0);
  EXPECT_EQ(read(llama(), "exaone4").config.rotary()->unrotated_layers, (std::vector<bool>{}));
  EXPECT_EQ(read(llama(), "exaone4").config.window->layers, (std::vector<bool>{true, true}));
}

TEST(FamilyConfigs, SharesOfHeadsAreRefusedWhereTheFamilyTurnsAllOfThem) {
  // Without a scaling transformers reads it only in families that rotate a part; with one, in all.
  const FamilyConfig whole = read(llama(R"("partial_rotary_factor": 0.5)"));
  EXPECT_EQ(whole.config, read(llama()).config);
  ASSERT_EQ(whole.notes.size(), 1U);
  EXPECT_NE(whole.notes[0].find("partial_rotary_factor] has no effect"), std::string::npos) << whole.notes[0];
  expect_refused(
      llama(R"("partial_rotary_factor": 0.5, "rope_scaling": {"rope_type": "linear", "factor": 2.0})"),
      "partial_rotary_factor", {"0.5", "expected 1"});
  EXPECT_EQ(read(llama(R"("partial_rotary_factor": 0.5)"), "glm").config.rotary()->dim, 64);
}

TEST(FamilyConfigs, OtherDirectionsOfAttentionAreRefused) {
  expect_refused(llama(R"("is_causal": false)"), "is_causal", {"false", "expected true"}, "qwen2");
  EXPECT_NO_THROW(read(llama(R"("is_causal": true)"), "qwen2"));
}

TEST(FamilyConfigs, GptNeoxReadsItsOwnPairBesideTheCommonOne) {
  const ModelConfig c = read(llama(R"("rotary_pct": 0.5, "rotary_emb_base": 500, "rope_theta": 10000,
                                      "partial_rotary_factor": 0.5)"),
                             "gpt_neox")
                            .config;
  EXPECT_EQ(c.rotary()->base, 500.0);
  EXPECT_EQ(c.rotary()->dim, 2);
}

TEST(FamilyConfigs, EarlyPhi3ConfigsCallLongropeYarn) {
  const std::string scaling = R"("original_max_position_embeddings": 8, "rope_scaling":
      {"type": "yarn", "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0]})";
  EXPECT_TRUE(std::holds_alternative<LongropeScaling>(read(llama(scaling), "phi3").config.rotary()->scaling));
}

TEST(FamilyConfigs, ApertusIsScaledWhereItsConfigSaysNothing) {
  EXPECT_TRUE(std::holds_alternative<Llama3Scaling>(read(llama(), "apertus").config.rotary()->scaling));
}

TEST(FamilyConfigs, Gpt2MayGoByTheCommonNamesOfSizes) {
  EXPECT_EQ(read(R"({"model_type": "gpt2", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
                     "max_position_embeddings": 8, "vocab_size": 9})",
                 "gpt2")
                .config.d_head,
            4);
}

// Keys that transformers does not read for a family have no effect here either, and a note says so.
TEST(FamilyConfigs, WhatTransformersIgnoresIsNoted) {
  const FamilyConfig mpt =
      read(R"({"model_type": "mpt", "d_model": 8, "n_heads": 2, "n_layers": 1, "vocab_size": 9,
      "max_seq_len": 8, "attn_config": {"alibi": false, "alibi_bias_max": 4}})",
           "mpt");
  ASSERT_EQ(mpt.notes.size(), 2u);
  EXPECT_NE(mpt.notes[0].find("alibi"), std::string::npos);
  EXPECT_NE(mpt.config.alibi(), nullptr);
}

TEST(FamilyConfigs, LongropeTakesOneFactorForEachTurnedPair) {
  const auto phi3 = [](const std::string& factors) {
    return llama(fmt::format(R"("original_max_position_embeddings": 8, "rope_scaling":
        {{"type": "longrope", "short_factor": {0}, "long_factor": {0}}})",
                             factors));
  };
  const ModelConfig c = read(phi3("[1.0, 2.0]"), "phi3").config;
  const auto& scaling = std::get<LongropeScaling>(c.rotary()->scaling);
  EXPECT_EQ(scaling.original_n_ctx, 8.0);
  EXPECT_NEAR(scaling.attention_factor, std::sqrt(1.0 + std::log(4.0) / std::log(8.0)), 1e-15);
  expect_refused(phi3("[1.0, 2.0, 3.0]"), "rope_scaling.short_factor", {"each of the 2 pairs", "got 3"},
                 "phi3");
}

// Recipes name each of our tensors once.
TEST(FamilyRecipes, MakeEveryTensorOnce) {
  const FamilyConfig config = read(llama(R"("attention_bias": true, "mlp_bias": true)"));
  std::set<std::string> targets;
  for (const TensorRecipe& recipe : config.recipes(config.config)) {
    EXPECT_TRUE(targets.insert(recipe.target).second) << recipe.target;
  }
  EXPECT_TRUE(targets.contains("blocks.1.attn._b_K"));
  EXPECT_TRUE(targets.contains("unembed.W_U"));
}

TEST(FamilyConfigs, BiasesOfInternLm3AreOneFlagUnderTwoNames) {
  const ModelConfig c = read(llama(R"("qkv_bias": true, "bias": true)"), "internlm3").config;
  EXPECT_TRUE(c.qkv_bias && c.attn_out_bias && c.mlp_bias);
  EXPECT_EQ(c.d_head, 128);
  EXPECT_EQ(read(llama(R"("head_dim": null)"), "internlm3").config.d_head, 4);
  expect_refused(llama(R"("qkv_bias": true, "bias": false)"), "qkv_bias", {"same value"}, "internlm3");
}

TEST(FamilyConfigs, IQuestCoderHasNeitherWindowsNorClippedHeads) {
  EXPECT_FALSE(
      read(llama(R"("use_sliding_window": false, "sliding_window": 4, "clip_qkv": null)"), "iquestcoder")
          .config.window);
  expect_refused(llama(R"("use_sliding_window": true)"), "use_sliding_window", {"expected null"},
                 "iquestcoder");
  expect_refused(llama(R"("clip_qkv": 3.0)"), "clip_qkv", {"expected null"}, "iquestcoder");
}

TEST(FamilyConfigs, HyperClovaMultipliesLogitsAndNormsWhatIsWritten) {
  const ModelConfig c = read(llama(R"("logits_scaling": 0.25)"), "hyperclovax").config;
  EXPECT_EQ(c.unembedding->scale, 0.25);
  EXPECT_EQ(c.attn_scale, 2.0);  // sqrt(d_head) without a multiplier
  EXPECT_EQ(c.norm_place, NormPlace::both);
  const ModelConfig pre =
      read(llama(R"("use_post_norm": false, "attention_multiplier": 0.125)"), "hyperclovax").config;
  EXPECT_EQ(pre.norm_place, NormPlace::pre);
  EXPECT_EQ(pre.attn_scale, 8.0);
}

}  // namespace
}  // namespace hooked::family_test
