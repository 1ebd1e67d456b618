// Models from GGUF files and the checkpoints that they were made from: every weight and every activation.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/loading/describe.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "loading/gguf/gguf_architectures.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/relative_difference.h"
#include "tests/support/thrown_by.h"

namespace hooked::gguf_models_test {
namespace {

const std::filesystem::path kGgufFolder = HOOKED_SOURCE_DIR "/tests/golden/gguf";

const LoadOptions kRawDouble = {.dtype = at::kDouble, .processing = WeightProcessing::none()};

/// A golden checkpoint and its GGUF file.
struct GgufCase {
  const char* name;
  bool half = false;            ///< matrices are in half precision
  bool norms_from_one = false;  ///< 1 was added to norms in float32
  double tolerance = 1e-12;     ///< numbers of the config are float32 in the file
  /// Keys of config.json that such files cannot express, and what is used instead.
  const char* config = "{}";
};

const GgufCase kGgufCases[] = {
    {"falcon"},
    {"falcon_new", true},
    {"falcon_new_one_norm"},
    {"gemma", false, true},
    {"gemma2", true, true, 1e-12, R"({"query_pre_attn_scalar": 8})"},
    {"gemma3_text", true, true, 1e-12, R"({"query_pre_attn_scalar": 8})"},
    {"gpt2"},
    {"gpt_neox"},
    {"llama"},
    {"llama_biases"},
    {"llama_llama3", false, false, 1e-6},
    {"llama_yarn"},
    {"mistral"},
    {"mixtral", true},
    {"olmo2"},
    {"phi", true},
    {"phi3_longrope", true, false, 1e-6},
    {"qwen2"},
    {"qwen2_moe"},
    {"qwen3"},
    {"qwen3_moe"},
    {"starcoder2"},
};

std::ostream& operator<<(std::ostream& out, const GgufCase& tested) { return out << tested.name; }

std::string text_of_file(const std::filesystem::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class GgufModels : public CheckpointTensors, public testing::WithParamInterface<GgufCase> {
 protected:
  static std::string gguf(const std::string& name) { return (kGgufFolder / (name + ".gguf")).string(); }

  // The golden checkpoint with numbers that its GGUF file can represent.
  HookedTransformer checkpoint() {
    take(GetParam().name);
    for (auto& [name, tensor] : tensors_) {
      if (GetParam().half && tensor.dim() > 1) tensor = tensor.to(at::kHalf).to(at::kFloat);
      if (GetParam().norms_from_one && name.ends_with("norm.weight"))
        tensor = (tensor + 1.0F).to(at::kDouble) - 1.0;
    }
    Json config = parse_json(text_of_file(folder_.path() / "config.json"), {});
    config.update(parse_json(GetParam().config, {}));
    std::ofstream(folder_.path() / "config.json") << config.dump();
    return load();
  }
};

void expect_same_model(const HookedTransformer& one, const HookedTransformer& other, const at::Tensor& tokens,
                       double tolerance) {
  const auto weights = one.state_dict(), others = other.state_dict();
  ASSERT_EQ(weights.size(), others.size());
  for (const auto& [name, tensor] : weights) {
    ASSERT_TRUE(others.contains(name)) << name;
    EXPECT_TRUE(at::equal(tensor, others.at(name))) << name;
  }
  const auto run = one.run_with_cache(tokens), wanted = other.run_with_cache(tokens);
  ASSERT_EQ(run.cache.names(), wanted.cache.names());
  for (const ActivationName& name : run.cache.names()) {
    EXPECT_LE(relative_difference(run.cache[name], wanted.cache[name]), tolerance) << name.to_string();
  }
  EXPECT_LE(relative_difference(run.logits(), wanted.logits()), tolerance);
}

TEST_P(GgufModels, AreThoseOfTheirCheckpoints) {
  const HookedTransformer wanted = checkpoint();
  const auto model = HookedTransformer::load(gguf(GetParam().name), kRawDouble);
  expect_same_model(model, wanted, golden_.tokens, GetParam().tolerance);
  EXPECT_TRUE(model.notes().empty()) << model.notes().front();
  EXPECT_TRUE(model.ignored_keys().empty()) << model.ignored_keys().front();
}

INSTANTIATE_TEST_SUITE_P(All, GgufModels, testing::ValuesIn(kGgufCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(GgufArchitectures, HaveAFileEach) {
  std::set<std::string> met;
  for (const GgufCase& tested : kGgufCases) {
    const auto reader = CheckpointReader::open_file(kGgufFolder / fmt::format("{}.gguf", tested.name));
    const GgufArchitecture& row = gguf_architecture(reader);
    met.insert(fmt::format("{} {}", row.name, row.when));
  }
  for (const GgufArchitecture& row : gguf_architectures())
    EXPECT_TRUE(met.contains(fmt::format("{} {}", row.name, row.when))) << row.name;
}

}  // namespace
}  // namespace hooked::gguf_models_test
