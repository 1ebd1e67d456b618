// The config.json of native folders.
#include "families/shared/native_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/model_config.h"
#include "tests/reference/option_table.h"
#include "tests/support/random_config.h"
#include "tests/support/thrown_by.h"

namespace hooked::native_config_test {
namespace {

using Strings = std::vector<std::string>;

// A valid file with `fields` (JSON text) set in it; a value of null stays in the file.
std::string file_with(std::string_view fields) {
  auto json = parse_json(
      R"({"model_type": "hooked_transformer", "n_layers": 2, "d_model": 16, "n_ctx": 8, "d_head": 4,
                             "n_heads": 4, "d_vocab": 11, "act_fn": "gelu"})",
      {});
  json.update(parse_json(fmt::format("{{{}}}", fields), {}));
  return json.dump();
}

ModelConfig read(std::string_view fields) {
  return read_native_config(file_with(fields), "config.json").config;
}

void expect_round_trip(const ModelConfig& config) {
  const std::string file = write_native_config(config);
  EXPECT_EQ(read_native_config(file, "config.json").config, config) << file;
}

TEST(NativeConfig, RoundTripIsExactForRandomConfigs) {
  const at::ScalarType dtypes[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    auto config = random_config(seed);
    config.dtype = dtypes[seed % 4];
    if (seed % 3 == 0) config.processing = {"fold_ln", "center_unembed"};
    const auto parsed = read_native_config(write_native_config(config), "config.json");
    ASSERT_EQ(parsed.config, config) << "seed " << seed << "\n"
                                     << write_native_config(config) << write_native_config(parsed.config);
    ASSERT_EQ(parsed.ignored_keys, Strings()) << "seed " << seed;
  }
}

TEST(NativeConfig, RoundTripKeepsThatThereIsNoUnembedding) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto config = without_unembedding(random_config(seed));
    expect_round_trip(config);
  }
}

TEST(NativeConfig, RoundTripIsExactForTwoStacks) {
  for (const ModelConfig& config : reference::two_stack_configs()) {
    expect_round_trip(config);
  }
}

TEST(NativeConfig, AnActivationOfTheHeadThatIsUnknownIsRefused) {
  EXPECT_EQ(read(R"("hooked": {"mlm_head": "gelu"})").unembedding->mlm_head, Activation::gelu);
  EXPECT_THROW(read(R"("hooked": {"mlm_head": "prelu"})"), ConfigError);
}

// Numbers with no short decimal form come back bit for bit.
TEST(NativeConfig, RoundTripKeepsEveryBitOfANumber) {
  auto config = random_config(0);
  config.eps = std::nextafter(1e-5, 1.0);
  config.attn_scale = std::sqrt(2.0) / 3.0;
  config.unembedding->soft_cap = 1.0 / 3.0;
  expect_round_trip(config);
}

