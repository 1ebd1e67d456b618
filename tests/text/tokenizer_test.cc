#include "hooked/text/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::text::tokenizer_test {
namespace {

using Ids = std::vector<std::int64_t>;
using Pieces = std::vector<std::string>;

constexpr std::string_view kVocab =
    R"({"<unk>": 0, "a": 1, "b": 2, "<bos>": 3, "Mary": 4, "!": 5, ".": 6, "a.": 7, "don": 8})";
constexpr std::string_view kBos =
    R"({"id": 3, "content": "<bos>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})";

/// A word-level tokenizer.json with some of its parts replaced.
struct FileParts {
  std::string model = fmt::format(R"({{"type": "WordLevel", "vocab": {}, "unk_token": "<unk>"}})", kVocab);
  std::string added_tokens = fmt::format("[{}]", kBos);
  std::string normalizer = "null";
  std::string pre_tokenizer = R"({"type": "Whitespace"})";
  std::string post_processor = "null";
  std::string decoder = "null";

  std::string text() const {
    return fmt::format(
        R"({{"version": "1.0", "truncation": null, "padding": null, "added_tokens": {}, "normalizer": {}, )"
        R"("pre_tokenizer": {}, "post_processor": {}, "decoder": {}, "model": {}}})",
        added_tokens, normalizer, pre_tokenizer, post_processor, decoder, model);
  }
};

class TokenizerTest : public ::testing::Test {
 protected:
  void write(const std::string& name, std::string_view text) { std::ofstream(folder_ / name) << text; }

  Tokenizer load(const FileParts& parts = {}) {
    write("tokenizer.json", parts.text());
    return Tokenizer::load(folder_.path());
  }

  /// Loads `text` as tokenizer.json, which must fail: in `where` (after the file's name) with `what` in its
  /// message.
  void expect_refused(const std::string& text, const std::string& where, const std::string& what) {
    write("tokenizer.json", text);
    const auto file = (folder_ / "tokenizer.json").native();
    try {
      Tokenizer::load(folder_.path());
      FAIL() << "accepted: " << text;
    } catch (const TokenizerError& error) {
      EXPECT_EQ(error.where(), where.empty() ? file : file + ": " + where);
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  }
  void expect_refused(const FileParts& parts, const std::string& where, const std::string& what) {
    expect_refused(parts.text(), where, what);
  }

  TempFolder folder_;
};

TEST_F(TokenizerTest, ATemporaryGivesCopiesAndOneMovedFromSaysSo) {
  const auto& form = load().form();
  const auto& notes = load().notes();
  EXPECT_EQ(form, "tokenizer.json");
  EXPECT_EQ(notes, load().notes());
  Tokenizer from = load();
  const Tokenizer to = std::move(from);
  for (const auto& use :
       {+[](const Tokenizer& t) { (void)t.encode("a"); }, +[](const Tokenizer& t) { (void)t.form(); },
        +[](const Tokenizer& t) { (void)t.vocab_size(); }, +[](const Tokenizer& t) { (void)t.find("a"); },
        +[](const Tokenizer& t) { (void)t.decode(Ids{1}); }}) {
    EXPECT_EQ(text_thrown_by<Error>([&] { use(from); }).find("[tokenizer] this tokenizer was moved from; "),
              0u);
  }
  EXPECT_EQ(to.encode("a").ids, Ids{1});
}

TEST_F(TokenizerTest, CutsAtWhiteSpaceAndPunctuation) {
  const auto encoding = load().encode("a  b!! Mary.");
  EXPECT_EQ(encoding.ids, (Ids{1, 2, 0, 4, 6}));  // "!!" is one word, which the vocabulary does not have
  EXPECT_EQ(encoding.pieces, (Pieces{"a", "b", "<unk>", "Mary", "."}));
  EXPECT_EQ(encoding.offsets, (std::vector<TextSpan>{{0, 1}, {3, 4}, {4, 6}, {7, 11}, {11, 12}}));
}

TEST_F(TokenizerTest, WhitespaceSplitKeepsPunctuationWithItsWord) {
  FileParts parts;
  parts.pre_tokenizer = R"({"type": "WhitespaceSplit"})";
  EXPECT_EQ(load(parts).encode(" a. \u00a0b").ids, (Ids{7, 2}));
}

TEST_F(TokenizerTest, WithoutPreTokenizerTheTextIsOneWord) {
  FileParts parts;
  parts.pre_tokenizer = "null";
  EXPECT_EQ(load(parts).encode("a.").ids, (Ids{7}));
  EXPECT_EQ(load(parts).encode("a b").ids, (Ids{0}));
}

// Expected: tokenizers 0.23.3, characters counted in bytes here.
TEST_F(TokenizerTest, WordCharactersAreUnicodes) {
  const auto tokenizer = load();
  const auto offsets = [&](const std::string& text) { return tokenizer.encode(text).offsets; };
  using Spans = std::vector<TextSpan>;
  // Superscripts and circled digits are not word characters; letter numbers, marks and connectors are.
  EXPECT_EQ(offsets("b_1 \u00b2"), (Spans{{0, 3}, {4, 6}}));
  EXPECT_EQ(offsets("\u2163\u2460\u0301x\u203f_"), (Spans{{0, 3}, {3, 6}, {6, 13}}));
  EXPECT_EQ(offsets("\u4e2d\u6587!!?a'b \u200d\u20ac"),
            (Spans{{0, 6}, {6, 9}, {9, 10}, {10, 11}, {11, 12}, {13, 16}, {16, 19}}));
  // U+180E and U+FEFF are not white space, U+0085 and U+00A0 are.
  EXPECT_EQ(offsets("\u180e \ufeff\x1c\u0085a\u00a0b"), (Spans{{0, 3}, {4, 8}, {10, 11}, {13, 14}}));
}

TEST_F(TokenizerTest, AddedTokensAreFoundInTheText) {
  const auto tokenizer = load();
  const auto encoding = tokenizer.encode("<bos>a<bos> b");
  EXPECT_EQ(encoding.ids, (Ids{3, 1, 3, 2}));
  EXPECT_EQ(encoding.offsets, (std::vector<TextSpan>{{0, 5}, {5, 6}, {6, 11}, {12, 13}}));
  EXPECT_EQ(tokenizer.encode("<bos>a", {.added_tokens = AddedTokensInText::as_text}).ids, (Ids{0, 0, 0, 1}));
}

TEST_F(TokenizerTest, TheLongestOfOverlappingAddedTokensWins) {
  FileParts parts;
  parts.added_tokens = R"([{"id": 9, "content": "ab"}, {"id": 10, "content": "abc", "special": true},
                           {"id": 11, "content": "abcd"}, {"id": 12, "content": "c"}])";
  // Special tokens, which are not normalized, are looked for first; "abcd" cannot be found any more.
  EXPECT_EQ(load(parts).encode("abcdabx").ids, (Ids{10, 0, 9, 0}));
}

