#include "hooked/io/model_folder.h"

#include <cstdlib>

#include "io/files/hub_name.h"
#include "tests/io/file_bytes.h"
#include "tests/support/scoped_environment.h"
#include "tests/support/temp_folder.h"

namespace hooked::model_folder_test {
namespace {

// A cache of one model with a branch, a slashed reference and two commits; the environment's own settings put
// aside.
class ModelFolder : public testing::Test {
 protected:
  ModelFolder() {
    previous_ = std::filesystem::current_path();
    std::filesystem::create_directory(folder_ / "work");
    std::filesystem::current_path(folder_ / "work");
    fill(folder_ / "cache", "models--org--name");
    set("HF_HUB_CACHE", folder_ / "cache");
  }
  ~ModelFolder() override { std::filesystem::current_path(previous_); }

  static void set(const char* name, const std::filesystem::path& value) {
    ScopedEnvironment::set(name, value.native());
  }

  static void fill(const std::filesystem::path& cache, const std::string& model) {
    std::filesystem::create_directories(cache / model / "snapshots/c0ffee");
    std::filesystem::create_directories(cache / model / "snapshots/f00d");
    std::filesystem::create_directories(cache / model / "refs/refs/pr");
    put_file(cache / model / "refs/main", "c0ffee\n");
    put_file(cache / model / "refs/v1.0", "f00d");
    put_file(cache / model / "refs/refs/pr/1", "f00d");
  }

  std::filesystem::path snapshot(const char* commit) const {
    return folder_ / "cache/models--org--name/snapshots" / commit;
  }

  void refused(const std::string& id, std::initializer_list<std::string_view> parts) {
    expect_refused<CheckpointError>([&] { locate_model(id); }, id, parts);
  }