TEST(NativeConfig, TheLargestFileIsReadable) {
  auto config = read(
      "\"n_layers\": 10000, \"n_heads\": 16384, \"d_head\": 1024, \"positional_embedding_type\": \"alibi\"");
  config.window = Window{.size = 3, .layers = std::vector<bool>(10'000, true)};
  expect_round_trip(config);
}

TEST(NativeConfig, AnInvalidConfigIsNotWritten) {
  auto config = read("");
  config.eps = std::nan("");
  EXPECT_THROW(write_native_config(config), ConfigError);
}

TEST(NativeConfig, AbsentFieldsHaveTheDefaultsOfTransformerLens) {
  const auto c =
      read_native_config(R"({"n_layers": 1, "d_model": 16, "n_ctx": 8, "d_head": 4, "d_vocab": 11})",
                         "config.json")
          .config;
  ModelConfig expected = {.n_layers = 1,
                          .d_model = 16,
                          .n_ctx = 8,
                          .n_heads = 4,
                          .n_kv_heads = 4,
                          .d_head = 4,
                          .d_mlp = 64,
                          .d_vocab = 11,
                          .unembedding = Unembedding{.d_vocab = 11},
                          .attn_scale = 2.0};
  EXPECT_EQ(c, expected);
  EXPECT_EQ(c.activation, Activation::relu);
}

// The fields of a config object of TransformerLens 3.9 as its `to_dict` gives them (a Gemma-2-like model).
TEST(NativeConfig, ReadsADumpOfTransformerLens) {
  const auto parsed = read_native_config(R"({
    "n_layers": 2, "d_model": 16, "n_ctx": 8, "d_head": 4, "n_heads": -1, "d_mlp": null, "d_vocab": 11,
    "d_vocab_out": -1, "model_name": "custom", "act_fn": "gelu_pytorch_tanh", "eps": 1e-06, "use_attn_scale": true,
    "attn_scale": -1.0, "use_attn_result": false, "use_split_qkv_input": false, "use_hook_mlp_in": false,
    "use_attn_in": false, "use_qk_norm": false, "clip_qkv": null, "use_logn_attn": false, "train_seq_length": null,
    "use_dynamic_ntk_rope": false, "use_local_attn": true, "ungroup_grouped_query_attention": false,
    "original_architecture": "Gemma2ForCausalLM", "from_checkpoint": false, "checkpoint_index": null,
    "checkpoint_label_type": null, "checkpoint_value": null, "tokenizer_name": null, "window_size": 4,
    "attn_types": ["global", "local"], "init_mode": "gpt2", "normalization_type": "RMSPre", "n_devices": 1,
    "attention_dir": "causal", "attn_only": false, "seed": 1, "initializer_range": 0.2, "init_weights": true,
    "scale_attn_by_inverse_layer_idx": false, "positional_embedding_type": "rotary", "final_rms": true,
    "parallel_attn_mlp": false, "rotary_dim": 4, "n_params": 3072, "use_hook_tokens": false, "gated_mlp": true,
    "default_prepend_bos": true, "dtype": "torch.float32", "tokenizer_prepends_bos": null,
    "n_key_value_heads": 2, "post_embedding_ln": false, "rotary_base": 10000, "rotary_base_local": null,
    "rotary_scaling_factor": 1.0, "trust_remote_code": false, "rotary_adjacent_pairs": false,
    "load_in_4bit": false, "quantization_method": null, "num_experts": null, "experts_per_token": null,
    "relative_attention_max_distance": null, "relative_attention_num_buckets": null, "decoder_start_token_id": null,
    "tie_word_embeddings": false, "use_normalization_before_and_after": true, "attn_scores_soft_cap": 50.0,
    "output_logits_soft_cap": 30.0, "use_NTK_by_parts_rope": false, "NTK_by_parts_low_freq_factor": 1.0,
    "NTK_by_parts_high_freq_factor": 4.0, "NTK_by_parts_factor": 8.0, "NTK_original_ctx_len": 8192,
    "use_yarn_rope": false, "yarn_factor": 1.0, "yarn_attention_factor": 1.0, "yarn_beta_fast": 32.0,
    "yarn_beta_slow": 1.0, "yarn_original_max_position_embeddings": 4096, "yarn_truncate": true,
    "yarn_global_attn_only": false, "use_attention_sinks": false, "norm_topk_prob": false, "device": "cpu",
    "uses_rms_norm": false, "layer_norm_folding": false, "auto_map": {"AutoModel": "evil.py"}})",
                                         "config.json");
  ModelConfig expected = {.n_layers = 2,
                          .d_model = 16,
                          .n_ctx = 8,
                          .n_heads = 4,
                          .n_kv_heads = 2,
                          .d_head = 4,
                          .d_mlp = 64,
                          .d_vocab = 11,
                          .unembedding = Unembedding{.d_vocab = 11}};
  expected.norm = expected.final_norm = NormKind::rms_norm;
  expected.norm_place = NormPlace::both;
  expected.norm_folded = true;
  expected.eps = 1e-6;
  expected.mlp = MlpKind::gated;
  expected.gated_bias_after_product = true;
  expected.activation = Activation::gelu_tanh;
  expected.attn_scale = 2.0;
  expected.score_soft_cap = 50.0;
  expected.unembedding->soft_cap = 30.0;
  expected.window = Window{.size = 4, .layers = {false, true}};
  expected.positions = RotaryPositions{.dim = 4};
  EXPECT_EQ(parsed.config, expected) << write_native_config(parsed.config);
  EXPECT_EQ(parsed.ignored_keys, (Strings{"auto_map"}));
}