TEST_F(TokenizerTest, DecodesByJoiningPieces) {
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.decode(Ids{3, 1, 0, 6}), "<bos> a <unk> .");
  EXPECT_EQ(tokenizer.decode(Ids{3, 1, 2}, {.skip_special_tokens = true}), "a b");
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
}

TEST_F(TokenizerTest, DecodeUndoesEncodeForWordsApart) {
  const auto tokenizer = load();
  for (const std::string text : {"a", "Mary a b", "a b ! .", "<bos> Mary !"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  }
}

TEST_F(TokenizerTest, EmptyAndBlankTextHasNoTokens) {
  const auto tokenizer = load();
  EXPECT_TRUE(tokenizer.encode("").ids.empty());
  EXPECT_TRUE(tokenizer.encode(" \n\t ").ids.empty());
}

TEST_F(TokenizerTest, NulIsAnOrdinaryCharacter) {
  EXPECT_EQ(load().encode(std::string_view("a\0b", 3)).ids, (Ids{1, 0, 2}));
}

TEST_F(TokenizerTest, LooksUpPieces) {
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.vocab_size(), 9);
  EXPECT_EQ(tokenizer.piece(4), "Mary");
  EXPECT_EQ(tokenizer.find("Mary"), 4);
  EXPECT_EQ(tokenizer.find("<bos>"), 3);
  EXPECT_EQ(tokenizer.find("mary"), std::nullopt);
  EXPECT_EQ(tokenizer.bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer.eos_id(), std::nullopt);
}

