// Whole numbers and levels: equal to the formats' own packages (tests/golden/make.py
// quantised-weights), and files that cannot be right.
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint/checkpoint_reader.h"
#include "tests/loading/stored_sources.h"
#include "tests/support/coded_rows.h"

namespace hooked::quantised_weights_test {
namespace {

class QuantisedWeights : public testing::Test {
 protected:
  SourceTensor weight(const std::string& name, const char* family = "llama") const {
    SourceTensors all = source_tensors(reader_), some;
    for (auto& [tensor, source] : all) {
      if (tensor.starts_with(name + ".") && !tensor.ends_with(".expected")) some.emplace(tensor, source);
    }
    read_quantised(some, storage_of(reader_.metadata().at(name)), family_of(family, "config.json"));
    EXPECT_EQ(some.size(), 1u) << name;
    return some.at(name + ".weight");
  }

  const CheckpointReader reader_ =
      CheckpointReader::open_file(HOOKED_SOURCE_DIR "/tests/golden/quantised_weights.safetensors");
};

TEST_F(QuantisedWeights, AreThoseOfTheFormatsPackages) {
  EXPECT_GE(reader_.metadata().size(), 21u);
  for (const auto& [name, group] : reader_.metadata()) {
    SCOPED_TRACE(name);
    const at::Tensor got = weight(name).read(), expected = reader_.read(name + ".expected");
    EXPECT_EQ(got.sizes(), expected.sizes());
    EXPECT_TRUE(same_bits(got, expected));
    EXPECT_GT(expected.abs().max().item<float>(), 0.0F);
  }
}

// Any run of elements equals that part of the whole.
TEST_F(QuantisedWeights, AreReadFromAnywhere) {
  for (const auto& [name, group] : reader_.metadata()) {
    const SourceTensor tensor = weight(name);
    const at::Tensor flat = at::empty({tensor.meta().numel()}, at::kFloat);
    tensor.read_elements(0, flat);
    for (std::int64_t first = 0; first < flat.numel(); first += 1 + first / 9) {
      for (const std::int64_t count : {0, 1, 2, 7, 33, 64, 1000}) {
        if (first + count > flat.numel()) continue;
        const at::Tensor run = at::empty({count}, at::kFloat);
        tensor.read_elements(first, run);
        ASSERT_TRUE(same_bits(run, flat.narrow(0, first, count))) << name << ' ' << first << ' ' << count;
      }
    }
  }
}

// GPT-2 holds its matrices [in, out], and they are quantised as those of linear layers.
TEST_F(QuantisedWeights, AreTurnedOverForConv1d) {
  for (const char* name : {"int8", "nf4", "gptq4_order", "awq"}) {
    const at::Tensor expected = reader_.read(std::string(name) + ".expected").t();
    const SourceTensor tensor = weight(name, "gpt2");
    EXPECT_EQ(at::IntArrayRef(tensor.shape), expected.sizes()) << name;
    EXPECT_TRUE(same_bits(tensor.read(), expected)) << name;
  }
}

// Numbers that products decode are those of the packages, too; the others have no whole blocks of 32, an
// order of groups, two or three bits, or factors in float32.
TEST_F(QuantisedWeights, AreTheSameInCodes) {
  std::set<std::string> in_codes;
  for (const auto& [name, group] : reader_.metadata()) {
    SCOPED_TRACE(name);
    const at::Tensor expected = reader_.read(name + ".expected");
    const auto outputs_first = [](const at::Tensor& theirs) {
      return theirs.view({theirs.size(0), 1, theirs.size(1), 1});
    };
    const auto inputs_first = [&](const at::Tensor& theirs) { return theirs.t().unsqueeze(1).unsqueeze(3); };
    const auto rows = coded_rows(weight(name), outputs_first);
    const SourceTensor of_conv1d = weight(name, "gpt2");
    const bool turns = of_conv1d.shape.front() == expected.size(1);  // fp8 does not
    const auto turned = turns ? coded_rows(of_conv1d, inputs_first) : coded_rows(of_conv1d, outputs_first);
    ASSERT_EQ(rows.has_value(), turned.has_value());
    if (!rows) continue;
    in_codes.insert(name);
    for (const CodedRows& each : {*rows, *turned}) {
      EXPECT_TRUE(same_bits(numbers_of(each), expected));
      const auto held = each.hold ? each.hold() : nullptr;
      EXPECT_TRUE(same_bits(numbers_of(each), expected));
    }
  }
  EXPECT_EQ(in_codes, (std::set<std::string>{"awq", "awq_whole", "fp8_rows", "gptq4", "gptq4_v2", "gptq8",
                                             "int4_naive", "int8_rows", "int8_tensor", "int8_zeros",
                                             "nf4_nested", "packed4", "packed4_zeros", "packed8"}));
}

const std::string kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 16})";
const std::string kAwq = R"({"quant_method": "awq", "bits": 4, "group_size": 16})";

