// quantization_config: each key is honoured or refused.
#include "families/storage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "core/config_reader.h"
#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::storage_test {
namespace {

std::optional<QuantisedStorage> read(const std::string& group) {
  const ConfigReader config(fmt::format(R"({{"quantization_config": {}}})", group), "config.json");
  return read_storage(config);
}

void expect_refused(const std::string& group, std::string_view key, std::string_view said) {
  const auto error = thrown_by<ConfigError>([&] { read(group); });
  ASSERT_TRUE(error) << group;
  EXPECT_EQ(error->where(), fmt::format("config.json: quantization_config{}", key)) << error->what();
  EXPECT_NE(std::string(error->what()).find(said), std::string::npos) << error->what();
}

std::string compressed(const std::string& weights, const std::string& more = "") {
  return fmt::format(
      R"({{"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
      "config_groups": {{"group_0": {{"targets": ["Linear"], "input_activations": {{"num_bits": 4}},
      "weights": {{{}}}}}}}{}{}}})",
      weights, more.empty() ? "" : ", ", more);
}

TEST(Storage, NothingIsWeightsAsTheyAre) {
  EXPECT_FALSE(read("null"));
  EXPECT_FALSE(read("{}"));
}

TEST(Storage, MethodsStandInOrder) {
  std::string_view last;
  for (const StorageMethod& each : storage_methods()) {
    EXPECT_LT(last, each.method);
    last = each.method;
  }
}

TEST(Storage, OtherMethodsAreRefusedWithThoseThatAreRead) {
  for (const char* group : {"3", R"("mxfp4")", R"({"bits": 4})", R"({"quant_method": 4})"})
    expect_refused(group, "", "mxfp4");
  expect_refused(R"({"quant_method": "quip", "bits": 2})", ".quant_method", "mxfp4");
}

// As openai/gpt-oss-20b has it.
TEST(Storage, Mxfp4) {
  const auto storage =
      read(R"({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn",
      "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})");
  ASSERT_TRUE(storage);
  ASSERT_EQ(storage->forms.size(), 1u);
  EXPECT_EQ(storage->forms.front()->code, NumberCode::mxfp4);
  EXPECT_EQ(storage->name, "MXFP4");
  EXPECT_EQ(storage->as_they_are.size(), 4u);
  EXPECT_EQ(storage->where, "config.json: quantization_config");
  expect_refused(R"({"quant_method": "mxfp4", "group_size": 16})", ".group_size", "unknown field");
  expect_refused(R"({"quant_method": "mxfp4", "modules_to_not_convert": 3})", ".modules_to_not_convert",
                 "expected an array");
}

// As deepseek-ai/DeepSeek-V3, DeepSeek-V3.1 and Qwen/Qwen3-8B-FP8 have it.
TEST(Storage, Fp8InBlocks) {
  const auto storage = read(R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
      "weight_block_size": [128, 64], "scale_fmt": "ue8m0", "modules_to_not_convert": ["lm_head"]})");
  ASSERT_TRUE(storage && storage->block);
  EXPECT_EQ(storage->block->at(0), 128);
  EXPECT_EQ(storage->block->at(1), 64);
  EXPECT_FALSE(storage->by_tensor || storage->by_row);
  EXPECT_EQ(storage->as_they_are, std::vector<std::string>{"lm_head"});
  const auto with = [](const std::string& key) { return R"({"quant_method": "fp8", )" + key + "}"; };
  expect_refused(with(R"("fmt": "e5m2")"), ".fmt", "expected e4m3");
  expect_refused(with(R"("activation_scheme": "later")"), ".activation_scheme", "expected dynamic or static");
  expect_refused(with(R"("expert_dtype": "fp4")"), ".expert_dtype", "expected fp8");
  expect_refused(with(R"("modules_to_convert": ["embed"])"), ".modules_to_convert", "expected null");
  expect_refused(with(R"("weight_block_size": [128])"), ".weight_block_size", "two numbers above 0");
  expect_refused(with(R"("weight_block_size": [0, 128])"), ".weight_block_size", "two numbers above 0");
  expect_refused(with(R"("zero_point": true)"), ".zero_point", "unknown field");
}

