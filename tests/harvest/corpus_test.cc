#include "hooked/harvest/corpus.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::corpus_test {
namespace {

using Ids = std::vector<std::int64_t>;

// All documents, unit by unit.
std::vector<CorpusDocument> documents_in(const Corpus& corpus, std::uint64_t unit_tokens) {
  std::vector<CorpusDocument> all;
  for (const CorpusUnit& unit : corpus.units(unit_tokens)) {
    const auto some = corpus.read(unit);
    EXPECT_FALSE(some.empty());
    EXPECT_EQ(some.front().number, unit.first_document);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<std::string> texts_in(const Corpus& corpus, std::uint64_t unit_tokens) {
  std::vector<std::string> texts;
  for (const CorpusDocument& document : documents_in(corpus, unit_tokens)) {
    EXPECT_EQ(document.number, static_cast<std::int64_t>(texts.size()));
    texts.push_back(std::get<std::string>(document.content));
  }
  return texts;
}

TEST(Corpus, LinesAreTheSameDocumentsHoweverTheyAreCut) {
  const TempFolder folder;
  // A byte order mark counts at the start of a file alone; lines end in LF or CRLF; the last one in nothing.
  write_file(folder / "a.txt", "\xEF\xBB\xBFone\r\n\ntwo words\n\xEF\xBB\xBFthree\r\nlast \r");
  const std::vector<std::string> lines = {"one", "", "two words", "\xEF\xBB\xBFthree", "last \r"};
  for (const std::uint64_t unit : {1, 2, 3, 4, 5, 100}) {
    EXPECT_EQ(texts_in(Corpus::open(folder / "a.txt"), unit), lines) << unit;
  }
  EXPECT_EQ(Corpus::open(folder / "a.txt").units(1).size(), 4U);  // the blank line has fewer than four bytes
  EXPECT_EQ(texts_in(Corpus::open(folder / "a.txt", {.max_documents = 3}), 1),
            std::vector<std::string>(lines.begin(), lines.begin() + 3));
}

TEST(Corpus, AFolderIsItsFilesInTheOrderOfTheirNames) {
  const TempFolder folder;
  std::filesystem::create_directories(folder / "b");
  write_file(folder / "b/1.txt", "three\nfour");
  write_file(folder / "a.jsonl", "{\"text\": \"one\", \"n\": NaN}\n\n{\"text\": \"two\"}\n");
  write_file(folder / "LICENSE", "none");
  write_file(folder / ".hidden.txt", "none");
  const Corpus corpus = Corpus::open(folder.path());
  EXPECT_EQ(texts_in(corpus, 1), (std::vector<std::string>{"one", "", "two", "three", "four"}));
  EXPECT_EQ(corpus.ignored(), std::vector<std::string>{"LICENSE"});
  EXPECT_EQ(corpus.files(), (std::vector<CorpusFile>{{"a.jsonl", 43}, {"b/1.txt", 10}}));
  EXPECT_EQ(texts_in(Corpus::open(folder.path(), {.whole_files = true}), 1),
            (std::vector<std::string>{"one", "", "two", "three\nfour"}));
}

TEST(Corpus, ObjectsHoldTextsOrIdsInAField) {
  const TempFolder folder;
  write_file(folder / "a.jsonl", "{\"ids\": [1, 2], \"text\": \"x\"}\n{\"ids\": [3], \"text\": \"y\"}\n");
  const Corpus ids = Corpus::open(folder / "a.jsonl", {.field = "ids"});
  EXPECT_TRUE(ids.holds_ids());
  const auto documents = documents_in(ids, 1);
  ASSERT_EQ(documents.size(), 2U);
  EXPECT_EQ(std::get<Ids>(documents[1].content), Ids{3});
  EXPECT_FALSE(Corpus::open(folder / "a.jsonl").holds_ids());
  EXPECT_NE(ids.fingerprint(), Corpus::open(folder / "a.jsonl").fingerprint());
}

TEST(Corpus, ErrorsNameTheLineInTheFile) {
  const TempFolder folder;
  write_file(folder / "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": 3}\n");
  write_file(folder / "b.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"body\": \"three\"}\n");
  write_file(folder / "c.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\nthree\n");
  write_file(folder / "d.txt", "one\ntwo\nth\xFFree\n");
  for (const std::uint64_t unit : {1, 100}) {
    const auto reading = [&](const char* name) {
      return [&folder, name, unit] { documents_in(Corpus::open(folder / name), unit); };
    };
    EXPECT_TRUE(throws<CheckpointError>(reading("a.jsonl"), (folder / "a.jsonl").string() + ": line 3",
                                        {"'text' is an integer", "expected a text"}));
    EXPECT_TRUE(throws<CheckpointError>(reading("b.jsonl"), (folder / "b.jsonl").string() + ": line 3",
                                        {"field 'text' is missing", "body", "--field"}));
    EXPECT_TRUE(throws<CheckpointError>(reading("c.jsonl"), (folder / "c.jsonl").string() + ": line 3",
                                        {"not JSON"}));
    EXPECT_TRUE(
        throws<CheckpointError>(reading("d.txt"), (folder / "d.txt").string(), {"line 3", "not UTF-8"}));
  }
}

TEST(Corpus, TensorsHoldRowsOrOneLongDocument) {
  const TempFolder folder;
  const at::Tensor rows = at::arange(12, at::kInt).reshape({4, 3});
  save_safetensors(folder / "a.safetensors", {{"tokens", rows}, {"mask", rows.to(at::kFloat)}});
  save_safetensors(folder / "b.safetensors", {{"x", at::arange(10, at::kLong)}});
  for (const std::uint64_t unit : {1, 3, 6, 100}) {
    const auto documents = documents_in(Corpus::open(folder / "a.safetensors"), unit);
    ASSERT_EQ(documents.size(), 4U);
    EXPECT_EQ(std::get<Ids>(documents[2].content), (Ids{6, 7, 8}));
    EXPECT_EQ(documents[2].number, 2);
  }
  const auto pieces = documents_in(Corpus::open(folder / "b.safetensors"), 4);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[2].number, 0);
  EXPECT_EQ(pieces[2].first_offset, 8);
  EXPECT_EQ(std::get<Ids>(pieces[2].content), (Ids{8, 9}));
  // Both files: the long document is one.
  const auto both = documents_in(Corpus::open(folder.path()), 100);
  EXPECT_EQ(both.back().number, 4);
  save_safetensors(folder / "c.safetensors", {{"a", rows}, {"b", rows}});
  EXPECT_TRUE(throws<CheckpointError>([&] { Corpus::open(folder / "c.safetensors").units(1); },
                                      (folder / "c.safetensors").string(), {"not clear", "a, b", "--field"}));
  EXPECT_EQ(Corpus::open(folder / "c.safetensors", {.field = "b"}).units(100).size(), 1U);
}

TEST(Corpus, WhatCannotBeReadSaysWhatToDo) {
  const TempFolder folder;
  write_file(folder / "a.parquet", "PAR1");
  write_file(folder / "b.jsonl.gz", "x");
  EXPECT_TRUE(throws<CheckpointError>([&] { Corpus::open(folder / "a.parquet"); },
                                      (folder / "a.parquet").string(), {"Python"}));
  EXPECT_TRUE(throws<CheckpointError>([&] { Corpus::open(folder / "b.jsonl.gz"); },
                                      (folder / "b.jsonl.gz").string(), {"gunzip"}));
  EXPECT_TRUE(throws<CheckpointError>([&] { Corpus::open(folder.path()); }, (folder / "a.parquet").string(),
                                      {"Python"}));
  EXPECT_THROW(Corpus::open(folder / "absent.txt"), IoError);
  const TempFolder empty;
  EXPECT_TRUE(throws<IoError>([&] { Corpus::open(empty.path()); }, empty.path().string(),
                              {"no documents", ".jsonl"}));
}

TEST(Corpus, AFileThatChangesIsFound) {
  const TempFolder folder;
  for (const char* name : {"a.txt", "b.safetensors"}) {
    const auto file = folder / name;
    const bool ids = file.extension() == ".safetensors";
    const auto write = [&](std::int64_t second) {
      if (ids) return save_safetensors(file, {{"x", at::tensor(Ids{1, second}, at::kLong)}});
      write_file(file, "one\n" + std::to_string(second) + "\n");
    };
    write(2);
    const Corpus corpus = Corpus::open(file);
    const auto units = corpus.units(100);
    EXPECT_EQ(corpus.read(units.front()).size(), ids ? 1U : 2U);
    write(3);  // of the same size
    EXPECT_TRUE(
        throws<CheckpointError>([&] { corpus.read(units.front()); }, file.string(), {"not what it was"}));
  }
}

TEST(Corpus, DocumentsCanComeFromAFunction) {
  const Corpus given = Corpus::of({std::string("a"), std::string("b"), std::string("c")});
  EXPECT_EQ(texts_in(given, 1), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(given.fingerprint(),
            Corpus::of({std::string("a"), std::string("b"), std::string("c")}).fingerprint());
  EXPECT_NE(given.fingerprint(),
            Corpus::of({std::string("ab"), std::string(""), std::string("c")}).fingerprint());
  EXPECT_TRUE(Corpus::of({Ids{1}}).holds_ids());
  const auto short_reader = [](std::int64_t, std::int64_t) { return std::vector<CorpusDocument>(1); };
  const Corpus wrong = Corpus::of(short_reader, 2, "x");
  EXPECT_TRUE(throws<ShapeError>([&] { documents_in(wrong, 100'000); }, "corpus", {"gave 1"}));
}

}  // namespace
}  // namespace hooked::corpus_test