TEST_F(TokenizerTest, ReadsBosAndEosFromTheConfig) {
  write("tokenizer_config.json",
        R"({"bos_token": "<bos>", "eos_token": {"content": "!"}, "model_max_length": 1e30})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.bos_id(), 3);
  EXPECT_EQ(tokenizer.eos_id(), 5);
}

TEST_F(TokenizerTest, LoadsFromTheFileItself) {
  load();
  EXPECT_EQ(Tokenizer::load(folder_ / "tokenizer.json").encode("b").ids, (Ids{2}));
}

TEST_F(TokenizerTest, TemplateAddsSpecialTokensOnlyOnRequest) {
  FileParts parts;
  parts.post_processor =
      R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}},
          {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "!", "type_id": 0}}], "pair": [],
          "special_tokens": {"<bos>": {"id": "<bos>", "ids": [3], "tokens": ["<bos>"]},
                             "!": {"id": "!", "ids": [5], "tokens": ["!"]}}})";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer.encode("a").ids, (Ids{1}));
  const auto encoding = tokenizer.encode("a", {.add_special_tokens = true});
  EXPECT_EQ(encoding.ids, (Ids{3, 1, 5}));
  EXPECT_EQ(encoding.offsets, (std::vector<TextSpan>{{0, 0}, {0, 1}, {0, 0}}));
}

TEST_F(TokenizerTest, UnknownTypesAreNamedByTheirPath) {
  const auto with = [](auto FileParts::*part, std::string text) {
    FileParts parts;
    parts.*part = std::move(text);
    return parts;
  };
  expect_refused(with(&FileParts::model, R"({"type": "Bytes", "vocab": {}})"), "model.type",
                 "\"Bytes\" is not supported; expected BPE or WordPiece or WordLevel or Unigram");
  expect_refused(with(&FileParts::normalizer, R"({"type": "Uppercase"})"), "normalizer.type",
                 "\"Uppercase\"");
  expect_refused(with(&FileParts::normalizer,
                      R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFX"}]})"),
                 "normalizer.normalizers[1].type", "\"NFX\"");
  expect_refused(with(&FileParts::pre_tokenizer, R"({"type": "UnicodeScripts"})"), "pre_tokenizer.type",
                 "\"UnicodeScripts\" is not supported; expected ByteLevel or Split");
  expect_refused(with(&FileParts::pre_tokenizer, R"({"type": "Sequence", "pretokenizers": [null]})"),
                 "pre_tokenizer.pretokenizers[0]", "expected this field to be set, got null");
  expect_refused(with(&FileParts::decoder, R"({"type": "Sequence", "decoders": [{"type": "X"}]})"),
                 "decoder.decoders[0].type", "\"X\"");
  expect_refused(with(&FileParts::post_processor, R"({"type": "Sequence", "processors": [{"type": "X"}]})"),
                 "post_processor.processors[0].type", "\"X\"");
}

TEST_F(TokenizerTest, MalformedFilesAreNamedByTheirPath) {
  const auto model = [](std::string text) {
    FileParts parts;
    parts.model = std::move(text);
    return parts;
  };
  expect_refused("", "", "not valid JSON");
  expect_refused("[]", "", "expected an object, got an array");
  expect_refused("{\"model\":", "", "not valid JSON");
  expect_refused(std::string(100000, '['), "", "nested too deep");
  expect_refused("{}", "model", "missing; expected this field");
  expect_refused(model("[]"), "model", "expected an object, got [] (an array)");
  expect_refused(model(R"({"vocab": {}})"), "model.type", "missing; expected this field");
  expect_refused(model(R"({"type": 3, "vocab": {}})"), "model.type", "expected a string, got 3 (an integer)");
  expect_refused(model(R"({"type": "WordLevel"})"), "model.vocab", "missing; expected this field");
  expect_refused(model(R"({"type": "WordLevel", "vocab": {"a": "1"}})"), "model.vocab.a",
                 "got \"1\" (a string)");
  expect_refused(model(R"({"type": "WordLevel", "vocab": {"a": 1.0}})"), "model.vocab.a",
                 "expected an integer");
}

TEST_F(TokenizerTest, IdsMustBeOneToOneAndInRange) {
  const auto vocab = [](std::string_view text) {
    FileParts parts;
    parts.model = fmt::format(R"({{"type": "WordLevel", "vocab": {}}})", text);
    return parts;
  };
  expect_refused(vocab(R"({"a": 1, "b": 1})"), "model.vocab.b",
                 "has the id 1, which is that of \"a\" already");
  expect_refused(vocab(R"({"a": -1})"), "model.vocab.a", "has the id -1; expected 0 to 16777215");
  expect_refused(vocab(R"({"a": 16777216})"), "model.vocab.a", "has the id 16777216; expected 0 to 16777215");
  expect_refused(vocab(R"({"a": 18446744073709551615})"), "model.vocab.a", "18446744073709551615");
}

