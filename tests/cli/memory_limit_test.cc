// A process that may take no more memory (`ulimit -v`): whatever the limit, a command either does its work,
// or says in one sentence that memory ran out and exits with 1. LibTorch and the libraries that it loads take
// some 450 MB of address space before anything of ours runs, so that the limits are counted from there.
#include <ATen/ops/arange.h>

#include "tests/cli/cli_fixture.h"
#include "tests/support/child_process.h"

namespace hooked::memory_limit_test {
namespace {

namespace fs = std::filesystem;

constexpr rlim_t kMiB = rlim_t{1} << 20;

class MemoryLimit : public CliTest {
 protected:
  MemoryLimit() {
    ModelConfig wide = config();
    wide.n_ctx = 2000;
    wide.d_vocab = 100'000;  // 10 MB of weights
    wide.unembedding = Unembedding{.d_vocab = wide.d_vocab};
    HookedTransformer::create(wide, {.seed = 1, .initializer_range = 0.5}).save(folder_ / "wide");
  }

  /// The exit status under a limit; 128 + N for signal N.
  int under(rlim_t mebibytes, std::vector<std::string> words) const {
    words.insert(words.begin(), HOOKED_CLI);
    words.insert(words.end(), {"--threads", "1"});
    ChildProcess child(words, path("stdout"), path("stderr"), {.address_space = mebibytes * kMiB});
    const int status = child.wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  /// The smallest limit, to 8 MiB, under which the program runs a small model.
  rlim_t least() const {
    rlim_t fails = 256, works = 1280;
    while (works - fails > 8) {
      const rlim_t middle = (fails + works) / 2;
      (under(middle, {"run", model(), "--tokens", "1,2,3", "--top-k", "1"}) == 0 ? works : fails) = middle;
    }
    return works;
  }

  /// Tries limits from `begin` on, each step larger than the one before, until the work is done.
  void expect_numbers_or_a_sentence(rlim_t begin, const std::string& what,
                                    const std::vector<std::string>& words) const {
    SCOPED_TRACE(what);
    int refused = 0;
    rlim_t step = 6;
    for (rlim_t limit = begin;; limit += step, step *= 2) {
      SCOPED_TRACE(fmt::format("{} MiB", limit));
      ASSERT_LT(limit, begin + 8192);
      fs::remove_all(path("out"));
      const int code = under(limit, words);
      const std::string error = read("stderr");
      if (code == 0) break;
      ++refused;
      EXPECT_EQ(code, 1) << error;
      EXPECT_EQ(error.find('\n'), error.size() - 1) << error;
      EXPECT_NE(error.find("memory"), std::string::npos) << error;
      EXPECT_EQ(error.find("c10"), std::string::npos) << error;
      EXPECT_EQ(error.find("enforce"), std::string::npos) << "LibTorch's words: " << error;
    }
    EXPECT_GT(refused, 0) << "every limit was enough";
  }
};

TEST_F(MemoryLimit, EachCommandSaysWhatRanOut) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve terabytes of address space";
#endif
  const rlim_t enough = least();
  EXPECT_LT(enough, 2048U);
  std::string ids = "1";
  for (int i = 1; i < 600; ++i) ids += fmt::format(",{}", i % 900);
  // No JSON: nlohmann_json takes memory where it frees some, and ends the program if there is none.
  save_safetensors(folder_ / "corpus.safetensors",
                   {{"tokens", at::arange(60'000).remainder(900).reshape({100, 600})}});
  write("pairs.jsonl", fmt::format("{{\"clean\": [5,{0}], \"corrupted\": [6,{0}], \"answers\": 3}}\n", ids));
  expect_numbers_or_a_sentence(enough, "loading a model",
                               {"run", path("wide"), "--tokens", "1", "--top-k", "1"});
  expect_numbers_or_a_sentence(enough, "a run", {"run", path("wide"), "--tokens", ids, "--top-k", "1"});
  expect_numbers_or_a_sentence(
      enough, "a generation",
      {"generate", path("wide"), "--tokens", ids, "--max-new-tokens", "2", "--greedy"});
  expect_numbers_or_a_sentence(
      enough, "a sweep",
      {"patch", path("wide"), "--pairs", path("pairs.jsonl"), "--sweep", "attn_head_pattern_all_pos"});
  expect_numbers_or_a_sentence(
      enough, "a harvest",
      {"harvest", path("wide"), "--corpus", path("corpus.safetensors"), "--names",
       "*.hook_resid_post,*.hook_pre", "--context", "600", "--batch-tokens", "30000", "--out", path("out")});
}

}  // namespace
}  // namespace hooked::memory_limit_test