TEST(Storage, Fp8WithoutBlocksHasAFactorForEachMatrix) {
  const auto null =
      read(R"({"quant_method": "fp8", "weight_block_size": null, "activation_scheme": "static"})");
  ASSERT_TRUE(null);
  EXPECT_TRUE(null->by_tensor);
  EXPECT_FALSE(null->block);
  const auto absent = read(R"({"quant_method": "fp8", "ignored_layers": ["lm_head"]})");
  ASSERT_TRUE(absent && absent->block);
  EXPECT_TRUE(absent->by_tensor);
  EXPECT_EQ(absent->block->at(0), 128);
  EXPECT_EQ(absent->as_they_are.size(), 1u);
}

// As meta-llama/Llama-3.1-405B-Instruct-FP8 has it.
TEST(Storage, FbgemmHasAFactorForEachRow) {
  const auto storage = read(R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
      "modules_to_not_convert": ["model.layers.0.mlp.up_proj"]})");
  ASSERT_TRUE(storage);
  EXPECT_TRUE(storage->by_row);
  EXPECT_FALSE(storage->by_tensor || storage->block);
}

TEST(Storage, CompressedTensors) {
  const auto by_row =
      read(compressed(R"("num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true,
      "dynamic": false, "group_size": null, "block_structure": null, "actorder": null, "observer": "minmax")",
                      R"("kv_cache_scheme": null, "quantization_status": "frozen")"));
  ASSERT_TRUE(by_row);
  EXPECT_TRUE(by_row->by_row);
  EXPECT_FALSE(by_row->by_tensor || by_row->block);
  EXPECT_TRUE(read(compressed(R"("strategy": "tensor")"))->by_tensor);
  EXPECT_TRUE(read(compressed(R"("strategy": "block", "block_structure": [128, 128])"))->block);
  const std::string weights = ".config_groups.group_0.weights";
  expect_refused(compressed(R"("num_bits": 4)"), weights + ".num_bits", "expected 8");
  expect_refused(compressed(R"("type": "int")"), weights + ".type", "expected float");
  expect_refused(compressed(R"("strategy": "group", "group_size": 128)"), weights + ".group_size",
                 "expected null");
  expect_refused(compressed(R"("strategy": "group")"), weights + ".strategy", "expected tensor");
  expect_refused(compressed(R"("symmetric": false)"), weights + ".symmetric", "expected true");
  expect_refused(compressed(R"("zero_points": 3)"), weights + ".zero_points", "unknown field");
  expect_refused(compressed("", R"("sparsity_config": {"format": "dense"})"), ".sparsity_config",
                 "expected null");
  expect_refused(R"({"quant_method": "compressed-tensors", "format": "marlin-24"})", ".format",
                 "expected float-quantized or int-quantized");
  expect_refused(R"({"quant_method": "compressed-tensors"})", ".config_groups", "missing");
  expect_refused(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": []}}})",
                 ".config_groups", "expected a group with weights");
}

std::string gptq(const std::string& more) {
  return R"({"quant_method": "gptq", "bits": 4, "group_size": 128)" + (more.empty() ? "" : ", " + more) + "}";
}