class BadIntegers : public StoredSources {
 protected:
  // [out 16, in 40]: five words of eight rows, in groups of 16, 16 and 8.
  void add_gptq() {
    add("m.qweight", "I32", {5, 16});
    add("m.qzeros", "I32", {3, 2});
    add("m.scales", "F16", {3, 16});
    add("m.g_idx", "I32", {40});
  }
};

TEST_F(BadIntegers, Gptq) {
  add_gptq();
  EXPECT_EQ(quantised(kGptq).at("m.weight").shape, (std::vector<std::int64_t>{16, 40}));
  EXPECT_EQ(quantised(kGptq).size(), 1u);
  for (const std::vector<std::int64_t>& odd : {std::vector<std::int64_t>{80}, {}, {5, 16, 1}}) {
    add("m.qweight", "I32", odd);
    expect_refused(kGptq, {"'m.qweight'", "two axes"});
  }
  add_gptq();
  for (const std::vector<std::int64_t>& odd :
       {std::vector<std::int64_t>{2, 16}, {3, 15}, {48}, {}, {3, 16, 1}}) {
    add("m.scales", "F16", odd);
    expect_refused(kGptq, {"'m.scales'", "does not fit 'm.qweight'", "[3, 16]"});
  }
  for (const char* dtype : {"I32", "F64", "U8"}) {
    add("m.scales", dtype, {3, 16});
    expect_refused(kGptq, {"'m.scales'", "expected F16, BF16 or F32", dtype});
  }
  add_gptq();
  for (const std::vector<std::int64_t>& odd : {std::vector<std::int64_t>{3, 16}, {2, 2}, {6}}) {
    add("m.qzeros", "I32", odd);
    expect_refused(kGptq, {"'m.qzeros'", "does not fit 'm.qweight'", "I32 [3, 2]"});
  }
  add_gptq();
  add("m.g_idx", "I32", {39});
  expect_refused(kGptq, {"'m.g_idx'", "I32 [40]"});
  add_gptq();
  std::vector<std::int64_t> order(40, 1);
  for (const std::int64_t group : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{-2147483648}}) {
    order[21] = group;
    add_words("m.g_idx", "I32", {40}, order);
    expect_refused(kGptq, {"'m.g_idx'", "at 21", "expected 0 to 2", std::to_string(group)});
  }
  add_words("m.g_idx", "I32", {40}, std::vector<std::int64_t>(40, -1));
  expect_refused(kGptq, {"'m.g_idx'", "at 0", "got -1"});
  add_gptq();
  for (const char* part : {"m.scales", "m.qzeros"}) {
    source_.erase(part);
    expect_refused(kGptq, {"'m.qweight'", std::string(part).substr(1)});
    add_gptq();
  }
  source_.erase("m.g_idx");
  EXPECT_NO_THROW(quantised(kGptq)) << "neighbours are groups";
  expect_refused(R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": true})",
                 {"'m.qweight'", "'.g_idx'"});
  add_gptq();
  add("m.weight", "F32", {16, 40});
  expect_refused(kGptq, {"'m.weight' a second time"});
  source_.erase("m.weight");
  // 5 words are 53 numbers of three bits and a third.
  expect_refused(R"({"quant_method": "gptq", "bits": 3, "group_size": 16})",
                 {"'m.qweight'", "multiple of 3 rows"});
  source_.at("m.qzeros").read_bytes = nullptr;
  expect_refused(kGptq, {"'m.qzeros'", "safetensors"});
}