// The file states 3. Expected: tokenizers 0.23.3.
TEST_F(TokenizerTest, AddedTokensHaveTheIdsThatThePackageGivesThem) {
  const std::vector<std::pair<std::string_view, std::int64_t>> cases = {
      {R"({"<bos>": 0})", 0}, {R"({"x": 3})", 1}, {R"({"a": 0, "b": 1})", 2}};
  for (const auto& [vocab, id] : cases) {
    FileParts parts;
    parts.model = fmt::format(R"({{"type": "WordLevel", "vocab": {}}})", vocab);
    load(parts);
    for (const auto& path : {folder_.path(), folder_ / "tokenizer.json"}) {
      const auto tokenizer = Tokenizer::load(path);
      EXPECT_EQ(tokenizer.encode("<bos>").ids, (Ids{id})) << vocab;
      ASSERT_EQ(tokenizer.notes().size(), 1u) << vocab;
      EXPECT_NE(tokenizer.notes()[0].find(fmt::format("<bos> ({}, not 3)", id)), std::string::npos)
          << tokenizer.notes()[0];
    }
  }
}

// The last one says how it is found, either that it is special; one normalized once is decoded as normalized,
// and skipped only if that spelling is a special token's. Expected: tokenizers 0.23.3.
TEST_F(TokenizerTest, AnAddedTokenMayBeListedTwice) {
  struct Case {
    bool normalized, special, again_normalized, again_special;
    Ids ids;
    std::string kept, skipped;
  };
  const Ids found = {2, 0, 5, 2, 1}, not_found = {2, 0, 3, 3, 1};
  const std::vector<Case> cases = {{false, false, false, false, found, "_axx_b", "_axx_b"},
                                   {false, false, false, true, found, "_axx_b", "_a_b"},
                                   {false, true, false, false, found, "_axx_b", "_a_b"},
                                   {false, false, true, false, not_found, "_axxb", "_axxb"},
                                   {true, false, false, false, found, "_a_xx_b", "_a_xx_b"},
                                   {true, false, false, true, found, "_a_xx_b", "_a_xx_b"},
                                   {true, true, false, false, found, "_a_xx_b", "_a_xx_b"},
                                   {true, true, true, false, not_found, "_axxb", "_axxb"}};
  for (const Case& tested : cases) {
    FileParts parts;
    parts.normalizer = R"({"type": "Prepend", "prepend": "_"})";
    parts.pre_tokenizer = "null";
    parts.decoder = R"({"type": "Fuse"})";
    parts.model =
        R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "_": 2, "x": 3, " ": 4, "xx": 5}, "merges": []})";
    parts.added_tokens =
        fmt::format(R"([{{"id": 5, "content": "xx", "normalized": {}, "special": {}}},
                                  {{"id": 5, "content": "xx", "normalized": {}, "special": {}}}])",
                    tested.normalized, tested.special, tested.again_normalized, tested.again_special);
    load(parts);
    const auto tokenizer = Tokenizer::load(folder_ / "tokenizer.json");
    const auto ids = tokenizer.encode("axxb").ids;
    EXPECT_EQ(ids, tested.ids) << parts.added_tokens;
    EXPECT_EQ(tokenizer.decode(ids), tested.kept) << parts.added_tokens;
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}), tested.skipped) << parts.added_tokens;
  }
}