// As TheBloke's, Qwen's and GPTQModel's have it.
TEST(Storage, Gptq) {
  const auto storage =
      read(gptq(R"("damp_percent": 0.01, "desc_act": true, "static_groups": false, "sym": true,
      "true_sequential": true, "model_name_or_path": null, "model_file_base_name": "model")"));
  ASSERT_TRUE(storage);
  EXPECT_EQ(storage->name, "GPTQ int4");
  EXPECT_EQ(storage->forms.front()->code, NumberCode::gptq);
  EXPECT_EQ(storage->bits, 4);
  EXPECT_EQ(storage->group, 128);
  EXPECT_TRUE(storage->any_order && storage->zeros_less_one && storage->rounds_to_factors);
  EXPECT_FALSE(read(gptq(R"("checkpoint_format": "gptq_v2")"))->zeros_less_one);
  EXPECT_FALSE(read(gptq(R"("format": "gptq_v2", "dynamic": {"-:.*gate": {}}, "pack_dtype": "int32")"))
                   ->zeros_less_one);
  EXPECT_TRUE(read(R"({"quant_method": "gptq", "bits": 3, "group_size": -1})")->whole_axis);
  for (const char* bits : {"1", "5", "16", "0", "-4"}) {
    expect_refused(fmt::format(R"({{"quant_method": "gptq", "bits": {}}})", bits), ".bits",
                   "expected 2, 3, 4, 8");
  }
  expect_refused(R"({"quant_method": "gptq", "bits": "4"})", ".bits", "expected an integer");
  expect_refused(R"({"quant_method": "gptq"})", ".bits", "missing");
  for (const char* size : {"0", "-2"}) {
    expect_refused(fmt::format(R"({{"quant_method": "gptq", "bits": 4, "group_size": {}}})", size),
                   ".group_size", "a number above 0, or -1");
  }
  expect_refused(gptq(R"("checkpoint_format": "marlin")"), ".checkpoint_format", "expected gptq or gptq_v2");
  expect_refused(gptq(R"("is_marlin_format": true)"), ".is_marlin_format", "expected null");
  expect_refused(gptq(R"("pack_dtype": "int64")"), ".pack_dtype", "expected int32");
  expect_refused(gptq(R"("dynamic": {"+:.*down": {"bits": 8}})"), ".dynamic.+:.*down", "left out (-:)");
  expect_refused(gptq(R"("rotation": "hadamard")"), ".rotation", "expected null");
  expect_refused(gptq(R"("sym": 1)"), ".sym", "expected true or false");
  expect_refused(gptq(R"("zero_point": true)"), ".zero_point", "unknown field");
}

// As casperhansen's and Qwen's have it.
TEST(Storage, Awq) {
  const auto storage = read(R"({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": true,
      "version": "gemm", "modules_to_not_convert": ["visual"]})");
  ASSERT_TRUE(storage);
  EXPECT_EQ(storage->name, "AWQ int4");
  EXPECT_EQ(storage->group, 64);
  EXPECT_FALSE(storage->zeros_less_one);
  EXPECT_EQ(storage->as_they_are, std::vector<std::string>{"visual"});
  EXPECT_TRUE(read(R"({"quant_method": "awq", "version": "GEMM"})"));
  const auto with = [](const std::string& key) { return R"({"quant_method": "awq", )" + key + "}"; };
  expect_refused(with(R"("bits": 8)"), ".bits", "expected 4");
  expect_refused(with(R"("version": "gemv")"), ".version", "expected gemm");
  expect_refused(with(R"("backend": "llm-awq")"), ".backend", "expected autoawq");
  expect_refused(with(R"("zero_point": false)"), ".zero_point", "expected true");
  expect_refused(with(R"("group_size": 0)"), ".group_size", "above 0");
  // AutoAWQ's own names, instead of the usual ones and not in addition to them.
  EXPECT_EQ(read(with(R"("w_bit": 4, "q_group_size": 32)"))->group, 32);
  expect_refused(with(R"("w_bit": 8)"), ".w_bit", "expected 4");
  expect_refused(with(R"("bits": 4, "w_bit": 4)"), ".w_bit", "unknown field");
}

