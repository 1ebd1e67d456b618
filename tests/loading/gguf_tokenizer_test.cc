// Tokenizers of GGUF files: against the same tokenizers as tokenizer.json, and against the package
// sentencepiece.
#include "loading/gguf/gguf_tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "core/json.h"
#include "hooked/engine/hooked_transformer.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/gguf/gguf_header.h"
#include "loading/gguf/gguf_tokenizer_tables.h"
#include "tests/io/file_bytes.h"
#include "tests/io/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace hooked::gguf_tokenizer_test {
namespace {

ModelConfig with_vocabulary(std::int64_t size) {
  ModelConfig config;
  config.d_vocab = size;
  return config;
}

const std::filesystem::path kTokenizers = HOOKED_SOURCE_DIR "/tests/text/files";
const std::filesystem::path kGgufGoldens = HOOKED_SOURCE_DIR "/tests/golden/gguf";

Json json_of(const std::filesystem::path& file) {
  return parse_json(file_bytes(file), {.bytes = 1 << 24, .repeating = std::vector<std::string_view>{}});
}

GgufMetadata metadata_of(const GgufBytes& file) { return gguf_header_of(file.bytes(), "m.gguf").metadata; }

std::string texts_of(const std::vector<std::string>& all) {
  std::string bytes;
  for (const std::string& text : all) bytes += gguf_text(text);
  return bytes;
}

/// The vocabulary of a tokenizer.json in the form of a GGUF file.
GgufBytes vocabulary_of(const Json& tokenizer, const std::string& pre) {
  std::vector<std::string> tokens, merges;
  std::vector<std::uint32_t> types;
  const auto put = [&](std::size_t id, const std::string& piece, std::uint32_t type) {
    if (tokens.size() <= id) {
      tokens.resize(id + 1);
      types.resize(id + 1, 5);
    }
    tokens[id] = piece;
    types[id] = type;
  };
  for (const auto& [piece, id] : tokenizer.at("model").at("vocab").items())
    put(id.get<std::size_t>(), piece, 1);
  for (const Json& added : tokenizer.at("added_tokens"))
    put(added.at("id").get<std::size_t>(), added.at("content").get<std::string>(),
        added.at("special") ? 3 : 4);
  for (const Json& merge : tokenizer.at("model").at("merges")) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  GgufBytes file;
  std::string type_bytes;
  for (const std::uint32_t type : types) type_bytes += little(type, 4);
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  file.array("tokenizer.ggml.tokens", GgufType::text, tokens.size(), texts_of(tokens));
  file.array("tokenizer.ggml.token_type", GgufType::int32, types.size(), type_bytes);
  file.array("tokenizer.ggml.merges", GgufType::text, merges.size(), texts_of(merges));
  return file;
}

/// A tokenizer of the model `llama` with these pieces, the first of them the unknown one.
GgufBytes scored(const std::vector<std::string>& pieces) {
  GgufBytes file;
  std::string types, scores;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    types += little(i == 0 ? 2 : 1, 4);
    scores += little(std::bit_cast<std::uint32_t>(-static_cast<float>(i)), 4);
  }
  file.text("tokenizer.ggml.model", "llama");
  file.array("tokenizer.ggml.tokens", GgufType::text, pieces.size(), texts_of(pieces));
  file.array("tokenizer.ggml.token_type", GgufType::int32, pieces.size(), types);
  file.array("tokenizer.ggml.scores", GgufType::float32, pieces.size(), scores);
  return file;
}

TEST(GgufTokenizer, CutsTextsAsTheTokenizerJsonThatItIs) {
  const Json texts = json_of(kTokenizers / "texts.json");
  std::set<std::string_view> met;
  for (const auto& [name, pre] :
       {std::pair{"gpt2", "gpt-2"}, std::pair{"llama3", "llama-bpe"}, std::pair{"qwen", "qwen2"},
        std::pair{"falcon", "falcon"}, std::pair{"starcoder", "starcoder"},
        std::pair{"deepseek", "deepseek-coder"}}) {
    SCOPED_TRACE(name);
    const Json document = json_of(kTokenizers / fmt::format("{}.json", name)).at("tokenizer");
    const auto wanted = Tokenizer::parse(json_text(document));
    const TokenizerFiles read =
        read_gguf_tokenizer(metadata_of(vocabulary_of(document, pre)), with_vocabulary(1 << 20), "m.gguf");
    ASSERT_TRUE(read.tokenizer) << read.problem->what();
    EXPECT_EQ(read.tokenizer->vocab_size(), wanted.vocab_size());
    EXPECT_TRUE(read.notes.empty());
    for (const Json& each : texts) {
      const auto text = each.get<std::string>();
      const Encoding got = read.tokenizer->encode(text), expected = wanted.encode(text);
      EXPECT_EQ(got.ids, expected.ids) << text;
      EXPECT_EQ(read.tokenizer->decode(got.ids), wanted.decode(expected.ids)) << text;
    }
  }
}

