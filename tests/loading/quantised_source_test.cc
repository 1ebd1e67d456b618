// Weights that are stored in four or eight bits: their decoded numbers, and files that cannot be
// right.
#include "loading/storage/quantised_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "tests/loading/stored_sources.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/thrown_by.h"

namespace hooked::quantised_source_test {
namespace {

const std::string kMxfp4 = R"({"quant_method": "mxfp4"})";

std::string blocks_of(int rows, int columns) {
  return fmt::format(R"({{"quant_method": "fp8", "weight_block_size": [{}, {}]}})", rows, columns);
}

std::string compressed(const char* strategy) {
  return fmt::format(
      R"({{"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {{"g": {{"weights":
      {{"strategy": "{}"}}}}}}}})",
      strategy);
}

/// The recorded weights (tests/golden/make.py stored-numbers).
class StoredNumbers : public testing::Test {
 protected:
  SourceTensors source(const std::string& name, const std::string& group) const {
    SourceTensors all = source_tensors(reader_), some;
    for (auto& [tensor, source] : all) {
      if (tensor.starts_with(name + ".") && !tensor.ends_with(".expected")) some.emplace(tensor, source);
    }
    read_quantised(some, storage_of(group), family_of("llama", "config.json"));
    return some;
  }

  at::Tensor expected(const std::string& name) const {
    return reader_.read(name + ".expected").to(at::kFloat);
  }

  const CheckpointReader reader_ =
      CheckpointReader::open_file(HOOKED_SOURCE_DIR "/tests/golden/stored_numbers.safetensors");
};

TEST_F(StoredNumbers, AreThoseOfTransformersOrTheDecoder) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"block", blocks_of(8, 16)},
      {"ends", blocks_of(8, 16)},
      {"experts", blocks_of(4, 6)},
      {"exponents", blocks_of(8, 8)},
      {"row", R"({"quant_method": "fbgemm_fp8"})"},
      {"tensor", compressed("tensor")},
      {"scalar", R"({"quant_method": "fp8", "weight_block_size": null})"}};
  for (const auto& [name, group] : rows) {
    SCOPED_TRACE(name);
    const SourceTensors all = source(name, group);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_TRUE(same_bits(all.at(name + ".weight").read(), expected(name)));
  }
  const SourceTensors all = source("mxfp4", kMxfp4);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(same_bits(all.at("mxfp4.w").read(), expected("mxfp4")));
}

// Any run of elements equals that part of the whole.
TEST_F(StoredNumbers, AreReadFromAnywhere) {
  for (const auto& [name, weight, group] :
       {std::tuple{"mxfp4", "mxfp4.w", kMxfp4}, std::tuple{"ends", "ends.weight", blocks_of(8, 16)},
        std::tuple{"experts", "experts.weight", blocks_of(4, 6)},
        std::tuple{"row", "row.weight", std::string(R"({"quant_method": "fbgemm_fp8"})")}}) {
    const SourceTensors all = source(name, group);
    const SourceTensor& tensor = all.at(weight);
    const at::Tensor flat = at::empty({tensor.meta().numel()}, at::kFloat);
    tensor.read_elements(0, flat);
    for (std::int64_t first = 0; first < std::min<std::int64_t>(flat.numel(), 90); ++first) {
      for (const std::int64_t count : {0, 1, 2, 7, 31, 32, 33, 64, 100}) {
        if (first + count > flat.numel()) continue;
        const at::Tensor run = at::empty({count}, at::kFloat);
        tensor.read_elements(first, run);
        ASSERT_TRUE(same_bits(run, flat.narrow(0, first, count))) << name << ' ' << first << ' ' << count;
      }
    }
  }
}

