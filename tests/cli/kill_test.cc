// kill -9 at random moments of long work, until it is finished: the bytes are those of an unbroken run.
// HOOKED_KILLS says how often (docs/reliability.md).
#include <cstdlib>
#include <functional>
#include <map>
#include <random>

#include "io/files/atomic_file.h"
#include "tests/cli/cli_fixture.h"
#include "tests/support/child_process.h"

namespace hooked::kill_test {
namespace {

namespace fs = std::filesystem;
using Bytes = std::map<std::string, std::string>;

class Killed : public CliTest {
 protected:
  Killed() { save_longer("longer", 200); }

  static int kills() {
    const char* asked = std::getenv("HOOKED_KILLS");
    return asked == nullptr ? 3 : std::atoi(asked);
  }

  ChildProcess start(std::vector<std::string> words) const {
    words.insert(words.begin(), HOOKED_CLI);
    return {words, path("stdout"), path("stderr")};
  }

  /// What the work that `words` start in a folder leaves there, but for files that were being written when it
  /// was killed.
  static Bytes left_in(const fs::path& folder) {
    Bytes files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file() || AtomicFile::is_partial(entry.path().filename().string())) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files[fs::relative(entry.path(), folder)] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

  using Words = std::function<std::vector<std::string>(const fs::path& folder)>;

  /// Kills the work as often as was asked. `interrupted` counts how often it left something to continue from.
  void expect_the_bytes_of_an_unbroken_run(const Words& words,
                                           const std::function<bool(const fs::path&)>& interrupted) const {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    fs::create_directory(folder_ / "whole");
    ASSERT_EQ(start(words(folder_ / "whole")).wait(), 0) << read("stderr");
    const std::chrono::duration<double> duration = Clock::now() - began;
    const Bytes whole = left_in(folder_ / "whole");
    ASSERT_FALSE(whole.empty());

    std::mt19937 random(std::random_device{}());
    std::uniform_real_distribution<double> moment(0, duration.count() * 1.1);
    int killed = 0, continued = 0, finished = 0;
    while (killed < kills()) {
      const fs::path folder = folder_ / fmt::format("killed{}", finished++);
      fs::create_directory(folder);
      for (;;) {
        ChildProcess work = start(words(folder));
        if (work.ends_within(std::chrono::duration<double>(killed < kills() ? moment(random) : 3600))) {
          ASSERT_EQ(work.wait(), 0) << read("stderr");
          break;
        }
        work.kill();
        ++killed;
        continued += interrupted(folder) ? 1 : 0;
      }
      EXPECT_TRUE(left_in(folder) == whole);  // EXPECT_EQ would print them
      fs::remove_all(folder);
    }
    if (kills() >= 20) {
      EXPECT_GT(continued, 0) << "no kill was in the middle of the work";
    }
    fmt::print("{} kills, {} of them in the middle, {} runs finished, unbroken {:.1f} s\n", killed, continued,
               finished, duration.count());
  }
};

TEST_F(Killed, PatchContinuesFromItsPartialFile) {
  std::string pairs;
  for (int pair = 0; pair < 8; ++pair) {
    std::string ids;
    for (int i = 0; i < 60; ++i) ids += fmt::format(",{}", (i * 7 + pair) % 11);
    pairs += fmt::format("{{\"clean\": [1{0}], \"corrupted\": [2{0}], \"answers\": 3}}\n", ids);
  }
  write("pairs.jsonl", pairs);
  expect_the_bytes_of_an_unbroken_run(
      [&](const fs::path& folder) {
        return std::vector<std::string>{"patch",     path("longer"),
                                        "--pairs",   path("pairs.jsonl"),
                                        "--sweep",   "attn_head_out_by_pos",
                                        "--threads", "1",
                                        "--partial", folder / "partial.safetensors",
                                        "--out",     folder / "scores.csv"};
      },
      [](const fs::path& folder) {
        if (!fs::exists(folder / "partial.safetensors")) return false;
        const at::Tensor done = SafetensorsFile::open(folder / "partial.safetensors").read("done");
        return done.to(at::kBool).any().item<bool>() && !done.to(at::kBool).all().item<bool>();
      });
}

TEST_F(Killed, HarvestContinuesFromItsUnits) {
  std::string documents;
  for (int document = 0; document < 300; ++document) {
    std::string ids;
    for (int i = 0; i < 300; ++i) ids += fmt::format("{}{}", i > 0 ? "," : "", (i * 7 + document) % 11);
    documents += fmt::format("{{\"text\": [{}]}}\n", ids);
  }
  write("corpus.jsonl", documents);
  expect_the_bytes_of_an_unbroken_run(
      [&](const fs::path& folder) {
        return std::vector<std::string>{"harvest",        path("longer"),
                                        "--corpus",       path("corpus.jsonl"),
                                        "--names",        "*.hook_resid_post",
                                        "--context",      "16",
                                        "--unit-tokens",  "4000",
                                        "--batch-tokens", "128",
                                        "--threads",      "1",
                                        "--out",          folder / "acts"};
      },
      [](const fs::path& folder) { return fs::exists(folder / "acts" / "unit-000000.json"); });
}

}  // namespace
}  // namespace hooked::kill_test