// Every row is a pre-tokenizer that can be read, and its words joined give the text again.
TEST(GgufTokenizer, EveryPreTokenizerKeepsTheText) {
  const Json document = json_of(kTokenizers / "gpt2.json").at("tokenizer");
  const Json texts = json_of(kTokenizers / "texts.json");
  std::set<std::string_view> names;
  for (const GgufPreTokenizer& row : gguf_pre_tokenizers()) {
    for (const std::string_view name : row.names)
      EXPECT_TRUE(names.insert(name).second) << name << " occurs twice";
    SCOPED_TRACE(row.names.front());
    const auto file = vocabulary_of(document, std::string(row.names.front()));
    const TokenizerFiles read = read_gguf_tokenizer(metadata_of(file), with_vocabulary(1 << 20), "m.gguf");
    ASSERT_TRUE(read.tokenizer) << read.problem->what();
    for (const Json& each : texts) {
      const auto text = each.get<std::string>();
      if (row.normalizer != "null") continue;
      EXPECT_EQ(read.tokenizer->decode(read.tokenizer->encode(text).ids), text);
    }
  }
  // One digit, three, or all: the difference between the most similar rows.
  const auto pieces = [&](const char* name) {
    const TokenizerFiles read =
        read_gguf_tokenizer(metadata_of(vocabulary_of(document, name)), with_vocabulary(1 << 20), "m.gguf");
    return read.files.at("tokenizer.json");
  };
  EXPECT_NE(pieces("llama-bpe").find("{1,3}"), std::string::npos);
  EXPECT_EQ(pieces("qwen2").find("{1,3}"), std::string::npos);
  EXPECT_NE(pieces("llama-bpe").find(R"("ignore_merges":true)"), std::string::npos);
  EXPECT_NE(pieces("dbrx").find(R"("ignore_merges":false)"), std::string::npos);
}

TEST(GgufTokenizer, TokensAroundATextAreThoseThatTheFileNames) {
  const Json document = json_of(kTokenizers / "llama3.json").at("tokenizer");
  const auto ids = [&](const char* pre, const std::function<void(GgufBytes&)>& more) {
    GgufBytes file = vocabulary_of(document, pre);
    file.uint32("tokenizer.ggml.bos_token_id", 420).uint32("tokenizer.ggml.eos_token_id", 421);
    more(file);
    const TokenizerFiles read = read_gguf_tokenizer(metadata_of(file), with_vocabulary(1 << 20), "m.gguf");
    EXPECT_TRUE(read.tokenizer) << read.problem->what();
    EXPECT_EQ(read.tokenizer->bos_id(), 420);
    EXPECT_EQ(read.tokenizer->eos_id(), 421);
    auto all = read.tokenizer->encode("a", {.add_special_tokens = true}).ids;
    EXPECT_EQ(read.tokenizer->encode("a").ids.size(), 1U);
    std::erase(all, read.tokenizer->encode("a").ids.front());
    return all;
  };
  using Ids = std::vector<std::int64_t>;
  EXPECT_EQ(ids("llama-bpe", [](GgufBytes&) {}), Ids{420});
  EXPECT_EQ(ids("gpt-2", [](GgufBytes&) {}), Ids{});
  EXPECT_EQ(ids("llama-bpe", [](GgufBytes& f) { f.boolean("tokenizer.ggml.add_bos_token", 0); }), Ids{});
  EXPECT_EQ(ids("gpt-2",
                [](GgufBytes& f) {
                  f.boolean("tokenizer.ggml.add_bos_token", 1).boolean("tokenizer.ggml.add_eos_token", 1);
                }),
            (Ids{420, 421}));
}