/// Golden checkpoints in the storage of published ones.
class QuantisedCheckpoint : public CheckpointTensors {
 protected:
  // The engine does not write safetensors of fp8: files are copied, and a test changes their
  // config.
  void copy(const std::string& name) {
    take_config(name);
    std::filesystem::copy_file(golden_case(name).folder() / "model.safetensors",
                               folder_ / "model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
  }

  void take_config(const std::string& name) {
    const std::ifstream file(golden_case(name).folder() / "config.json", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    config_ = parse_json(text.str(), {});
    golden_ = read_golden(golden_case(name));
    configure();
  }

  void configure() const { std::ofstream(folder_ / "config.json") << config_.dump(); }

  HookedTransformer loaded() const {
    return HookedTransformer::load(folder_.path().string(),
                                   {.dtype = at::kDouble, .processing = WeightProcessing::none()});
  }

  Json config_;
};

TEST_F(QuantisedCheckpoint, ANoteSaysWhatTheStorageWas) {
  for (const auto& [name, said] : {std::pair{"gpt_oss_mxfp4", "2 weights are stored as MXFP4"},
                                   std::pair{"llama_fp8_rows", "14 weights are stored as fp8 (e4m3)"}}) {
    copy(name);
    const HookedTransformer model = loaded();
    ASSERT_EQ(model.notes().size(), 1u);
    EXPECT_NE(model.notes()[0].find(said), std::string::npos) << model.notes()[0];
    EXPECT_NE(model.notes()[0].find("the numbers of the quantised model"), std::string::npos)
        << model.notes()[0];
    EXPECT_EQ(describe(folder_.path().string()).notes, model.notes());
    EXPECT_GT(outline(folder_.path().string()).parameters, 0);
  }
}

TEST_F(QuantisedCheckpoint, SavedItIsStoredAsNumbers) {
  for (const char* name : {"gpt_oss_mxfp4", "qwen3_moe_fp8"}) {
    copy(name);
    const HookedTransformer model = loaded();
    const TempFolder saved;
    model.save(saved.path());
    const auto again = HookedTransformer::load(saved.path().string());
    EXPECT_EQ(again.notes().size(), 1u) << "that it is loaded as it was saved";
    EXPECT_TRUE(at::equal(again.run(golden_.tokens).logits(), model.run(golden_.tokens).logits()));
  }
}

// Loading in half precision rounds the numbers once.
TEST_F(QuantisedCheckpoint, NumbersAreReadIntoTheDtypeAskedFor) {
  copy("gpt_oss_mxfp4");
  const auto load = [&](at::ScalarType dtype) {
    return HookedTransformer::load(folder_.path().string(),
                                   {.dtype = dtype, .processing = WeightProcessing::none()})
        .weights()["blocks.0.mlp.experts.1.W_in.weight"];
  };
  const at::Tensor wide = load(at::kDouble);
  EXPECT_TRUE(at::equal(load(at::kBFloat16).to(at::kDouble), wide)) << "bfloat16 holds them all";
  EXPECT_TRUE(at::equal(load(at::kFloat).to(at::kDouble), wide));
  EXPECT_GT(wide.abs().max().item<double>(), 0.0);
}

TEST_F(QuantisedCheckpoint, AConfigThatSaysSoOfNumbersIsNoted) {
  take("llama");
  std::ifstream file(folder_ / "config.json", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  config_ = parse_json(text.str(), {});
  config_["quantization_config"] = Json{{"quant_method", "fp8"}};
  configure();
  const HookedTransformer model = load();
  EXPECT_LT(difference(model), 1e-12);
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_NE(model.notes()[0].find("no tensor is"), std::string::npos) << model.notes()[0];
}

TEST_F(QuantisedCheckpoint, WithoutAGroupInTheConfigItIsRefused) {
  copy("llama_fp8_rows");
  config_.erase("quantization_config");
  configure();
  const std::string text = text_thrown_by<CheckpointError>([&] { loaded(); });
  EXPECT_NE(text.find("'F8_E4M3' is not supported"), std::string::npos) << text;
}

/// A golden checkpoint whose quantization_config is a separate file, as in older folders.
class StorageFiles : public QuantisedCheckpoint {
 protected:
  Json take_group(const std::string& name) {
    copy(name);
    Json group = config_["quantization_config"];
    config_.erase("quantization_config");
    configure();
    return group;
  }
  void write(const std::string& name, const Json& group) const {
    std::ofstream(folder_ / name) << group.dump();
  }
};

TEST_F(StorageFiles, SayWhatConfigJsonDoesNot) {
  const auto same = [&](const std::string& name) {
    const auto whole = HookedTransformer::load(
        golden_case(name).folder().string(), {.dtype = at::kDouble, .processing = WeightProcessing::none()});
    EXPECT_TRUE(at::equal(loaded().run(golden_.tokens).logits(), whole.run(golden_.tokens).logits())) << name;
    std::filesystem::remove(folder_ / "quantize_config.json");
    std::filesystem::remove(folder_ / "quant_config.json");
  };
  Json group = take_group("llama_gptq");
  group.erase("quant_method");  // as AutoGPTQ wrote it at first
  group["awq_gemm_checkpoint"] = false;
  write("quantize_config.json", group);
  same("llama_gptq");
  group = take_group("llama_awq");
  write("quant_config.json", {{"zero_point", true},
                              {"q_group_size", group.at("group_size")},
                              {"w_bit", 4},
                              {"version", "GEMM"},
                              {"modules_to_not_convert", nullptr}});
  same("llama_awq");
}

TEST_F(StorageFiles, ThatContradictConfigJsonAreNoted) {
  Json group = take_group("llama_gptq");
  config_["quantization_config"] = group;
  configure();
  write("quantize_config.json", group);
  const auto notes = loaded().notes().size();
  group["bits"] = 3;
  group["sym"] = !group.value("sym", true);
  write("quantize_config.json", group);
  const HookedTransformer model = loaded();
  ASSERT_EQ(model.notes().size(), notes + 2);
  EXPECT_NE(model.notes()[0].find("quantize_config.json] says bits 3, not "), std::string::npos)
      << model.notes()[0];
  EXPECT_NE(model.notes()[0].find("quantization_config holds"), std::string::npos) << model.notes()[0];
  EXPECT_NE(model.notes()[1].find("says sym "), std::string::npos) << model.notes()[1];
}

TEST_F(StorageFiles, ThatAreWrongAreNamed) {
  Json group = take_group("llama_gptq");
  const std::string nothing = text_thrown_by<CheckpointError>([&] { loaded(); });
  for (const char* word : {".qweight'", "GPTQ's or AWQ's", "quantize_config.json"})
    EXPECT_NE(nothing.find(word), std::string::npos) << nothing;
  group["bits"] = 5;
  write("quantize_config.json", group);
  const auto error = thrown_by<ConfigError>([&] { loaded(); });
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->where().ends_with("quantize_config.json: bits")) << error->where();
  group["bits"] = 8;
  write("quantize_config.json", group);
  const std::string shapes = text_thrown_by<CheckpointError>([&] { loaded(); });
  EXPECT_NE(shapes.find("quantize_config.json"), std::string::npos) << shapes;
  std::ofstream(folder_ / "quantize_config.json") << "[]";
  EXPECT_NE(text_thrown_by<ConfigError>([&] { loaded(); }).find("not an object"), std::string::npos);
  // It has no meaning next to weights that are not quantised.
  take("llama");
  EXPECT_LT(difference(load()), 1e-12);
}

using BadStorage = StoredSources;

TEST_F(BadStorage, Mxfp4) {
  const std::vector<std::int64_t> good = {2, 6, 3, 16}, scales = {2, 6, 3};
  add("x_blocks", "U8", good);
  expect_refused(kMxfp4, {"'x_blocks'", "without its factors", "'x_scales'"});
  add("x_scales", "U8", scales);
  SourceTensors fine = source_;
  EXPECT_NO_THROW(read_quantised(fine, storage_of(kMxfp4), family_of("gpt_oss", "config.json")));
  EXPECT_EQ(fine.at("x").shape, (std::vector<std::int64_t>{2, 96, 6}));
  for (const std::vector<std::int64_t>& odd :
       {std::vector<std::int64_t>{2, 6, 3, 15}, {2, 6, 3}, {16}, {}, {2, 6, 3, 16, 16}, {2, 6, 3, 32}}) {
    add("x_blocks", "U8", odd);
    expect_refused(kMxfp4, {"'x_blocks'", "[expert, row, group, 16]"});
  }
  add("x_blocks", "U8", good);
  for (const std::vector<std::int64_t>& odd :
       {std::vector<std::int64_t>{2, 6, 2}, {2, 6, 3, 1}, {6, 2, 3}, {36}, {}}) {
    add("x_scales", "U8", odd);
    expect_refused(kMxfp4, {"'x_scales'", "does not fit 'x_blocks'", "U8 [2, 6, 3]"});
  }
  add("x_scales", "F32", scales);
  expect_refused(kMxfp4, {"'x_scales'", "F32"});
  add("x_scales", "U8", scales);
  add("x", "F32", {2, 96, 6});
  expect_refused(kMxfp4, {"'x_blocks'", "'x' a second time"});
  source_.erase("x");
  source_.at("x_blocks").read_bytes = nullptr;
  expect_refused(kMxfp4, {"'x_blocks'", "safetensors"});
}

TEST_F(BadStorage, Fp8) {
  add("m.weight", "F8_E4M3", {10, 12});
  expect_refused(blocks_of(4, 5),
                 {"'m.weight'", "without its factors", "'m.weight_scale_inv'", "'m.weight_scale'"});
  add("m.weight_scale_inv", "F32", {3, 3});
  SourceTensors fine = source_;
  EXPECT_NO_THROW(read_quantised(fine, storage_of(blocks_of(4, 5)), family_of("llama", "config.json")));
  EXPECT_EQ(fine.size(), 1u);
  for (const std::vector<std::int64_t>& odd :
       {std::vector<std::int64_t>{2, 3}, {3, 2}, {4, 3}, {9}, {1}, {}, {10, 1}}) {
    add("m.weight_scale_inv", "F32", odd);
    expect_refused(blocks_of(4, 5),
                   {"'m.weight_scale_inv'", "does not fit 'm.weight'", "block of 4 x 5", "[10, 12]"});
  }
  add("m.weight_scale_inv", "F32", {3, 3});
  expect_refused(R"({"quant_method": "fbgemm_fp8"})", {"'m.weight_scale_inv'", "one for each row"});
  expect_refused(R"({"quant_method": "fp8", "weight_block_size": null})",
                 {"'m.weight_scale_inv'", "one for all"});
  add("m.weight_scale_inv", "I32", {3, 3});
  expect_refused(blocks_of(4, 5), {"'m.weight_scale_inv'", "I32"});
  add("m.weight_scale_inv", "F32", {3, 3});
  expect_refused(R"({"quant_method": "fp8", "weight_block_size": [4, 5], "modules_to_not_convert": ["m"]})",
                 {"'m.weight'", "says of 'm'", "quantization_config"});
  add("m.weight", "F8_E4M3", {120});
  expect_refused(blocks_of(4, 5), {"'m.weight'", "matrices", "[120]"});
}

TEST_F(BadStorage, EmptyMatricesAreNoTrouble) {
  add("m.weight", "F8_E4M3", {0, 12});
  add("m.weight_scale_inv", "F32", {0, 3});
  SourceTensors source = source_;
  read_quantised(source, storage_of(blocks_of(4, 5)), family_of("llama", "config.json"));
  EXPECT_EQ(source.at("m.weight").read().numel(), 0);
}

TEST_F(BadStorage, FactorsOfActivationsAreTakenOut) {
  add("m.weight", "F8_E4M3", {10, 12});
  add("m.weight_scale", "F32", {1});
  for (const char* name : {"m.input_scale", "m.activation_scale", "attn.k_scale", "attn.v_scale"})
    add(name, "F32", {1});
  add("norm.weight", "F32", {10});
  SourceTensors source = source_;
  read_quantised(source, storage_of(compressed("tensor")), family_of("llama", "config.json"));
  EXPECT_EQ(source.size(), 2u);
}

}  // namespace
}  // namespace hooked::quantised_source_test