TEST(NativeConfig, NormalizationTypes) {
  EXPECT_EQ(read("\"normalization_type\": \"LNPre\"").norm, NormKind::layer_norm);
  EXPECT_TRUE(read("\"normalization_type\": \"LNPre\"").norm_folded);
  EXPECT_EQ(read("\"normalization_type\": \"RMS\"").final_norm, NormKind::rms_norm);
  EXPECT_EQ(read("\"normalization_type\": null").norm, NormKind::none);
  EXPECT_EQ(read("\"normalization_type\": null").final_norm, NormKind::none);
  EXPECT_EQ(read("\"final_rms\": true").final_norm, NormKind::rms_norm);
  EXPECT_EQ(read("\"final_rms\": true").norm, NormKind::layer_norm);
  EXPECT_EQ(read("\"hooked\": {\"norm_place\": \"post\"}").final_norm, NormKind::none);
}

TEST(NativeConfig, ArchitecturesThatTransformerLensKnowsByName) {
  const auto olmo2 = read("\"original_architecture\": \"Olmo2ForCausalLM\", \"normalization_type\": \"RMS\"");
  EXPECT_EQ(olmo2.norm_place, NormPlace::output);
  EXPECT_EQ(olmo2.qk_norm, QkNorm{.span = QkNorm::whole_projection});
  EXPECT_EQ(read("\"original_architecture\": \"GPT2LMHeadModel\"").norm_place, NormPlace::pre);
}

TEST(NativeConfig, AttentionScale) {
  EXPECT_EQ(read("\"attn_scale\": -1").attn_scale, 2.0);
  EXPECT_EQ(read("\"attn_scale\": 3.5").attn_scale, 3.5);
  EXPECT_EQ(read("\"use_attn_scale\": false, \"attn_scale\": 3.5").attn_scale, 1.0);
}

TEST(NativeConfig, GatedBiasStandsAfterTheProductInFilesThatDoNotSay) {
  EXPECT_TRUE(read("\"gated_mlp\": true").gated_bias_after_product);
  EXPECT_FALSE(read("\"gated_mlp\": true, \"hooked\": {\"gated_bias_after_product\": false}")
                   .gated_bias_after_product);
  EXPECT_FALSE(read("").gated_bias_after_product);
}

TEST(NativeConfig, SoluWithItsNorm) {
  const auto solu = read("\"act_fn\": \"solu_ln\"");
  EXPECT_EQ(solu.activation, Activation::solu);
  EXPECT_TRUE(solu.mlp_norm);
  EXPECT_FALSE(read("\"act_fn\": \"solu\"").mlp_norm);
}

TEST(NativeConfig, AttentionOnlyModelsHaveNoWidth) {
  const auto c = read("\"attn_only\": true, \"d_mlp\": 64");
  EXPECT_EQ(c.mlp, MlpKind::none);
  EXPECT_EQ(c.d_mlp, 0);
}

TEST(NativeConfig, AlibiSlopesDefaultToTheGeometricOnes) {
  EXPECT_EQ(read("\"positional_embedding_type\": \"alibi\"").alibi()->slopes, geometric_alibi_slopes(4));
}