// The key that says so, or that none does.
TEST(GgufTokenizer, TheKeyThatPutsTokensAroundATextIsNamed) {
  const Json document = json_of(kTokenizers / "llama3.json").at("tokenizer");
  const auto read = [&](const char* pre, const std::function<void(GgufBytes&)>& more) {
    GgufBytes file = vocabulary_of(document, pre);
    file.uint32("tokenizer.ggml.bos_token_id", 420).uint32("tokenizer.ggml.eos_token_id", 421);
    more(file);
    return read_gguf_tokenizer(metadata_of(file), with_vocabulary(1 << 20), "m.gguf");
  };
  const auto no = read("gpt-2", [](GgufBytes& f) { f.boolean("tokenizer.ggml.add_bos_token", 0); });
  ASSERT_TRUE(no.tokenizer->around());
  EXPECT_EQ(*no.tokenizer->around(), (TokensAround{{}, {}, "add_bos_token and add_eos_token of m.gguf"}));
  EXPECT_EQ(tokens_around(*no.tokenizer, with_vocabulary(500)).before, std::vector<std::int64_t>{});
  const auto yes = read("gpt-2", [](GgufBytes& f) { f.boolean("tokenizer.ggml.add_bos_token", 1); });
  EXPECT_EQ(yes.tokenizer->around().value().before, std::vector<std::int64_t>{420});
  EXPECT_NE(yes.tokenizer->around().value().why.find("add_bos_token"), std::string::npos);
  EXPECT_TRUE(yes.notes.empty()) << yes.notes.front();
  const auto silent = read("gpt-2", [](GgufBytes&) {});
  EXPECT_FALSE(silent.tokenizer->around());
  EXPECT_EQ(tokens_around(*silent.tokenizer, with_vocabulary(500)).before, std::vector<std::int64_t>{420});
  ASSERT_EQ(silent.notes.size(), 1U);
  EXPECT_NE(silent.notes[0].find("as in TransformerLens"), std::string::npos) << silent.notes[0];
}

TEST(GgufTokenizer, KeysThatNothingFollowsAreANote) {
  GgufBytes file = vocabulary_of(json_of(kTokenizers / "gpt2.json").at("tokenizer"), "gpt-2");
  file.boolean("tokenizer.ggml.add_sep_token", 1).boolean("tokenizer.ggml.add_space_prefix", 1);
  const auto read = read_gguf_tokenizer(metadata_of(file), with_vocabulary(1 << 20), "m.gguf");
  ASSERT_EQ(read.notes.size(), 1U);
  for (const char* key : {"tokenizer.ggml.add_sep_token", "tokenizer.ggml.add_space_prefix"})
    EXPECT_NE(read.notes[0].find(key), std::string::npos) << read.notes[0];
}

TEST(GgufTokenizer, TheTemplateOfChatsIsHandedOn) {
  GgufBytes file = vocabulary_of(json_of(kTokenizers / "gpt2.json").at("tokenizer"), "gpt-2");
  file.text("tokenizer.chat_template", "{{ messages }}\n\"x\"").uint32("tokenizer.ggml.eos_token_id", 0);
  file.uint32("tokenizer.ggml.eot_token_id", 3);
  const GgufMetadata metadata = metadata_of(file);
  const TokenizerFiles read = read_gguf_tokenizer(metadata, with_vocabulary(1 << 20), "m.gguf");
  const Json config = parse_json(read.files.at("tokenizer_config.json"), {});
  EXPECT_EQ(config.at("chat_template"), "{{ messages }}\n\"x\"");
  EXPECT_EQ(gguf_stop_tokens(metadata), (std::vector<std::int64_t>{0, 3}));
}