// Expected: tokenizers 0.23.3, for each model: ids, the pieces of ids 0 to 4 (empty: none) and the note.
TEST_F(TokenizerTest, AVocabularyMayNameAPieceTwiceAndTheLastIdCounts) {
  struct Case {
    std::string model;
    std::string text;
    Ids ids;
    Pieces pieces;
    std::string repeated;
  };
  const std::vector<Case> cases = {
      {R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "a": 3, "ab": 4}, "merges": ["a b"]})",
       "ab aab",
       {4, 3, 4},
       {"", "b", "", "a", "ab"},
       "a, ab"},
      {R"({"type": "WordLevel", "vocab": {"a": 0, "b": 1, "a": 2, "?": 3}, "unk_token": "?"})",
       "a b c",
       {2, 1, 3},
       {"", "b", "a", "?"},
       "a"},
      {R"({"type": "WordPiece", "vocab": {"a": 0, "##b": 1, "##b": 2, "?": 3}, "unk_token": "?",
           "continuing_subword_prefix": "##", "max_input_chars_per_word": 100})",
       "ab a x",
       {0, 2, 0, 3},
       {"a", "", "##b", "?"},
       "##b"},
      // The id that a piece had before may be another's.
      {R"({"type": "WordLevel", "vocab": {"a": 0, "a": 1, "b": 0, "?": 3}, "unk_token": "?"})",
       "a b c",
       {1, 0, 3},
       {"b", "a", "", "?"},
       "a"},
      {R"({"type": "WordLevel", "vocab": {"a": 0, "a": 0, "?": 3}, "unk_token": "?"})",
       "a b",
       {0, 3},
       {"a", "", "", "?"},
       "a"},
  };
  for (const auto& [model, text, ids, pieces, repeated] : cases) {
    FileParts parts;
    parts.model = model;
    parts.added_tokens = "[]";
    parts.pre_tokenizer = R"({"type": "WhitespaceSplit"})";
    const auto tokenizer = load(parts);
    EXPECT_EQ(tokenizer.encode(text).ids, ids) << model;
    EXPECT_EQ(tokenizer.vocab_size(), static_cast<std::int64_t>(pieces.size())) << model;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
      if (pieces[id].empty()) {
        EXPECT_THROW(tokenizer.piece(static_cast<std::int64_t>(id)), TokenizerError) << model;
      } else {
        EXPECT_EQ(tokenizer.piece(static_cast<std::int64_t>(id)), pieces[id]) << model;
      }
    }
    ASSERT_EQ(tokenizer.notes().size(), 1U) << model;
    EXPECT_EQ(tokenizer.notes()[0],
              (folder_ / "tokenizer.json").native() +
                  ": model.vocab names pieces more than once, and each has the last of its ids: " + repeated);
  }
  EXPECT_TRUE(load().notes().empty());
}

TEST_F(TokenizerTest, OnlyPiecesMayBeNamedTwice) {
  for (const auto* twice :
       {R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "model": {}})",
        R"({"model": {"type": "WordLevel", "type": "BPE", "vocab": {"a": 0}}})",
        R"({"vocab": {"a": 0, "a": 1}, "model": {"type": "WordLevel", "vocab": {"a": 0}}})",
        R"({"model": {"type": "WordLevel", "vocab": {"a": {"b": 0, "b": 1}}}})",
        R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}, "decoder": {"vocab": {"a": 0, "a": 1}}})"}) {
    expect_refused(twice, "", "twice");
  }
  FileParts parts;
  parts.model = R"({"type": "WordLevel", "vocab": {"a": 0, "b": 1, "a": 1}})";
  expect_refused(parts, "model.vocab.a", "has the id 1, which is that of \"b\" already");
}

TEST_F(TokenizerTest, GapsInTheIdsAreAllowed) {
  FileParts parts;
  parts.model = R"({"type": "WordLevel", "vocab": {"a": 1, "z": 16777215}})";
  parts.added_tokens = "[]";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer.vocab_size(), 16777216);
  EXPECT_EQ(tokenizer.piece(16777215), "z");
  EXPECT_THROW(tokenizer.piece(2), TokenizerError);
}

TEST_F(TokenizerTest, IdsOutOfRangeAreRefused) {
  const auto tokenizer = load();
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{9}, std::int64_t{1} << 31, INT64_MAX}) {
    try {
      tokenizer.decode(Ids{1, id});
      FAIL() << id;
    } catch (const TokenizerError& error) {
      EXPECT_EQ(error.where(), "ids[1]");
      EXPECT_NE(
          std::string(error.what()).find(fmt::format("id {}; expected an id of the vocabulary, 0 to 8", id)),
          std::string::npos)
          << error.what();
    }
  }
}

