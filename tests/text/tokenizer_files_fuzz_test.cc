// The fuzz target's property over small files of every form, cut and changed everywhere.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuzz/tokenizer_files_property.h"
#include "tests/support/temp_folder.h"
#include "tests/text/protobuf_writer.h"
#include "tests/text/rank_files.h"

namespace hooked::text::tokenizer_files_fuzz_test {
namespace {

struct Case {
  const char* file;
  std::string bytes;
  bool every_cut_is_refused;  // of a cut in front of the last byte
};

std::vector<Case> cases() {
  // The model has a rule too: a becomes b.
  return {{"tokenizer.model", small_model(), false},
          {"spiece.model",
           small_pieces() + bytes_field(3, bytes_field(2, std::string("\x04\0\0\0\0\0\0\0b\0", 10))), false},
          {"qwen.tiktoken", rank_lines(3), false},
          {"tekken.json", tekken_text(3), true},
          {"vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n##b\n", false}};
}

TEST(TokenizerFilesFuzz, TheCorpusIsAccepted) {
  const TempFolder folder;
  for (const auto& [file, bytes, cuts] : cases())
    EXPECT_TRUE(tokenizer_file_property(folder.path(), file, bytes)) << file;
}

TEST(TokenizerFilesFuzz, CutAtManyLengths) {
  const TempFolder folder;
  for (const auto& [file, bytes, every_cut_is_refused] : cases()) {
    const auto step = bytes.size() / 200 + 1;
    std::size_t accepted = 0;
    for (std::size_t length = 0; length + 1 < bytes.size(); length += step)
      accepted += tokenizer_file_property(folder.path(), file, bytes.substr(0, length)) ? 1 : 0;
    if (every_cut_is_refused) {
      EXPECT_EQ(accepted, 0U) << file;
    }
    EXPECT_FALSE(tokenizer_file_property(folder.path(), file, "")) << file;
  }
}

TEST(TokenizerFilesFuzz, RandomEdits) {
  const TempFolder folder;
  std::mt19937 random(4);
  for (const auto& [file, bytes, cuts] : cases()) {
    for (int run = 0; run < 300; ++run) {
      std::string changed = bytes;
      for (auto edits = random() % 4 + 1; edits > 0; --edits) {
        const auto at = random() % (changed.size() + 1);
        switch (random() % 3) {
          case 0:
            changed.insert(at, 1, static_cast<char>(random()));
            break;
          case 1:
            changed.erase(at, random() % 5);
            break;
          default:
            if (at < changed.size()) changed[at] = static_cast<char>(random());
        }
      }
      ASSERT_NO_THROW(tokenizer_file_property(folder.path(), file, changed)) << file << ", run " << run;
    }
  }
}

}  // namespace
}  // namespace hooked::text::tokenizer_files_fuzz_test