  TempFolder folder_;
  std::filesystem::path previous_;
  const ScopedEnvironment environment_{kHubSettings};
};

TEST_F(ModelFolder, FolderIsItself) {
  EXPECT_EQ(locate_model(folder_.path().native()), folder_.path());
  EXPECT_EQ(locate_model("."), ".");
}

TEST_F(ModelFolder, HubNames) {
  EXPECT_EQ(locate_model("org/name"), snapshot("c0ffee"));
  EXPECT_EQ(locate_model("org/name@main"), snapshot("c0ffee"));
  EXPECT_EQ(locate_model("org/name@v1.0"), snapshot("f00d"));
  EXPECT_EQ(locate_model("org/name@refs/pr/1"), snapshot("f00d"));
  EXPECT_EQ(locate_model("org/name@f00d"), snapshot("f00d"));
  fill(folder_ / "cache", "models--gpt2");
  EXPECT_EQ(locate_model("gpt2"), folder_ / "cache/models--gpt2/snapshots/c0ffee");
  EXPECT_EQ(revision_of_model(locate_model("org/name")), "c0ffee");
  EXPECT_EQ(revision_of_model(locate_model("org/name@v1.0")), "f00d");
}

TEST_F(ModelFolder, ACommitMayBeShortened) {
  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::filesystem::create_directories(snapshot(commit.c_str()));
  EXPECT_EQ(locate_model("org/name@" + commit), snapshot(commit.c_str()));
  EXPECT_EQ(locate_model("org/name@0123456"), snapshot(commit.c_str()));
  refused("org/name@012345", {"only revisions"});
  std::filesystem::create_directories(snapshot("0123456ffff"));
  refused("org/name@0123456", {"only revisions"});
  EXPECT_EQ(locate_model("org/name@01234567"), snapshot(commit.c_str()));
}

TEST_F(ModelFolder, ATildeIsTheHomeFolder) {
  set("HOME", folder_.path());
  for (const auto* setting : {"HF_HUB_CACHE", "HF_HOME"}) {
    ScopedEnvironment::unset("HF_HUB_CACHE");
    const bool home = setting == std::string_view("HF_HOME");
    if (home) fill(folder_ / "hf/hub", "models--org--name");
    ScopedEnvironment::set(setting, home ? "~/hf" : "~/cache");
    EXPECT_EQ(locate_model("org/name"),
              folder_ / (home ? "hf/hub" : "cache") / "models--org--name/snapshots/c0ffee");
  }
}

TEST_F(ModelFolder, WhatASnapshotLacksIsFetchedByItsName) {
  EXPECT_EQ(name_of_snapshot(snapshot("c0ffee"))->id(), "org/name");
  EXPECT_EQ(name_of_snapshot(snapshot("f00d"))->id(), "org/name@f00d");
  EXPECT_EQ(how_to_fetch(snapshot("f00d")), "with `hf download org/name --revision f00d`");
  EXPECT_EQ(how_to_fetch(snapshot("c0ffee")), "with `hf download org/name`");
  EXPECT_EQ(how_to_fetch(folder_ / "work"), "again");
  EXPECT_FALSE(name_of_snapshot(folder_ / "work"));
  EXPECT_FALSE(name_of_snapshot(snapshot("f00d").parent_path()));
  put_file(folder_ / "cache/models--org--name/refs/main", "../..");
  EXPECT_EQ(name_of_snapshot(snapshot("c0ffee"))->id(), "org/name@c0ffee");
}

TEST_F(ModelFolder, AFolderWins) {
  std::filesystem::create_directories("org/name");
  EXPECT_EQ(locate_model("org/name"), "org/name");
}

TEST_F(ModelFolder, WhereTheCacheIs) {
  struct Case {
    const char* setting;
    const char* value;
    const char* cache;
  };
  // From the last resort to the setting that wins over all others: each is set while the later ones still
  // are.
  for (const auto& [setting, value, cache] :
       {Case{"HOME", "home", "home/.cache/huggingface/hub"},
        Case{"XDG_CACHE_HOME", "xdg", "xdg/huggingface/hub"}, Case{"HF_HOME", "hf", "hf/hub"},
        Case{"HUGGINGFACE_HUB_CACHE", "old", "old"}, Case{"HF_HUB_CACHE", "new", "new"}}) {
    if (setting == std::string_view("HOME")) ScopedEnvironment::unset("HF_HUB_CACHE");
    fill(folder_ / cache, "models--org--name");
    set(setting, folder_ / value);
    EXPECT_EQ(locate_model("org/name"), folder_ / cache / "models--org--name/snapshots/c0ffee") << setting;
  }
}

TEST_F(ModelFolder, SaysWhereItLookedAndWhatFetchesIt) {
  refused("org/other", {"not found", (folder_ / "cache/models--org--other/refs/main").native(),
                        "hub cache of HF_HUB_CACHE", "no such model in the cache", "nothing is downloaded",
                        "`hf download org/other`"});
  refused("other@v3", {"`hf download ORG/NAME --revision v3`"});
  refused("org/name@v2",
          {"refs/v2", "only revisions main, refs/pr/1, v1.0;", "`hf download org/name --revision v2`"});
  set("HF_HUB_CACHE", folder_ / "absent");
  refused("org/name", {"not found; expected a folder", "no cache there"});
}

TEST_F(ModelFolder, NamesTheNearestModelsOfTheCache) {
  for (const auto* model : {"models--openai-community--gpt2", "models--openai-community--gpt2-large",
                            "models--meta-llama--Llama-3.2-1B", "models--google--gemma-3-1b-it"}) {
    fill(folder_ / "cache", model);
  }
  refused("gpt2", {"not found; the nearest in the cache are 'openai-community/gpt2', "
                   "'openai-community/gpt2-large'; expected"});
  refused("gtp2", {"the nearest in the cache is 'openai-community/gpt2'; expected"});
  refused("openai/gpt2", {"the nearest in the cache are 'openai-community/gpt2', "});
  refused("llama-3.2-1b", {"the nearest in the cache is 'meta-llama/Llama-3.2-1B'; expected"});
  refused("google/gema-3-1b-it", {"the nearest in the cache is 'google/gemma-3-1b-it'; expected"});
  // No name is near: the error lists what exists, as far as fits into a sentence.
  refused("EleutherAI/pythia-70m", {"the cache holds '", " and 2 more (`hooked list` shows them); expected"});
}

TEST_F(ModelFolder, NamesTheFolderThatWasMeant) {
  std::filesystem::create_directories("examples/toy_model");
  put_file("examples/toy_mode", "a file");
  refused("examples/toy_modle", {"not found; did you mean the folder 'examples/toy_model'? "});
  refused("./examples/toy_mdel", {"no such folder; did you mean the folder './examples/toy_model'? "});
  refused("exmples", {"did you mean the folder 'examples'? "});
  refused("examples/gpt2", {"not found; the cache holds"});
}

TEST_F(ModelFolder, WhatCannotBeLoadedIsNotSuggested) {
  std::filesystem::remove_all(folder_ / "cache/models--org--name/snapshots");
  refused("org/nam", {"not found; expected a folder"});
}

TEST_F(ModelFolder, ReferenceToAMissingSnapshot) {
  put_file(folder_ / "cache/models--org--name/refs/main", "deadbeef");
  refused("org/name", {"snapshots/deadbeef", "only revisions"});
}

TEST_F(ModelFolder, DamagedReference) {
  const auto reference = folder_ / "cache/models--org--name/refs/main";
  for (const auto* text : {"", "../../../etc", "c0ffee\nf00d"}) {
    put_file(reference, text);
    expect_refused<CheckpointError>([&] { locate_model("org/name"); }, reference.native(), {"not a commit"});
  }
}

TEST_F(ModelFolder, NamesThatAreNoHubNames) {
  for (const auto* id :
       {"", "a/b/c", "../name", "org/..", "/absent", "./absent", "org/", "/name", "org/na me", "org/a--b",
        "-a/b", "org/name@", "org/name@../../x", "org/name@/etc", "org/name@a//b/", "org/name@a\\b"}) {
    refused(id, {"no such folder", "org/name@revision"});
  }
}

TEST_F(ModelFolder, AFileOfTensorsIsAModelToo) {
  for (const auto* name :
       {"model.safetensors", "m.gguf", "ckpt.pt", "final.pth", "pytorch_model.bin", "last.ckpt"}) {
    put_file(name, "x");
    EXPECT_EQ(locate_model(name), name);
  }
  put_file("config.json", "{}");
  refused("config.json", {"is a file", "expected a model's folder or a file of tensors", ".pth"});
}

// I3: opening it says what is wrong with it; it is not a name of the hub.
TEST_F(ModelFolder, AFileThatIsALinkToNothingIsNoHubName) {
  std::filesystem::create_symlink("gone", "dangling.gguf");
  EXPECT_EQ(locate_model("dangling.gguf"), "dangling.gguf");
  std::filesystem::create_symlink("gone", "dangling");
  refused("dangling", {"the model was not found"});
}

TEST_F(ModelFolder, WhatBelongsToTheWeightsLiesBesideThem) {
  std::filesystem::create_directories("run/checkpoints");
  put_file("run/checkpoints/step_1.pth", "x");
  EXPECT_EQ(folder_of_model("run"), "run");
  EXPECT_EQ(folder_of_model("run/checkpoints/step_1.pth"), "run/checkpoints") << "no config.json above";
  put_file("run/config.json", "{}");
  EXPECT_EQ(folder_of_model("run/checkpoints/step_1.pth"), "run");
  EXPECT_EQ(folder_of_model("run/other/step_1.pth"), "run/other")
      << "only checkpoints/ belongs to the folder above";
  put_file("run/checkpoints/config.json", "{}");
  EXPECT_EQ(folder_of_model("run/checkpoints/step_1.pth"), "run/checkpoints");
  EXPECT_EQ(folder_of_model("final.pth"), ".");
}

TEST_F(ModelFolder, ACheckpointOfTheFolderItself) {
  std::filesystem::create_directories("checkpoints");
  put_file("config.json", "{}");
  EXPECT_EQ(folder_of_model("checkpoints/step_1.pth"), ".");
}

}  // namespace
}  // namespace hooked::model_folder_test
