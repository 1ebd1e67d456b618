// A tokenizer.json as AutoTokenizer of transformers uses it, for every class of tokenizer and for the files
// next to it (tests/golden/make.py tokenizer-classes).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/temp_folder.h"

namespace hooked::text::tokenizer_classes_test {
namespace {

using Ids = std::vector<std::int64_t>;

const Json& recorded() {
  static const Json json = [] {
    std::ifstream in(HOOKED_SOURCE_DIR "/tests/text/files/classes/cases.json", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    return parse_json(text, {.bytes = std::size_t{1} << 24});
  }();
  return json;
}

void write(const std::filesystem::path& file, const Json& json) {
  std::ofstream(file, std::ios::binary) << json.dump();
}

// The folder of a case.
void write_case(const Json& made, const std::filesystem::path& folder) {
  Json document = recorded()["documents"][made["document"].get<std::string>()];
  auto& vocabulary = document["model"]["vocab"];
  for (std::int64_t i = 0; i < made.value("pieces", 0); ++i)
    vocabulary.get_ref<Json::object_t&>().emplace_back(fmt::format("p{}", i), 1000 + i);
  write(folder / "tokenizer.json", document);
  for (const auto& [name, content] : made["files"].items()) write(folder / name, content);
}

std::string named_class(const Json& made) {
  const auto& files = made["files"];
  if (!files.contains("tokenizer_config.json")) return {};
  auto name = files["tokenizer_config.json"].value("tokenizer_class", std::string());
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

class TokenizerClass : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Json& made() const { return recorded()["cases"][GetParam()]; }
};

TEST_P(TokenizerClass, IdsAreAutoTokenizers) {
  SCOPED_TRACE(made()["name"].get<std::string>());
  const TempFolder folder;
  write_case(made(), folder.path());
  const auto tokenizer = Tokenizer::load(folder.path());
  // A note says what the keys of tokenizer_config.json add, which AutoTokenizer leaves alone.
  Ids before, behind;
  for (const auto& note : tokenizer.notes()) {
    if (note.find("AutoTokenizer, which reads the post-processor alone, puts none there") ==
        std::string::npos)
      continue;
    before = tokenizer.around()->before;
    behind = tokenizer.around()->after;
  }
  for (std::size_t i = 0; i < recorded()["texts"].size(); ++i) {
    const auto text = recorded()["texts"][i].get<std::string>();
    Ids expected = before;
    for (const auto& id : made()["ids"][i]) expected.push_back(id);
    expected.insert(expected.end(), behind.begin(), behind.end());
    const auto encoding = tokenizer.encode(text, {.add_special_tokens = true});
    EXPECT_EQ(encoding.ids, expected) << text;
    // The tokens around it are those of around().
    Ids parts = tokenizer.around() ? tokenizer.around()->before : Ids{};
    const auto inside = tokenizer.encode(text).ids;
    parts.insert(parts.end(), inside.begin(), inside.end());
    if (tokenizer.around())
      parts.insert(parts.end(), tokenizer.around()->after.begin(), tokenizer.around()->after.end());
    EXPECT_EQ(encoding.ids, parts) << text;
  }
}

bool replaces(const Tokenizer& tokenizer) {
  for (const auto& note : tokenizer.notes()) {
    if (note.find("replaces the normalizer and the pre-tokenizer") != std::string::npos) return true;
  }
  return false;
}

// A note says that a class builds another pipeline than the file's. A file that it saved has its pipeline.
TEST_P(TokenizerClass, AReplacedPipelineIsANote) {
  if (!made().contains("saved")) return;
  SCOPED_TRACE(made()["name"].get<std::string>());
  const TempFolder folder;
  write_case(made(), folder.path());
  const auto first = Tokenizer::load(folder.path());
  Json document = recorded()["documents"][made()["document"].get<std::string>()];
  const bool same = document["normalizer"] == made()["saved"]["normalizer"] &&
                    document["pre_tokenizer"] == made()["saved"]["pre_tokenizer"];
  EXPECT_EQ(replaces(first), !same);
  for (const auto& [key, step] : made()["saved"].items()) document[key] = step;
  write(folder / "tokenizer.json", document);
  const auto second = Tokenizer::load(folder.path());
  EXPECT_FALSE(replaces(second));
  for (const auto& text : recorded()["texts"])
    EXPECT_EQ(first.encode(text.get<std::string>()).ids, second.encode(text.get<std::string>()).ids) << text;
}

// Saved next to a model with a different config.json.
TEST_P(TokenizerClass, ASavedFolderKeepsTheIds) {
  SCOPED_TRACE(made()["name"].get<std::string>());
  const TempFolder folder, saved;
  write_case(made(), folder.path());
  for (const auto& [name, content] : Tokenizer::read_files(folder.path()))
    std::ofstream(saved / name, std::ios::binary) << content;
  std::ofstream(saved / "config.json") << R"({"model_type": "hooked_transformer"})";
  const auto first = Tokenizer::load(folder.path()), second = Tokenizer::load(saved.path());
  EXPECT_EQ(first.bos_id(), second.bos_id());
  EXPECT_EQ(first.around().has_value(), second.around().has_value());
  for (const auto& text : recorded()["texts"]) {
    EXPECT_EQ(first.encode(text.get<std::string>(), {.add_special_tokens = true}).ids,
              second.encode(text.get<std::string>(), {.add_special_tokens = true}).ids)
        << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TokenizerClass, ::testing::Range(std::size_t{0}, recorded()["cases"].size()));

// Every class of transformers' table has a folder here, or a reason to have none.
TEST(TokenizerClasses, AreAll) {
  std::set<std::string> known, table;
  for (const auto& made : recorded()["cases"]) known.insert(named_class(made));
  for (const auto& [name, reason] : recorded()["without"].items()) {
    EXPECT_FALSE(known.contains(name)) << name;
    EXPECT_FALSE(reason.get<std::string>().empty()) << name;
    known.insert(name);
  }
  for (const auto& name : recorded()["classes"]) table.insert(name.get<std::string>());
  for (const auto& name : table) EXPECT_TRUE(known.contains(name)) << name;
  EXPECT_GT(table.size(), 80u);
}

// A class without a folder is named in a note: its ids may be others.
TEST(TokenizerClasses, ThoseWithoutAFolderAreNotes) {
  const TempFolder folder;
  write(folder / "tokenizer.json", recorded()["documents"]["byte_level"]);
  for (const auto& [name, reason] : recorded()["without"].items()) {
    write(folder / "tokenizer_config.json", {{"tokenizer_class", name}});
    const auto tokenizer = Tokenizer::load(folder.path());
    ASSERT_EQ(tokenizer.notes().size(), 1u) << name;
    EXPECT_NE(tokenizer.notes()[0].find(name), std::string::npos) << tokenizer.notes()[0];
  }
}

}  // namespace
}  // namespace hooked::text::tokenizer_classes_test
