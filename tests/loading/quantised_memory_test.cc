// How much memory loading takes if weights are stored in a few bits: one copy of the weights, and blocks,
// as of other files (streamed_model_test.cc).
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "hooked/loading/describe.h"
#include "io/gguf/ggml_types.h"
#include "tests/io/gguf_bytes.h"
#include "tests/loading/load_in_its_size.h"
#include "tests/support/relative_difference.h"
#include "tests/support/sparse_checkpoint.h"
#include "tests/support/temp_folder.h"

namespace hooked::quantised_memory_test {
namespace {

constexpr std::int64_t kWidth = 1024, kNeurons = 2816, kVocabulary = 512, kLayers = 2;

/// The tensors of a checkpoint: those whose numbers matter, and holes for the others.
struct Written {
  std::map<std::string, at::Tensor> numbers;
  std::vector<SparseTensor> holes;
};

using Linear = void (*)(Written& written, const std::string& name, std::int64_t out, std::int64_t in);

// A Llama whose matrices are written by `linear`.
std::string write_llama(const std::filesystem::path& folder, const char* group, Linear linear) {
  Written written;
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    for (const char* name : {"q", "k", "v", "o"})
      linear(written, fmt::format("{}self_attn.{}_proj", at, name), kWidth, kWidth);
    linear(written, at + "mlp.gate_proj", kNeurons, kWidth);
    linear(written, at + "mlp.up_proj", kNeurons, kWidth);
    linear(written, at + "mlp.down_proj", kWidth, kNeurons);
  }
  std::map<std::string, std::vector<std::int64_t>> plain = {
      {"model.embed_tokens.weight", {kVocabulary, kWidth}},
      {"model.norm.weight", {kWidth}},
      {"lm_head.weight", {kVocabulary, kWidth}}};
  for (int layer = 0; layer < kLayers; ++layer) {
    plain[fmt::format("model.layers.{}.input_layernorm.weight", layer)] = {kWidth};
    plain[fmt::format("model.layers.{}.post_attention_layernorm.weight", layer)] = {kWidth};
  }
  const bool whole = written.holes.empty();
  for (const auto& [name, shape] : plain) {
    if (whole) {
      written.numbers[name] = at::ones(shape, at::kHalf);
    } else {
      written.holes.push_back({name, "F16", shape});
    }
  }
  if (whole) {
    save_safetensors(folder / "model.safetensors", {written.numbers.begin(), written.numbers.end()});
  } else {
    write_sparse_checkpoint(folder, written.holes, 1);
  }
  write_file(folder / "config.json",
             fmt::format(R"({{"model_type": "llama", "hidden_size": {}, "intermediate_size": {},
      "num_hidden_layers": {}, "num_attention_heads": 8, "vocab_size": {}, "max_position_embeddings": 64,
      "quantization_config": {}}})",
                         kWidth, kNeurons, kLayers, kVocabulary, group));
  return folder.string();
}

at::Tensor any_words(std::int64_t rows, std::int64_t columns) {
  return at::randint(-(std::int64_t{1} << 31), std::int64_t{1} << 31, {rows, columns}, at::kInt);
}

void gptq(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.numbers[name + ".qweight"] = any_words(in / 8, out);
  written.numbers[name + ".qzeros"] = any_words(in / 128, out / 8);
  written.numbers[name + ".scales"] = at::full({in / 128, out}, 0.01, at::kHalf);
}

void gptq_in_any_order(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  gptq(written, name, out, in);
  written.numbers[name + ".g_idx"] = at::randint(in / 128, {in}, at::kInt);
}

void packed(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.numbers[name + ".weight_packed"] = any_words(out, in / 8);
  written.numbers[name + ".weight_scale"] = at::full({out, in / 128}, 0.01, at::kBFloat16);
  written.numbers[name + ".weight_shape"] = at::tensor({out, in}, at::kLong);
}

void levels(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  const std::string json = fmt::format(
      R"({{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [{}, {}]}})", out, in);
  const std::vector<std::int64_t> letters(json.begin(), json.end());
  written.numbers[name + ".weight"] = at::randint(256, {out * in / 2, 1}, at::kByte);
  written.numbers[name + ".weight.absmax"] = at::ones({out * in / 64}, at::kFloat);
  written.numbers[name + ".weight.quant_map"] = at::linspace(-1.0, 1.0, 16, at::kFloat);
  written.numbers[name + ".weight.quant_state.bitsandbytes__nf4"] =
      at::tensor(letters, at::kLong).to(at::kByte);
}

void awq(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.holes.push_back({name + ".qweight", "I32", {in, out / 8}});
  written.holes.push_back({name + ".qzeros", "I32", {in / 128, out / 8}});
  written.holes.push_back({name + ".scales", "F16", {in / 128, out}});
}