TEST(Storage, Bitsandbytes) {
  const auto with = [](const std::string& keys) {
    return R"({"quant_method": "bitsandbytes", )" + keys + "}";
  };
  const auto four =
      read(with(R"("_load_in_4bit": true, "_load_in_8bit": false, "bnb_4bit_compute_dtype": "bfloat16",
      "bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true,
      "llm_int8_enable_fp32_cpu_offload": false, "llm_int8_has_fp16_weight": false, "llm_int8_skip_modules": ["lm_head"],
      "llm_int8_threshold": 6.0, "load_in_4bit": true, "load_in_8bit": false)"));
  ASSERT_TRUE(four);
  ASSERT_EQ(four->forms.size(), 1u);
  EXPECT_EQ(four->forms.front()->code, NumberCode::levels);
  EXPECT_EQ(four->name, "bitsandbytes nf4");
  EXPECT_EQ(four->levels, "nf4");
  EXPECT_EQ(four->as_they_are.size(), 1u);
  const auto eight = read(with(R"("load_in_8bit": true, "bnb_4bit_quant_type": "fp4")"));
  ASSERT_TRUE(eight);
  EXPECT_EQ(eight->forms.front()->code, NumberCode::parts_of_127);
  EXPECT_EQ(eight->name, "bitsandbytes int8");
  for (const char* keys : {R"("load_in_8bit": true, "load_in_4bit": true)", R"("load_in_8bit": false)"}) {
    expect_refused(with(keys), ".load_in_4bit", "expected one of them");
  }
  expect_refused(with(R"("load_in_4bit": true, "bnb_4bit_quant_type": "int4")"), ".bnb_4bit_quant_type",
                 "fp4 or nf4");
  expect_refused(with(R"("load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16")"),
                 ".bnb_4bit_quant_storage", "expected uint8");
  expect_refused(with(R"("load_in_8bit": true, "llm_int8_has_fp16_weight": true)"),
                 ".llm_int8_has_fp16_weight", "expected null");
}

// As RedHatAI's (neuralmagic's) w4a16 and w8a8 have it.
TEST(Storage, CompressedTensorsOfWholeNumbers) {
  const auto with = [](const std::string& format, const std::string& weights) {
    return fmt::format(
        R"({{"quant_method": "compressed-tensors", "format": "{}", "config_groups": {{"group_0":
        {{"targets": ["Linear"], "weights": {{{}}}}}}}}})",
        format, weights);
  };
  const auto packed = read(with("pack-quantized", R"("num_bits": 4, "type": "int", "strategy": "group",
      "group_size": 128, "symmetric": false, "actorder": "weight", "dynamic": false, "observer": "minmax")"));
  ASSERT_TRUE(packed);
  ASSERT_EQ(packed->forms.size(), 1u);
  EXPECT_EQ(packed->forms.front()->code, NumberCode::packed);
  EXPECT_EQ(packed->name, "int4 (packed)");
  EXPECT_EQ(packed->group, 128);
  EXPECT_TRUE(packed->zero_points && packed->rounds_to_factors);
  const auto eight = read(with("int-quantized", R"("num_bits": 8, "strategy": "channel")"));
  ASSERT_TRUE(eight);
  EXPECT_EQ(eight->forms.front()->code, NumberCode::integers);
  EXPECT_TRUE(eight->by_row && !eight->zero_points);
  EXPECT_EQ(read(with("naive-quantized", R"("num_bits": 5, "strategy": "tensor")"))->bits, 5);
  const std::string weights = ".config_groups.group_0.weights";
  expect_refused(with("pack-quantized", R"("num_bits": 3)"), weights + ".num_bits", "expected 2, 4, 8");
  expect_refused(with("int-quantized", R"("num_bits": 4)"), weights + ".num_bits", "expected 8");
  expect_refused(with("pack-quantized", R"("type": "float", "num_bits": 4)"), weights + ".type",
                 "expected int");
  for (const char* size : {"0", "-1", "-128"}) {
    expect_refused(
        with("pack-quantized", fmt::format(R"("num_bits": 4, "strategy": "group", "group_size": {})", size)),
        weights + ".group_size", "a number above 0");
  }
  expect_refused(with("pack-quantized", R"("num_bits": 4, "strategy": "tensor_group")"),
                 weights + ".strategy", "expected tensor, channel or group");
  expect_refused(with("nvfp4-pack-quantized", R"("num_bits": 4)"), ".format", "expected float-quantized");
  expect_refused(
      R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"type": "int"}}}})",
      weights + ".type", "without a format");
  // Groups of a mixed checkpoint: the tensors distinguish fp8 from whole numbers, but not two kinds
  // of whole numbers.
  const auto two = [](const std::string& one, const std::string& other) {
    return fmt::format(
        R"({{"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {{
        "group_0": {{{}}}, "group_1": {{{}}}}}}})",
        one, other);
  };
  const std::string fp8 =
      R"("format": "float-quantized", "weights": {"num_bits": 8, "type": "float", "strategy": "channel"})";
  const std::string int4 =
      R"("format": "pack-quantized", "weights": {"num_bits": 4, "strategy": "group", "group_size": 32})";
  const std::string int8 = R"("format": "pack-quantized", "weights": {"num_bits": 8, "strategy": "channel"})";
  const auto mixed = read(two(fp8, int4));
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->forms.size(), 2u);
  EXPECT_EQ(mixed->name, "fp8 (e4m3) and int4 (packed)");
  expect_refused(two(int4, int8), ".config_groups.group_1.weights.num_bits", "expected 4 as there");
}

}  // namespace
}  // namespace hooked::storage_test
