// hooked list: what the hub cache holds, whole or damaged.
#include <filesystem>
#include <sstream>

#include "tests/cli/cli_fixture.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/golden_folder.h"
#include "tests/support/scoped_environment.h"

namespace hooked::list_test {
namespace {

namespace fs = std::filesystem;

class ListTest : public CliTest {
 protected:
  ListTest() { ScopedEnvironment::set("HF_HUB_CACHE", cache().native()); }

  fs::path cache() const { return folder_ / "cache"; }
  fs::path model_folder(const std::string& name) const { return cache() / ("models--" + name); }

  void refer(const std::string& name, const std::string& reference, const std::string& commit) const {
    const auto file = model_folder(name) / "refs" / reference;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << commit;
  }

  /// A revision with the files of the fixture's model, kept as the hub keeps them: links to blobs.
  fs::path add_model(const std::string& name, const std::string& commit, const std::string& reference) const {
    const auto snapshot = model_folder(name) / "snapshots" / commit;
    fs::create_directories(snapshot);
    fs::create_directories(model_folder(name) / "blobs");
    for (const auto& file : fs::directory_iterator(folder_ / "model")) {
      const auto blob = "blob_of_" + file.path().filename().string();
      fs::copy_file(file.path(), model_folder(name) / "blobs" / blob, fs::copy_options::skip_existing);
      fs::create_symlink(fs::path("../../blobs") / blob, snapshot / file.path().filename());
    }
    if (!reference.empty()) refer(name, reference, commit);
    return snapshot;
  }

  /// A revision of files with these texts.
  fs::path add_files(const std::string& name, const std::map<std::string, std::string>& files) const {
    const auto snapshot = model_folder(name) / "snapshots" / "c0ffee";
    fs::create_directories(snapshot);
    refer(name, "main", "c0ffee");
    for (const auto& [file, text] : files) {
      fs::create_directories((snapshot / file).parent_path());
      std::ofstream(snapshot / file, std::ios::binary) << text;
    }
    return snapshot;
  }

  static std::string golden_bytes(const char* name) {
    std::ifstream file(fs::path(HOOKED_SOURCE_DIR) / "tests/golden/gguf" / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::uint64_t model_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& file : fs::directory_iterator(folder_ / "model")) bytes += file.file_size();
    return bytes;
  }

  Json entry(const std::string& model) const {
    const Json json = succeed({"list", "--json"}).json();
    for (const auto& each : json["models"]) {
      if (each["model"] == model) return each;
    }
    ADD_FAILURE() << model << " is not in " << json.dump();
    return {};
  }

  void expect_problem(const std::string& model, std::string_view problem) const {
    const Json listed = entry(model);
    EXPECT_EQ(listed["loads"], false) << listed.dump();
    EXPECT_NE(listed["problem"].get<std::string>().find(problem), std::string::npos) << listed.dump();
  }

  const ScopedEnvironment environment_{kHubSettings};
};

TEST_F(ListTest, AnEmptyCacheIsOneSentenceThatSaysWhereItIs) {
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(succeed({"list"}).out,
              fmt::format("No models in the hub cache {} (of HF_HUB_CACHE); `hf download ORG/NAME` puts one "
                          "there.\n",
                          cache().native()));
    const Json json = succeed({"list", "--json"}).json();
    EXPECT_EQ(json,
              Json({{"cache", cache().native()}, {"chosen_by", "HF_HUB_CACHE"}, {"models", Json::array()}}));
    EXPECT_EQ(succeed({"list", "--quiet"}).out, "");
    fs::create_directories(cache() / ".locks");
    fs::create_directories(cache() / "datasets--org--data/snapshots/1");
  }
}

TEST_F(ListTest, ItLooksWhereModelsAreFound) {
  ScopedEnvironment::unset("HF_HUB_CACHE");
  ScopedEnvironment::set("HF_HOME", path("home"));
  const Json json = succeed({"list", "--json"}).json();
  EXPECT_EQ(json["cache"], path("home/hub"));
  EXPECT_EQ(json["chosen_by"], "HF_HOME");
}

TEST_F(ListTest, AModelIsListedUnderWhatLoadsIt) {
  const auto snapshot = add_model("org--small", "c0ffee", "main");
  add_model("org--small", "f00d", "refs/pr/1");
  add_model("alone", "0123456789abcdef", "");
  const Json json = succeed({"list", "--json"}).json();
  std::vector<std::string> names;
  for (const auto& model : json["models"]) {
    names.push_back(model["model"]);
    const Json info = succeed({"info", names.back(), "--json"}).json();
    EXPECT_EQ(model["parameters"], info["parameters"]);
    EXPECT_EQ(model["model_type"], info["family"]);
    EXPECT_EQ(model["loads"], true);
    EXPECT_EQ(model["problem"], nullptr);
    EXPECT_EQ(model["bytes"], model_bytes());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"alone@0123456789abcdef", "org/small", "org/small@refs/pr/1"}));
  EXPECT_EQ(json["models"][1]["commit"], "c0ffee");
  EXPECT_EQ(json["models"][1]["folder"], snapshot.native());
  EXPECT_EQ(succeed({"list", "--quiet"}).out, "alone@0123456789abcdef\norg/small\norg/small@refs/pr/1\n");
}

