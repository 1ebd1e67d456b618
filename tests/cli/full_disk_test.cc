// A disk that is really full: a tmpfs of a few hundred KiB, where the system lets us mount one, and a limit
// on the size of files, which needs no rights. (Each single failure of a call: tests/harvest/faults_test.cc.)
#include "tests/cli/cli_fixture.h"
#include "tests/harvest/folder_bytes.h"
#include "tests/support/child_process.h"
#include "tests/support/run_program.h"

namespace hooked::full_disk_test {
namespace {

namespace fs = std::filesystem;

class FullDisk : public CliTest {
 protected:
  FullDisk() {
    std::string documents;
    for (int document = 0; document < 200; ++document) {
      std::string ids;
      for (int i = 0; i < 64; ++i) ids += fmt::format("{}{}", i > 0 ? "," : "", (i * 7 + document) % 11);
      documents += fmt::format("{{\"text\": [{}]}}\n", ids);
    }
    write("corpus.jsonl", documents);
  }

  /// The words after `hooked` that harvest into a folder.
  std::string harvest_into(const fs::path& folder) const {
    return fmt::format(
        "harvest {} --corpus {} --names '*.hook_resid_post' --context 8 --unit-tokens 2000 --batch-tokens "
        "128 "
        "--threads 1 --out {}",
        model(), path("corpus.jsonl"), folder.string());
  }
};

TEST_F(FullDisk, ATmpfsThatIsFullCostsNothingThatWasThere) {
  if (run_command("unshare --mount true").status != 0)
    GTEST_SKIP() << "no rights to mount a tmpfs; AFileThatMayNotGrowIsAnError needs none";
  ASSERT_EQ(run_program("hooked", harvest_into(folder_ / "whole")).status, 0);
  const auto whole = bytes_in(folder_ / "whole");
  std::uint64_t bytes = 0;
  for (const auto& [name, content] : whole) bytes += content.size();
  fs::create_directory(folder_ / "disk");
  fs::create_directory(folder_ / "copy");
  // Half of the store fits. The second call finds the disk still full, the third has room.
  write("full.sh", fmt::format(R"(set -u
mount -t tmpfs -o size={0} none {1}
"{2}" {3}; echo "first: $?"
"{2}" {3}; echo "second: $?"
ls {1}/acts | grep -c '\.json$'
"{2}" harvest --verify {1}/acts >/dev/null; echo "verified: $?"
"{2}" run {4} --tokens 1,2,3 --top-k 1 --json >/dev/null; echo "usable: $?"
"{2}" cache {4} --tokens 1,2,3 --out {1}/cache.safetensors; echo "cache: $?"
"{2}" save {4} --out {1}/saved; echo "saved: $?"
ls -A {1}
mount -o remount,size={5} {1}
"{2}" {3} >/dev/null; echo "third: $?"
cp {1}/acts/* {6}
)",
                               bytes / 2, path("disk"), HOOKED_CLI, harvest_into(folder_ / "disk/acts"),
                               model(), bytes * 4, path("copy")));
  const Finished finished = run_command("unshare --mount bash " + path("full.sh"));
  SCOPED_TRACE(finished.output);
  const auto said = [&](const std::string& text) { return finished.output.find(text) != std::string::npos; };
  for (const char* call : {"first: 1\n", "second: 1\n", "verified: 0\n", "usable: 0\n", "third: 0\n"})
    EXPECT_TRUE(said(call)) << call;
  EXPECT_TRUE(said("No space left on device"));
  EXPECT_TRUE(said(path("disk/acts"))) << "the file is named";
  EXPECT_TRUE(bytes_in(folder_ / "copy") == whole);
}

TEST_F(FullDisk, AFileThatMayNotGrowIsAnError) {
  const auto limited = [&](std::vector<std::string> words, rlim_t bytes) {
    words.insert(words.begin(), HOOKED_CLI);
    ChildProcess child(words, path("stdout"), path("stderr"), {.file_size = bytes});
    const int status = child.wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::vector<std::string> cached{"cache", model(), "--tokens",
                                        "1,2,3", "--out", path("cache.safetensors")};
  ASSERT_EQ(limited(cached, 1 << 20), 0) << read("stderr");
  const std::string before = read("cache.safetensors");
  for (const rlim_t bytes : {1024, 4096}) {
    SCOPED_TRACE(bytes);
    EXPECT_EQ(limited(cached, bytes), 1);
    const std::string error = read("stderr");
    EXPECT_EQ(error.find('\n'), error.size() - 1) << error;
    EXPECT_NE(error.find("cache.safetensors"), std::string::npos) << error;
    EXPECT_TRUE(read("cache.safetensors") == before);
    EXPECT_EQ(limited({"save", model(), "--out", path("saved")}, bytes), 1);
    EXPECT_FALSE(fs::exists(path("saved"))) << "no half of a model is left";
  }
}

}  // namespace
}  // namespace hooked::full_disk_test