TEST(NativeConfig, UnusedWindowsAreDropped) {
  const auto c =
      read("\"use_local_attn\": true, \"window_size\": 3, \"attn_types\": [\"global\", \"global\"]");
  EXPECT_FALSE(c.window);
  EXPECT_FALSE(read("\"window_size\": 3, \"attn_types\": [\"local\", \"local\"]").window);
}

// TransformerLens rotates windowed layers by the local base, scales them under llama3 and yarn, not under
// linear scaling.
TEST(NativeConfig, RotaryOfWindowedLayers) {
  const std::string local =
      "\"positional_embedding_type\": \"rotary\", \"use_local_attn\": true, \"window_size\": 3, "
      "\"attn_types\": [\"local\", \"global\"]";
  EXPECT_EQ(read(local).rotary()->local_base, std::nullopt);
  EXPECT_EQ(read(local + ", \"rotary_base_local\": 100").rotary()->local_base, 100.0);
  const auto rotary = [&](std::string_view more) { return *read(local + std::string(more)).rotary(); };
  const auto linear = rotary(", \"rotary_base\": 500, \"rotary_scaling_factor\": 8.0");
  EXPECT_EQ(linear.scaling, RopeScaling(LinearScaling{.factor = 8.0}));
  EXPECT_EQ(linear.local_base, 500.0);
  const auto llama3 = rotary(", \"use_NTK_by_parts_rope\": true");
  EXPECT_EQ(llama3.scaling, RopeScaling(Llama3Scaling{.factor = 8.0}));
  EXPECT_EQ(llama3.local_base, std::nullopt);
  const auto yarn = rotary(", \"use_yarn_rope\": true, \"yarn_global_attn_only\": true");
  EXPECT_EQ(yarn.scaling, RopeScaling(YarnScaling{.original_n_ctx = 4096.0}));
  EXPECT_EQ(yarn.local_base, 10000.0);
  EXPECT_THROW(read(local + ", \"use_yarn_rope\": true, \"rotary_base_local\": 100"), ConfigError);
}

TEST(NativeConfig, DtypeIsTheRecordedOne) {
  EXPECT_EQ(read("\"dtype\": \"torch.float16\"").dtype, at::kFloat);
  EXPECT_EQ(read("\"hooked\": {\"dtype\": \"bfloat16\"}").dtype, at::kBFloat16);
  EXPECT_THROW(read("\"dtype\": \"torch.int8\""), ConfigError);
}

TEST(NativeConfig, SwishKeepsItsBetaWhereverItStands) {
  const auto c = read(
      R"("act_fn": "swish_beta", "hooked": {"swish_beta": 1.7, "mlm_head": "swish_beta", "mlm_head_swish_beta": 0.3})");
  EXPECT_EQ(c.activation, Activation::swish_with(1.7));
  EXPECT_EQ(c.unembedding->mlm_head, Activation::swish_with(0.3));
  expect_round_trip(c);
  EXPECT_EQ(read(R"("hooked": {"mlm_head": "swish_beta"})").unembedding->mlm_head, Activation::swish);
}

TEST(NativeConfig, UnknownKeysAreReportedAndNotRefused) {
  EXPECT_EQ(
      read_native_config(file_with("\"colour\": \"red\", \"device\": \"cuda\", \"notes\": {\"a\": 1}"), "c")
          .ignored_keys,
      (Strings{"colour", "notes"}));
}

struct BadFile {
  std::string_view fields;
  std::string_view field;  // where() without the file
  std::string_view got;    // somewhere in the text
};

class RefusedConfig : public testing::TestWithParam<BadFile> {};

