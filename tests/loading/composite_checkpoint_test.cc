// Checkpoints that hold several models: the text model's tensors are found under every name that was ever
// used, and the others' are not read.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/loading/describe.h"
#include "tests/support/checkpoint_tensors.h"
#include "tests/support/thrown_by.h"

namespace hooked::composite_checkpoint_test {
namespace {

constexpr double kToleranceFloat64 = 1e-12;

class CompositeCheckpoint : public CheckpointTensors {
 protected:
  Json config() const {
    const std::ifstream file(folder_ / "config.json", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return parse_json(text.str(), {});
  }

  void configure(const Json& config) const { std::ofstream(folder_ / "config.json") << config.dump(); }

  std::string text_of_error() const {
    return text_thrown_by<CheckpointError>([&] { load(); });
  }
};

bool says(const std::string& text, std::string_view words) { return text.find(words) != std::string::npos; }

TEST_F(CompositeCheckpoint, NamesMayBeOldOrNew) {
  for (const char* name :
       {"gemma3_text_in_gemma3", "mistral_in_mistral3", "gemma_in_paligemma", "llama_in_llava"}) {
    SCOPED_TRACE(name);
    take(name);
    ASSERT_TRUE(tensors_.contains("language_model.model.norm.weight"));
    rename("language_model.lm_head.", "lm_head.");
    rename("language_model.model.", "model.language_model.");
    for (const std::string other : {"vision_tower.", "multi_modal_projector."})
      rename(other, "model." + other);
    EXPECT_LT(difference(load()), kToleranceFloat64);
    rename("model.language_model.", "language_model.");  // as a model without an unembedding is saved
    EXPECT_LT(difference(load()), kToleranceFloat64);
  }
}

TEST_F(CompositeCheckpoint, QwensNamesMayBeOldOrNew) {
  for (const char* name :
       {"qwen2_5_vl_text_in_qwen2_5_vl", "qwen3_vl_text_in_qwen3_vl", "qwen3_vl_moe_text_in_qwen3_vl_moe"}) {
    SCOPED_TRACE(name);
    take(name);
    EXPECT_LT(difference(load()), kToleranceFloat64);
    const bool old = tensors_.contains("model.norm.weight");
    if (old) {
      rename("model.", "model.language_model.");
      rename("visual.", "model.visual.");
    } else {
      ASSERT_TRUE(tensors_.contains("model.language_model.norm.weight"));
      rename("model.visual.", "visual.");
      rename("model.language_model.", "model.");
    }
    EXPECT_LT(difference(load()), kToleranceFloat64);
  }
}

// Published files store them transposed, those of transformers do not.
TEST_F(CompositeCheckpoint, MatricesOfQwensExpertsMayBeTurnedOver) {
  take("qwen3_vl_moe_text_in_qwen3_vl_moe");
  int turned = 0;
  for (auto& [name, tensor] : tensors_) {
    if (name.find(".mlp.experts.") == std::string::npos) continue;
    ASSERT_NE(tensor.size(1), tensor.size(2)) << name;
    tensor = tensor.transpose(1, 2).contiguous();
    ++turned;
  }
  EXPECT_EQ(turned, 4);
  EXPECT_LT(difference(load()), kToleranceFloat64);
}

// The keys of the text model next to those of the whole.
TEST_F(CompositeCheckpoint, AConfigMayBeFlat) {
  take("qwen2_5_vl_text_in_qwen2_5_vl");
  Json flat = config();
  const Json text = flat.at("text_config");
  flat.erase("text_config");
  for (const auto& [key, value] : text.items()) {
    if (key != "model_type") flat[key] = value;
  }
  configure(flat);
  const HookedTransformer model = load();
  EXPECT_EQ(model.family(), "qwen2_5_vl_text");
  EXPECT_LT(difference(model), kToleranceFloat64);
}

TEST_F(CompositeCheckpoint, OneNoteCountsWhatWasLeftUnread) {
  take("gemma3_text_in_gemma3");
  const auto of_projector = std::ranges::count_if(
      tensors_, [](const auto& tensor) { return tensor.first.starts_with("multi_modal_projector."); });
  const auto of_tower = std::ranges::count_if(
      tensors_, [](const auto& tensor) { return tensor.first.starts_with("vision_tower."); });
  ASSERT_GT(of_projector, 0);
  ASSERT_GT(of_tower, 0);
  const HookedTransformer model = load();
  ASSERT_EQ(model.notes().size(), 1u);
  const std::string& note = model.notes()[0];
  EXPECT_TRUE(says(note, "text part of a gemma3 checkpoint")) << note;
  EXPECT_TRUE(says(note, std::to_string(of_projector + of_tower) + " tensors")) << note;
  EXPECT_TRUE(says(note, "multi_modal_projector " + std::to_string(of_projector))) << note;
  EXPECT_TRUE(says(note, "vision_tower " + std::to_string(of_tower))) << note;
  EXPECT_EQ(describe(folder_.path().string()).notes, model.notes());
}

TEST_F(CompositeCheckpoint, TheOtherModelsMayBeMissingOrUnreadable) {
  take("gemma3_text_in_gemma3");
  for (auto& [name, tensor] : tensors_) {
    if (name.starts_with("vision_tower.")) tensor = at::ones({1}, at::kLong);
  }
  EXPECT_LT(difference(load()), kToleranceFloat64);
  std::erase_if(tensors_, [](const auto& tensor) { return !tensor.first.starts_with("language_model."); });
  const HookedTransformer model = load();
  EXPECT_LT(difference(model), kToleranceFloat64);
  ASSERT_EQ(model.notes().size(), 1u);
  EXPECT_TRUE(says(model.notes()[0], "no tensors of its other parts")) << model.notes()[0];
}

TEST_F(CompositeCheckpoint, TensorsOfNoPartAreNamed) {
  take("gemma3_text_in_gemma3");
  tensors_["audio_tower.ear.weight"] = at::ones({3});
  tensors_["language_model.model.layers.0.adapter.weight"] = at::ones({3});
  const HookedTransformer model = load();
  ASSERT_EQ(model.notes().size(), 2u);
  EXPECT_TRUE(says(model.notes()[1], "2 tensors")) << model.notes()[1];
  EXPECT_TRUE(says(model.notes()[1], "audio_tower.ear.weight")) << model.notes()[1];
  EXPECT_TRUE(says(model.notes()[1], "language_model.model.layers.0.adapter.weight")) << model.notes()[1];
}

TEST_F(CompositeCheckpoint, EveryTensorOfTheTextModelMustFit) {
  take("mistral_in_mistral3");
  const StateDict good = tensors_;
  for (const char* name : {"language_model.model.layers.1.mlp.up_proj.weight",
                           "language_model.model.norm.weight", "language_model.lm_head.weight"}) {
    tensors_.erase(name);
    std::string text = text_of_error();
    EXPECT_TRUE(says(text, "1 tensors that the config asks for are missing")) << text;
    // The unembedding is next to the body in some files and under its prefix in others.
    EXPECT_TRUE(says(text, std::string_view(name).ends_with("lm_head.weight") ? "lm_head.weight" : name))
        << text;
    tensors_[name] = at::ones({3, 2});
    text = text_of_error();
    EXPECT_TRUE(says(text, "another shape")) << text;
    EXPECT_TRUE(says(text, name)) << text;
    tensors_ = good;
  }
  rename("language_model.model.layers.1.", "model.language_model.layers.1.");
  EXPECT_TRUE(says(text_of_error(), "expected one kind"));
}

TEST_F(CompositeCheckpoint, SavedItIsAModelByItself) {
  for (const char* name : {"gemma3_text_in_gemma3", "qwen3_vl_moe_text_in_qwen3_vl_moe"}) {
    take(name);
    const auto model = HookedTransformer::load(written());
    const TempFolder saved;
    model.save(saved.path());
    const auto again = HookedTransformer::load(saved.path().string());
    EXPECT_EQ(again.family(), "hooked_transformer");
    EXPECT_EQ(again.notes().size(), 1u) << "that it is loaded as it was saved";
    EXPECT_TRUE(at::equal(again.run(golden_.tokens).logits(), model.run(golden_.tokens).logits()));
  }
}

// The whole or the group may say which tokens end a generation.
TEST_F(CompositeCheckpoint, StopTokensAreThoseOfTheWholeOrOfTheGroup) {
  take("gemma3_text_in_gemma3");
  const std::int64_t length = golden_.tokens.size(1);
  const auto generated = [&] {
    const GenerateOptions options{.max_new_tokens = 5, .sampling = {.greedy = true}};
    return load().generate(golden_.greedy.narrow(1, 0, length), options).tokens.size(1) - length;
  };
  const auto next = golden_.greedy[0][length].item<std::int64_t>();
  Json whole = config();
  whole.erase("eos_token_id");
  whole["text_config"]["eos_token_id"] = next;
  configure(whole);
  EXPECT_EQ(generated(), 1);
  whole["eos_token_id"] = Json::array({22, 21});
  ASSERT_FALSE(next == 22 || next == 21);
  configure(whole);
  EXPECT_GT(generated(), 1);
}

TEST_F(CompositeCheckpoint, TheTokenizerBesideItIsRead) {
  take("gemma3_text_in_gemma3");
  std::filesystem::copy_file(HOOKED_SOURCE_DIR "/examples/toy_model/tokenizer.json",
                             folder_ / "tokenizer.json");
  EXPECT_TRUE(load().has_tokenizer());
}

}  // namespace
}  // namespace hooked::composite_checkpoint_test