void bytes_of_bitsandbytes(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.holes.push_back({name + ".weight", "I8", {out, in}});
  written.holes.push_back({name + ".SCB", "F32", {out}});
  written.holes.push_back({name + ".weight_format", "U8", {}});
}

void bytes_with_factors(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.holes.push_back({name + ".weight", "I8", {out, in}});
  written.holes.push_back({name + ".weight_scale", "BF16", {out, 1}});
}

void fp8_blocks(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.holes.push_back({name + ".weight", "F8_E4M3", {out, in}});
  written.holes.push_back({name + ".weight_scale_inv", "F32", {(out + 127) / 128, (in + 127) / 128}});
}

void fp8_rows(Written& written, const std::string& name, std::int64_t out, std::int64_t in) {
  written.holes.push_back({name + ".weight", "F8_E4M3", {out, in}});
  written.holes.push_back({name + ".weight_scale", "BF16", {out, 1}});
}

// gpt-oss as it is published: experts in MXFP4, all else as numbers.
std::string write_gpt_oss(const std::filesystem::path& folder) {
  constexpr std::int64_t kModel = 512, kHidden = 512, kExperts = 16, kHeads = 8, kKeys = 2, kHead = 64;
  std::vector<SparseTensor> tensors = {{"model.embed_tokens.weight", "BF16", {kVocabulary, kModel}},
                                       {"model.norm.weight", "BF16", {kModel}},
                                       {"lm_head.weight", "BF16", {kVocabulary, kModel}}};
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      tensors.push_back({at + norm + ".weight", "BF16", {kModel}});
    for (const auto& [name, out, in] : {std::tuple{"self_attn.q_proj", kHeads * kHead, kModel},
                                        std::tuple{"self_attn.k_proj", kKeys * kHead, kModel},
                                        std::tuple{"self_attn.v_proj", kKeys * kHead, kModel},
                                        std::tuple{"self_attn.o_proj", kModel, kHeads * kHead},
                                        std::tuple{"mlp.router", kExperts, kModel}}) {
      tensors.push_back({at + name + ".weight", "BF16", {out, in}});
      tensors.push_back({at + name + ".bias", "BF16", {out}});
    }
    tensors.push_back({at + "self_attn.sinks", "BF16", {kHeads}});
    for (const auto& [name, out, in] :
         {std::tuple{"gate_up_proj", 2 * kHidden, kModel}, std::tuple{"down_proj", kModel, kHidden}}) {
      const std::string experts = at + "mlp.experts." + name;
      tensors.push_back({experts + "_blocks", "U8", {kExperts, out, in / 32, 16}});
      tensors.push_back({experts + "_scales", "U8", {kExperts, out, in / 32}});
      tensors.push_back({experts + "_bias", "BF16", {kExperts, out}});
    }
  }
  write_sparse_checkpoint(folder, tensors, 1);
  write_file(
      folder / "config.json",
      fmt::format(R"({{"model_type": "gpt_oss", "hidden_size": {}, "intermediate_size": {}, "head_dim": {},
      "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "num_local_experts": {},
      "num_experts_per_tok": 2, "vocab_size": {}, "max_position_embeddings": 64, "sliding_window": 16,
      "rope_parameters": {{"rope_type": "default", "rope_theta": 10000}},
      "quantization_config": {{"quant_method": "mxfp4"}}}})",
                  kModel, kHidden, kHead, kLayers, kHeads, kKeys, kExperts, kVocabulary));
  return folder.string();
}

// A llama file with matrices of type `type`.
std::string write_gguf(const std::filesystem::path& folder, std::uint32_t type) {
  constexpr std::uint64_t kModel = 1024, kHidden = 2816, kPieces = 512;
  GgufBytes file;
  file.text("general.architecture", "llama").uint32("llama.context_length", 64);
  file.uint32("llama.embedding_length", kModel).uint32("llama.block_count", kLayers);
  file.uint32("llama.feed_forward_length", kHidden).uint32("llama.attention.head_count", 8);
  file.float32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  std::uint64_t data = 0;
  const auto tensor = [&](const std::string& name, const std::vector<std::uint64_t>& sizes,
                          std::uint32_t of) {
    const GgmlType& stored = *find_ggml_type(of);
    std::uint64_t numbers = 1;
    for (const std::uint64_t size : sizes) numbers *= size;
    data = (data + 31) / 32 * 32;
    file.tensor(name + ".weight", sizes, of, data);
    data += numbers / static_cast<std::uint64_t>(stored.elements) * stored.bytes;
  };
  tensor("token_embd", {kModel, kPieces}, type);
  tensor("output", {kModel, kPieces}, type);
  tensor("output_norm", {kModel}, 0);
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("blk.{}.", layer);
    for (const char* name : {"attn_norm", "ffn_norm"}) tensor(at + name, {kModel}, 0);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      tensor(at + name, {kModel, kModel}, type);
    for (const char* name : {"ffn_gate", "ffn_up"}) tensor(at + name, {kModel, kHidden}, type);
    tensor(at + "ffn_down", {kHidden, kModel}, type);
  }
  const auto path = folder / "m.gguf";
  write_file(path, file.header());
  std::filesystem::resize_file(path, (file.header().size() + 31) / 32 * 32 + data);
  return path.string();
}

