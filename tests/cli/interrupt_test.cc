// Ctrl-C: what was computed is written, and the program ends as shells expect.
#include "cli/interrupt.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tests/cli/cli_fixture.h"
#include "tests/cli/running_program.h"
#include "tests/support/relative_difference.h"

namespace hooked::interrupt_test {
namespace {

class Interrupt : public CliTest {
 protected:
  /// A model whose generation could take minutes.
  Interrupt() { save_endless("endless", config().n_layers); }

  /// With many layers one run takes seconds, however late a busy machine sends the signal.
  void save_endless(const std::string& name, std::int64_t layers) const {
    ModelConfig endless = config();
    endless.n_layers = layers;
    endless.n_ctx = 200'000;
    endless.positions = RotaryPositions{.dim = 4};
    HookedTransformer::create(endless, {.seed = 1, .initializer_range = 0.5}).save(folder_ / name);
  }

  std::vector<std::string> generate(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"generate",         path("endless"),    "--tokens", "1,2,3",
                                       "--no-stop-tokens", "--max-new-tokens", "199000",   "--greedy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
};

TEST_F(Interrupt, AGenerationLeavesWhatIsThere) {
  const std::string out = path("made.safetensors");
  RunningProgram program(generate({"--capture", "*.hook_resid_post,*.hook_pattern", "--out", out}),
                         path("stderr"));
  std::string printed = program.read(6);  // the first tokens
  program.interrupt();
  printed += program.read();
  EXPECT_TRUE(ended_by_interrupt(program.wait()));

  const auto line = printed.substr(0, printed.find('\n'));
  const std::int64_t made = std::count(line.begin(), line.end(), ',') + 1;
  EXPECT_GE(made, 3);
  EXPECT_LT(made, 199'000);
  const auto file = SafetensorsFile::open(out);
  const at::Tensor tokens = file.read("tokens");
  ASSERT_EQ(tokens.sizes(), (at::IntArrayRef{1, 3 + made}));
  EXPECT_EQ(line.substr(line.rfind(',') + 1), std::to_string(tokens[0][2 + made].item<std::int64_t>()));
  EXPECT_EQ(read_provenance(file).more.at("stopped"), R"(["interrupt"])");
  const auto cache = ActivationCache::load(out);
  EXPECT_EQ(cache.size(), 4u);
  const auto whole =
      HookedTransformer::load(path("endless")).run_with_cache(tokens, act::resid_post | act::pattern);
  for (const auto& entry : whole.cache)
    EXPECT_LT(relative_difference(cache.entry(entry.name).value(), entry.value()), kFloatTolerance)
        << entry.name.to_string();
  EXPECT_NE(read("stderr").find("interrupted, ending after this step"), std::string::npos);
}

TEST_F(Interrupt, JsonSaysWhyItEnded) {
  RunningProgram program(generate({"--json"}), path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  program.interrupt();
  const Json json = parse_json(program.read(), {.bytes = std::size_t{1} << 26});
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_EQ(json["rows"][0]["stopped"], "interrupt");
  EXPECT_GE(json["rows"][0]["ids"].size(), 1u);
}

TEST_F(Interrupt, TheSecondOneEndsAtOnce) {
  const std::string out = path("made.safetensors");
  RunningProgram program(generate({"--capture", "*.hook_resid_post", "--out", out}), path("stderr"), 16);
  // Nobody reads, so the program waits in the middle of a step.
  ASSERT_TRUE(program.wait_until_it_waits());
  program.interrupt();
  while (read("stderr").find('\n', 1) == std::string::npos) ::usleep(1000);
  program.interrupt();
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(Interrupt, ACacheIsWrittenWhole) {
  const std::string out = path("cache.safetensors");
  std::string tokens = "1";
  for (int i = 0; i < 8000; ++i) tokens += ",2";
  // What it prints fills the pipe and its own buffer, so that it cannot end before it was interrupted.
  RunningProgram program(
      {"cache", path("endless"), "--tokens", tokens, "--names", "hook_embed", "--out", out, "--json"},
      path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  program.interrupt();
  EXPECT_EQ(parse_json(program.read(), {})["tokens"][0].size(), 8001u);
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_EQ(ActivationCache::load(out)["hook_embed"].size(1), 8001);
}

TEST_F(Interrupt, ARunOfWhichNothingIsKeptEndsAtOnce) {
  save_endless("deep", 40);
  std::string tokens = "1";
  for (int i = 0; i < 20'000; ++i) tokens += ",2";
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"cache", path("deep"), "--tokens", tokens, "--out", path("x.safetensors")},
        {"generate", path("deep"), "--tokens", tokens, "--max-new-tokens", "1"}}) {
    RunningProgram program(words, path("stderr"));
    ::usleep(500'000);
    program.interrupt();
    EXPECT_EQ(program.read(), "");
    EXPECT_TRUE(ended_by_interrupt(program.wait()));
    EXPECT_EQ(read("stderr"), "") << "it does not wait for the end of a step";
    EXPECT_FALSE(std::filesystem::exists(path("x.safetensors")));
  }
}

TEST_F(Interrupt, ARunThatIsReadLaterSaysThatNothingIsKept) {
  save_endless("deep", 40);
  std::string tokens = "1";
  for (int i = 0; i < 8000; ++i) tokens += ",2";
  for (const char* command : {"lens", "attribute"}) {
    RunningProgram program({command, path("deep"), "--tokens", tokens, "--answer-token", "3"},
                           path("stderr"));
    ASSERT_TRUE(program.wait_for_guard());
    program.interrupt();
    EXPECT_EQ(program.read(), "");
    EXPECT_TRUE(ended_by_interrupt(program.wait()));
    EXPECT_NE(read("stderr").find("ended by Ctrl-C while the model ran; nothing is kept\n"),
              std::string::npos)
        << read("stderr");
  }
}

TEST_F(Interrupt, AModelThatIsNotSavedLeavesNoFolder) {
  ModelConfig large = config();
  large.d_vocab = 4'000'000;
  large.unembedding = Unembedding{.d_vocab = large.d_vocab};
  HookedTransformer::create(large, {.seed = 1}).save(folder_ / "large");
  // A signal that a busy machine sends late finds the model saved.
  for (int attempt = 0;; ++attempt) {
    RunningProgram program({"save", path("large"), "--out", path("new/saved")}, path("stderr"));
    ASSERT_TRUE(program.wait_for_guard());
    program.interrupt();
    const bool saved = !program.read().empty();
    const int status = program.wait();
    if (!saved) {
      EXPECT_TRUE(ended_by_interrupt(status));
      break;
    }
    ASSERT_LT(attempt, 20) << "no signal came while the model was saved";
    std::filesystem::remove_all(folder_ / "new");
  }
  EXPECT_NE(read("stderr").find("ended by Ctrl-C while the model was saved; nothing is kept\n"),
            std::string::npos)
      << read("stderr");
  EXPECT_FALSE(std::filesystem::exists(path("new")));
}

TEST_F(Interrupt, ABenchPrintsTheTimesThatItHas) {
  RunningProgram program({"bench", model(), "--length", "4", "--iterations", "100000000", "--json"},
                         path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());  // not before a time was measured
  program.interrupt();
  const Json json = parse_json(program.read(), {});
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  EXPECT_GE(json["iterations"].get<int>(), 1);
  EXPECT_LT(json["iterations"].get<int>(), 100'000'000);
  EXPECT_GT(json["plain_ms"]["median"].get<double>(), 0);
  EXPECT_TRUE(json["decode_ms"].is_null());
}

/// What `hooked` prints if it is interrupted as soon as it listens to that.
class InterruptedText : public Interrupt {
 protected:
  std::string interrupted(const std::vector<std::string>& words) const {
    RunningProgram program(words, path("stderr"));
    EXPECT_TRUE(program.wait_for_guard());
    program.interrupt();
    std::string text = program.read();
    EXPECT_TRUE(ended_by_interrupt(program.wait()));
    return text;
  }
  /// Of a pair of prompts, with work that never ends.
  std::string circuits(const std::string& model, const std::vector<std::string>& more) const {
    std::vector<std::string> words{"circuits",           model,     "--clean-tokens", "1,2,3,4",
                                   "--corrupted-tokens", "1,5,3,4", "--answer-token", "6"};
    words.insert(words.end(), more.begin(), more.end());
    return interrupted(words);
  }
};

TEST_F(InterruptedText, CircuitsEndBetweenSteps) {
  for (const std::vector<std::string>& parts : {std::vector<std::string>{}, {"--edges"}}) {
    std::vector<std::string> words{"--steps", "100000000", "--check", "2",     "--top",
                                   "3",       "--judge",   "4",       "--out", path("scores.csv")};
    words.insert(words.end(), parts.begin(), parts.end());
    const std::string text = circuits(model(), words);
    EXPECT_TRUE(text.starts_with("\nended early: no score is whole after ")) << text;
    EXPECT_TRUE(
        text.ends_with(" of 100,000,004 steps, nothing is checked, no circuit is chosen, nothing is "
                       "judged\n"))
        << text;
    EXPECT_FALSE(std::filesystem::exists(path("scores.csv"))) << "there is no number to save";
  }
}

TEST_F(InterruptedText, AJudgementEndsBetweenRuns) {
  ModelConfig deep = config();  // a small model has few circuits of a size, which are soon judged
  deep.n_layers = 40;
  HookedTransformer::create(deep, {.seed = 1, .initializer_range = 0.5}).save(folder_ / "deep");
  write("nodes.json", R"({"format": "hooked circuit 1", "kind": "nodes", "nodes": ["head 0.1", "mlp 1"]})");
  write("edges.json", R"({"format": "hooked circuit 1", "kind": "edges", "edges": [["embed", "logits"]]})");
  for (const char* file : {"edges.json", "nodes.json"}) {
    const std::string text = circuits(path("deep"), {"--circuit", path(file), "--judge", "20000"});
    // It may have been interrupted before the first run.
    const bool some =
        text.find(" runs judge the circuit, and what needs the others is left out\n") != std::string::npos;
    EXPECT_TRUE(some || text.ends_with("ended early: nothing is judged\n")) << text;
    EXPECT_EQ(text.find("at least as faithful"), std::string::npos) << text;
    EXPECT_EQ(text.find("nan"), std::string::npos) << "only what is whole\n" << text;
    EXPECT_EQ(text.find("faithfulness lost\n\n"), std::string::npos) << "no empty table\n" << text;
  }
}

/// One row is one run, which is given up between its layers.
TEST_F(InterruptedText, HeadsEndBetweenLayers) {
  save_endless("deep", 40);
  std::string tokens = "1";
  for (int i = 0; i < 8000; ++i) tokens += ",2";
  EXPECT_EQ(interrupted({"heads", path("deep"), "--tokens", tokens, "--score", "entropy"}),
            "\nended early: 0 of 1 rows\n");
  const std::string json =
      interrupted({"heads", path("deep"), "--tokens", tokens, "--score", "entropy", "--json"});
  const Json found = parse_json(json, {.bytes = std::size_t{1} << 20});
  EXPECT_EQ(found["complete"], false);
  EXPECT_EQ(found["rows_scored"], 0);
  EXPECT_EQ(found["scores"], Json::object());
}

TEST_F(InterruptedText, WeightsEndBetweenDraws) {
  const std::string text = interrupted({"weights", model(), "--composition", "q,k", "--draws", "100000000"});
  EXPECT_NE(text.find("\nended early: by q has 1 of 1 pairs of layers and "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" of 100,000,000 random draws, by k was not begun\n")) << text;
}

TEST_F(InterruptedText, WeightsEndBetweenHeads) {
  ModelConfig wide = config();
  wide.n_layers = 100;
  wide.d_vocab = 20'000;
  wide.unembedding = Unembedding{.d_vocab = wide.d_vocab};
  HookedTransformer::create(wide, {.seed = 1, .initializer_range = 0.5}).save(folder_ / "copies");
  const std::string text = interrupted({"weights", path("copies"), "--copying"});
  EXPECT_NE(text.find("\nended early: "), std::string::npos);
  EXPECT_TRUE(text.ends_with(" of 300 heads\n"));
}

/// Its numbers are means over the pairs that are whole.
TEST_F(InterruptedText, APatchSaysWhichPairsAreWhole) {
  std::string pairs;
  for (int pair = 0; pair < 60; ++pair) {
    std::string ids;
    for (int i = 0; i < 100; ++i) ids += fmt::format(",{}", (i * 7 + pair) % 11);
    pairs += fmt::format("{{\"clean\": [1{0}], \"corrupted\": [2{0}], \"answers\": 3}}\n", ids);
  }
  write("pairs.jsonl", pairs);
  const std::vector<std::string> words{"patch",   path("endless"),        "--pairs",   path("pairs.jsonl"),
                                       "--sweep", "attn_head_out_by_pos", "--threads", "1"};
  RunningProgram program(words, path("stderr"));
  ASSERT_TRUE(program.wait_for_guard());
  ::usleep(300'000);  // some pairs are whole by then, or none, or all of a fast machine
  program.interrupt();
  const std::string text = program.read();
  EXPECT_TRUE(ended_by_interrupt(program.wait()));
  const std::string whole = " of 60 pairs are whole; ";
  const auto end = text.find(whole);
  if (end == std::string::npos) GTEST_SKIP() << "all pairs were done";
  const auto begin = text.rfind(' ', end - 1) + 1;
  const std::string number = text.substr(begin, end - begin);
  EXPECT_EQ(text.find(fmt::format("mean over {} of 60 pairs", number)) != std::string::npos, number != "0");
  EXPECT_EQ(text.find(fmt::format("\n{} of 60 pairs ", number)) != std::string::npos, number != "0");
  EXPECT_EQ(text.find("\nPatching ") != std::string::npos, number != "0") << "no empty table";
}

TEST(InterruptGuard, NotesOneAndRestoresWhatWasThere) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGINT, nullptr, &before);
  {
    const cli::InterruptGuard guard;
    EXPECT_FALSE(cli::interrupted());
    testing::internal::CaptureStderr();
    std::raise(SIGINT);
    EXPECT_TRUE(cli::interrupted());
    EXPECT_NE(testing::internal::GetCapturedStderr().find("once more ends at once"), std::string::npos);
    ::sigaction(SIGINT, nullptr, &after);
    EXPECT_EQ(after.sa_handler, SIG_DFL) << "the next one ends the program";
  }
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(InterruptGuard, LeavesAnIgnoredSignalIgnored) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  {
    const cli::InterruptGuard guard;
    struct sigaction now {};
    ::sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_IGN);
  }
  std::signal(SIGINT, before);
}

}  // namespace
}  // namespace hooked::interrupt_test
