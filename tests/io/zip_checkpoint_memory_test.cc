// The cost of refusing hostile files: at most 64 MiB beyond the file itself.
#include <fmt/format.h>

#include <string>

#include "tests/io/file_bytes.h"
#include "tests/support/pickle_writer.h"
#include "tests/support/process_memory.h"
#include "tests/support/temp_folder.h"
#include "tests/support/zip_checkpoint.h"
#include "tests/support/zip_writer.h"

namespace hooked::zip_checkpoint_memory_test {
namespace {

using Limits = ZipCheckpointLimits;

std::string repeated(std::string_view text, std::size_t count) {
  std::string all;
  all.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(ZipCheckpointMemory, RefusingIsCheap) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  const TempFolder folder;
  const auto path = folder / "f.pt";
  const auto nested = repeated(
      "]q\1"
      "0](h\1h\1h\1h\1h\1h\1h\1h\1h\1h\1e",
      9);
  const std::pair<const char*, std::string> pickles[] = {
      {"lists", repeated("]0", 4'000'000)},
      {"lists of one", repeated("]Na0", 4'000'000)},
      {"a long list", "]" + repeated("Na", 8'000'000)},
      {"dicts of one", repeated("}NNs0", 4'000'000)},
      {"tuples", repeated("NNN\x87"
                          "0",
                          4'000'000)},
      {"tuples of tuples", "N" + repeated("\x85", 20'000'000)},
      {"the memo", "Nr" + pickled_bytes_of(Limits::kMemo - 1, 4) + repeated("]0", 4'000'000)},
      {"the stack", repeated("N", 20'000'000)},
      {"marks", repeated("(", 20'000'000)},
      {"laughs", "]" + nested + nested},
      {"the key model", "}(" + repeated(pickled("model") + "}", 300'000) + "u"},
  };
  for (const auto& [name, pickle] : pickles) {
    put_file(path, checkpoint_bytes(pickle_of(pickle), {}));
    const auto file = static_cast<std::int64_t>(std::filesystem::file_size(path));
    const PeakMemory held;
    EXPECT_THROW(ZipCheckpoint::open(path), CheckpointError) << name;
    const std::int64_t extra = held.bytes();
    EXPECT_LE(extra, file + (std::int64_t{64} << 20)) << name;
    RecordProperty(name, fmt::format("{} MiB beyond {} MiB", (extra - file) >> 20, file >> 20));
  }
}

}  // namespace
}  // namespace hooked::zip_checkpoint_memory_test
