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
  for (const StorageFormat& format : storage_formats()) {
    EXPECT_LT(last, format.method);
    last = format.method;
  }
}

TEST(Storage, OtherMethodsAreRefusedWithThoseThatAreRead) {
  for (const char* group : {"3", R"("mxfp4")", R"({"bits": 4})", R"({"quant_method": "awq", "bits": 4})",
                            R"({"quant_method": 4})"}) {
    expect_refused(group, "", "mxfp4");
  }
}

// As openai/gpt-oss-20b has it.
TEST(Storage, Mxfp4) {
  const auto storage =
      read(R"({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn",
      "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]})");
  ASSERT_TRUE(storage);
  EXPECT_EQ(storage->format->code, NumberCode::mxfp4);
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
  expect_refused(R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})", ".format",
                 "expected float-quantized");
  expect_refused(R"({"quant_method": "compressed-tensors"})", ".config_groups", "missing");
  expect_refused(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": []}}})",
                 ".config_groups", "expected a group with weights");
}

}  // namespace
}  // namespace hooked::storage_test
