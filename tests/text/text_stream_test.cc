#include "text/tokenizer/text_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base64.h"
#include "core/json.h"
#include "core/utf8.h"
#include "tests/fuzz/golden_tokenizers.h"
#include "tests/support/temp_folder.h"

namespace hooked::text::text_stream_test {
namespace {

constexpr DecodeOptions kWhole{.skip_special_tokens = true};
constexpr DecodeOptions kSettled{.skip_special_tokens = true, .more_follow = true};

struct Named {
  std::string name;
  Tokenizer tokenizer;
};

// Pieces of each kind: words, blanks, bytes spelled in both ways, parts of what decoders look for.
std::string decoding_json(std::string_view decoder) {
  std::vector<std::string> pieces = {
      "a", "b",   "ab",    "\u2581", "\u2581a", "\u2581\u2581", "##a",    "a</w>", "</w>", "</", "w>", ".",
      " ", "n't", "<pad>", "|",      "_",       "__",           "\ufffd", "é"};
  for (const int byte : {0x41, 0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80, 0xE2, 0x82, 0xFF})
    pieces.push_back(fmt::format("<0x{:02X}>", byte));
  // The same bytes as ByteLevel spells them.
  for (const auto* spelled : {"Ã", "©", "ð", "Ł", "ĺ", "Ģ", "â", "Ĥ", "ÿ", "Ġ"}) pieces.emplace_back(spelled);
  std::string vocab;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    vocab += fmt::format("{}{}:{}", i == 0 ? "" : ",", json_text(Json(pieces[i])), i);
  return fmt::format(
      R"({{"added_tokens":[{{"id":0,"content":"a","special":true}},{{"id":5,"content":"{}"}}],"decoder":{},)"
      R"("model":{{"type":"WordLevel","unk_token":"a","vocab":{{{}}}}}}})",
      "\u2581\u2581", decoder, vocab);
}

// Every kind of decoder, alone and after the others that files put before it.
std::vector<Named> decoders() {
  const std::string replace = R"({"type":"Replace","pattern":{"String":")", fuse = R"({"type":"Fuse"})",
                    bytes = R"({"type":"ByteFallback"})",
                    regex = R"({"type":"Replace","pattern":{"Regex":"a+b"},"content":"x"})";
  const auto literal = [&](const char* from, const char* to) {
    return replace + from + R"("},"content":")" + to + R"("})";
  };
  const auto strip = [](int start, int stop) {
    return fmt::format(R"({{"type":"Strip","content":" ","start":{},"stop":{}}})", start, stop);
  };
  const auto sequence = [](const std::vector<std::string>& steps) {
    std::string all;
    for (const auto& step : steps) all += (all.empty() ? "" : ",") + step;
    return R"({"type":"Sequence","decoders":[)" + all + "]}";
  };
  const std::string byte_level = R"({"type":"ByteLevel"})",
                    metaspace = R"({"type":"Metaspace","replacement":"▁"})",
                    never = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never"})",
                    words = R"({"type":"WordPiece","prefix":"##","cleanup":true})",
                    bpe = R"({"type":"BPEDecoder","suffix":"</w>"})",
                    ctc = R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})";
  std::vector<std::string> all = {"null", byte_level, metaspace, never, words,      bpe,
                                  ctc,    fuse,       bytes,     regex, strip(1, 1)};
  const std::string blank = literal("▁", " ");
  for (const auto& steps : std::vector<std::vector<std::string>>{{blank, bytes, fuse, strip(1, 0)},
                                                                 {blank, bytes, fuse, strip(2, 3)},
                                                                 {bytes, metaspace},
                                                                 {metaspace, bytes, fuse},
                                                                 {fuse, literal("ab", "x")},
                                                                 {fuse, literal("__", "é")},
                                                                 {fuse, literal("</w>", " ")},
                                                                 {fuse, regex},
                                                                 {fuse, words},
                                                                 {fuse, bpe},
                                                                 {byte_level, strip(1, 1)},
                                                                 {byte_level, literal("é", "e")},
                                                                 {byte_level, bytes},
                                                                 {bpe, fuse, strip(0, 2)},
                                                                 {bpe, bytes, fuse},
                                                                 {ctc, fuse},
                                                                 {words, literal(" .", ".")}})
    all.push_back(sequence(steps));
  std::vector<Named> made;
  for (const auto& decoder : all) made.push_back({decoder, Tokenizer::parse(decoding_json(decoder))});
  return made;
}

// SentencePiece's own decoder, with bytes and without.
std::vector<Named> folders() {
  std::vector<Named> made;
  for (const auto* name :
       {"llama_slow", "sentencepiece_suffix", "sentencepiece_t5", "sentencepiece_blanks"}) {
    std::ifstream file(fmt::format("{}/tests/text/files/folders/{}.json", HOOKED_SOURCE_DIR, name));
    const auto golden = nlohmann::ordered_json::parse(file);
    const TempFolder folder;
    for (const auto& [part, content] : golden["files"].items())
      std::ofstream(folder.path() / part, std::ios::binary)
          << decode_base64(content.get<std::string>()).value();
    made.push_back({name, Tokenizer::load(folder.path())});
  }
  return made;
}

