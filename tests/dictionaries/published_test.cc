// A dictionary in each published format other than SAELens 6, in the layout that its library writes, against
// the formulas of that library in NumPy (tests/dictionaries/makers/published.py).
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "hooked/dictionaries/dictionary_set.h"
#include "tests/dictionaries/golden_dictionaries.h"

namespace hooked::published_test {
namespace {

const std::filesystem::path kGolden = kDictionaryGoldens / "published";

struct Published {
  const char* name;
  std::string path;
  std::string format;
  std::string architecture;
  std::string model, input, output;
};

void PrintTo(const Published& one, std::ostream* out) { *out << one.name; }

constexpr const char* kJump = "sparse autoencoder; JumpReLU: pre-activations above a threshold";
constexpr const char* kJumpTranscoder = "transcoder; JumpReLU: pre-activations above a threshold";

const std::vector<Published>& published() {
  static const std::vector<Published> all = {
      {"gemma_scope", "google/gemma-scope-2b-pt-res/layer_3/width_12/average_l0_4", "Gemma Scope", kJump,
       "gemma-2-2b", "blocks.3.hook_resid_post", "blocks.3.hook_resid_post"},
      {"gemma_scope_attention", "google/gemma-scope-9b-pt-att/layer_5/width_12/average_l0_4/params.npz",
       "Gemma Scope", kJump, "gemma-2-9b", "blocks.5.attn.hook_z", "blocks.5.attn.hook_z"},
      {"gemma_scope_transcoder", "google/gemma-scope-2b-pt-transcoders/layer_1/width_12/average_l0_4",
       "Gemma Scope", kJumpTranscoder, "gemma-2-2b", "blocks.1.ln2.hook_normalized", "blocks.1.hook_mlp_out"},
      {"gemma_scope_embedding", "google/gemma-scope-2b-pt-res/embedding/width_12/average_l0_4", "Gemma Scope",
       kJump, "gemma-2-2b", "hook_embed", "hook_embed"},
      {"gemma_scope_2_transcoder", "google/gemma-scope-2-1b-it/transcoder/layer_7_width_12_affine",
       "Gemma Scope 2", "transcoder with a skip connection; JumpReLU: pre-activations above a threshold",
       "google/gemma-3-1b-it", "blocks.7.mlp.hook_in", "blocks.7.hook_mlp_out"},
      {"gemma_scope_2_attention", "google/gemma-scope-2-1b-it/attn_out/layer_9_width_12", "Gemma Scope 2",
       kJump, "", "blocks.9.attn.hook_z", "blocks.9.attn.hook_z"},
      {"llama_scope", "Llama3_1-8B-Base-L15R-8x", "Llama Scope", kJump, "meta-llama/Llama-3.1-8B",
       "blocks.15.hook_resid_post", "blocks.15.hook_resid_post"},
      {"llamascopium_jumprelu", "llamascopium_jumprelu", "Llamascopium", kJump, "",
       "blocks.2.hook_resid_post", "blocks.2.hook_resid_post"},
      {"llamascopium_topk", "llamascopium_topk", "Llamascopium",
       "sparse autoencoder; top-k: the 4 largest codes of a token, negative ones included", "",
       "blocks.2.hook_resid_post", "blocks.2.hook_resid_post"},
      {"llamascopium_token_wise", "llamascopium_token_wise", "Llamascopium", "sparse autoencoder; ReLU", "",
       "blocks.2.hook_resid_post", "blocks.2.hook_resid_post"},
      {"learning_standard", "learning_standard", "dictionary_learning", "sparse autoencoder; ReLU",
       "EleutherAI/pythia-70m", "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"learning_new", "learning_new", "dictionary_learning", "sparse autoencoder; ReLU",
       "EleutherAI/pythia-70m", "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"learning_gated", "learning_gated", "dictionary_learning",
       "sparse autoencoder; gated: magnitudes where a gate is open", "EleutherAI/pythia-70m",
       "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"learning_jumprelu", "learning_jumprelu", "dictionary_learning", kJump, "EleutherAI/pythia-70m",
       "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"learning_topk", "learning_topk", "dictionary_learning",
       "sparse autoencoder; top-k: the 3 largest codes of a token", "EleutherAI/pythia-70m",
       "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"learning_batch_topk", "learning_batch_topk", "dictionary_learning", kJump, "EleutherAI/pythia-70m",
       "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"learning_matryoshka", "learning_matryoshka", "dictionary_learning", kJump, "EleutherAI/pythia-70m",
       "blocks.8.hook_resid_post", "blocks.8.hook_resid_post"},
      {"sparsify", "sparsify/layers.4", "sparsify",
       "sparse autoencoder; top-k: the 3 largest codes of a token", "", "blocks.4.hook_resid_post",
       "blocks.4.hook_resid_post"},
      {"sparsify_groups", "sparsify/layers.5.mlp", "sparsify",
       "transcoder with a skip connection; the largest code of each of 4 groups", "", "blocks.5.mlp.hook_in",
       "blocks.5.hook_mlp_out"},
      {"qwen_scope", "SAE-Res-Qwen3-1.7B-Base-W1K-L0_5/layer13.sae.pt", "Qwen Scope",
       "sparse autoencoder; top-k: the 5 largest codes of a token", "Qwen/Qwen3-1.7B-Base",
       "blocks.13.hook_resid_post", "blocks.13.hook_resid_post"},
      {"before_6", "before_6", "SAELens before 6", "sparse autoencoder; ReLU", "gpt2-small",
       "blocks.3.hook_resid_pre", "blocks.3.hook_resid_pre"},
      {"before_6_scaled", "before_6_scaled", "SAELens before 6", "sparse autoencoder; ReLU", "gpt2-small",
       "blocks.3.hook_resid_pre", "blocks.3.hook_resid_pre"},
      {"before_6_topk", "before_6_topk", "SAELens before 6",
       "sparse autoencoder; top-k: the 3 largest codes of a token", "gpt2-small", "blocks.3.attn.hook_z",
       "blocks.3.attn.hook_z"},
  };
  return all;
}

class PublishedFormats : public testing::TestWithParam<Published> {};

TEST_P(PublishedFormats, ComputeTheFormulasOfTheirLibraries) {
  const Published& one = GetParam();
  const Dictionary dictionary = Dictionary::load((kGolden / one.path).native(), {.dtype = at::kDouble});
  const DictionaryConfig& config = dictionary.config();
  EXPECT_EQ(config.format, one.format);
  EXPECT_EQ(architecture_text(config), one.architecture);
  EXPECT_EQ(config.model_name, one.model);
  EXPECT_EQ(config.input, one.input);
  EXPECT_EQ(config.output, one.output);
  EXPECT_EQ(config.basis, DictionaryBasis{});
  expect_computes(dictionary, load_safetensors(kGolden / (std::string(one.name) + ".safetensors")));
  // In the dtype of the files without being told.
  EXPECT_EQ(Dictionary::load((kGolden / one.path).native()).config().dtype, at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedFormats, testing::ValuesIn(published()), named);

struct PublishedSet {
  const char* name;
  std::string path;
  std::vector<std::int64_t> layers;
  bool crosses;
  std::string input;  ///< of its last layer
};

void PrintTo(const PublishedSet& one, std::ostream* out) { *out << one.name; }

class PublishedSets : public testing::TestWithParam<PublishedSet> {};

TEST_P(PublishedSets, ComputeTheFormulasOfTheirLibraries) {
  const PublishedSet& one = GetParam();
  const auto wanted = load_safetensors(kGolden / (std::string(one.name) + ".safetensors"));
  const DictionarySet set = DictionarySet::load((kGolden / one.path).native(), {.dtype = at::kDouble});
  EXPECT_EQ(set.layers(), one.layers);
  EXPECT_EQ(set.crosses_layers(), one.crosses);
  std::vector<at::Tensor> codes;
  for (const std::int64_t layer : one.layers) {
    const std::string at = "." + std::to_string(layer);
    codes.push_back(set.at(layer).encode(wanted.at("x" + at)));
    expect_equal(codes.back(), wanted.at("codes" + at), "codes" + at);
    EXPECT_EQ(set.at(layer).config().layer, layer);
    EXPECT_EQ(set.at(layer).config().output, "blocks." + std::to_string(layer) + ".hook_mlp_out");
  }
  for (const std::int64_t layer : one.layers) {
    const std::string at = "." + std::to_string(layer);
    expect_equal(set.decode(layer, codes, wanted.at("x" + at)), wanted.at("output" + at), "output" + at);
  }
  // One of them alone.
  const Dictionary last = Dictionary::load((kGolden / one.path).native(), {.layer = one.layers.back()});
  EXPECT_EQ(last.config().layer, one.layers.back());
  EXPECT_EQ(last.config().input, one.input);
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedSets,
    testing::Values(
        PublishedSet{"gemma_scope_2_clt",
                     "google/gemma-scope-2-1b-it/clt/width_12_affine",
                     {0, 1, 2},
                     true,
                     "blocks.2.mlp.hook_in"},
        PublishedSet{"llamascopium_clt", "llamascopium_clt", {0, 1, 2}, true, "blocks.2.hook_resid_mid"},
        PublishedSet{"circuit_tracer_clt", "circuit_tracer_clt", {0, 1, 2}, true, "blocks.2.hook_resid_mid"},
        PublishedSet{"circuit_tracer_set", "circuit_tracer_set", {0, 1}, false, "blocks.1.mlp.hook_in"},
        PublishedSet{"circuit_tracer_topk", "circuit_tracer_topk", {0}, false, "blocks.0.mlp.hook_in"}),
    named);

}  // namespace
}  // namespace hooked::published_test