constexpr const char* kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 128})";
constexpr const char* kGptqInAnyOrder =
    R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true})";
constexpr const char* kPacked =
    R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"weights":
    {"num_bits": 4, "strategy": "group", "group_size": 128}}}})";
constexpr const char* kLevels =
    R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})";
constexpr const char* kAwq =
    R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "gemm"})";
constexpr const char* kBytes = R"({"quant_method": "bitsandbytes", "load_in_8bit": true})";
constexpr const char* kWholeNumbers =
    R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"weights":
    {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": true, "dynamic": false}}}})";
constexpr const char* kFp8Blocks =
    R"({"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})";
constexpr const char* kFp8Rows =
    R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {"weights":
    {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true, "dynamic": false}}}})";

struct Form {
  const char* name;
  std::string (*write)(const std::filesystem::path& folder);  ///< returns the model's path
  bool stays = true;                                          ///< if weights are asked for as they are stored
};

std::ostream& operator<<(std::ostream& out, const Form& form) { return out << form.name; }

const Form kForms[] = {
    {"gptq", [](const auto& folder) { return write_llama(folder, kGptq, gptq); }},
    {"gptq_in_any_order",
     [](const auto& folder) { return write_llama(folder, kGptqInAnyOrder, gptq_in_any_order); }, false},
    {"awq", [](const auto& folder) { return write_llama(folder, kAwq, awq); }},
    {"packed", [](const auto& folder) { return write_llama(folder, kPacked, packed); }},
    {"nf4", [](const auto& folder) { return write_llama(folder, kLevels, levels); }},
    {"int8_of_bitsandbytes",
     [](const auto& folder) { return write_llama(folder, kBytes, bytes_of_bitsandbytes); }, false},
    {"int8", [](const auto& folder) { return write_llama(folder, kWholeNumbers, bytes_with_factors); }},
    {"fp8_blocks", [](const auto& folder) { return write_llama(folder, kFp8Blocks, fp8_blocks); }},
    {"fp8_rows", [](const auto& folder) { return write_llama(folder, kFp8Rows, fp8_rows); }},
    {"mxfp4", [](const auto& folder) { return write_gpt_oss(folder); }},
    {"gguf_q4_k", [](const auto& folder) { return write_gguf(folder, 12); }},
    {"gguf_q8_0", [](const auto& folder) { return write_gguf(folder, 8); }},
    {"gguf_f16", [](const auto& folder) { return write_gguf(folder, 1); }, false},
};

class QuantisedMemory : public testing::TestWithParam<Form> {};

TEST_P(QuantisedMemory, LoadingTakesHardlyMoreThanTheModel) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  load_in_its_size(GetParam().write(folder.path()),
                   {.dtype = at::kBFloat16, .processing = WeightProcessing::none()});
}

// Weights that stay as they are stored take at most a tenth more than their files, also while they are
// loaded.
TEST_P(QuantisedMemory, StoredWeightsTakeTheBytesOfTheFile) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  const std::string path = GetParam().write(folder.path());
  const LoadOptions options = {.dtype = at::kBFloat16, .weights = WeightStorage::stored};
  if (!GetParam().stays) {
    EXPECT_THROW(HookedTransformer::load(path, options), ConfigError);
    return;
  }
  const ModelDescription model = describe(path, options);
  EXPECT_LE(static_cast<double>(model.bytes), 1.1 * static_cast<double>(model.stored_bytes));
  HookedTransformer::load(path, options);  // code and threads are loaded from now on
  const PeakMemory held;
  const auto loaded = HookedTransformer::load(path, options);
  EXPECT_LE(held.bytes(), model.bytes + model.bytes / 10 + (std::int64_t{24} << 20));
  const auto expanded =
      HookedTransformer::load(path, {.dtype = at::kBFloat16, .processing = WeightProcessing::none()});
  const at::Tensor tokens = at::tensor({1, 2, 3, 4, 5}, at::kLong);
  EXPECT_LE(relative_difference(loaded.run(tokens).logits(), expanded.run(tokens).logits()), 2e-2);
}

INSTANTIATE_TEST_SUITE_P(Forms, QuantisedMemory, testing::ValuesIn(kForms),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace hooked::quantised_memory_test