TEST_P(RefusedConfig, NamesFileFieldAndValue) {
  const auto& bad = GetParam();
  const auto error =
      thrown_by<ConfigError>([&] { read_native_config(file_with(bad.fields), "m/config.json"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), fmt::format("m/config.json: {}", bad.field));
  EXPECT_NE(std::string_view(error->what()).find(bad.got), std::string_view::npos) << error->what();
}

INSTANTIATE_TEST_SUITE_P(
    Types, RefusedConfig,
    testing::Values(BadFile{R"("n_layers": "12")", "n_layers", "\"12\""},
                    BadFile{R"("n_layers": 12.0)", "n_layers", "12.0"},
                    BadFile{R"("n_layers": true)", "n_layers", "true"},
                    BadFile{R"("n_layers": null)", "n_layers", "null"},
                    BadFile{R"("eps": "NaN")", "eps", "\"NaN\""},
                    BadFile{R"("gated_mlp": 1)", "gated_mlp", "1"}, BadFile{R"("act_fn": 3)", "act_fn", "3"},
                    BadFile{R"("hooked": [])", "hooked", "[]"},
                    BadFile{R"("hooked": {"processing": "fold_ln"})", "hooked.processing", "fold_ln"},
                    BadFile{R"("hooked": {"processing": [1]})", "hooked.processing[0]", "1"}));

INSTANTIATE_TEST_SUITE_P(
    Values, RefusedConfig,
    testing::Values(
        BadFile{R"("n_layers": 1000000000)", "n_layers", "1000000000"},
        BadFile{R"("n_layers": -1)", "n_layers", "-1"}, BadFile{R"("d_vocab": 0)", "d_vocab", "got 0"},
        BadFile{R"("d_vocab": -1)", "d_vocab", "-1"}, BadFile{R"("n_heads": 0)", "n_heads", "got 0"},
        BadFile{R"("n_heads": -1, "d_head": 3)", "n_heads", "got 3 and 16"},
        BadFile{R"("n_heads": 1000000000, "positional_embedding_type": "alibi")", "n_heads", "1000000000"},
        BadFile{R"("d_model": 9223372036854775807)", "d_model", "9223372036854775807"},
        BadFile{R"("d_head": -4, "n_heads": -1)", "n_heads", "-1"},
        BadFile{R"("n_key_value_heads": 3)", "n_key_value_heads", "got 3"},
        BadFile{R"("positional_embedding_type": "rotary", "rotary_dim": 3)", "rotary_dim", "got 3"},
        BadFile{R"("positional_embedding_type": "rotary", "d_head": 3)", "rotary_dim", "d_head = 3"},
        BadFile{R"("positional_embedding_type": "rotary", "rotary_base": 0)", "rotary_base", "got 0"},
        BadFile{R"("eps": 0)", "eps", "got 0"}, BadFile{R"("eps": -1e-5)", "eps", "-1e-05"},
        BadFile{R"("act_fn": "solu_ln", "gated_mlp": true)", "act_fn", "solu"},
        BadFile{R"("act_fn": "solu_ln", "normalization_type": null)", "act_fn",
                "mlp_norm: value not allowed"},
        BadFile{R"("use_local_attn": true, "window_size": 3, "attn_types": ["local"])", "attn_types",
                "got 1"},
        BadFile{R"("hooked": {"tied_unembedding": true}, "d_vocab_out": 3)", "hooked.tied_unembedding",
                "3"}));

INSTANTIATE_TEST_SUITE_P(
    Unsupported, RefusedConfig,
    testing::Values(
        BadFile{R"("model_type": "gpt2")", "model_type", "hooked_transformer"},
        BadFile{R"("act_fn": "prelu")", "act_fn", "expected one of relu, gelu"},
        BadFile{R"("normalization_type": "BN")", "normalization_type", "\"BN\""},
        BadFile{R"("positional_embedding_type": "disentangled")", "positional_embedding_type", "alibi"},
        BadFile{
            R"("positional_embedding_type": "relative_positional_bias", "relative_attention_num_buckets": 1)",
            "relative_attention_num_buckets", "1"},
        BadFile{
            R"("positional_embedding_type": "relative_positional_bias", "relative_attention_max_distance": 16)",
            "relative_attention_max_distance", "16"},
        BadFile{R"("hooked": {"n_encoder_layers": -1})", "hooked.n_encoder_layers", "-1"},
        BadFile{R"("attention_dir": "sideways")", "attention_dir", "bidirectional"},
        BadFile{R"("num_experts": 8, "experts_per_token": 2)", "gated_mlp", "plain"},
        BadFile{R"("num_experts": 8)", "experts_per_token", ""},
        BadFile{R"("num_experts": 0, "experts_per_token": 0)", "num_experts", "0"},
        BadFile{R"("gated_mlp": true, "num_experts": 2, "experts_per_token": 3)", "experts_per_token", "3"},
        BadFile{
            R"("gated_mlp": true, "num_experts": 2, "experts_per_token": 2, "hooked": {"experts": {"spam": 1}})",
            "hooked.experts.spam", ""},
        BadFile{R"("hooked": {"latent": {"d_kv": 0}})", "hooked.latent.d_kv", "0"},
        BadFile{R"("hooked": {"latent": {"d_query": 3}})", "hooked.latent.d_kv", ""},
        BadFile{R"("hooked": {"latent": {"d_kv": 3, "spam": 1}})", "hooked.latent.spam", ""},
        BadFile{R"("hooked": {"latent": {"d_kv": 3, "d_value": -2}})", "hooked.latent.d_value", "-2"},
        BadFile{R"("gated_mlp": true, "num_experts": 2, "experts_per_token": 2,
                 "hooked": {"experts": {"group_score": "worst"}})",
                "hooked.experts.group_score", "worst"},
        BadFile{R"("gated_mlp": true, "num_experts": 2, "experts_per_token": 2,
                 "hooked": {"experts": {"router": "oracle"}})",
                "hooked.experts.router", "oracle"},
        BadFile{R"("load_in_4bit": true)", "load_in_4bit", "true"},
        BadFile{R"("quantization_config": {"bits": 4})", "quantization_config", "bits"},
        BadFile{R"("use_attention_sinks": true)", "use_attention_sinks", "true"},
        BadFile{R"("use_yarn_rope": true, "rotary_scaling_factor": 2.0)", "use_yarn_rope", "only one of"},
        BadFile{R"("use_local_attn": true, "window_size": 3, "attn_types": ["local", "odd"])", "attn_types",
                "odd"},
        BadFile{R"("use_local_attn": true, "attn_types": ["local", "local"])", "window_size", "missing"},
        BadFile{R"("use_normalization_before_and_after": true, "hooked": {"norm_place": "pre"})",
                "hooked.norm_place", "both"},
        BadFile{R"("hooked": {"parallel_one_norm": true})", "hooked.parallel_one_norm", "parallel_attn_mlp"},
        BadFile{R"("hooked": {"norm_place": "sandwich"})", "hooked.norm_place", "pre, post, output, both"},
        BadFile{R"("hooked": {"frobnicate": 1})", "hooked.frobnicate", "unknown field"},
        BadFile{R"("hooked": {"dtype": "int64"})", "hooked.dtype", "bfloat16"}));

TEST(NativeConfig, MissingFieldsAreNamed) {
  const auto full = parse_json(file_with(""), {});
  for (const auto* field : {"n_layers", "d_model", "n_ctx", "d_head", "d_vocab"}) {
    auto json = full;
    json.erase(field);
    const auto error = thrown_by<ConfigError>([&] { read_native_config(json.dump(), "config.json"); });
    ASSERT_TRUE(error) << field;
    EXPECT_EQ(error->where(), fmt::format("config.json: {}", field));
  }
}

TEST(NativeConfig, WhatIsNoConfigIsRefused) {
  for (const auto* text : {"", "[]", "{", "null", "\xEF\xBB\xBF{}"}) {
    const auto error = thrown_by<ConfigError>([&] { read_native_config(text, "config.json"); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->where(), "config.json");
  }
  EXPECT_THROW(read_native_config(std::string(100'000, '['), "config.json"), ConfigError);
}

}  // namespace
}  // namespace hooked::native_config_test