TEST_F(TokenizerTest, ModelsAreCheckedByTheirPath) {
  const auto model = [](std::string text) {
    FileParts parts;
    parts.model = std::move(text);
    parts.added_tokens = "[]";
    return parts;
  };
  const auto bpe = [&](std::string_view rest) {
    return model(fmt::format(R"({{"type": "BPE", "vocab": {{"a": 0, "b": 1, "ab": 2}}, {}}})", rest));
  };
  EXPECT_EQ(load(bpe(R"("merges": ["a b"])")).encode("ab").ids, (Ids{2}));
  EXPECT_EQ(load(bpe(R"("merges": [["a", "b"]], "dropout": null)")).encode("ab").ids, (Ids{2}));
  EXPECT_EQ(load(bpe(R"("merges": ["#version: 0.2", "a b"], "dropout": 0.0)")).encode("ab").ids, (Ids{2}));
  expect_refused(bpe(R"("merges": ["a c"])"), "model.merges[0]", "needs the piece \"c\"");
  expect_refused(bpe(R"("merges": ["a b", "b a"])"), "model.merges[1]", "needs the piece \"ba\"");
  expect_refused(bpe(R"("merges": ["a"])"), "model.merges[0]", "expected two pieces");
  expect_refused(bpe(R"("merges": ["a b b"])"), "model.merges[0]", "expected two pieces");
  expect_refused(bpe(R"("merges": [["a"]])"), "model.merges[0]", "expected two pieces");
  expect_refused(bpe(R"("merges": [["a", 1]])"), "model.merges[0][1]",
                 "expected a string, got 1 (an integer)");
  expect_refused(bpe(R"("merges": {})"), "model.merges", "expected an array, got {} (an object)");
  expect_refused(bpe(R"("fuse_unk": true)"), "model.merges", "missing");
  expect_refused(bpe(R"("merges": [], "dropout": 0.1)"), "model.dropout",
                 "0.1 is not supported; expected null or 0");
  expect_refused(bpe(R"("merges": [], "byte_fallback": 1)"), "model.byte_fallback", "expected true or false");
  const auto unigram = [&](std::string_view rest) {
    return model(fmt::format(R"({{"type": "Unigram", {}}})", rest));
  };
  expect_refused(unigram(R"("vocab": {})"), "model.vocab", "expected an array, got {} (an object)");
  expect_refused(unigram(R"("vocab": [["a"]])"), "model.vocab[0]", "expected [piece, score]");
  expect_refused(unigram(R"("vocab": [["a", "0"]])"), "model.vocab[0][1]",
                 "expected a number, got \"0\" (a string)");
  expect_refused(unigram(R"("vocab": [["a", 0.0]], "unk_id": 1)"), "model.unk_id",
                 "1 is out of range; expected 0 to 0");
  expect_refused(unigram(R"("vocab": [], "unk_id": 0)"), "model.unk_id", "empty vocabulary");
  const auto word_piece = [&](std::string_view rest) {
    return model(fmt::format(
        R"({{"type": "WordPiece", "vocab": {{"a": 0}}, "continuing_subword_prefix": "##", {}}})", rest));
  };
  expect_refused(word_piece(R"("max_input_chars_per_word": 9)"), "model.unk_token", "missing");
  expect_refused(word_piece(R"("unk_token": "a", "max_input_chars_per_word": -1)"),
                 "model.max_input_chars_per_word", "-1 is out of range; expected 0 to 2147483647");
}

TEST_F(TokenizerTest, PartsAreCheckedByTheirPath) {
  const auto with = [](auto FileParts::*part, std::string text) {
    FileParts parts;
    parts.*part = std::move(text);
    return parts;
  };
  expect_refused(
      with(&FileParts::pre_tokenizer,
           R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false})"),
      "pre_tokenizer.pattern.Regex", "cannot be compiled");
  expect_refused(
      with(&FileParts::pre_tokenizer,
           R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Joined", "invert": false})"),
      "pre_tokenizer.behavior", "\"Joined\" is not supported; expected Removed or Isolated");
  expect_refused(with(&FileParts::normalizer, R"({"type": "Replace", "pattern": {}, "content": ""})"),
                 "normalizer.pattern", "has neither String nor Regex");
  expect_refused(with(&FileParts::normalizer, R"({"type": "Precompiled", "precompiled_charsmap": "AAA"})"),
                 "normalizer.precompiled_charsmap", "is not base64");
  expect_refused(
      with(&FileParts::normalizer, R"({"type": "Precompiled", "precompiled_charsmap": "/////w=="})"),
      "normalizer.precompiled_charsmap", "trie has 4294967295 bytes");
  expect_refused(with(&FileParts::pre_tokenizer, R"({"type": "Metaspace", "replacement": "ab"})"),
                 "pre_tokenizer.replacement", "\"ab\" is not one character; expected one character");
  expect_refused(
      with(
          &FileParts::pre_tokenizer,
          R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false})"),
      "pre_tokenizer.prepend_scheme", "contradicts add_prefix_space");
  expect_refused(with(&FileParts::pre_tokenizer, R"({"type": "FixedLength", "length": 0})"),
                 "pre_tokenizer.length", "0 is not a length");
  expect_refused(with(&FileParts::post_processor,
                      R"({"type": "BertProcessing", "sep": ["a", 1], "cls": ["x", 16777216]})"),
                 "post_processor", "adds the id 16777216; expected 0 to 16777215");
  expect_refused(with(&FileParts::post_processor, R"({"type": "TemplateProcessing", "single": []})"),
                 "post_processor.single", "has no Sequence");
}

TEST_F(TokenizerTest, SpecialTokensInTextAreTextOrTokens) {
  FileParts parts;
  parts.added_tokens = R"([{"id": 3, "content": "<bos>", "special": true}, {"id": 9, "content": "Mary!"}])";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer.encode("<bos>Mary!").ids, (Ids{3, 9}));
  EXPECT_EQ(tokenizer.encode("<bos>Mary!", {.added_tokens = AddedTokensInText::special_as_text}).ids,
            (Ids{0, 0, 0, 9}));
  EXPECT_EQ(tokenizer.encode("<bos>Mary!", {.added_tokens = AddedTokensInText::as_text}).ids,
            (Ids{0, 0, 0, 4, 5}));
}

TEST_F(TokenizerTest, OneTokenOrAnError) {
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer.to_token("Mary"), 4);
  for (const auto* text : {"", "a b"}) {
    try {
      tokenizer.to_token(text);
      FAIL() << text;
    } catch (const TokenizerError& error) {
      EXPECT_NE(std::string(error.what()).find("expected exactly one"), std::string::npos) << error.what();
    }
  }
}

TEST_F(TokenizerTest, ABatchIsItsTextsWhateverTheThreads) {
  const auto tokenizer = load();
  std::vector<std::string> texts;
  for (int i = 0; i < 100; ++i) texts.push_back(std::string(static_cast<std::size_t>(i), '!') + " Mary a b.");
  for (const std::size_t threads : {0, 1, 2, 8}) {
    const auto batch = tokenizer.encode_batch(texts, {.threads = threads});
    ASSERT_EQ(batch.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto alone = tokenizer.encode(texts[i]);
      EXPECT_EQ(batch[i].ids, alone.ids);
      EXPECT_TRUE(batch[i].offsets == alone.offsets);
    }
  }
  EXPECT_TRUE(tokenizer.encode_batch({}).empty());
  texts[7] = "a\xff";
  EXPECT_THROW(tokenizer.encode_batch(texts), TokenizerError);
}

TEST_F(TokenizerTest, PartsOfCharactersAreDecodedToReplacementCharacters) {
  FileParts parts;
  parts.added_tokens = "[]";
  parts.pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false})";
  parts.decoder = parts.pre_tokenizer;
  // The bytes of the euro sign, e2 82 ac, and a blank.
  parts.model =
      R"({"type": "BPE", "vocab": {"\u00e2": 0, "\u0124": 1, "\u00ac": 2, "\u0120": 3}, "merges": [], "unk_token": "\u0120"})";
  const auto tokenizer = load(parts);
  EXPECT_EQ(tokenizer.encode("\u20ac").ids, (Ids{0, 1, 2}));
  EXPECT_TRUE(tokenizer.encode("\u20ac").offsets == (std::vector<TextSpan>{{0, 3}, {0, 3}, {0, 3}}));
  EXPECT_EQ(tokenizer.decode(Ids{0, 1, 2}), "\u20ac");
  EXPECT_EQ(tokenizer.decode(Ids{0, 1}), "\ufffd");
  EXPECT_EQ(tokenizer.decode(Ids{1, 2, 0}), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(tokenizer.printable_piece(0), "\\xe2");
  EXPECT_EQ(tokenizer.decoded_piece(0), "\xe2");
  EXPECT_EQ(tokenizer.printable_piece(3), " ");
  EXPECT_EQ(tokenizer.decoded_piece(3), " ");
  EXPECT_EQ(tokenizer.piece(3), "\u0120");
  parts.decoder = R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})";
  parts.model =
      R"({"type": "BPE", "vocab": {"<0xE2>": 0, "<0x82>": 1, "<0xAC>": 2, "b": 3}, "merges": [], "byte_fallback": true})";
  const auto fallback = load(parts);
  EXPECT_EQ(fallback.decode(Ids{0, 1, 2}), "\u20ac");
  EXPECT_EQ(fallback.decode(Ids{0, 1, 3}), "\ufffd\ufffdb");
  EXPECT_EQ(fallback.printable_piece(0), "\\xe2");
}