// Files say "gptq" and "sym", and store the zero points of either version.
TEST_F(BadIntegers, SymmetricZeroPointsTellTheVersion) {
  const auto group = [](const char* format) {
    return fmt::format(
        R"({{"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": true, "checkpoint_format": "{}"}})",
        format);
  };
  const auto with_zeros = [&](std::uint32_t zero) {
    add_gptq();
    add("m.scales", "F32", {3, 16}, std::vector<std::byte>(3 * 16 * 4, std::byte{0x3f}));
    add_words("m.qzeros", "I32", {3, 2}, std::vector<std::int64_t>(6, zero * 0x11111111U));
    source_.erase("m.g_idx");
  };
  float factor = 0.0F;
  const auto bits = 0x3f3f3f3fU;
  std::memcpy(&factor, &bits, sizeof(factor));
  for (const char* format : {"gptq", "gptq_v2"}) {
    for (const std::uint32_t zero : {7U, 8U}) {
      with_zeros(zero);
      SourceTensors source = source_;
      const auto notes = read_quantised(source, storage_of(group(format)), family_of("llama", "config.json"));
      const at::Tensor weight = source.at("m.weight").read();
      EXPECT_TRUE((weight == -8.0F * factor).all().item<bool>()) << format << ' ' << zero << weight;
      const bool as_said = (zero == 7) == (std::string_view(format) == "gptq");
      EXPECT_EQ(notes.size(), as_said ? 1u : 2u);
      EXPECT_EQ(notes.back().find("\"sym\" is true") == std::string::npos, as_said) << notes.back();
    }
    with_zeros(5);
    expect_refused(group(format), {"'m.qzeros'", "\"sym\" is true", "got 5"});
  }
}

TEST_F(BadIntegers, Awq) {
  const auto add_all = [&] {
    add("m.qweight", "I32", {40, 2});
    add("m.qzeros", "I32", {3, 2});
    add("m.scales", "F16", {3, 16});
  };
  add_all();
  EXPECT_EQ(quantised(kAwq).at("m.weight").shape, (std::vector<std::int64_t>{16, 40}));
  add("m.scales", "F16", {16, 3});
  expect_refused(kAwq, {"'m.scales'", "[3, 16]"});
  add_all();
  source_.erase("m.qzeros");
  expect_refused(kAwq, {"'m.qweight'", "'.qzeros'"});
  add_all();
  source_.erase("m.scales");
  expect_refused(kAwq, {"'m.qweight'", "without its factors", "'m.scales'"});
}

std::string compressed(const char* format, const std::string& weights) {
  return fmt::format(
      R"({{"quant_method": "compressed-tensors", "format": "{}", "config_groups": {{"g": {{"weights":
      {{"type": "int", {}}}}}}}}})",
      format, weights);
}

// If the config says that numbers are symmetric, zero points stored with them would be left out.
TEST_F(BadIntegers, ZeroPointsOfSymmetricNumbers) {
  const std::string rows = compressed("int-quantized", R"("strategy": "channel", "symmetric": true)");
  add("m.weight", "I8", {6, 5});
  add("m.weight_scale", "F32", {6, 1});
  add("m.weight_zero_point", "I8", {6, 1});
  EXPECT_NO_THROW(quantised(rows)) << "zeros say the same";
  add("m.weight_zero_point", "I8", {6, 1}, {std::byte{0}, std::byte{0}, std::byte{3}});
  expect_refused(rows, {"'m.weight_zero_point'", "\"symmetric\" is true"});
}

