#include "text/sentencepiece/sentencepiece_model.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/temp_folder.h"
#include "tests/text/protobuf_writer.h"

namespace hooked::text::sentencepiece_model_test {
namespace {

using Ids = std::vector<std::int64_t>;

class SentencePieceTest : public ::testing::Test {
 protected:
  Tokenizer load(const std::string& bytes) {
    std::ofstream(folder_ / "tokenizer.model", std::ios::binary) << bytes;
    return Tokenizer::load(folder_ / "tokenizer.model");
  }

  void expect_refused(const std::string& bytes, const std::string& what) {
    try {
      load(bytes);
      FAIL() << "accepted, expected: " << what;
    } catch (const TokenizerError& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
      EXPECT_NE(error.where().find("tokenizer.model"), std::string::npos) << error.where();
    }
  }

  TempFolder folder_;
};

TEST_F(SentencePieceTest, ControlPiecesAreSpecialTokensOfAFileAlone) {
  const auto tokenizer = load(small_model());
  EXPECT_EQ(tokenizer.form(), "tokenizer.model (SentencePiece)");
  EXPECT_EQ(tokenizer.encode("ab<s>ab").ids, (Ids{7, 1, 7}));
  // `<`, `s` and `>` are not pieces: one unknown token, as in the package.
  EXPECT_EQ(tokenizer.encode("ab<s>ab", {.added_tokens = AddedTokensInText::as_text}).ids, (Ids{7, 0, 6}));
  EXPECT_EQ(tokenizer.decode(Ids{1, 7, 2}), "<s> ab</s>");
  EXPECT_EQ(tokenizer.decode(Ids{1, 7, 0, 2}, {.skip_special_tokens = true}), "ab \u2047 ");
  EXPECT_FALSE(tokenizer.bos_id());
  EXPECT_EQ(tokenizer.vocab_size(), 8);
}

TEST_F(SentencePieceTest, OffsetsAreThoseOfTheText) {
  const auto encoding = load(small_model()).encode("ab  \u00e9ab");
  EXPECT_EQ(encoding.pieces, (std::vector<std::string>{"\u2581ab", "\u2581", "\u2581", "<unk>", "ab"}));
  EXPECT_EQ(encoding.offsets, (std::vector<TextSpan>{{0, 2}, {2, 3}, {3, 4}, {4, 6}, {6, 8}}));
}

TEST_F(SentencePieceTest, FieldsThatAreNotKnownArePassedOver) {
  // Among them a message in a message in a message: the reader must not recurse into it.
  std::string nested = "x";
  for (int depth = 0; depth < 2000; ++depth) nested = bytes_field(4, nested);
  const auto unknown =
      number_field(77, 1) + bytes_field(200, nested) + float_field(78, 1) + varint(79 << 3 | 1) + "8 bytes!";
  EXPECT_EQ(load(unknown + small_model() + unknown).encode("ab").ids, (Ids{7}));
}

TEST_F(SentencePieceTest, BytesThatAreNoMessage) {
  const auto model = small_model();
  expect_refused("", "no unknown piece");
  expect_refused(model.substr(0, 3), "expected at most");
  expect_refused(model + "\x0A", "ends inside the number");
  expect_refused(model + std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 10),
                 "expected at most the 0 that follow");
  expect_refused(model + std::string(11, '\xFF'), "too large; expected at most 64 bits");
  expect_refused(model + std::string(1, '\0'), "field number 0");
  expect_refused(model + varint(9 << 3 | 3), "wire type 3");
  expect_refused(model + varint(9 << 3 | 5) + "ab", "ends 2 bytes into the number");
  expect_refused(model + number_field(1, 7), "wire type 0; expected 2");
  expect_refused(model + bytes_field(1, number_field(1, 7)), "wire type 0; expected 2");
  expect_refused(model + bytes_field(1, bytes_field(1, "c") + number_field(2, 7)), "wire type 0; expected 5");
  expect_refused(model + bytes_field(3, number_field(3, 2)), "is 2; expected 0 or 1");
  expect_refused(model + bytes_field(1, bytes_field(1, "\xC3\x28")), "not UTF-8");
  expect_refused(std::string(100, '\n'), "expected");
  expect_refused("version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer");
}

TEST_F(SentencePieceTest, ModelsThatThePackageRefuses) {
  const auto model = small_model();
  expect_refused(model + bytes_field(1, ""), "is empty");
  expect_refused(model + piece_field("a"), "is there twice");
  expect_refused(model + piece_field("?", 0, 2), "expected one unknown piece");
  expect_refused(piece_field("a") + bytes_field(2, ""), "no unknown piece");
  expect_refused(model + piece_field("<0x41>", 0, 6), "byte_fallback is not set");
  expect_refused(model + bytes_field(2, number_field(35, 1)), "no piece for the byte 0x00");
  expect_refused(model + piece_field("c", std::numeric_limits<float>::quiet_NaN()), "not finite");
  expect_refused(model + piece_field("c", 0, 7), "is 7; expected 1 to 6");
  expect_refused(model + bytes_field(2, number_field(3, 3)), "model_type is 3 (words)");
  expect_refused(model + bytes_field(3, bytes_field(2, "abc")), "holds 3 bytes; expected at least 4");
  expect_refused(model + bytes_field(5, bytes_field(2, "abc")), "denormalizer_spec");
}

TEST_F(SentencePieceTest, PiecesAreAsLongAsIsSaid) {
  EXPECT_NO_THROW(load(small_model() + piece_field(std::string(1023, 'a'))));
  EXPECT_NO_THROW(load(small_model() + piece_field(std::string(1024, 'a'))));
  expect_refused(small_model() + piece_field(std::string(1025, 'a')),
                 "has 1025 bytes; expected at most 1024");
  expect_refused(small_model() + piece_field(std::string(1025, 'a'), 0, 4), "has 1025 bytes");
}

TEST_F(SentencePieceTest, CharactersThatAreNoPiecesAreJoinedToOne) {
  // The package joins texts, not pieces: c and d themselves are not pieces.
  const auto tokenizer = load(small_model() + piece_field("cd", -1) + piece_field("acd", -0.5F));
  EXPECT_EQ(tokenizer.encode("ab cd").ids, (Ids{7, 3, 8}));
  EXPECT_EQ(tokenizer.encode("ab acd").ids, (Ids{7, 3, 9}));
  EXPECT_EQ(tokenizer.encode("ab c").ids, (Ids{7, 3, 0}));
}

}  // namespace
}  // namespace hooked::text::sentencepiece_model_test
