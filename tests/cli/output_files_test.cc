// What happens to an existing file with the name of an output: the same rule for every command.
#include <ATen/ops/tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/cli_fixture.h"

namespace hooked::output_files_test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class OutputFiles : public CliTest {
 protected:
  /// A command with its option for a file, and an ending that the file can have.
  struct Writer {
    Words command;
    std::string option;
    std::string ending;
    std::string written;  ///< the text before the ending of the first file, if there are several
  };

  std::vector<Writer> writers() const {
    const Words pair{"--clean-tokens", "1,2,3", "--corrupted-tokens", "1,4,3",
                     "--answer-token", "5",     "--against-token",    "6"};
    const Words lens{"lens", model(), "--tokens", "1,2,3", "--answer-token", "5"};
    const Words attribute{"attribute", model(), "--tokens", "1,2,3", "--answer-token", "5"};
    std::vector<Writer> all{
        {{"cache", model(), "--tokens", "1,2,3"}, "--out", ".safetensors", ""},
        {{"generate", model(), "--tokens", "1,2,3", "--max-new-tokens", "2", "--capture",
          "*.hook_resid_post"},
         "--out",
         ".safetensors",
         ""},
        {Words{"circuits", model(), "--top", "2"} + pair, "--save", ".json", ""},
        {{"heads", model(), "--tokens", "1,2,1,2", "--score", "induction,distance"},
         "--out",
         ".csv",
         ".induction"},
        {{"weights", model(), "--copying"}, "--out", ".csv", ".eigenvalues"},
        {Words{"patch", model(), "--sweep", "resid_pre,attn_out"} + pair, "--out", ".json", ".resid_pre"},
        {Words{"circuits", model()} + pair, "--out", ".csv", ""},
        {{"weights", model(), "--composition", "q"}, "--out", ".svg", ""}};
    all.push_back({attribute, "--out", ".safetensors", ""});
    for (const char* ending : {".csv", ".json", ".svg", ".safetensors"})
      all.push_back({lens, "--out", ending, ""});
    return all;
  }
};

TEST_F(OutputFiles, AreReplacedWhereHookedWroteThemAndNowhereElse) {
  int number = 0;
  for (const Writer& writer : writers()) {
    SCOPED_TRACE(writer.command[0] + " " + writer.option + " " + writer.ending);
    const std::string name = "out" + std::to_string(number++);
    const std::string given = path(name + writer.ending), file = name + writer.written + writer.ending;
    const Words call = writer.command + Words{writer.option, given};
    write(file, "mine");
    expect_failure(call, 1, path(file) + "] there is a file of this name that is not");
    EXPECT_EQ(read(file), "mine");
    succeed(call + Words{"--force"});
    const std::string made = read(file);
    EXPECT_NE(made, "mine");
    succeed(call);  // its own output
    EXPECT_EQ(read(file), made);
  }
}

TEST_F(OutputFiles, AnotherKindOfOursIsOfOthers) {
  const std::string file = path("x.safetensors");
  const Words cache{"cache", model(), "--tokens", "1,2", "--out", file};
  const Words lens{"lens", model(), "--tokens", "1,2", "--answer-token", "5", "--out", file};
  succeed(cache);
  const std::string activations = read("x.safetensors");
  expect_failure(lens, 1, "not a grid written by hooked");
  EXPECT_EQ(read("x.safetensors"), activations);
  succeed(lens + Words{"--force"});
  expect_failure(cache, 1, "not a file of activations written by hooked");
}

TEST_F(OutputFiles, UnknownEndingsAreErrorsOfUsageBeforeTheModelIsLookedFor) {
  const Words pair{"--clean-tokens", "1,2", "--corrupted-tokens", "1,4", "--answer-token", "5"};
  const std::vector<std::pair<Words, std::string>> calls{
      {{"cache", "no/such/model", "--tokens", "1", "--out", "x.npz"}, ".safetensors"},
      {{"generate", "no/such/model", "--tokens", "1", "--capture", "*", "--out", "x.pt"}, ".safetensors"},
      {{"lens", "no/such/model", "--tokens", "1", "--answer-token", "5", "--out", "x.png"},
       ".csv, .json, .svg"},
      {{"attribute", "no/such/model", "--tokens", "1", "--answer-token", "5", "--out", "x"},
       ".csv, .json, .svg"},
      {{"heads", "no/such/model", "--tokens", "1", "--out", "x.png"}, ".csv, .json, .svg"},
      {{"weights", "no/such/model", "--copying", "--out", "x.png"}, ".csv, .json, .svg"},
      {Words{"patch", "no/such/model", "--sweep", "resid_pre", "--out", "x.html"} + pair,
       ".csv, .json, .svg"},
      {Words{"patch", "no/such/model", "--sweep", "resid_pre", "--partial", "x.part"} + pair, ".safetensors"},
      {Words{"circuits", "no/such/model", "--out", "x.png"} + pair, ".csv, .json, .svg"},
      {Words{"circuits", "no/such/model", "--top", "2", "--save", "x.txt"} + pair, ".json"}};
  for (const auto& [call, known] : calls) {
    SCOPED_TRACE(call[0]);
    expect_failure(call, 2, "expected a name that ends in");
    expect_failure(call, 2, known);
  }
}

