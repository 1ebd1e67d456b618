// What bash offers after `source <(hooked completion bash)`. The program is used alone here: nothing in it
// needs the engine.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "options/command.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/run_program.h"
#include "tests/support/scoped_environment.h"

namespace hooked::completion_test {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class CompletionTest : public CliTest {
 protected:
  CompletionTest() {
    ScopedEnvironment::set("HF_HUB_CACHE", path("cache"));
    fs::create_directories(folder_ / "bin");
    fs::copy_file(HOOKED_CLI, folder_ / "bin" / "hooked");
    for (const auto* name : {"work/sub", "work/my models", "work/model"})
      fs::create_directories(folder_ / name);
    for (const auto* name : {"work/texts.txt", "work/model.safetensors"}) write(name, "");
  }

  void add_model(const std::string& folder, const std::string& reference) const {
    fs::create_directories(folder_ / "cache" / folder / "snapshots/c0ffee");
    fs::create_directories(folder_ / "cache" / folder / "refs");
    write("cache/" + folder + "/refs/" + reference, "c0ffee");
  }

  /// What bash offers for the last of these words, as it has cut them, sorted.
  Words offered(const Words& words) const {
    std::string script =
        fmt::format("cd '{}' && PATH='{}':$PATH && source <(hooked completion bash) && COMP_WORDS=(hooked",
                    path("work"), path("bin"));
    for (const auto& word : words) script += fmt::format(" '{}'", word);
    script +=
        fmt::format(") COMP_CWORD={} && _hooked && printf '%s\\n' \"${{COMPREPLY[@]}}\"\n", words.size());
    write("script", script);
    const auto finished = run_command("bash '" + path("script") + "'");
    EXPECT_EQ(finished.status, 0) << finished.output;
    Words lines;
    std::istringstream output(finished.output);
    for (std::string line; std::getline(output, line);) {
      if (!line.empty()) lines.push_back(line);
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  const ScopedEnvironment environment_{kHubSettings};
};

TEST_F(CompletionTest, CommandsAreThoseOfTheTable) {
  Words all = {"--help", "--json", "--version"};
  for (const auto& command : cli::commands()) all.emplace_back(command.name);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(offered({""}), all);
  EXPECT_EQ(offered({"in"}), Words{"info"});
  EXPECT_EQ(offered({"--v"}), Words{"--version"});
  EXPECT_EQ(offered({"absent", ""}), Words{});
}

// Help and completion are two views of one parser.
TEST_F(CompletionTest, OptionsAreThoseThatHelpLists) {
  for (const auto& command : cli::commands()) {
    const std::string name(command.name);
    const auto help = succeed({name, "--help"}).out;
    const std::regex option(R"((?:\n  (?:-h,)?|,)(--[a-z-]+))");  // some have two names
    std::set<std::string> listed;
    for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at)
      listed.insert((*at)[1]);
    EXPECT_GE(listed.size(), 1u);
    EXPECT_EQ(offered({name, "--"}), Words(listed.begin(), listed.end())) << name;
  }
}

TEST_F(CompletionTest, ChoicesAreThoseOfTheOption) {
  EXPECT_EQ(offered({"run", "m", "--dtype", ""}), (Words{"bfloat16", "float16", "float32", "float64"}));
  EXPECT_EQ(offered({"run", "m", "--dtype", "b"}), Words{"bfloat16"});
  EXPECT_EQ(offered({"save", "m", "--device", "c"}), (Words{"cpu", "cuda"}));
  EXPECT_EQ(offered({"run", "m", "--prepend-bos", "y"}), Words{"yes"});
  EXPECT_EQ(offered({"completion", ""}), (Words{"bash", "zsh"}));
  EXPECT_EQ(offered({"info", "m", "--process", "fold_"}), (Words{"fold_ln", "fold_value_biases"}));
  EXPECT_EQ(offered({"info", "m", "--process", "fold_ln,ce"}),
            (Words{"fold_ln,center_unembed", "fold_ln,center_writing_weights"}));
  EXPECT_EQ(offered({"patch", "m", "--sweep", "block_every,mlp"}), Words{"block_every,mlp_out"});
  EXPECT_EQ(offered({"patch", "m", "--metric", "lo"}),
            (Words{"log_probability", "logit", "logit_difference", "loss"}));
}

// bash splits words at = : and @ and inserts completions after the last of them.
TEST_F(CompletionTest, WordsThatBashCuts) {
  EXPECT_EQ(offered({"run", "m", "--dtype", "=", "b"}), Words{"bfloat16"});
  EXPECT_EQ(offered({"run", "m", "--prepend-bos", "="}), (Words{"file", "no", "yes"}));
  EXPECT_EQ(offered({"run", "m", "--device", "cuda", ":", "1", "--dt"}), Words{"--dtype"});
  EXPECT_EQ(offered({"run", "--device", "=", "cpu", "su"}), Words{"sub"});
  add_model("models--org--small", "v1.0");
  EXPECT_EQ(offered({"run", "org/small", "@", ""}), Words{"v1.0"});
  EXPECT_EQ(offered({"run", "org/small", "@", "v1.0", "--js"}), Words{"--json"});
}

TEST_F(CompletionTest, AModelIsAFolderAFileOrInTheCache) {
  add_model("models--org--small", "main");
  add_model("models--model-in-cache", "main");
  EXPECT_EQ(offered({"run", "or"}), Words{"org/small"});
  for (const auto* name : {"work/model.csv", "work/model.svg"}) write(name, "");
  EXPECT_EQ(offered({"info", "mo"}), (Words{"model", "model-in-cache", "model.safetensors"}));
  EXPECT_EQ(offered({"tokenize", "my"}), Words{"my models"});
  EXPECT_EQ(offered({"run", "--json", "or"}), Words{"org/small"}) << "a flag takes no value";
  EXPECT_EQ(offered({"run", "m", "--top-k", "3", "or"}), Words{}) << "there is one already";
}

TEST_F(CompletionTest, AGgufFileOfACachedModel) {
  add_model("models--org--quantised", "main");
  for (const auto* file : {"m.Q4_K.gguf", "m.Q8_0.gguf"})
    write(std::string("cache/models--org--quantised/snapshots/c0ffee/") + file, "");
  EXPECT_EQ(offered({"run", "org/quantised"}),
            (Words{"org/quantised:m.Q4_K.gguf", "org/quantised:m.Q8_0.gguf"}));
  EXPECT_EQ(offered({"run", "org/quantised", ":", "m.Q8"}), Words{"m.Q8_0.gguf"});
  EXPECT_EQ(offered({"run", "org/quantised\\:m.Q8"}), Words{"org/quantised:m.Q8_0.gguf"}) << "a quoted colon";
  EXPECT_EQ(offered({"run", "org/quantised", ":", "m.Q8_0.gguf", "--js"}), Words{"--json"});
}

TEST_F(CompletionTest, FilesAndFolders) {
  EXPECT_EQ(offered({"run", "m", "--text-file", "te"}), Words{"texts.txt"});
  EXPECT_EQ(offered({"run", "m", "--text-file", path("work/te")}), Words{path("work/texts.txt")});
  EXPECT_EQ(offered({"save", "m", "--out", "m"}), (Words{"model", "my models"}));
  EXPECT_EQ(offered({"run", "m", "--text", ""}), Words{}) << "only its user knows the text";
}

// Names of activations are those of the model in the command line.
TEST_F(CompletionTest, ActivationsOfTheModel) {
  fs::remove(folder_ / "bin/hooked");
  write("bin/hooked", "#!/bin/sh\nexec '" HOOKED_CLI "' \"$@\"\n");
  fs::permissions(folder_ / "bin/hooked", fs::perms::owner_all);
  EXPECT_EQ(offered({"cache", model(), "--names", "blocks.1.hook_resid"}),
            (Words{"blocks.1.hook_resid_mid", "blocks.1.hook_resid_post", "blocks.1.hook_resid_pre"}));
  EXPECT_EQ(offered({"cache", model(), "--names", "hook_embed,blocks.*.attn.hook_p"}),
            Words{"hook_embed,blocks.*.attn.hook_pattern"});
  EXPECT_EQ(offered({"names", "--names", "hook_e"}), Words{}) << "of which model?";
  EXPECT_EQ(offered({"run", model(), "--edit", "blocks.1.mlp.hook_po"}), Words{"blocks.1.mlp.hook_post"});
  const Words operations{"add", "project_out", "replace", "scale", "set", "zero"};
  Words edits;
  for (const auto& operation : operations) edits.push_back("hook_embed " + operation);
  EXPECT_EQ(offered({"run", model(), "--edit", "\"hook_em"}), edits);
  EXPECT_EQ(offered({"run", model(), "--edit", "\"hook_embed s"}),
            (Words{"hook_embed scale", "hook_embed set"}));
  EXPECT_EQ(offered({"generate", model(), "--prompt-edit", "\"resid_pre0[pos=1] z"}),
            Words{"resid_pre0[pos=1] zero"});
  EXPECT_EQ(offered({"run", model(), "--edit", "\"hook_embed scale 0"}), Words{});
  EXPECT_EQ(offered({"run", "m", "--dictionary", "su"}), Words{"sub"});
}

// A name in a cache comes from a stranger. The shell must not run it.
TEST_F(CompletionTest, NamesAreNoShellCode) {
  add_model("models--org--small", "$(touch ran)`touch ran`");
  EXPECT_EQ(offered({"run", "or"}), Words{R"(org/small@\$\(touch\ ran\)\`touch\ ran\`)"});
  EXPECT_FALSE(fs::exists(folder_ / "work/ran"));
}

TEST_F(CompletionTest, TheShellMustBeKnown) {
  EXPECT_NE(succeed({"completion", "zsh"}).out.find("bashcompinit"), std::string::npos);
  expect_failure({"completion", "fish"}, 2, "fish");
  expect_failure({"completion"}, 2, "SHELL");
}

}  // namespace
}  // namespace hooked::completion_test