TEST_F(BadIntegers, Packed) {
  const std::string group =
      compressed("pack-quantized", R"("num_bits": 4, "strategy": "group", "group_size": 8,
      "symmetric": false)");
  const auto add_all = [&] {  // [10, 24]
    add("m.weight_packed", "I32", {10, 3});
    add("m.weight_scale", "BF16", {10, 3});
    add("m.weight_zero_point", "I32", {2, 3});
    add_words("m.weight_shape", "I64", {2}, {10, 24});
  };
  add_all();
  EXPECT_EQ(quantised(group).at("m.weight").shape, (std::vector<std::int64_t>{10, 24}));
  EXPECT_EQ(quantised(group).size(), 1u);
  for (const std::vector<std::int64_t>& odd :
       {std::vector<std::int64_t>{10, 25}, {11, 24}, {10, 16}, {0, 0}}) {
    add_words("m.weight_shape", "I64", {2}, odd);
    expect_refused(group, {"'m.weight_packed'", "4 bits for each number of", "[10, 3]"});
  }
  add_words("m.weight_shape", "I64", {2}, {-10, 24});
  expect_refused(group, {"'m.weight_shape'", "expected sizes from 0", "got -10"});
  add_words("m.weight_shape", "I64", {3}, {10, 24, 1});
  expect_refused(group, {"'m.weight_shape'", "expected I64 [2]"});
  add_all();
  for (const std::vector<std::int64_t>& odd : {std::vector<std::int64_t>{10, 1}, {3, 10}, {30}, {10, 4}}) {
    add("m.weight_scale", "BF16", odd);
    expect_refused(group, {"'m.weight_scale'", "one for each 8 numbers of a row", "[10, 24]"});
  }
  add_all();
  for (const std::vector<std::int64_t>& odd : {std::vector<std::int64_t>{10, 3}, {2, 2}, {6}}) {
    add("m.weight_zero_point", "I32", odd);
    expect_refused(group, {"'m.weight_zero_point'", "zero points", "I32 [2, 3]"});
  }
  add_all();
  add_words("m.weight_g_idx", "I32", {24}, std::vector<std::int64_t>(24, 3));
  expect_refused(group, {"'m.weight_g_idx'", "expected 0 to 2, got 3"});
  add_words("m.weight_g_idx", "I32", {24}, std::vector<std::int64_t>(24, -1));
  EXPECT_NO_THROW(quantised(group).at("m.weight").read()) << "it was never set: neighbours are groups";
  source_.erase("m.weight_g_idx");
  for (const char* part : {"m.weight_scale", "m.weight_zero_point", "m.weight_shape"}) {
    source_.erase(part);
    expect_refused(group, {"'m.weight_packed'", std::string(part).substr(8)});
    add_all();
  }
  add_words("m.weight_shape", "I64", {2}, {10, 21});
  expect_refused(group, {"'m.weight_scale'", "whole groups"});
}

TEST_F(BadIntegers, OfAByte) {
  const std::string rows = compressed("int-quantized", R"("strategy": "channel", "symmetric": false)");
  const auto add_all = [&] {
    add("m.weight", "I8", {6, 5});
    add("m.weight_scale", "F32", {6, 1});
    add("m.weight_zero_point", "I8", {6, 1});
  };
  add_all();
  EXPECT_EQ(quantised(rows).size(), 1u);
  add("m.weight_scale", "F32", {5, 1});
  expect_refused(rows, {"'m.weight_scale'", "one for each row of [6, 5]", "quantization_config"});
  add_all();
  add("m.weight_zero_point", "I32", {6, 1});
  expect_refused(rows, {"'m.weight_zero_point'", "I8 [6, 1]"});
  add_all();
  source_.erase("m.weight_zero_point");
  expect_refused(rows, {"'m.weight'", "'_zero_point'"});
  add("m.weight", "I8", {6, 5, 2});
  expect_refused(rows, {"'m.weight'", "two axes"});
}