TEST(GgufTokenizer, WhatIsNotReadIsANote) {
  const GgufBytes good = vocabulary_of(json_of(kTokenizers / "gpt2.json").at("tokenizer"), "gpt-2");
  const auto problem = [&](std::size_t without, const std::function<void(GgufBytes&)>& more,
                           std::initializer_list<std::string_view> parts) {
    GgufBytes file = good;
    if (without < file.entries.size())
      file.entries.erase(file.entries.begin() + static_cast<std::ptrdiff_t>(without));
    more(file);
    const TokenizerFiles read = read_gguf_tokenizer(metadata_of(file), with_vocabulary(1 << 20), "m.gguf");
    EXPECT_FALSE(read.tokenizer);
    ASSERT_TRUE(read.problem);
    ASSERT_EQ(read.notes.size(), 1U);
    for (const auto part : parts)
      EXPECT_NE(read.notes[0].find(part), std::string::npos) << part << ": " << read.notes[0];
  };
  enum Entry { model, pre, tokens, types, merges, none = 99 };
  problem(model, [](GgufBytes& f) { f.text("tokenizer.ggml.model", "bert"); },
          {"'tokenizer.ggml.model' is 'bert'"});
  problem(pre, [](GgufBytes& f) { f.text("tokenizer.ggml.pre", "new\n"); },
          {"'tokenizer.ggml.pre' is 'new\\x0a', which is not supported", "llama-bpe"});
  problem(pre, [](GgufBytes&) {}, {"'tokenizer.ggml.pre' is missing"});
  problem(tokens, [](GgufBytes&) {}, {"'tokenizer.ggml.tokens' is missing"});
  problem(tokens,
          [](GgufBytes& f) { f.array("tokenizer.ggml.tokens", GgufType::text, 1, gguf_text("\xFF")); },
          {"is not UTF-8, number 0"});
  problem(merges, [](GgufBytes&) {}, {"'tokenizer.ggml.merges' is missing"});
  problem(types, [](GgufBytes& f) { f.array("tokenizer.ggml.token_type", GgufType::int32, 1, little(1, 4)); },
          {"'tokenizer.ggml.token_type' does not fit the", "got 1 of array of int32"});
  problem(none, [](GgufBytes& f) { f.uint32("tokenizer.ggml.bos_token_id", 100'000); },
          {"'tokenizer.ggml.bos_token_id' is not a token", "got 100000"});
  problem(none, [](GgufBytes& f) { f.text("tokenizer.ggml.add_bos_token", "yes"); },
          {"'tokenizer.ggml.add_bos_token' is not a bool"});
  EXPECT_FALSE(read_gguf_tokenizer({}, with_vocabulary(10), "m.gguf").problem)
      << "having no tokenizer is not a problem";
}

/// The whole text of a problem or a note, empty without one.
std::string said_by(const TokenizerFiles& read) {
  std::string all;
  for (const std::string& note : read.notes) all += note + "\n";
  return all;
}

// T2: the last id of a spelling counts, as in a tokenizer.json, and in either form.
TEST(GgufTokenizer, PiecesThatStandTwice) {
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  file.array("tokenizer.ggml.tokens", GgufType::text, 4, texts_of({"a", "b", "a", "ab"}));
  file.array("tokenizer.ggml.merges", GgufType::text, 1, texts_of({"a b"}));
  const TokenizerFiles read = read_gguf_tokenizer(metadata_of(file), with_vocabulary(10), "m.gguf");
  ASSERT_TRUE(read.tokenizer) << read.problem->what();
  EXPECT_NE(said_by(read).find("names pieces more than once, and each has the last of its ids: a"),
            std::string::npos)
      << said_by(read);
  EXPECT_EQ(read.tokenizer->encode("a").ids, std::vector<std::int64_t>{2});
  EXPECT_EQ(read.tokenizer->encode("ab").ids, std::vector<std::int64_t>{3});

  // With scores: "ab" by the last of its two scores is joined after "bc".
  const auto pieces = [](const std::vector<std::string>& all) {
    return read_gguf_tokenizer(metadata_of(scored(all)), with_vocabulary(20), "m.gguf");
  };
  const TokenizerFiles once = pieces({"<unk>", "a", "b", "c", "ab", "bc"});
  const TokenizerFiles twice = pieces({"<unk>", "a", "b", "c", "ab", "bc", "ab"});
  ASSERT_TRUE(once.tokenizer && twice.tokenizer);
  const auto end_of = [](const TokenizerFiles& of) { return of.tokenizer->encode("abc").ids.back(); };
  EXPECT_EQ(end_of(once), 3) << "ab, c";
  EXPECT_EQ(end_of(twice), 5) << "a, bc";
  EXPECT_NE(said_by(twice).find("more than once"), std::string::npos) << said_by(twice);
}

TEST(GgufTokenizer, MergesOfPiecesThatAreNotThere) {  // T2
  const auto with_merges = [](const std::vector<std::string>& merges) {
    GgufBytes file;
    file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    file.array("tokenizer.ggml.tokens", GgufType::text, 3, texts_of({"a", "b", "ab"}));
    file.array("tokenizer.ggml.merges", GgufType::text, merges.size(), texts_of(merges));
    return read_gguf_tokenizer(metadata_of(file), with_vocabulary(10), "m.gguf");
  };
  EXPECT_TRUE(with_merges({"a b"}).tokenizer);
  EXPECT_NE(said_by(with_merges({"a b", "a z"})).find("merges[1]"), std::string::npos);
  EXPECT_NE(said_by(with_merges({"b a"})).find("merges[0]"), std::string::npos)
      << "what they make is not a piece";
  for (const char* bad : {"", "a", "a b a", "ab "})
    EXPECT_NE(said_by(with_merges({bad})).find("merges[0]"), std::string::npos) << bad;
}

TEST(GgufTokenizer, NumberOfPiecesIsLimited) {  // T2
  for (const std::uint64_t count : {std::uint64_t{1} << 24U, (std::uint64_t{1} << 24U) + 1}) {
    GgufBytes file;
    file.text("tokenizer.ggml.model", "none of them");
    file.array("tokenizer.ggml.tokens", GgufType::text, count, std::string(count * 8, '\0'));
    const std::string said = said_by(read_gguf_tokenizer(metadata_of(file), with_vocabulary(10), "m.gguf"));
    const char* wanted =
        count > (std::uint64_t{1} << 24U)
            ? "'tokenizer.ggml.tokens' is too long; expected at most 16777216 texts, got 16777217"
            : "'tokenizer.ggml.model' is 'none of them'";
    EXPECT_NE(said.find(wanted), std::string::npos) << said;
  }
}

TEST(GgufTokenizer, MoreTokensThanTheModelHas) {  // T4
  GgufBytes file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  file.array("tokenizer.ggml.tokens", GgufType::text, 3, texts_of({"a", "b", "c"}));
  file.array("tokenizer.ggml.merges", GgufType::text, 0, "");
  const GgufMetadata metadata = metadata_of(file);
  EXPECT_EQ(said_by(read_gguf_tokenizer(metadata, with_vocabulary(3), "m.gguf")), "");
  const TokenizerFiles read = read_gguf_tokenizer(metadata, with_vocabulary(2), "m.gguf");
  EXPECT_EQ(said_by(read), "the tokenizer knows 3 pieces, the model only 2: ids from 2 on are refused\n");
  ASSERT_TRUE(read.tokenizer);
  EXPECT_EQ(read.tokenizer->encode("abc").ids, (std::vector<std::int64_t>{0, 1, 2})) << "a run refuses them";
}

// Recorded from the package sentencepiece (tests/golden/make.py gguf-models).
TEST(GgufTokenizer, ScoresCutTextsAsSentencePieceDoes) {
  const auto reader = CheckpointReader::open_file(kGgufGoldens / "sentencepiece.gguf");
  const TokenizerFiles read = read_gguf_tokenizer(*reader.gguf(), with_vocabulary(1 << 20), "m.gguf");
  ASSERT_TRUE(read.tokenizer) << read.problem->what();
  const Json expected = json_of(kGgufGoldens / "sentencepiece.json");
  for (const Json& row : expected) {
    const auto text = row.at("text").get<std::string>();
    const auto ids = row.at("ids").get<std::vector<std::int64_t>>();
    EXPECT_EQ(read.tokenizer->encode(text, {.added_tokens = AddedTokensInText::as_text}).ids, ids) << text;
    EXPECT_EQ(read.tokenizer->decode(ids), row.at("decoded").get<std::string>()) << text;
  }
  EXPECT_EQ(read.tokenizer->encode("a", {.add_special_tokens = true}).ids.front(), 1);
}

// All ways to make a piece are tried, in the square of its length: for ten million bytes that would
// take days.
TEST(GgufTokenizer, LengthOfPiecesWithScoresIsLimited) {
  for (const std::size_t bytes : {1023U, 1024U}) {
    const TokenizerFiles read = read_gguf_tokenizer(
        metadata_of(scored({"<unk>", "a", std::string(bytes, 'a')})), with_vocabulary(10), "m.gguf");
    ASSERT_TRUE(read.tokenizer) << read.problem->what();
    EXPECT_EQ(read.tokenizer->vocab_size(), 3);
  }
  for (const std::size_t bytes : {std::size_t{1025}, std::size_t{10'000'000}}) {
    const TokenizerFiles read = read_gguf_tokenizer(
        metadata_of(scored({"<unk>", "a", std::string(bytes, 'a')})), with_vocabulary(10), "m.gguf");
    ASSERT_TRUE(read.problem);
    EXPECT_NE(
        std::string_view(read.problem->what())
            .find(fmt::format("'tokenizer.ggml.tokens' has a text of {} bytes, number 2; expected at most "
                              "1024",
                              bytes)),
        std::string_view::npos)
        << read.problem->what();
  }
}

// Half a megabyte of pieces whose merges would be half a gigabyte.
TEST(GgufTokenizer, WaysToMakePiecesAreLimited) {
  std::vector<std::string> pieces = {"<unk>"};
  for (std::size_t length = 1; length <= 1024; ++length) pieces.emplace_back(length, 'a');
  const TokenizerFiles read =
      read_gguf_tokenizer(metadata_of(scored(pieces)), with_vocabulary(2000), "m.gguf");
  ASSERT_TRUE(read.problem);
  EXPECT_NE(std::string_view(read.problem->what()).find("can be made of others in too many ways"),
            std::string_view::npos)
      << read.problem->what();
  pieces.resize(65);
  EXPECT_TRUE(read_gguf_tokenizer(metadata_of(scored(pieces)), with_vocabulary(2000), "m.gguf").tokenizer);
}

}  // namespace
}  // namespace hooked::gguf_tokenizer_test
