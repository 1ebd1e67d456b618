// How a checkpoint's tensors find their places: prefixes, tying, missing and extra tensors.
#include "loading/plan/plan_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "hooked/io/safetensors.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/goldens.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::plan_weights_test {
namespace {

TEST_F(CheckpointTensors, ThePrefixMayBeMissing) {
  take("llama");
  rename("model.", "");
  EXPECT_LT(difference(load()), 1e-12);
}

TEST_F(CheckpointTensors, ThePrefixMayBeCutAtADot) {
  take("opt");
  rename("model.decoder.", "decoder.");
  EXPECT_LT(difference(load()), 1e-12);
}

TEST_F(CheckpointTensors, SomeNamesWithThePrefixAndSomeWithoutAreRefused) {
  take("llama");
  rename("model.layers.0.", "layers.0.");
  const std::string text = text_thrown_by<CheckpointError>([&] { load(); });
  EXPECT_NE(text.find("'model.'"), std::string::npos) << text;
  EXPECT_NE(text.find("layers.0."), std::string::npos) << text;
}

TEST_F(CheckpointTensors, MissingTensorsAreAllNamedAsTheFileWouldNameThem) {
  take("llama");
  tensors_.erase("model.layers.0.mlp.up_proj.weight");
  tensors_.erase("model.norm.weight");
  tensors_.erase("lm_head.weight");
  const std::string text = text_thrown_by<CheckpointError>([&] { load(); });
  EXPECT_NE(text.find("3 tensors"), std::string::npos) << text;
  for (const char* name : {"model.layers.0.mlp.up_proj.weight", "model.norm.weight", " lm_head.weight"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST_F(CheckpointTensors, AnErrorOfMissingTensorsNamesWhatIsThere) {
  for (const std::string prefix : {"_orig_mod.", "module.", "base_model.model."}) {
    take("llama");
    rename("", prefix);
    const std::string text = text_thrown_by<CheckpointError>([&] { load(); });
    const std::string said = "all of them begin with '" + prefix + "'";
    EXPECT_NE(text.find(said), std::string::npos) << text;
    EXPECT_NE(text.find("such as " + prefix + "model.embed_tokens.weight"), std::string::npos) << text;
  }
  take("llama");
  rename("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_projection.weight");
  std::string text = text_thrown_by<CheckpointError>([&] { load(); });
  EXPECT_NE(
      text.find("nothing reads 1 of those that are there, such as model.layers.1.mlp.up_projection.weight"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("begin with"), std::string::npos) << text;
  take("llama");
  tensors_.erase("model.norm.weight");
  text = text_thrown_by<CheckpointError>([&] { load(); });
  EXPECT_NE(text.find("those that are there are all read"), std::string::npos) << text;
}

TEST_F(CheckpointTensors, TensorsThatNothingReadsAreNotedAndBuffersAreNot) {
  take("llama");
  tensors_["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({4});
  EXPECT_TRUE(load().notes().empty());
  tensors_["model.layers.0.adapter.weight"] = at::ones({4});
  const HookedTransformer model = load();
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_NE(model.notes()[0].find("model.layers.0.adapter.weight"), std::string::npos);
  EXPECT_LT(difference(model), 1e-12);
}

// A value head next to the model, as trainers write it, is not a mix of prefixes.
TEST_F(CheckpointTensors, OtherTensorsNeedNoPrefix) {
  take("gpt2");
  tensors_["v_head.summary.weight"] = at::ones({1, 12});
  EXPECT_LT(difference(load()), 1e-12);
}

TEST_F(CheckpointTensors, GptNeoxMayNameItsUnembeddingAsOthersDo) {
  take("gpt_neox");
  rename("embed_out.", "lm_head.");
  EXPECT_LT(difference(load()), 1e-12);
}

TEST_F(CheckpointTensors, TransposedTensorsAreRecognised) {
  take("llama");
  at::Tensor& weight = tensors_.at("model.layers.1.mlp.down_proj.weight");
  weight = weight.t().contiguous();
  const auto error = thrown_by<CheckpointError>([&] { load(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), (folder_.path() / "model.safetensors").string());
  EXPECT_NE(std::string(error->what()).find("model.layers.1.mlp.down_proj.weight"), std::string::npos);
  EXPECT_NE(std::string(error->what()).find("it looks transposed"), std::string::npos) << error->what();
}

TEST_F(CheckpointTensors, LatentTensorsAreCheckedWhole) {
  take("deepseek_v3");
  const StateDict good = tensors_;
  const std::string attn = "model.layers.1.self_attn.";
  const auto refused = [&](const std::string& name, std::initializer_list<std::string_view> said) {
    const auto error = thrown_by<CheckpointError>([&] { load(); });
    ASSERT_TRUE(error) << name;
    for (const std::string_view part : said) {
      EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << part << ": " << error->what();
    }
    EXPECT_NE(std::string(error->what()).find(name), std::string::npos) << error->what();
    tensors_ = good;
  };
  for (const char* leaf : {"q_a_proj", "q_a_layernorm", "q_b_proj", "kv_a_proj_with_mqa", "kv_a_layernorm",
                           "kv_b_proj", "o_proj"}) {
    const std::string name = attn + leaf + ".weight";
    tensors_.erase(name);
    refused(name, {"missing"});
    const at::Tensor weight = good.at(name);
    // One row more; the parts into which rows are cut still exist.
    tensors_[name] = at::cat({weight, weight.narrow(0, 0, 1)}).contiguous();
    refused(name, {"another shape", "got"});
    if (weight.dim() == 1) continue;
    tensors_[name] = weight.t().contiguous();
    refused(name, {"another shape", "it looks transposed"});
  }
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  tensors_.erase(bias);
  refused(bias, {"missing"});
  EXPECT_LT(difference(load()), 1e-12);
}

/// The names and shapes of a checkpoint, which is all that a plan needs.
SourceTensors shapes_of(const std::filesystem::path& file) {
  SourceTensors shapes;
  const SafetensorsFile opened = SafetensorsFile::open(file);
  for (const TensorInfo& info : opened.tensors()) {
    shapes[info.name] = {.shape = info.shape,
                         .dtype = at::kFloat,
                         .dtype_name = "F32",
                         .where = "model.safetensors",
                         .read = [shape = info.shape] { return at::zeros(shape); },
                         .read_elements = nullptr};
  }
  return shapes;
}

// Every tensor of every family: transposed, with a row more, a column more and a row less.
TEST(CheckpointShapes, AWrongShapeIsRefusedWhereverItStands) {
  std::size_t refused = 0;
  std::set<std::pair<std::string, std::set<std::string>>> cases;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.native()) continue;
    if (!std::filesystem::exists(golden.folder() / "model.safetensors"))
      continue;  // a training script's file, or shards
    std::ifstream config(golden.folder() / "config.json");
    const std::string text{std::istreambuf_iterator<char>(config), {}};
    const RecognisedFamily named = named_family({text, "config.json"});
    const Family& family = named.family;
    if (read_family_config(family, named.config).storage) continue;  // its tensors are not those of the file
    SourceTensors source = shapes_of(golden.folder() / "model.safetensors");
    const auto plan = [&] {
      FamilyConfig read = read_family_config(family, named.config);
      resolve_optional_part(source, family, read);
      return plan_weights(source, family, std::move(read));
    };
    // For the ends and the first layer; goldens of one family with the same tensors are one case.
    std::set<std::string> used, combined;
    for (const TensorRecipe& recipe : plan().recipes) {
      for (const std::string& name : recipe.sources) {
        const auto digit = name.find_first_of("0123456789");
        if (digit != std::string::npos && name[digit] != '0') continue;
        used.insert(name);
        if (recipe.sources.size() > 1) combined.insert(name);
      }
    }
    if (!cases.insert({golden.family, used}).second) continue;
    for (const std::string& name : used) {
      std::vector<std::int64_t>& shape = source.at(name).shape;
      const std::vector<std::int64_t> good = shape;
      const auto expect_refused = [&](const std::vector<std::int64_t>& wrong, const char* how) {
        if (wrong == good) return;
        shape = wrong;
        const auto error = thrown_by<CheckpointError>([&] { plan(); });
        shape = good;
        ASSERT_TRUE(error) << golden.name << ": " << name << " " << how;
        // If several tensors make one, the first is named.
        if (!combined.contains(name)) {
          EXPECT_NE(std::string(error->what()).find(name), std::string::npos) << error->what();
        }
        ++refused;
      };
      const auto with = [&](std::size_t dim, std::int64_t more) {
        std::vector<std::int64_t> sizes = good;
        sizes[dim] += more;
        return sizes;
      };
      const std::size_t rank = good.size();
      if (rank == 0) continue;
      expect_refused(with(0, 1), "with a row more");
      expect_refused(with(0, -1), "with a row less");
      if (rank < 2 || good[rank - 1] == 1 || good[rank - 2] == 1) continue;
      expect_refused(with(1, 1), "with a column more");
      if (golden.family == "qwen3_vl_moe_text" && name.find(".experts.") != std::string::npos) continue;
      std::vector<std::int64_t> transposed = good;
      std::swap(transposed[rank - 1], transposed[rank - 2]);
      expect_refused(transposed, "transposed");
    }
  }
  EXPECT_GT(refused, 2000u);
}

// DeepSeek-V3 is published with a layer after the last that predicts one token more.
TEST_F(CheckpointTensors, LayersBehindTheLastAreNoted) {
  take("deepseek_v3");
  for (const char* name : {"embed_tokens", "enorm", "eh_proj", "self_attn.q_a_proj", "shared_head.head"}) {
    tensors_[std::string("model.layers.2.") + name + ".weight"] = at::ones({14, 3});
  }
  const HookedTransformer model = load();
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_NE(model.notes()[0].find("model.layers.2.eh_proj.weight"), std::string::npos) << model.notes()[0];
  EXPECT_LT(difference(model), 1e-12);
}

TEST_F(CheckpointTensors, ATiedModelMayHoldASecondCopy) {
  take("llama_biases");
  tensors_["lm_head.weight"] = tensors_.at("model.embed_tokens.weight").clone();
  const HookedTransformer model = load();
  EXPECT_TRUE(model.config().tied_unembedding());
  EXPECT_TRUE(model.notes().empty());
  EXPECT_LT(difference(model), 1e-12);
}

TEST_F(CheckpointTensors, ATiedModelMayHoldItsUnembeddingAlone) {
  take("llama_biases");
  tensors_["lm_head.weight"] = tensors_.at("model.embed_tokens.weight");
  tensors_.erase("model.embed_tokens.weight");
  EXPECT_LT(difference(load()), 1e-12);
}

TEST_F(CheckpointTensors, ATiedModelWithTwoMatricesIsLoadedUntiedWithANote) {
  take("llama_biases");
  const at::Tensor embedding = tensors_.at("model.embed_tokens.weight");
  tensors_["lm_head.weight"] = embedding * 2;
  const HookedTransformer model = load();
  EXPECT_FALSE(model.config().tied_unembedding());
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_NE(model.notes()[0].find("'lm_head.weight' differ"), std::string::npos) << model.notes()[0];
  EXPECT_LT((model.run(golden_.tokens).logits() - 2 * logits()).abs().max().item<double>(), 1e-12);
}

// GPT-2's older pair of files next to the weights is its tokenizer, and is saved with it.
TEST_F(CheckpointTensors, AFolderMayHoldGpt2sOlderTokenizer) {
  take("gpt2");
  std::ofstream(folder_.path() / "vocab.json") << R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";
  std::ofstream(folder_.path() / "merges.txt") << "#version: 0.2\na b\n";
  const HookedTransformer model = load();
  ASSERT_TRUE(model.has_tokenizer());
  EXPECT_EQ(model.to_str_tokens(model.to_tokens("aba")), (std::vector<std::string>{"ab", "a"}));
  const TempFolder saved;
  model.save(saved.path());
  EXPECT_TRUE(HookedTransformer::load(saved.path().string()).has_tokenizer());
}

TEST_F(CheckpointTensors, ExpertsMayStandInOneTensor) {
  take("qwen3_moe");
  const StateDict one_by_one = tensors_;
  for (const std::string layer : {"0", "1"}) {
    const std::string experts = "model.layers." + layer + ".mlp.experts.";
    std::vector<at::Tensor> gate_up, down;
    for (const std::string e : {"0", "1", "2", "3", "4"}) {
      const auto taken = [&](const char* part) {
        auto node = tensors_.extract(experts + e + "." + part + ".weight");
        return node.mapped();
      };
      const at::Tensor gate = taken("gate_proj");
      gate_up.push_back(at::cat({gate, taken("up_proj")}));
      down.push_back(taken("down_proj"));
    }
    tensors_[experts + "gate_up_proj"] = at::stack(gate_up);
    tensors_[experts + "down_proj"] = at::stack(down);
  }
  EXPECT_LT(difference(load()), 1e-9);

  tensors_ = one_by_one;
  tensors_.erase("model.layers.1.mlp.experts.3.up_proj.weight");
  const auto error = thrown_by<CheckpointError>([&] { load(); });
  ASSERT_TRUE(error);
  EXPECT_NE(std::string(error->what()).find("model.layers.1.mlp.experts.3.up_proj.weight"), std::string::npos)
      << error->what();
}

}  // namespace
}  // namespace hooked::plan_weights_test
