// Decoders without an unembedding: embedding models, and models with a head of scores.
#include "loading/plan/score_head.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/thrown_by.h"

namespace hooked::score_head_test {
namespace {

class Headless : public CheckpointTensors {
 protected:
  // A copy of the case without its unembedding, whose config.json names these classes.
  void take_without_head(const std::string& name, const Json& architectures) {
    take(name);
    std::erase_if(tensors_, [](const auto& tensor) {
      return tensor.first.starts_with("lm_head.") || tensor.first.starts_with("embed_out.");
    });
    const auto file = folder_.path() / "config.json";
    Json config = parse_json(read_text_file(file, 1 << 20), {});
    config["architectures"] = architectures;
    config["tie_word_embeddings"] = false;
    write_file(file, json_text(config));
  }

  void add(const std::string& name, at::IntArrayRef shape) {
    tensors_[name] = at::randn(shape, at::detail::createCPUGenerator(3), at::TensorOptions(at::kDouble));
  }

  // For the unchanged checkpoint, whose activations golden_test compares with its oracle's.
  ActivationCache original_cache() const {
    return load_raw(original_.string())
        .run(golden_.tokens, {.capture = act::everything, .output = Output::none})
        .cache;
  }

  void expect_streams_of_the_original(const HookedTransformer& model) const {
    const auto got = model.run(golden_.tokens, {.capture = act::resid_post, .output = Output::none}).cache;
    const auto expected = original_cache();
    for (const auto& entry : got) {
      EXPECT_LT((entry.value() - expected[Address(entry.name)]).abs().max().item<double>(), 1e-12)
          << entry.name.to_string();
    }
  }

  std::string text_of_notes(const HookedTransformer& model) const {
    return fmt::format("{}", fmt::join(model.notes(), "\n"));
  }
};

TEST_F(Headless, ADecoderWhoseClassHasNoHeadEndsWithItsFinalNorm) {
  for (const Json& named : {Json::array({"LlamaModel"}), Json::array(), Json(nullptr),
                            Json::array({"LlamaForQuestionAnswering"})}) {
    take_without_head("llama", named);
    const HookedTransformer model = load();
    EXPECT_FALSE(model.config().has_unembedding());
    EXPECT_EQ(model.config().final_norm, NormKind::rms_norm);
    expect_streams_of_the_original(model);
    EXPECT_NE(text_of_notes(model).find("no unembedding (no tensor 'lm_head.weight'"), std::string::npos);
    EXPECT_THROW(model.run(golden_.tokens), HookError) << "logits are asked for";
    // With default processing, and saved as a native folder.
    const auto processed = HookedTransformer::load(written(), {.dtype = at::kDouble});
    processed.save(folder_ / "saved");
    EXPECT_FALSE(HookedTransformer::load((folder_ / "saved").string()).config().has_unembedding());
  }
}

TEST_F(Headless, FilesOfAModelWithoutAHeadHaveNoPrefix) {
  take_without_head("llama", Json::array({"LlamaModel"}));
  rename("model.", "");
  expect_streams_of_the_original(load());
}

// As transformers saves LlamaForQuestionAnswering and similar classes.
TEST_F(Headless, ABodyForQuestionsIsCalledTransformer) {
  take_without_head("llama", Json::array({"LlamaForQuestionAnswering"}));
  rename("model.", "transformer.");
  add("qa_outputs.weight", {2, load_raw(original_.string()).config().d_model});
  add("qa_outputs.bias", {2});
  const HookedTransformer model = load();
  expect_streams_of_the_original(model);
  EXPECT_NE(text_of_notes(model).find("qa_outputs"), std::string::npos);
}

TEST_F(Headless, ACausalLanguageModelWithoutItsHeadLacksATensor) {
  for (const char* named : {"LlamaForCausalLM", "GPT2LMHeadModel", "OpenAIGPTDoubleHeadsModel",
                            "LlavaForConditionalGeneration"}) {
    take_without_head("llama", Json::array({named}));
    const std::string text = text_thrown_by<CheckpointError>([&] { load(); });
    EXPECT_NE(text.find("missing: lm_head.weight"), std::string::npos) << text;
  }
}

TEST_F(Headless, AHeadOfScoresStandsInTheUnembeddingsPlace) {
  struct Case {
    const char* checkpoint;
    const char* architecture;
    const char* module;
    bool bias;
  };
  for (const Case& c : {Case{"llama", "LlamaForSequenceClassification", "score", false},
                        Case{"llama", "LlamaForTokenClassification", "score", true},
                        Case{"gpt_neox", "GPTNeoXForTokenClassification", "classifier", true}}) {
    for (const std::int64_t labels : {1, 3}) {
      take_without_head(c.checkpoint, Json::array({c.architecture}));
      const std::int64_t d_model = load_raw(original_.string()).config().d_model;
      const std::string name = c.module;
      add(name + ".weight", {labels, d_model});
      if (c.bias) add(name + ".bias", {labels});
      const HookedTransformer model = load();
      EXPECT_EQ(model.config().d_vocab_out(), labels);
      expect_streams_of_the_original(model);
      // The final norm's output, by the original's own weights.
      const HookedTransformer original = load_raw(original_.string());
      const StateDict weights = original.state_dict();
      at::Tensor normed = original_cache()["ln_final.hook_normalized"] * weights.at("ln_final.w");
      if (weights.contains("ln_final.b")) normed = normed + weights.at("ln_final.b");
      at::Tensor expected = normed.matmul(tensors_.at(name + ".weight").t());
      if (c.bias) expected = expected + tensors_.at(name + ".bias");
      EXPECT_LT((model.run(golden_.tokens).logits() - expected).abs().max().item<double>(), 1e-12)
          << c.architecture;
      // Scores have an absolute meaning: no step of processing moves them.
      const auto processed = HookedTransformer::load(written(), {.dtype = at::kDouble});
      EXPECT_LT((processed.run(golden_.tokens).logits() - expected).abs().max().item<double>(), 1e-10);
      EXPECT_NE(text_of_notes(processed).find(fmt::format("its {} scores", labels)), std::string::npos);
      processed.save(folder_ / "saved");
      const auto saved = HookedTransformer::load((folder_ / "saved").string());
      EXPECT_LT((saved.run(golden_.tokens).logits() - expected).abs().max().item<double>(), 1e-10);
    }
  }
}

// Their scores come from two maps, for which no point exists here.
TEST_F(Headless, ARewardModelWhoseHeadIsNoMapEndsWithItsFinalNorm) {
  take_without_head("llama", Json::array({"LlamaForRewardModel"}));
  const std::int64_t d_model = load_raw(original_.string()).config().d_model;
  add("score.0.weight", {d_model, d_model});
  add("score.2.weight", {1, d_model});
  const HookedTransformer model = load();
  EXPECT_FALSE(model.config().has_unembedding());
  expect_streams_of_the_original(model);
  EXPECT_NE(text_of_notes(model).find("score.0.weight"), std::string::npos);
}

}  // namespace
}  // namespace hooked::score_head_test