std::vector<Named> all_tokenizers() {
  auto all = decoders();
  for (auto& golden : golden_tokenizers()) all.push_back({golden.family, golden.tokenizer});
  for (auto& folder : folders()) all.push_back(std::move(folder));
  return all;
}

using Ids = std::vector<std::int64_t>;

Ids random_ids(const Tokenizer& tokenizer, std::mt19937& random) {
  Ids ids(std::uniform_int_distribution<std::size_t>(0, 14)(random));
  // Small ids more often: bytes and special tokens are among them.
  for (auto& id : ids) {
    const auto most =
        random() % 2 ? tokenizer.vocab_size() : std::min<std::int64_t>(tokenizer.vocab_size(), 270);
    do id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
    while ([&] {
      try {
        return tokenizer.piece(id).empty();
      } catch (const std::exception&) {
        return true;  // a gap
      }
    }());
  }
  return ids;
}

// Whatever follows, text that was handed out is a beginning of the text of all ids, and is UTF-8.
TEST(TextStream, WhatIsSettledIsABeginningOfAllThatFollows) {
  std::mt19937 random(1);
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    for (int i = 0; i < 300; ++i) {
      const Ids ids = random_ids(tokenizer, random);
      for (std::size_t end = 0; end <= ids.size(); ++end) {
        const auto settled = tokenizer.decode(std::span(ids).first(end), kSettled);
        ASSERT_FALSE(first_invalid_byte(settled)) << name;
        ASSERT_TRUE(tokenizer.decode(std::span(ids).first(end), kWhole).starts_with(settled)) << name;
        ASSERT_TRUE(tokenizer.decode(ids, kWhole).starts_with(settled))
            << name << ": '" << settled << "' of '" << tokenizer.decode(ids, kWhole) << "'";
      }
    }
  }
}

TEST(TextStream, PiecesAreTheWholeTextAndUtf8) {
  std::mt19937 random(2);
  int compared = 0;
  for (const auto& [name, tokenizer] : all_tokenizers()) {
    for (int i = 0; i < 300; ++i) {
      const Ids ids = random_ids(tokenizer, random);
      const auto first = ids.empty() ? 0 : random() % ids.size();
      const auto whole = tokenizer.decode(ids, kWhole);
      TextStream stream(tokenizer, {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first)});
      std::string text = tokenizer.decode(std::span(ids).first(first), kSettled);
      for (std::size_t k = first; k < ids.size(); ++k) {
        const auto piece = stream.add(ids[k]);
        ASSERT_FALSE(first_invalid_byte(piece)) << name;
        text += piece;
        ASSERT_TRUE(whole.starts_with(text)) << name << ": '" << text << "' of '" << whole << "'";
      }
      const auto rest = stream.finish();
      ASSERT_FALSE(first_invalid_byte(rest)) << name;
      ASSERT_EQ(text + rest, whole) << name;
      compared += whole.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 10000);
}

Tokenizer golden(std::string_view family) {
  for (auto& known : golden_tokenizers()) {
    if (known.family == family) return known.tokenizer;
  }
  throw std::runtime_error("no golden tokenizer of that family");
}

TEST(TextStream, AByteHoldsItsRunBackUntilItEnds) {
  const auto tokenizer = golden("llama2");
  const auto byte = [&](int value) { return tokenizer.find(fmt::format("<0x{:02X}>", value)).value(); };
  TextStream stream(tokenizer, {});
  for (const int value : {0xF0, 0x9F, 0x98, 0x80}) EXPECT_EQ(stream.add(byte(value)), "");
  // If cut in the middle of another one, no byte of the run is a character any more.
  EXPECT_EQ(stream.add(byte(0xF0)), "");
  EXPECT_EQ(stream.finish(), "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  TextStream ended(tokenizer, {});
  for (const int value : {0xC3, 0xA9}) ended.add(byte(value));
  EXPECT_TRUE(ended.add(tokenizer.find("\u2581").value()).starts_with("\u00e9"));
}

TEST(TextStream, HoldsBackUnfinishedCharacters) {
  const auto tokenizer = golden("gpt2");
  const Ids ids = tokenizer.encode("\xF0\x9F\x92\xBB").ids;
  ASSERT_GT(ids.size(), 1u) << "the character is one token here";
  TextStream text(tokenizer, {});
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(text.add(ids[i]), "");
  EXPECT_EQ(text.add(ids.back()), "\xF0\x9F\x92\xBB");
  // If begun inside a character, the stream still gives all of it.
  TextStream inside(tokenizer, {ids.front()});
  std::string rest;
  for (std::size_t i = 1; i < ids.size(); ++i) rest += inside.add(ids[i]);
  EXPECT_EQ(rest, "\xF0\x9F\x92\xBB");
  TextStream broken(tokenizer, {});
  broken.add(ids.front());
  EXPECT_EQ(broken.finish(), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace hooked::text::text_stream_test
