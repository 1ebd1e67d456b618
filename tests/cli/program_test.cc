#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "core/json.h"
#include "hooked/core/kernel_set.h"
#include "hooked/core/version.h"
#include "options/command.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/run_program.h"

namespace hooked::program_test {
namespace {

class ProgramTest : public CliTest {};

TEST_F(ProgramTest, VersionNamesBoth) {
  EXPECT_EQ(succeed({"--version"}).out,
            fmt::format("hooked {} (LibTorch {})\n", version(), libtorch_version()));
}

// In separate processes: a process chooses its kernels once.
TEST_F(ProgramTest, VersionNamesTheKernelsInUse) {
  const auto version_with = [](const std::string& variable) {
    return run_command(variable + " '" HOOKED_CLI "' --version --json");
  };
  const auto best = Json::parse(version_with("HOOKED_KERNELS=").output);
  EXPECT_EQ(best.at("version"), version());
  EXPECT_EQ(best.at("kernels"), best.at("kernel_sets").back());
  EXPECT_EQ(best.at("kernel_sets").size(), kernel_sets().size());
  for (const KernelSet set : kernel_sets()) {
    const std::string name(to_string(set));
    EXPECT_EQ(Json::parse(version_with("HOOKED_KERNELS=" + name).output).at("kernels"), name);
  }
  std::string names;
  for (const Json& name : best.at("kernel_sets"))
    names += (names.empty() ? "" : ", ") + name.get<std::string>();
  const auto refused = version_with("HOOKED_KERNELS=avx1024");
  EXPECT_EQ(WEXITSTATUS(refused.status), 1);
  EXPECT_EQ(refused.output,
            fmt::format("hooked: [HOOKED_KERNELS] there is no such set of kernels; expected one of "
                        "{}, got avx1024; without the variable {} is taken\n",
                        names, to_string(kernel_sets().back())));
  if (kernel_sets().back() != KernelSet::amx) {
    EXPECT_NE(version_with("HOOKED_KERNELS=amx").output.find("this processor or this build lacks that set"),
              std::string::npos);
  }
  // The engine refuses it as well, before a model is loaded.
  const auto run = run_command("HOOKED_KERNELS=fast '" HOOKED_CLI "' run '" + model() + "' --tokens 1");
  EXPECT_EQ(WEXITSTATUS(run.status), 1);
  EXPECT_NE(run.output.find("[HOOKED_KERNELS] there is no such set of kernels"), std::string::npos)
      << run.output;
}

TEST_F(ProgramTest, NumbersOutOfRangeAreRefused) {
  const auto expect_refused = [&](const std::vector<std::string>& arguments, const std::string& said) {
    const CliResult result = hooked(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.error.find(said), std::string::npos) << result.error;
  };
  for (const std::string seed : {"18446744073709551616", "99999999999999999999", "-1", "1.5", "0x10"})
    expect_refused({"bench", model(), "--seed", seed},
                   "expected an integer from 0 to 18446744073709551615, got " + seed);
  for (const std::string layer : {"9223372036854775808", "-9223372036854775809"})
    expect_refused({"weights", model(), "--singular", "ov_written", "--layer", layer}, "integer of 64 bits");
  for (const std::string temperature : {"inf", "nan", "1e999"})
    expect_refused({"generate", model(), "--tokens", "1", "--temperature", temperature}, "finite number");
  for (const std::string temperature : {"0", "-1"})
    expect_refused({"generate", model(), "--tokens", "1", "--temperature", temperature},
                   "expected a number above 0, got " + temperature + "; --greedy takes the likeliest token");
}

TEST_F(ProgramTest, HelpListsEveryCommandAndEachHasAnExample) {
  const auto help = succeed({"--help"}).out;
  for (const auto& command : cli::commands()) {
    EXPECT_NE(help.find(fmt::format("  {} ", command.name)), std::string::npos) << help;
    const auto own = succeed({std::string(command.name), "--help"}).out;
    EXPECT_NE(own.find(fmt::format("hooked {}", command.name), own.find("\nExamples:\n")), std::string::npos)
        << own;
  }
}

// `--help` of the program and of every command.
std::vector<std::vector<std::string>> help_calls() {
  std::vector<std::vector<std::string>> calls = {{"--help"}};
  for (const auto& command : cli::commands()) calls.push_back({std::string(command.name), "--help"});
  return calls;
}

// A closed list of words is in help as it is accepted.
TEST_F(ProgramTest, HelpSaysTheWordsThatAnOptionTakes) {
  const auto says = [&](const std::string& command, const std::string& words) {
    std::string help;
    for (std::istringstream lines(succeed({command, "--help"}).out); lines;) {
      std::string word;
      if (lines >> word) help += word + " ";
    }
    EXPECT_NE(help.find(words), std::string::npos) << command << ": " << help;
  };
  says("patch", "one of clean, zero, mean_rows, mean_rows_and_positions, resampled");
  says("circuits", "one of corrupted, zero, mean_rows, mean_rows_and_positions, resampled");
  says("circuits", "some, separated by commas, of norms, patterns");
  says("lens", "one of layer, head, expert, neuron");
  says("attribute", "one of layer, head, expert, neuron");
  says("heads", "one of encoder, cross");
  says("heads", "one of share, mul, abs");
  says("weights", "one of ov_written, ov_read,");
  says("run", "fp16");
  expect_failure({"patch", model(), "--clean-tokens", "1", "--corrupted-tokens", "2", "--from", "mean"}, 2,
                 "did you mean 'mean_rows' or 'mean_rows_and_positions'?");
}

TEST_F(ProgramTest, HelpFitsEightyColumns) {
  for (const auto& call : help_calls()) {
    std::istringstream help(succeed(call).out);
    for (std::string line; std::getline(help, line);)
      EXPECT_LE(line.size(), 80u) << call.front() << ": " << line;
  }
}

// LibTorch takes longer to load than these answers may take.
TEST_F(ProgramTest, WhatNeedsNoModelNeedsNoEngine) {
  std::filesystem::create_directories(folder_ / "bin");
  std::filesystem::copy_file(HOOKED_CLI, folder_ / "bin" / "hooked");
  const auto alone = [&](const std::string& arguments) {
    const auto command =
        fmt::format("'{0}/bin/hooked' {1} > '{0}/stdout' 2> '{0}/stderr'", path("."), arguments);
    return WEXITSTATUS(std::system(command.c_str()));
  };
  EXPECT_EQ(alone("--version"), 0);
  EXPECT_EQ(alone("run --help"), 0);
  EXPECT_EQ(alone("completion bash"), 0);
  EXPECT_EQ(alone("list --quiet"), 0);
  EXPECT_EQ(alone("run"), 2);
  EXPECT_EQ(alone("run model --tokens 1,x"), 2);
  EXPECT_EQ(alone("run model --tokens 1 --edit 'blocks.0.hook_resid_pre halve'"), 2);
  EXPECT_EQ(
      read("stderr").rfind("hooked run: --edit \"blocks.0.hook_resid_pre halve\": there is no operation", 0),
      0u);
  EXPECT_EQ(alone("run model --tokens 1"), 1);
  EXPECT_NE(read("stderr").find("hooked-engine] cannot be started: No such file"), std::string::npos)
      << read("stderr");
}

TEST_F(ProgramTest, ATextWithoutItsOptionIsAnsweredWithIt) {
  const auto answered = [&](std::vector<std::string> words, const std::string& meant) {
    words.insert(words.begin() + 1, model());
    expect_failure(words, 2, "no option in front; did you mean " + meant + "?");
  };
  answered({"run", "When Mary and John"}, "--text \"When Mary and John\"");
  answered({"generate", "When", "Mary"}, "--text \"When Mary\"");
  answered({"tokenize", "When"}, "--text When");
  answered({"tokenize", "1,2"}, "--decode 1,2");
  answered({"lens", "1,2,3"}, "--tokens 1,2,3");
  answered({"heads", "input.safetensors"}, "--tokens-file input.safetensors");
  answered({"run", "prompts.txt"}, "--text-file prompts.txt");
  answered({"circuits", "pairs.jsonl"}, "--pairs pairs.jsonl");
  answered({"patch", "--sweep", "resid_pre", "one prompt", "another"},
           "--clean \"one prompt\" --corrupted another");
  expect_failure({"info", model(), "more"}, 2, "more is one argument too many");
  expect_failure({"show", "a.safetensors", "b.safetensors"}, 2, "b.safetensors is one argument too many");
}

TEST_F(ProgramTest, WrongUsageIsExitCodeTwo) {
  expect_failure({}, 2, "which command?");
  expect_failure({"--json", "list"}, 2, "--json in front of a command goes with --version alone");
  expect_failure({"nams", model()}, 2, "there is no command 'nams'; did you mean 'names'?");
  expect_failure({"--tokens", "1"}, 2, "--help");
  expect_failure({"run", model(), "--tokns", "1"}, 2, "there is no option --tokns; did you mean '--tokens'?");
  expect_failure({"version"}, 2, "there is no command 'version'; did you mean '--version'?");
  expect_failure({"gen", model()}, 2, "there is no command 'gen'; did you mean 'generate'?");
  expect_failure({"frobnicate"}, 2, "there is no command 'frobnicate'; expected one of list, info, ");
  expect_failure({"run", model(), "--prompt", "a"}, 2, "there is no option --prompt; did you mean '--text'?");
  expect_failure({"lens", model(), "--output=x"}, 2, "there is no option --output; did you mean '--out'?");
  expect_failure({"run", "--model", model()}, 2, "MODEL is the first argument, without an option");
  expect_failure({"run", model(), "--colour"}, 2, "there is no option --colour (see");
  expect_failure({"lens", model(), "--tokens", "1", "--parts", "hed"}, 2,
                 "--parts: 'hed' is not one of layer, head, expert, neuron, feature; did you mean 'head'?");
  expect_failure({"run", "--tokens", "1"}, 2, "MODEL");
  expect_failure({"run", model()}, 2, "--tokens");
  expect_failure({"run", model(), "--tokens"}, 2, "--tokens needs a value");
  expect_failure({"run", model(), "--tokens", "1", "--positions", "0", "--positions", "0"}, 2,
                 "--positions: At Most 1 required but received 2");
  expect_failure({"run", model(), "--tokens", "1", "--text", "a"}, 2, "--text");
  expect_failure({"run", model(), "--tokens", "1,x"}, 2, "--tokens: 'x' is not a number");
  expect_failure({"run", model(), "--tokens", "1,,2"}, 2, "--tokens: '' is not a number");
  expect_failure({"run", "--tokens", "1,2", path("absent")}, 1, "absent");  // and no third number
  expect_failure({"run", model(), "--tokens", "1", "--dtype", "float7"}, 2,
                 "'float7' is not a dtype; expected float32");
  expect_failure({"run", model(), "--tokens", "1", "--process", "fold_l"}, 2, "fold_ln");
  expect_failure({"run", model(), "--tokens", "1", "--process", "fold_ln", "--no-processing"}, 2,
                 "--no-processing");
  expect_failure({"run", model(), "--tokens", "1", "--top-k", "0"}, 2, "--top-k");
  expect_failure({"run", model(), "--tokens", "1", "--threads", "0"}, 2, "--threads");
  expect_failure({"cache", model(), "--tokens", "1"}, 2, "--out");
}

TEST_F(ProgramTest, AModelThatIsNotThereIsExitCodeOne) {
  expect_failure({"info", path("absent")}, 1, "absent");
  expect_failure({"names", path("absent")}, 1, "absent");
  expect_failure({"run", path("absent"), "--tokens", "1"}, 1, "absent");
}

TEST_F(ProgramTest, ADeviceThatIsNoneIsExitCodeOne) {
  expect_failure({"run", model(), "--tokens", "1", "--device", "toaster"}, 1, "toaster");
}

TEST_F(ProgramTest, ErrorsBeginWithTheCommandAndWhereItHappened) {
  const auto result = hooked({"run", model(), "--tokens", "99"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.error.rfind("hooked run: [", 0), 0u) << result.error;
}

}  // namespace
}  // namespace hooked::program_test
