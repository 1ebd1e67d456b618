// Loading goes through the model in parts and blocks: with the same numbers as from whole tensors, and in
// hardly more memory than the model's.
#include "loading/fill/streamed_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "families/shared/native_config.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/loading/load_in_its_size.h"
#include "tests/support/parallel_regions.h"
#include "tests/support/random_config.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::streamed_model_test {
namespace {

void expect_processed(const HookedTransformer& model, const ProcessedWeights& wanted) {
  EXPECT_EQ(model.config(), wanted.config);
  for (const auto& [name, values] : model.state_dict()) {
    const auto found = wanted.weights.find(name);
    EXPECT_TRUE(at::equal(values, found == wanted.weights.end() ? at::zeros_like(values) : found->second))
        << name;
  }
}

// From a file and from memory; bit for bit, because the blocks are the same.
void expect_streamed(const ModelConfig& config, std::uint64_t seed) {
  const StateDict weights = random_weights(config, seed);
  const ProcessedWeights processed = process_weights(weights, config);
  const LoadOptions options{.dtype = config.dtype, .processing = WeightProcessing::all_that_apply()};
  expect_processed(HookedTransformer::from_state_dict(weights, config, options), processed);
  const TempFolder folder;
  write_file(folder / "config.json", write_native_config(config));
  save_safetensors(folder / "model.safetensors", {weights.begin(), weights.end()});
  expect_processed(HookedTransformer::load(folder.path().string(), options), processed);
  const HookedTransformer raw = HookedTransformer::load(
      folder.path().string(), {.dtype = config.dtype, .processing = WeightProcessing::none()});
  for (const auto& [name, values] : raw.state_dict())
    EXPECT_TRUE(at::equal(values, weights.at(name))) << name;
}

TEST(StreamedModel, HasTheWeightsThatProcessingWholeTensorsGives) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    ModelConfig config = random_config(seed);
    config.dtype = seed % 3 == 0 ? at::kFloat : at::kDouble;
    expect_streamed(config, seed);
  }
}

TEST(StreamedModel, ManyBlocksToATensorAreTheSame) {
  ModelConfig config = small_config();
  config.n_layers = 1;
  config.d_model = 600;
  config.d_mlp = 1100;
  config.d_vocab = 1700;
  config.unembedding = Unembedding{.d_vocab = config.d_vocab};
  config.dtype = at::kFloat;
  expect_streamed(config, 1);
}

using Tensors = std::map<std::string, at::Tensor>;

at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes, at::TensorOptions(at::kBFloat16)) * 0.02; }

/// A Llama whose vocabulary's matrices are two thirds of it.
void write_llama(const std::filesystem::path& folder) {
  constexpr int kWidth = 512, kNeurons = 1400, kVocabulary = 20000, kLayers = 3;
  Tensors tensors{{"model.embed_tokens.weight", random({kVocabulary, kWidth})},
                  {"model.norm.weight", random({kWidth})},
                  {"lm_head.weight", random({kVocabulary, kWidth})}};
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    for (const char* name : {"q", "k", "v", "o"}) {
      tensors[fmt::format("{}self_attn.{}_proj.weight", at, name)] = random({kWidth, kWidth});
    }
    tensors[at + "mlp.gate_proj.weight"] = random({kNeurons, kWidth});
    tensors[at + "mlp.up_proj.weight"] = random({kNeurons, kWidth});
    tensors[at + "mlp.down_proj.weight"] = random({kWidth, kNeurons});
    tensors[at + "input_layernorm.weight"] = random({kWidth});
    tensors[at + "post_attention_layernorm.weight"] = random({kWidth});
  }
  save_safetensors(folder / "model.safetensors", {tensors.begin(), tensors.end()});
  write_file(folder / "config.json",
             fmt::format(R"({{"model_type": "llama", "hidden_size": {}, "intermediate_size": {},
      "num_hidden_layers": {}, "num_attention_heads": 8, "vocab_size": {}, "max_position_embeddings": 64,
      "torch_dtype": "bfloat16"}})",
                         kWidth, kNeurons, kLayers, kVocabulary));
}

/// A GPT-2: tied, with biases everywhere, fused heads in a transposed matrix, every default step applied.
void write_gpt2(const std::filesystem::path& folder) {
  constexpr int kWidth = 512, kVocabulary = 20000, kLayers = 4;
  Tensors tensors{{"wte.weight", random({kVocabulary, kWidth})},
                  {"wpe.weight", random({64, kWidth})},
                  {"ln_f.weight", random({kWidth})},
                  {"ln_f.bias", random({kWidth})}};
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string at = fmt::format("h.{}.", layer);
    const auto linear = [&](const std::string& name, int in, int out) {
      tensors[at + name + ".weight"] = random({in, out});
      tensors[at + name + ".bias"] = random({out});
    };
    linear("attn.c_attn", kWidth, 3 * kWidth);
    linear("attn.c_proj", kWidth, kWidth);
    linear("mlp.c_fc", kWidth, 4 * kWidth);
    linear("mlp.c_proj", 4 * kWidth, kWidth);
    for (const char* norm : {"ln_1", "ln_2"}) {
      tensors[at + norm + ".weight"] = random({kWidth});
      tensors[at + norm + ".bias"] = random({kWidth});
    }
  }
  save_safetensors(folder / "model.safetensors", {tensors.begin(), tensors.end()});
  write_file(folder / "config.json", fmt::format(R"({{"model_type": "gpt2", "n_embd": {}, "n_layer": {},
      "n_head": 8, "vocab_size": {}, "n_positions": 64, "n_ctx": 64, "torch_dtype": "bfloat16"}})",
                                                 kWidth, kLayers, kVocabulary));
}

TEST(StreamedModel, IsTheSameForAnyNumberOfThreads) {
  for (const auto write : {write_llama, write_gpt2}) {
    const TempFolder folder;
    write(folder.path());
    const auto weights = [&](int threads) {
      return HookedTransformer::load(folder.path().string(), {.threads = threads}).state_dict();
    };
    const StateDict one = weights(1);
    for (const int threads : {2, 7}) {
      for (const auto& [name, values] : weights(threads))
        EXPECT_TRUE(at::equal(values, one.at(name))) << name;
    }
  }
}

// At each of them threads wait for each other, which is slow next to another busy process.
TEST(StreamedModel, LoadingEntersFewParallelRegions) {
  for (const auto write : {write_llama, write_gpt2}) {
    const TempFolder folder;
    write(folder.path());
    const std::int64_t before = parallel_regions();
    HookedTransformer::load(folder.path().string(), {.threads = 2});
    EXPECT_LE(parallel_regions() - before, 200);
  }
}

TEST(StreamedModel, LoadingTakesHardlyMoreMemoryThanTheModel) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  // Blocks in float64 of each of the two threads, 10 to 20 MiB, as they meet or do not.
  constexpr std::int64_t kBuffers = std::int64_t{32} << 20;
  for (const auto write : {write_llama, write_gpt2}) {
    const TempFolder folder;
    write(folder.path());
    for (const bool processed : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", write == write_gpt2 ? "gpt2" : "llama", processed));
      const LoadOptions options{
          .dtype = at::kBFloat16,
          .processing = processed ? WeightProcessing::all_that_apply() : WeightProcessing::none(),
          .threads = 2};
      load_in_its_size(folder.path().string(), options, kBuffers);
    }
  }
}

}  // namespace
}  // namespace hooked::streamed_model_test
