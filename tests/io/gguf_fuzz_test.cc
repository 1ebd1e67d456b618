// The fuzz target's property over a corpus of files and over every small change of one.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/gguf_property.h"
#include "tests/io/gguf_bytes.h"

namespace hooked::gguf_fuzz_test {
namespace {

const std::vector<std::string>& corpus() {
  static const std::vector<std::string> files = [] {
    GgufBytes tensors;
    tensors.tensor("a", {3, 2}, 0, 0).tensor("blk.0.b", {32, 2}, 8, 32).tensor("c", {}, 24, 128);
    tensors.data = std::string(129, '\3');
    GgufBytes values;
    values.uint32("general.alignment", 8).text("general.architecture", "llama").float32("x", 1e-5F);
    values.boolean("y", 1).number("z", GgufType::uint64, ~std::uint64_t{0}, 8);
    values.array("t", GgufType::text, 2, gguf_text("ab") + gguf_text(""));
    values.array("n", GgufType::int16, 2, little(7, 2) + little(65535, 2));
    values.tensor("w", {256}, 12, 0);
    values.alignment = 8;
    values.data = std::string(144, '\5');
    return std::vector<std::string>{GgufBytes().bytes(), tensors.bytes(), values.bytes()};
  }();
  return files;
}

TEST(GgufFuzz, CorpusIsAccepted) {
  for (const std::string& file : corpus()) EXPECT_TRUE(gguf_property(file));
}

TEST(GgufFuzz, EveryByteChangedToEveryOther) {
  std::size_t accepted = 0, tried = 0;
  for (const std::string& file : corpus()) {
    for (std::size_t i = 0; i < file.size(); ++i) {
      for (int value = 0; value < 256; ++value, ++tried) {
        std::string changed = file;
        changed[i] = static_cast<char>(value);
        accepted += gguf_property(changed) ? 1 : 0;
      }
    }
  }
  // Data, numbers and letters may change; the structure may not. Both kinds must have been met.
  EXPECT_GT(accepted, tried / 10);
  EXPECT_LT(accepted, tried);
}

TEST(GgufFuzz, CutAtEveryLength) {
  for (const std::string& file : corpus()) {
    for (std::size_t length = 0; length < file.size(); ++length)
      EXPECT_FALSE(gguf_property(std::string_view(file).substr(0, length))) << length;
  }
}

TEST(GgufFuzz, RandomEdits) {
  std::mt19937 random(1);
  const std::vector<std::string> pieces = {little(0, 8),
                                           little(1, 8),
                                           little(~std::uint64_t{0}, 8),
                                           little(1U << 31U, 4),
                                           little(8, 4),
                                           little(9, 4),
                                           "GGUF",
                                           "\xFF"};
  for (int run = 0; run < 20'000; ++run) {
    std::string file = corpus()[random() % corpus().size()];
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const auto at = random() % (file.size() + 1);
      switch (random() % 4) {
        case 0:
          file.insert(at, pieces[random() % pieces.size()]);
          break;
        case 1:
          file.erase(at, random() % 9);
          break;
        case 2: {
          const std::string& piece = pieces[random() % pieces.size()];
          file.replace(at, piece.size(), piece);
          break;
        }
        default:
          file.insert(at, file.substr(random() % std::max<std::size_t>(1, file.size()), random() % 40));
      }
    }
    gguf_property(file);
  }
}

}  // namespace
}  // namespace hooked::gguf_fuzz_test