TEST_F(ListTest, SeveralReferencesToACommitAreSeveralNames) {
  add_model("org--small", "c0ffee", "main");
  refer("org--small", "v1.0", "c0ffee\n");
  EXPECT_EQ(succeed({"list", "--quiet"}).out, "org/small\norg/small@v1.0\n");
  EXPECT_EQ(entry("org/small@v1.0")["commit"], "c0ffee");
}

TEST_F(ListTest, WhatIsLinkedTwiceIsCountedOnce) {
  const auto snapshot = add_model("org--small", "c0ffee", "main");
  fs::create_symlink("model.safetensors", snapshot / "again.safetensors");
  EXPECT_EQ(entry("org/small")["bytes"], model_bytes());
}

TEST_F(ListTest, DamagedEntriesSayWhatIsWrong) {
  add_files("org--other", {{"config.json", R"({"model_type": "rwkv"})"}});
  expect_problem("org/other", "model_type 'rwkv' is not supported");
  EXPECT_EQ(entry("org/other")["model_type"], "rwkv");
  EXPECT_EQ(entry("org/other")["parameters"], nullptr);

  add_files("cut", {{"config.json", R"({"model_type": "gp)"}});
  expect_problem("cut", "config.json");
  add_files("list", {{"config.json", "[1]"}});
  expect_problem("list", "config.json");
  add_files("empty", {});
  expect_problem("empty", "no model file");
  add_files("no-weights", {{"config.json", read("model/config.json")}});
  expect_problem("no-weights", "no model file");
  add_files("short-weights", {{"config.json", read("model/config.json")},
                              {"model.safetensors", read("model/model.safetensors").substr(0, 3000)}});
  expect_problem("short-weights", "model.safetensors");
  fs::remove(add_model("broken-link", "c0ffee", "main") / "../../blobs/blob_of_model.safetensors");
  expect_problem("broken-link", "model.safetensors");

  refer("no-snapshot", "main", "deadbeef");
  expect_problem("no-snapshot", "the files of commit deadbeef are not in the cache");
  refer("bad-reference", "main", "../../etc");
  expect_problem("bad-reference", "refs/main: the reference is not a commit");
  fs::create_directories(model_folder("unfinished") / "blobs");
  std::ofstream(model_folder("unfinished") / "blobs/1.incomplete") << "12345";
  expect_problem("unfinished", "not finished");
  EXPECT_EQ(entry("unfinished")["bytes"], 5);
  fs::create_directories(model_folder("a--b--c") / "snapshots/1");
  expect_problem("models--a--b--c", "no model of the hub has such a name");
  std::ofstream(model_folder("file")) << "not a folder";
  expect_problem("file", "not finished");

  EXPECT_EQ(succeed({"list", "--quiet"}).out,
            "broken-link\ncut\nempty\nlist\nno-weights\norg/other\nshort-weights\n")
      << "what has files to look at";
}

TEST_F(ListTest, TheTableFitsEightyColumnsAndNamesTheReasons) {
  add_model("org--small", "0123456789abcdef", "main");
  const std::string long_name(90, 'x');
  add_model("org--" + long_name, "c0ffee", "main");
  add_files("org--other", {{"config.json", R"({"model_type": "rwkv"})"}});
  // Its reason quotes a value that is longer than a line.
  std::ifstream golden(golden_folder("cases/llama/config.json"));
  std::string config(std::istreambuf_iterator<char>(golden), {});
  config.insert(config.find('{') + 1, R"("quantization_config": {"bits": 4, "group_size": 128, "version": )"
                                      R"("gemm", "zero_point": true, "quant_method": "hqq"},)");
  add_files("org--quantised", {{"config.json", config}});
  const auto text = succeed({"list"}).out;
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) {
    const bool cannot = line.find(cache().native()) == 0 || line.find(long_name) != std::string::npos;
    EXPECT_TRUE(cannot || line.size() <= 80) << line;
    all.push_back(line);
  }
  ASSERT_GT(all.size(), 5u) << text;
  EXPECT_EQ(all[0], cache().native() + " (hub cache of HF_HUB_CACHE)");
  for (const auto* part :
       {"model ", "org/other ", "rwkv", "org/small ", "0123456   hooked_transformer", " yes\n", " no\n",
        "\nwhy not\n  org/other\n    config.json: model_type 'rwkv' is not supported\n",
        "\n  org/quantised\n    config.json: quantization_config"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_NE(text.find("\norg/" + long_name + "\n"), std::string::npos) << text;
}

TEST_F(ListTest, AModelThatIsNotThereIsAnsweredWithTheNearest) {
  add_model("openai-community--gpt2", "c0ffee", "main");
  expect_failure({"info", "gtp2"}, 1, "the nearest in the cache is 'openai-community/gpt2'");
  expect_failure({"run", "gtp2", "--tokens", "1"}, 1, "`hf download ORG/gtp2`");
  expect_failure({"info", "gpt2-small"}, 1,
                 "expected 'openai-community/gpt2', which is in the cache; give that name");
  expect_failure(
      {"tokenize", "pythia-70m", "--text", "a"}, 1,
      "nothing is downloaded: fetch it with `hf download EleutherAI/pythia-70m` and give that name");
}

// As --dictionary and info take them.
TEST_F(ListTest, DictionariesAreListedByTheirFolders) {
  const auto copied = [&](const char* from, const std::string& to) {
    fs::create_directories(fs::path(to).parent_path());
    fs::copy(fs::path(HOOKED_SOURCE_DIR) / from, to, fs::copy_options::recursive);
  };
  const auto one = add_files("org--sae", {}),
             several = add_files("org--transcoders", {{"README.md", "text"}});
  copied("examples/toy_sae", one.native() + "/x");
  fs::rename(one / "x/cfg.json", one / "cfg.json");
  fs::rename(one / "x/sae_weights.safetensors", one / "sae_weights.safetensors");
  for (const std::string size : {"small", "large"}) {
    copied("examples/toy_transcoders/layer_0", (several / size / "layer_0").native());
    copied("examples/toy_transcoders/layer_1", (several / size / "layer_1").native());
  }
  EXPECT_EQ(entry("org/sae")["model_type"], "dictionary");
  EXPECT_EQ(entry("org/sae")["loads"], true);
  // One for each layer is a set.
  const Json set = entry("org/transcoders:small");
  EXPECT_EQ(set["loads"], true);
  const Json info = succeed({"info", "org/transcoders:small", "--json"}).json();
  EXPECT_EQ(set["parameters"], info["parameters"]);
  EXPECT_EQ(info["members"].size(), 2U);
  // If one cannot be read, each is listed.
  std::ofstream(several / "small/layer_1/cfg.json") << "{";
  EXPECT_EQ(entry("org/transcoders:small/layer_0")["loads"], true);
  expect_problem("org/transcoders:small/layer_1", "cfg.json");
}

// Repositories of GGUF files: each is listed as it is typed.
TEST_F(ListTest, AGgufFileIsAModel) {
  const std::string llama = golden_bytes("llama.gguf"), gemma = golden_bytes("gemma2.gguf");
  add_files("org--one", {{"m.gguf", llama}, {"config.json", R"({"model_type": "rwkv"})"}});
  add_files("org--two", {{"big/m.gguf", gemma}, {"m.gguf", llama}});
  add_files("org--both", {{"m.gguf", llama},
                          {"config.json", read("model/config.json")},
                          {"model.safetensors", read("model/model.safetensors")}});
  EXPECT_EQ(succeed({"list", "--quiet"}).out,
            "org/both\norg/both:m.gguf\norg/one\norg/two:big/m.gguf\norg/two:m.gguf\n");
  const Json json = succeed({"list", "--json"}).json();
  for (const auto& model : json["models"]) {
    const Json info = succeed({"info", model["model"], "--json"}).json();
    EXPECT_EQ(model["loads"], true) << model.dump();
    EXPECT_EQ(model["model_type"], info["family"]);
    EXPECT_EQ(model["parameters"], info["parameters"]);
  }
  EXPECT_EQ(entry("org/one")["model_type"], "llama") << "not what config.json says";
  EXPECT_EQ(entry("org/two:big/m.gguf")["bytes"], gemma.size());
  EXPECT_EQ(entry("org/two:m.gguf")["bytes"], llama.size());
  expect_failure({"info", "org/two"}, 1, "give one of org/two:big/m.gguf, org/two:m.gguf");
}

TEST_F(ListTest, GgufFilesThatDoNotLoadSayWhy) {
  add_files("org--other", {{"m.gguf", GgufBytes().text("general.architecture", "rwkv7").bytes()}});
  expect_problem("org/other", "metadata 'general.architecture' is 'rwkv7', which is not supported");
  EXPECT_EQ(entry("org/other")["model_type"], "rwkv7");
  add_files("org--part", {{"m-00002-of-00003.gguf", golden_bytes("llama.gguf")}});
  expect_problem("org/part", "fetch them with `hf download org/part --include 'm-*-of-00003.gguf'`");
  EXPECT_NE(succeed({"list"}).out.find("m-00001-of-00003.gguf: the first file of the model is missing"),
            std::string::npos);
}

}  // namespace
}  // namespace hooked::list_test
