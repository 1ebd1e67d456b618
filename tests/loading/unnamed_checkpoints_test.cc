// Models named by a file, and folders of training code whose config.json names no family.
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "hooked/core/error.h"
#include "hooked/engine/hooked_transformer.h"
#include "tests/support/golden_folder.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"
#include "tests/support/zip_writer.h"

namespace hooked::unnamed_checkpoints_test {
namespace {

namespace fs = std::filesystem;

fs::path golden(const std::string& name) { return golden_folder("cases/" + name); }

class UnnamedCheckpoint : public testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) const { std::ofstream(folder_ / name) << text; }
  HookedTransformer load(const std::string& name = "") const {
    return HookedTransformer::load((folder_ / name).string());
  }
  template <class Expected>
  void refused(const std::vector<std::string>& parts, const std::string& name = "") const {
    const std::string text = text_thrown_by<Expected>([&] { load(name); });
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  // A checkpoint of one tensor [2] of ones, and what is stored next to it.
  std::string checkpoint(std::vector<std::pair<std::string, std::string>> beside) const {
    const auto storage = pickled_storage("FloatStorage", "0", pickled(std::int64_t{2}));
    const auto ones = at::ones({2});
    beside.insert(beside.begin(),
                  {"model", pickled_dict({{"w", pickled_tensor(storage, {.sizes = {2}, .strides = {1}})}})});
    return checkpoint_bytes(pickle_of(pickled_dict(beside)),
                            {std::string(static_cast<const char*>(ones.data_ptr()), ones.nbytes())});
  }

  TempFolder folder_;
};

TEST_F(UnnamedCheckpoint, AFileAndItsFolderAreTheSameModel) {
  const at::Tensor tokens = at::ones({1, 4}, at::kLong);
  for (const auto& [name, file] : {std::pair{"nanogpt", "ckpt.pt"},
                                   {"mingpt", "model.pt"},
                                   {"transformer_lens_attn_only", "model_final.pth"},
                                   {"transformer_lens_solu", "checkpoints/SoLU_2L_000400.pth"},
                                   {"gpt2", "model.safetensors"}}) {
    const auto by_folder = HookedTransformer::load(golden(name).string());
    const auto by_file = HookedTransformer::load((golden(name) / file).string());
    EXPECT_EQ(by_file.family(), by_folder.family());
    EXPECT_TRUE(at::equal(by_file.run(tokens).logits(), by_folder.run(tokens).logits())) << name;
  }
}

TEST_F(UnnamedCheckpoint, OneOfSeveralCheckpointsIsChosenByItsPath) {
  fs::create_directory(folder_ / "checkpoints");
  fs::copy_file(golden("transformer_lens_solu/config.json"), folder_ / "config.json");
  for (const char* name : {"checkpoints/a_100.pth", "checkpoints/a_200.pth"})
    fs::copy_file(golden("transformer_lens_solu/checkpoints/SoLU_2L_000400.pth"), folder_ / name);
  refused<CheckpointError>({"2 in checkpoints/: a_100.pth, a_200.pth", "give the path"});
  EXPECT_EQ(load("checkpoints/a_200.pth").family(), "transformer_lens");
}

TEST_F(UnnamedCheckpoint, TheNativeFormLoadsAgain) {
  const auto model = HookedTransformer::load(golden("nanogpt").string());
  model.save(folder_ / "saved");
  const at::Tensor tokens = at::ones({1, 4}, at::kLong);
  EXPECT_TRUE(at::equal(load("saved").run(tokens).logits(), model.run(tokens).logits()));
}

TEST_F(UnnamedCheckpoint, WithoutConfigAndSignatureTheConfigIsMissed) {
  write("ckpt.pt", checkpoint({{"iter_num", pickled(std::int64_t{5})}}));
  refused<IoError>({"config.json"});
  write("config.json", R"({"learning_rate": 0.1})");
  refused<ConfigError>({"config.json: model_type", "model_args", "transformer_lens"});
}

TEST_F(UnnamedCheckpoint, TensorsMustFitTheArgs) {
  std::vector<std::pair<std::string, std::string>> args;
  for (const char* key : {"n_layer", "n_head", "n_embd", "block_size", "vocab_size"})
    args.emplace_back(key, pickled(std::int64_t{2}));
  write("ckpt.pt", checkpoint({{"model_args", pickled_dict(args)}}));
  refused<CheckpointError>({"tensors that the config asks for are missing", "wte.weight"});
}

TEST_F(UnnamedCheckpoint, ArgsMustBePlainValues) {
  write("ckpt.pt", checkpoint({{"model_args", pickled_global("argparse", "Namespace") + ")R"}}));
  refused<CheckpointError>({"argparse.Namespace", "nothing was run"});
  write("ckpt.pt", checkpoint({{"model_args", pickled("n_layer=2")}}));
  refused<IoError>({"config.json"});
}

TEST_F(UnnamedCheckpoint, ConfigsAreCheckedBeforeWeights) {
  fs::copy_file(golden("nanogpt/ckpt.pt"), folder_ / "ckpt.pt");
  for (const auto& [text, part] : {std::pair{"", "config.json"},
                                   {"[1]", "expected a JSON object"},
                                   {R"({"model_type": 3})", "expected a string"},
                                   {R"({"model_type": "rwkv"})", "'rwkv' is not supported"},
                                   {R"({"n_layer": "2"})", "expected an integer"},
                                   {R"({"n_layer": 1000000000})", "out of range"},
                                   {R"({"n_layer": 3})", ""}}) {
    write("config.json", text);
    if (std::string_view(part).empty()) {
      refused<CheckpointError>({"h.2.", "missing"});
    } else {
      refused<ConfigError>({part});
    }
  }
}

}  // namespace
}  // namespace hooked::unnamed_checkpoints_test