TEST_F(BadIntegers, PartsOf127) {
  const std::string group = R"({"quant_method": "bitsandbytes", "load_in_8bit": true})";
  const auto add_all = [&] {
    add("m.weight", "I8", {6, 5});
    add("m.SCB", "F32", {6});
    add("m.weight_format", "U8", {});
  };
  add_all();
  EXPECT_EQ(quantised(group).size(), 1u);
  add("m.SCB", "F32", {5});
  expect_refused(group, {"'m.SCB'", "F32 [6]"});
  add_all();
  add("m.weight_format", "U8", {}, {std::byte{2}});
  expect_refused(group, {"'m.weight_format'", "tiles"});
  add_all();
  source_.erase("m.SCB");
  expect_refused(group, {"'m.weight'", "without its factors", "'m.SCB'"});
}

class BadLevels : public StoredSources {
 protected:
  static constexpr const char* kState = "m.weight.quant_state.bitsandbytes__nf4";
  const std::string group_ =
      R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})";

  void state(const std::string& json) {
    std::vector<std::byte> bytes;
    for (const char letter : json) bytes.push_back(static_cast<std::byte>(letter));
    add(kState, "U8", {static_cast<std::int64_t>(bytes.size())}, bytes);
  }

  static std::string json(const std::string& shape = "[6, 50]", const std::string& more = "",
                          const std::string& size = "64") {
    return fmt::format(R"({{"quant_type": "nf4", "blocksize": {}, "dtype": "float16", "shape": {}{}}})", size,
                       shape, more);
  }

  static std::string nested(const std::string& size = "2") {
    return fmt::format(R"(, "nested_blocksize": {}, "nested_dtype": "float32", "nested_offset": 0.5)", size);
  }

  // nf4's begins with -1, fp4's with 0.
  void add_table(float first) {
    std::vector<std::byte> bytes(sizeof(first));
    std::memcpy(bytes.data(), &first, sizeof(first));
    add("m.weight.quant_map", "F32", {16}, bytes);
  }

  void add_all() {
    add("m.weight", "U8", {150, 1});
    add("m.weight.absmax", "F32", {5});
    add_table(-1.0F);
    state(json());
  }

  void add_nested() {
    add("m.weight.absmax", "U8", {5});
    add("m.weight.nested_absmax", "F32", {3});
    add("m.weight.nested_quant_map", "F32", {256});
    state(json("[6, 50]", nested()));
  }
};

TEST_F(BadLevels, Numbers) {
  add_all();
  EXPECT_EQ(quantised(group_).at("m.weight").shape, (std::vector<std::int64_t>{6, 50}));
  add("m.weight", "U8", {149, 1});
  expect_refused(group_, {"'m.weight'", "expected 150 bytes", "[149, 1]"});
  add_all();
  for (const std::vector<std::int64_t>& odd : {std::vector<std::int64_t>{4}, {6}, {5, 1}}) {
    add("m.weight.absmax", "F32", odd);
    expect_refused(group_, {"'m.weight.absmax'", "every 64 numbers", "F32 [5]"});
  }
  add_all();
  add_table(0.0F);
  expect_refused(group_, {"'m.weight.quant_map'", "is not the table of nf4"});
  add("m.weight.quant_map", "F32", {15});
  expect_refused(group_, {"'m.weight.quant_map'", "F32 [16]"});
  for (const std::string part : {"m.weight.absmax", "m.weight.quant_map", kState}) {
    add_all();
    source_.erase(part);
    expect_refused(group_, {"'m.weight'", part.substr(1)});
  }
}

