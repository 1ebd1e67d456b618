#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <filesystem>
#include <utility>

#include "tests/cli/cli_fixture.h"

namespace hooked::save_test {
namespace {

class SaveTest : public CliTest {};

TEST_F(SaveTest, TheSavedModelIsTheLoadedOne) {
  write_tokenizer();
  const auto out = succeed({"save", model(), "--dtype", "float64", "--out", path("saved")}).out;
  EXPECT_NE(out.find("float64"), std::string::npos) << out;
  const auto tokens = at::tensor({1, 2, 3}, at::TensorOptions(at::kLong));
  const auto saved = HookedTransformer::load(path("saved"));  // in its recorded dtype
  EXPECT_EQ(saved.config().dtype, at::kDouble);
  EXPECT_TRUE(at::equal(saved(tokens), HookedTransformer::load(model(), {.dtype = at::kDouble})(tokens)));
  EXPECT_TRUE(saved.has_tokenizer());
}

TEST_F(SaveTest, JsonSaysWhichStepsTheWeightsHaveBehindThem) {
  const auto json =
      succeed({"save", model(), "--process", "fold_ln,center_unembed", "--out", path("saved"), "--json"})
          .json();
  EXPECT_EQ(json["processing"]["fold_ln"], "applied");
  EXPECT_EQ(json["processing"]["center_writing_weights"], "not requested");
  const auto info = succeed({"info", path("saved"), "--json"}).json();
  EXPECT_EQ(info["processing"]["fold_ln"], "already applied");
  EXPECT_EQ(info["processing"]["center_writing_weights"], "not requested");
  const auto more =
      succeed({"info", path("saved"), "--process", "fold_ln,center_writing_weights", "--json"}).json();
  EXPECT_EQ(more["processing"]["fold_ln"], "already applied");
  EXPECT_EQ(more["processing"]["center_writing_weights"], "applied");
}

/// Processing changes the number of parameters, and both commands say which one they count.
TEST_F(SaveTest, CountsOfParametersSayWhatTheyCount) {
  const auto counted = [](const std::string& text, const std::string& how) {
    return text.find(" parameters" + how) != std::string::npos;
  };
  EXPECT_TRUE(counted(succeed({"info", model()}).out, " before processing, "));
  EXPECT_TRUE(counted(succeed({"info", model(), "--no-processing"}).out, ", "));
  EXPECT_TRUE(counted(succeed({"save", model(), "--out", path("saved")}).out, " after processing as "));
  EXPECT_TRUE(counted(succeed({"save", model(), "--no-processing", "--out", path("raw")}).out, " as "));
  EXPECT_TRUE(counted(succeed({"info", path("saved")}).out, ", "));
}

TEST_F(SaveTest, RawWeightsStayAsTheyAre) {
  succeed({"save", model(), "--no-processing", "--out", path("saved")});
  EXPECT_EQ(read("saved/model.safetensors"), read("model/model.safetensors"));
}

TEST_F(SaveTest, PackedWeightsAreAModelLikeAnyOther) {
  const auto out = succeed({"save", model(), "--out", path("saved"), "--packed"}).out;
  EXPECT_NE(out.find("float32, packed"), std::string::npos) << out;
  succeed({"save", model(), "--out", path("plain"), "--json"});
  EXPECT_FALSE(std::filesystem::exists(path("saved/model.safetensors")));
  for (const char* command : {"run", "info"}) {
    std::vector<std::string> arguments{command, "", "--json"};
    if (arguments[0] == "run") arguments.insert(arguments.end(), {"--tokens", "1,2,3"});
    arguments[1] = path("saved");
    const auto packed = succeed(arguments).json();
    arguments[1] = path("plain");
    auto plain = succeed(arguments).json();
    for (const char* key : {"model", "id", "storage"}) {  // packed weights are different tensors
      if (plain.contains(key)) plain[key] = packed[key];
    }
    EXPECT_EQ(packed, plain);
  }
  succeed({"save", path("saved"), "--out", path("again")});
  EXPECT_EQ(read("again/model.safetensors"), read("plain/model.safetensors"));
}

TEST_F(SaveTest, AFolderOfOthersIsLeftAlone) {
  write_tokenizer("saved");
  expect_failure({"save", model(), "--out", path("saved")}, 1, "tokenizer.json");
  EXPECT_FALSE(std::filesystem::exists(path("saved/model.safetensors")));
  // A checkpoint of others, with weights in one file.
  std::filesystem::copy(model(), path("theirs"));
  const auto weights = read("theirs/model.safetensors"), config = read("theirs/config.json");
  expect_failure({"save", model(), "--out", path("theirs"), "--dtype", "float64"}, 1,
                 "the folder holds 'config.json', which hooked did not write");
  EXPECT_EQ(read("theirs/model.safetensors"), weights);
  EXPECT_EQ(read("theirs/config.json"), config);
}

TEST_F(SaveTest, ItsOwnFolderIsReplacedAltogether) {
  write_tokenizer();
  succeed({"save", model(), "--out", path("saved"), "--packed"});
  succeed({"save", model(), "--out", path("saved"), "--dtype", "float64"});
  EXPECT_FALSE(std::filesystem::exists(path("saved/packed.safetensors")));
  EXPECT_EQ(HookedTransformer::load(path("saved")).config().dtype, at::kDouble);
  std::filesystem::remove(path("model/tokenizer.json"));
  std::filesystem::remove(path("model/tokenizer_config.json"));
  succeed({"save", model(), "--out", path("saved")});
  EXPECT_FALSE(HookedTransformer::load(path("saved")).has_tokenizer());
  write("saved/README.md", "mine");
  expect_failure({"save", model(), "--out", path("saved")}, 1, "'README.md'");
  EXPECT_EQ(HookedTransformer::load(path("saved")).config().dtype, at::kFloat);
}

TEST_F(SaveTest, TheFolderThatTheModelComesFromIsLeftAlone) {
  succeed({"save", model(), "--out", path("saved")});
  const auto weights = read("saved/model.safetensors");
  std::filesystem::create_directory_symlink("saved", path("link"));
  for (const auto& [from, to] : {std::pair{"saved", "saved"},
                                 {"saved", "saved/"},
                                 {"saved", "model/../saved"},
                                 {"saved", "link"},
                                 {"link", "saved"},
                                 {"saved/model.safetensors", "saved"}}) {
    expect_failure({"save", path(from), "--out", path(to), "--dtype", "float64"}, 1,
                   "from which the model was read");
  }
  EXPECT_EQ(read("saved/model.safetensors"), weights);
}

TEST_F(SaveTest, AHubCacheIsLeftAlone) {
  const auto snapshots = folder_ / "models--org--name/snapshots";
  std::filesystem::create_directories(snapshots);
  std::filesystem::create_directories(folder_ / "models--org--name/blobs");
  std::filesystem::rename(path("model"), snapshots / "c0ffee");
  std::filesystem::create_directory_symlink(snapshots / "c0ffee", path("link"));
  for (const auto& to :
       {snapshots / "c0ffee", snapshots / "new", folder_ / "models--org--name/blobs", folder_ / "link"}) {
    expect_failure({"save", (snapshots / "c0ffee").string(), "--out", to.string()}, 1,
                   "inside the Hugging Face cache");
  }
  succeed({"save", (snapshots / "c0ffee").string(), "--out", path("saved")});
}

TEST_F(SaveTest, ALimitOnFileSizesIsAnError) {
  const std::string command = "ulimit -f 1; " HOOKED_CLI " save " + model() + " --out " + path("saved") +
                              " > /dev/null 2> " + path("stderr");
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(read("stderr").find("File too large"), std::string::npos) << read("stderr");
  EXPECT_FALSE(std::filesystem::exists(path("saved")));
}

TEST_F(SaveTest, AFolderThatCannotBeMadeIsAnError) {
  write("file", "");
  expect_failure({"save", model(), "--out", path("file/saved")}, 1, "saved");
}

TEST_F(SaveTest, WhatWasSavedLoadsAsItWasSaved) {
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--no-processing"}, {"--process", "fold_ln"}, {}}) {
    std::filesystem::remove_all(folder_ / "saved");
    std::vector<std::string> save{"save", model(), "--out", path("saved")};
    save.insert(save.end(), how.begin(), how.end());
    succeed(save);
    std::vector<std::string> run{"cache", model(), "--tokens", "1,2,3", "--out", path("before.safetensors")};
    run.insert(run.end(), how.begin(), how.end());
    succeed(run);
    succeed({"cache", path("saved"), "--tokens", "1,2,3", "--out", path("after.safetensors")});
    // All but the headers, which name two models.
    const auto tensors = [&](const std::string& name) {
      return read(name).substr(SafetensorsFile::open(path(name)).tensors().front().begin);
    };
    EXPECT_EQ(tensors("before.safetensors"), tensors("after.safetensors"));
  }
  const Json info = succeed({"info", path("saved"), "--json"}).json();
  EXPECT_NE(info["notes"].dump().find("as they were saved"), std::string::npos) << info["notes"];
}

}  // namespace
}  // namespace hooked::save_test