TEST_F(TokenizerTest, OldFilesDoNotNameTheModelsType) {
  FileParts parts;
  parts.added_tokens = "[]";
  parts.model = R"({"vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"], "unk_token": ""})";
  EXPECT_EQ(load(parts).encode("ab").ids, (Ids{2}));
  parts.model =
      R"({"vocab": {"a": 0, "##b": 1}, "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9})";
  EXPECT_EQ(load(parts).encode("ab").ids, (Ids{0, 1}));
  parts.model = R"({"vocab": [["a", -1.0], ["ab", -1.5]], "unk_id": 0})";
  EXPECT_EQ(load(parts).encode("ab").ids, (Ids{1}));
}

TEST_F(TokenizerTest, LoadsTheOlderPair) {
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4, "<|endoftext|>": 5})");
  write("merges.txt", "#version: 0.2\na b\n\u0120 a\r\n\n");
  write("tokenizer_config.json", R"({"bos_token": "<|endoftext|>"})");
  const auto tokenizer = Tokenizer::load(folder_.path());
  EXPECT_EQ(tokenizer.encode("ab a<|endoftext|>").ids, (Ids{2, 4, 5}));
  EXPECT_EQ(tokenizer.decode(Ids{2, 4, 5}), "ab a<|endoftext|>");
  EXPECT_EQ(tokenizer.decode(Ids{2, 4, 5}, {.skip_special_tokens = true}), "ab a");
  EXPECT_EQ(tokenizer.bos_id(), 5);
  // As the package's BPE.from_file reads it: the last id counts.
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 5, "ab": 4, "<|endoftext|>": 6})");
  write("merges.txt", "a b\n");
  const auto repeated = Tokenizer::load(folder_.path());
  EXPECT_EQ(repeated.encode("ab<|endoftext|>").ids, (Ids{4, 6}));
  EXPECT_EQ(repeated.bos_id(), 6);
  EXPECT_EQ(repeated.notes().size(), 1U);
  write("merges.txt", "a c\n");
  EXPECT_THROW(Tokenizer::load(folder_.path()), TokenizerError);
  write("merges.txt", "a  b\n");
  EXPECT_THROW(Tokenizer::load(folder_.path()), TokenizerError);
}