TEST_F(OutputFiles, WhatACommandReadsIsNeverWrittenTo) {
  write_tokenizer();
  const auto ids = [](std::vector<std::int64_t> row) {
    return at::tensor(row, at::TensorOptions(at::kLong)).unsqueeze(0);
  };
  save_safetensors(path("in.safetensors"), {{"tokens", ids({1, 2, 3})}});
  succeed({"cache", model(), "--tokens", "1,2,3", "--out", path("own.safetensors")});
  std::filesystem::create_symlink("own.safetensors", path("link.safetensors"));
  std::filesystem::create_hard_link(path("own.safetensors"), path("hard.safetensors"));
  std::filesystem::create_directory_symlink("model", path("linked"));
  const auto refused = [&](const Words& call, const std::string& file) {
    SCOPED_TRACE(call[0] + " " + file);
    const auto before = read(file);
    for (const Words& force : {Words{}, Words{"--force"}}) {
      expect_failure(call + Words{"--out", path(file)} + force, 1, "which is read");
      EXPECT_EQ(read(file), before);
    }
  };
  const Words cache{"cache", model(), "--tokens", "1,2,3"}, run{"--tokens", "1,2,3", "--answer-token", "5"};
  refused(cache, "model/model.safetensors");
  refused(cache, "linked/model.safetensors");
  refused({"cache", model() + "/model.safetensors", "--tokens", "1"}, "model/model.safetensors");
  refused(Words{"lens", path("linked")} + run, "model/config.json");
  refused(Words{"attribute", model()} + run, "model/tokenizer.json");
  refused({"heads", model(), "--tokens", "1,2", "--score", "entropy"}, "model/model.safetensors");
  refused({"weights", model(), "--singular", "ov_read"}, "model/tokenizer_config.json");
  refused({"cache", model(), "--tokens-file", path("in.safetensors")}, "in.safetensors");
  for (const char* file : {"own.safetensors", "link.safetensors", "hard.safetensors"}) {
    refused({"cache", model(), "--tokens-file", path("own.safetensors")}, file);
    refused(cache + Words{"--edit", "hook_embed replace " + path("own.safetensors") + "#hook_embed"}, file);
    refused({"generate", model(), "--tokens", "1,2,3", "--max-new-tokens", "2", "--capture", "hook_embed",
             "--prompt-edit", "hook_embed replace " + path("own.safetensors") + "#hook_embed"},
            file);
  }
  // A file in the model's folder that is not the model's is a file like any other.
  succeed(cache + Words{"--out", path("model/notes.safetensors")});
  succeed(cache + Words{"--out", path("model/notes.safetensors")});
}

TEST_F(OutputFiles, OneFileIsNotTwoOutputs) {
  const Words pair{"--clean-tokens", "1,2", "--corrupted-tokens", "1,4", "--answer-token", "5"};
  expect_failure(Words{"circuits", model(), "--top", "2", "--save", "x.json", "--out", "x.json"} + pair, 2,
                 "name one file");
  expect_failure(Words{"patch", model(), "--sweep", "resid_pre", "--partial", "x.safetensors", "--out",
                       "x.safetensors"} +
                     pair,
                 2, "name one file");
}

TEST_F(OutputFiles, APartialFileIsNotForced) {
  const Words call{"patch",
                   model(),
                   "--sweep",
                   "resid_pre",
                   "--clean-tokens",
                   "1,2",
                   "--corrupted-tokens",
                   "1,4",
                   "--answer-token",
                   "5",
                   "--out",
                   path("o.csv"),
                   "--partial",
                   path("p.safetensors")};
  write("p.safetensors", "mine");
  for (const Words& force : {Words{}, Words{"--force"}}) {
    expect_failure(call + force, 1, "not the partial file of a sweep written by hooked");
    EXPECT_EQ(read("p.safetensors"), "mine");
  }
  EXPECT_FALSE(std::filesystem::exists(path("o.csv")));
}

}  // namespace
}  // namespace hooked::output_files_test
