#include "hooked/io/model_folder.h"

#include <cstdlib>

#include "io/checkpoint/model_files.h"
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
  refused("other@v3", {"names on the hub begin with an organisation; fetch it with `hf download ORG/other "
                       "--revision v3`"});
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
  refused("gtp2", {"not found; the nearest in the cache is 'openai-community/gpt2'; expected"});
  refused("openai/gpt2", {"the nearest in the cache are 'openai-community/gpt2', "
                          "'openai-community/gpt2-large'; expected"});
  refused("llama-3.2", {"the nearest in the cache is 'meta-llama/Llama-3.2-1B'; expected"});
  refused("google/gema-3-1b-it", {"the nearest in the cache is 'google/gemma-3-1b-it'; expected"});
  // No name is near: the error lists what exists, as far as fits into a sentence.
  refused("EleutherAI/pythia-70m", {"the cache holds '", " and 2 more (`hooked list` shows them); expected"});
}

TEST_F(ModelFolder, NamesTheFolderThatWasMeant) {
  std::filesystem::create_directories("examples/toy_model");
  put_file("examples/toy_mode", "a file");
  refused("examples/toy_modle", {"not found; did you mean the folder 'examples/toy_model'? "});
  refused("./examples/toy_mdel",
          {"no such file or folder; did you mean the folder './examples/toy_model'? "});
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
  for (const auto* id : {"",
                         "a/b/c",
                         "../name",
                         "org/..",
                         "/absent",
                         "./absent",
                         "org/",
                         "/name",
                         "org/na me",
                         "org/a--b",
                         "-a/b",
                         "org/name@",
                         "org/name@../../x",
                         "org/name@/etc",
                         "org/name@a//b/",
                         "org/name@a\\b",
                         ":x",
                         "org/name:",
                         "org/name:../x",
                         "org/name:/etc/x",
                         "org/name:a/"}) {
    refused(id, {"no such file or folder", "org/name@revision"});
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

TEST_F(ModelFolder, AFileThatIsNotThere) {
  refused("./nothere.gguf", {"no such file; expected a folder or a file"});
  refused("nothere.gguf", {"no such file; expected"});
  put_file("there.gguf", "x");
  refused("./ther.gguf", {"no such file; did you mean the file './there.gguf'? expected"});
}

// Ollama keeps GGUF files under names such as sha256-…; a safetensors file begins with its header's length.
TEST_F(ModelFolder, AFileWithoutAnEndingIsKnownByItsFirstBytes) {
  const std::string_view header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  for (const auto& [bytes, format] :
       {std::pair{"GGUF" + std::string(20, '\0'), TensorFormat::kGguf},
        std::pair{"PK\x03\x04" + std::string(20, '\0'), TensorFormat::kZip},
        std::pair{safetensors_bytes(header, "abcd"), TensorFormat::kSafetensors}}) {
    put_file("sha256-0123", bytes);
    EXPECT_EQ(locate_model("sha256-0123"), "sha256-0123");
    EXPECT_EQ(format_of("sha256-0123"), format);
  }
  for (const auto& bytes : {std::string("GGUF"), length_bytes(3) + "{}", safetensors_bytes("[1, 2, 3]")}) {
    put_file("sha256-0123", bytes);
    refused("sha256-0123", {"is a file"});
    EXPECT_EQ(format_of("sha256-0123"), std::nullopt);
  }
  put_file("named.pt", "GGUF" + std::string(20, '\0'));
  EXPECT_EQ(format_of("named.pt"), TensorFormat::kZip) << "an ending goes before the bytes";
}

TEST_F(ModelFolder, AFolderWithOneGgufModelIsThatModel) {
  std::filesystem::create_directories("one/sub");
  put_file("one/m.gguf", "x");
  put_file("one/config.json", "{}");
  EXPECT_EQ(locate_model("one"), "one/m.gguf");
  put_file("one/sub/n.gguf", "x");
  refused("one", {"has 2 GGUF models; expected the name of one; give one of one/m.gguf, one/sub/n.gguf"});
  put_file("one/model.safetensors", "x");
  EXPECT_EQ(locate_model("one"), "one") << "other weights go first";
  std::filesystem::create_directories("trained/checkpoints");
  std::filesystem::create_directories("trained/gguf");
  put_file("trained/checkpoints/step_1.pth", "x");
  put_file("trained/gguf/m.gguf", "x");
  EXPECT_EQ(locate_model("trained"), "trained");
}

TEST_F(ModelFolder, AModelInSeveralGgufFilesIsOne) {
  std::filesystem::create_directories("split/Q8");
  for (const auto* file : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"})
    put_file(std::filesystem::path("split/Q8") / file, "x");
  EXPECT_EQ(locate_model("split"), "split/Q8/m-00001-of-00003.gguf");
  std::filesystem::remove("split/Q8/m-00001-of-00003.gguf");
  expect_refused<CheckpointError>([&] { locate_model("split"); }, "split/Q8/m-00001-of-00003.gguf",
                                  {"the first file of the model is missing; expected all of "
                                   "m-*-of-00003.gguf; fetch them again"});
  put_file("split/m-00001-of-00002.gguf", "x");
  refused("split", {"has 2 GGUF models", "split/Q8/m-00001-of-00003.gguf, split/m-00001-of-00002.gguf"});
}

TEST_F(ModelFolder, AFileOfACachedModel) {
  const auto there = snapshot("c0ffee");
  put_file(there / "m.Q8_0.gguf", "x");
  EXPECT_EQ(locate_model("org/name"), there / "m.Q8_0.gguf");
  std::filesystem::create_directories(there / "Q4");
  put_file(there / "Q4/m-00001-of-00002.gguf", "x");
  refused("org/name", {"has 2 GGUF models; expected the name of one; give one of "
                       "org/name:Q4/m-00001-of-00002.gguf, org/name:m.Q8_0.gguf"});
  for (const auto* file : {"m.Q8_0.gguf", "Q4/m-00001-of-00002.gguf"})
    EXPECT_EQ(locate_model(std::string("org/name:") + file), there / file);
  put_file(there / "model.safetensors", "x");
  EXPECT_EQ(locate_model("org/name"), there);
  EXPECT_EQ(locate_model("org/name:model.safetensors"), there / "model.safetensors");
  refused("org/name:m.Q8.gguf",
          {"the cache has no such file of 'org/name'",
           "got Q4/m-00001-of-00002.gguf, m.Q8_0.gguf, model.safetensors; the nearest is "
           "'m.Q8_0.gguf'",
           "`hf download org/name --include 'm.Q8.gguf'`"});
  refused("org/name@v1.0:x-00001-of-00002.gguf",
          {"no such file of 'org/name@v1.0'", "got none",
           "`hf download org/name --revision v1.0 --include 'x-*-of-00002.gguf'`"});
  refused("org/other:m.gguf", {"the model was not found", "`hf download org/other --include 'm.gguf'`"});
  refused("org/name/m.Q8_0.gguf", {"no such file; did you mean 'org/name:m.Q8_0.gguf'? "});
}

TEST_F(ModelFolder, AFileThatIsNotNearIsNotSuggested) {
  put_file(snapshot("c0ffee") / "m.Q8_0.gguf", "x");
  refused("org/name:tokens.bin", {"got m.Q8_0.gguf; nothing is downloaded"});
}

// What diffusers saves is no model, but has a folder for each.
TEST_F(ModelFolder, APipelineOfDiffusersIsNamed) {
  for (const auto* folder : {"pipeline/text_encoder", "pipeline/vae"})
    std::filesystem::create_directories(folder);
  put_file("pipeline/model_index.json", "{}");
  const auto refused_with = [](std::string_view what) {
    expect_refused<CheckpointError>([] { choose_model_file("pipeline"); }, "pipeline", {what});
  };
  refused_with(
      "is a pipeline of diffusers, not a model; expected the folder of one of its language models, such as "
      "its text encoder, got no folder of a model in it");
  for (const auto* file : {"text_encoder/config.json", "text_encoder/model.safetensors", "vae/config.json"})
    put_file(std::filesystem::path("pipeline") / file, "{}");
  refused_with("got only pipeline/text_encoder");
}

TEST_F(ModelFolder, AShortNameIsAnsweredWithTheWholeOne) {
  refused("gpt2-small",
          {"is a short name as in TransformerLens; expected 'openai-community/gpt2', which is not "
           "in the hub cache",
           "nothing is downloaded: fetch it with `hf download openai-community/gpt2` and give "
           "that name"});
  refused("GPT2", {"expected 'openai-community/gpt2', which is not"});
  refused("pythia-19m@step1000", {"expected 'EleutherAI/pythia-70m@step1000'",
                                  "`hf download EleutherAI/pythia-70m --revision step1000`"});
  fill(folder_ / "cache", "models--gpt2");
  refused("gpt2-small", {"expected 'gpt2', which is in the cache; give that name"});
  fill(folder_ / "cache", "models--EleutherAI--pythia-70m");
  refused("EleutherAI/pythia-19m",
          {"expected 'EleutherAI/pythia-70m', which is in the cache; give that name"});
  refused("someone/pythia-19m", {"the model was not found; "});
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