TEST_F(TokenizerTest, InvalidUtf8IsRefusedWithItsByte) {
  const auto tokenizer = load();
  for (const std::string_view tail : {"\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"}) {
    try {
      tokenizer.encode("ab " + std::string(tail));
      FAIL();
    } catch (const TokenizerError& error) {
      EXPECT_EQ(error.where(), "text");
      EXPECT_NE(std::string(error.what()).find("byte 3"), std::string::npos) << error.what();
    }
  }
}

TEST_F(TokenizerTest, AnUnknownWordWithoutUnknownTokenIsRefused) {
  for (const auto* unknown : {"null", "\"<missing>\""}) {
    FileParts parts;
    parts.model = fmt::format(R"({{"type": "WordLevel", "vocab": {{"a": 1}}, "unk_token": {}}})", unknown);
    const auto tokenizer = load(parts);
    EXPECT_EQ(tokenizer.encode("a").ids, (Ids{1}));
    try {
      tokenizer.encode("a zebra");
      FAIL();
    } catch (const TokenizerError& error) {
      EXPECT_NE(std::string(error.what()).find("\"zebra\" at byte 2"), std::string::npos) << error.what();
    }
  }
}

// As in transformers, whose next id it gets.
TEST_F(TokenizerTest, ATokenThatOnlyTheConfigNamesIsAdded) {
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  write("tokenizer.json", FileParts().text());
  const auto plain = Tokenizer::load(folder_ / "tokenizer.json");
  const auto tokenizer = Tokenizer::load(folder_.path());
  EXPECT_EQ(tokenizer.bos_id(), plain.vocab_size());
  EXPECT_EQ(tokenizer.encode("<s>").ids, (Ids{plain.vocab_size()}));
  ASSERT_EQ(tokenizer.notes().size(), 1u);
  EXPECT_NE(tokenizer.notes()[0].find("tokenizer.json lacks"), std::string::npos) << tokenizer.notes()[0];
  EXPECT_NE(tokenizer.notes()[0].find(fmt::format("<s> ({})", plain.vocab_size())), std::string::npos);
}

TEST_F(TokenizerTest, AFolderWithoutTokenizerSaysSo) {
  try {
    Tokenizer::load(folder_.path());
    FAIL();
  } catch (const TokenizerError& error) {
    EXPECT_NE(std::string(error.what()).find("tokenizer.json"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Tokenizer::load(folder_ / "absent.json"), IoError);
}

}  // namespace
}  // namespace hooked::text::tokenizer_test
