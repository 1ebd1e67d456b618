// A disk that fails: each write, flush and rename of a harvest fails once. What was whole stays, and the same
// harvest continues to the same bytes.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <string>

#include "hooked/core/error.h"
#include "hooked/harvest/activation_store.h"
#include "hooked/harvest/harvest.h"
#include "hooked/hooks/act.h"
#include "tests/harvest/folder_bytes.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace {

// The calls until one fails; 0: none does.
std::atomic<int> calls_left{0};
std::atomic<int> calls_made{0};
std::atomic<bool> counting{false};

bool fails() {
  if (!counting) return false;
  ++calls_made;
  return calls_left > 0 && --calls_left == 0;
}

template <typename Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// These stand before the C library's in this program.
extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const real = next_of<ssize_t(int, const void*, size_t)>("write");
  if (file > 2 && fails()) {
    errno = ENOSPC;
    return -1;
  }
  return real(file, bytes, count);
}

int fsync(int file) {
  static auto* const real = next_of<int(int)>("fsync");
  if (fails()) {
    errno = EIO;
    return -1;
  }
  return real(file);
}

int rename(const char* from, const char* to) {
  static auto* const real = next_of<int(const char*, const char*)>("rename");
  if (fails()) {
    errno = EIO;
    return -1;
  }
  return real(from, to);
}
}

namespace hooked::faults_test {
namespace {

namespace fs = std::filesystem;

TEST(HarvestFaults, EachFailureOfTheDiskLeavesWhatWasWhole) {
  const TempFolder folder;
  const HookedTransformer model = random_model();
  std::vector<std::variant<std::string, std::vector<std::int64_t>>> documents;
  for (std::int64_t i = 0; i < 9; ++i) documents.emplace_back(std::vector<std::int64_t>{i, i + 1, 3, 4, 5});
  const Corpus corpus = Corpus::of(documents);
  const HarvestOptions options{.names = act::resid_post(1), .contexts = {.length = 5}};
  const StoreOptions store{.unit_tokens = 512 * 2, .shard_bytes = 400};
  counting = true;
  harvest(model, corpus, folder / "whole", options, store);
  counting = false;
  const int calls = calls_made;
  const auto expected = bytes_in(folder / "whole");
  ASSERT_GT(calls, 60);
  for (int k = 1; k <= calls; ++k) {
    SCOPED_TRACE(k);
    const fs::path out = folder / std::to_string(k);
    calls_left = k;
    counting = true;
    std::string failure;
    try {
      harvest(model, corpus, out, options, store);
    } catch (const IoError& error) {
      failure = error.what();
    }
    counting = false;
    EXPECT_NE(failure.find(out.string()), std::string::npos) << failure;
    if (fs::exists(out / "manifest.json")) {
      EXPECT_NO_THROW(verify_store(out));  // no record without its files
    }
    const auto summary = harvest(model, corpus, out, options, store);
    EXPECT_TRUE(summary.status.joined);
    EXPECT_TRUE(bytes_in(out) == expected);  // EXPECT_EQ would print them
  }
}

}  // namespace
}  // namespace hooked::faults_test