TEST_F(BadLevels, States) {
  add_all();
  for (const auto& [text, said] : std::vector<std::pair<std::string, std::string>>{
           {json("[]"), "shape"},
           {json("[-6, 50]"), "shape"},
           {json("[4294967296, 4294967296]"), "shape"},
           {json("[6, 1099511627777]"), "shape"},
           {json("\"6\""), "shape"},
           {json("[6, 50]", "", "0"), "blocksize"},
           {json("[6, 50]", "", "-64"), "blocksize"},
           {json("[6, 50]", "", "\"64\""), "blocksize"},
           {json("[6, 50]", nested("0")), "nested_blocksize"},
           {json("[6, 50]", R"(, "nested_blocksize": 2)"), "nested_offset"},
           {R"({"quant_type": "nf4", "blocksize": 64, "dtype": "int8", "shape": [6, 50]})", "dtype"},
           {R"({"quant_type": "nf4", "blocksize": 64, "shape": [6, 50]})", "dtype"}}) {
    state(text);
    expect_refused(group_, {kState, said});
  }
  for (const std::string text :
       {R"({"quant_type": "fp4", "blocksize": 64, "dtype": "float16", "shape": [6, 50]})"}) {
    state(text);
    expect_refused(group_, {kState, "'fp4'", "expected 'nf4'"});
  }
  // Cut at any length, it is not valid JSON.
  const std::string whole = json();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    state(whole.substr(0, length));
    EXPECT_TRUE(thrown_by<CheckpointError>([&] { quantised(group_); })) << length;
  }
  add(kState, "U8", {1 << 20});
  expect_refused(group_, {kState, "65536"});
  add(kState, "I32", {20});
  expect_refused(group_, {kState, "I32"});
}

TEST_F(BadLevels, NestedFactors) {
  add_all();
  add_nested();
  EXPECT_NO_THROW(quantised(group_).at("m.weight").read());
  add("m.weight.nested_absmax", "F32", {2});
  expect_refused(group_, {"'m.weight.nested_absmax'", "every 2 factors", "F32 [3]"});
  add_nested();
  add("m.weight.nested_quant_map", "F32", {16});
  expect_refused(group_, {"'m.weight.nested_quant_map'", "F32 [256]"});
  add_nested();
  add("m.weight.absmax", "F32", {5});
  expect_refused(group_, {"'m.weight.absmax'", "U8 [5]"});
  add_nested();
  for (const std::string part : {"m.weight.nested_absmax", "m.weight.nested_quant_map"}) {
    source_.erase(part);
    expect_refused(group_, {"'m.weight'", part.substr(1)});
    add_nested();
  }
}

// What is refused expanded does not become codes.
TEST_F(BadIntegers, GroupsThatDoNotExistAreNotInCodes) {
  const std::string group = R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})";
  add("m.qweight", "I32", {8, 16});
  add("m.qzeros", "I32", {2, 2});
  add("m.scales", "F16", {2, 16});
  std::vector<std::int64_t> order(64, 0);
  std::fill(order.begin() + 32, order.end(), 1);
  add_words("m.g_idx", "I32", {64}, order);
  EXPECT_TRUE(quantised(group).at("m.weight").codes);
  add_words("m.g_idx", "I32", {64}, std::vector<std::int64_t>(64, -1));
  EXPECT_FALSE(quantised(group).at("m.weight").codes);
  expect_refused(group, {"'m.g_idx'", "at 0", "got -1"});
  std::swap(order.front(), order.back());
  add_words("m.g_idx", "I32", {64}, order);
  EXPECT_FALSE(quantised(group).at("m.weight").codes);
}

TEST_F(BadIntegers, EmptyMatricesAreNoTrouble) {
  add("m.qweight", "I32", {0, 16});
  add("m.qzeros", "I32", {0, 2});
  add("m.scales", "F16", {0, 16});
  EXPECT_EQ(quantised(kGptq).at("m.weight").read().numel(), 0);
  // Nothing as long as a side is made, which a file without numbers may say is anything.
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  add("m.qweight", "I32", {0, kHuge});
  add("m.qzeros", "I32", {0, kHuge / 8});
  add("m.scales", "F16", {0, kHuge});
  EXPECT_EQ(quantised(kGptq).at("m.weight").read().numel(), 0);
  source_.clear();
  add("m.weight", "I8", {0, kHuge});
  add("m.weight_scale", "BF16", {0, 1});
  EXPECT_EQ(quantised(compressed("int-quantized", R"("strategy": "channel", "symmetric": true)"))
                .at("m.weight")
                .read()
                .numel(),
            0);
}

}  // namespace
}  // namespace hooked::quantised_weights_test
