// Tokenizers that are not a tokenizer.json, equal to the packages that read them: sentencepiece, tiktoken,
// mistral_common, transformers (tests/golden/make.py tokenizer-folders).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/base64.h"
#include "core/json.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/temp_folder.h"

namespace hooked::text::folder_golden_test {
namespace {

using Ids = std::vector<std::int64_t>;

// HOOKED_FOLDER_GOLDENS names another folder of them, with its own texts, for a comparison by hand.
std::filesystem::path goldens() {
  const char* wide = std::getenv("HOOKED_FOLDER_GOLDENS");
  return wide ? std::filesystem::path(wide)
              : std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/text/files/folders";
}

Json read_json(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in) << file;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return parse_json(text, {.bytes = std::size_t{1} << 28});
}

Json texts() {
  const auto own = goldens() / "texts.json";
  return read_json(std::filesystem::exists(own) ? own : goldens().parent_path() / "texts.json");
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(goldens())) {
    const auto name = entry.path().stem().string();
    if (entry.path().extension() == ".json" && name != "texts") found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void write_files(const Json& golden, const std::filesystem::path& folder) {
  for (const auto& [name, content] : golden["files"].items()) {
    const auto bytes = decode_base64(content.get_ref<const std::string&>());
    ASSERT_TRUE(bytes) << name;
    std::ofstream(folder / name, std::ios::binary) << *bytes;
  }
}

// What must hold for an encoding in addition to its ids.
void expect_whole(const Encoding& encoding, std::string_view text) {
  ASSERT_EQ(encoding.offsets.size(), encoding.ids.size());
  std::size_t begin = 0;
  for (const auto& span : encoding.offsets) {
    if (span == TextSpan{0, 0}) continue;
    EXPECT_LE(begin, span.begin) << text;
    EXPECT_LE(span.begin, span.end) << text;
    EXPECT_LE(span.end, text.size()) << text;
    begin = span.begin;
  }
}

class GoldenFolder : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenFolder, IdsAndDecodedTextAreThePackages) {
  const auto golden = read_json(goldens() / (GetParam() + ".json"));
  const TempFolder folder;
  write_files(golden, folder.path());
  const auto tokenizer = Tokenizer::load(folder.path());
  const auto all = texts();
  ASSERT_EQ(golden["expected"].size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto text = all[i].get<std::string>();
    const auto& expected = golden["expected"][i];
    Ids last;
    if (expected.contains("plain")) {
      const auto plain = tokenizer.encode(text, {.added_tokens = AddedTokensInText::as_text});
      last = expected["plain"].get<Ids>();
      EXPECT_EQ(plain.ids, last) << "as text: " << text;
      expect_whole(plain, text);
      Ids around = golden["before"].get<Ids>();
      around.insert(around.end(), last.begin(), last.end());
      for (const auto& id : golden["behind"]) around.push_back(id);
      if (expected.contains("around")) around = expected["around"].get<Ids>();
      if (around.size() > last.size()) {
        EXPECT_EQ(
            tokenizer.encode(text, {.add_special_tokens = true, .added_tokens = AddedTokensInText::as_text})
                .ids,
            around)
            << "around: " << text;
      }
    }
    if (expected.contains("found")) {
      const auto found = tokenizer.encode(text);
      EXPECT_EQ(found.ids, expected["found"].get<Ids>()) << "found: " << text;
      expect_whole(found, text);
    }
    if (expected.contains("special")) {
      last = expected["special"].get<Ids>();
      EXPECT_EQ(tokenizer.encode(text, {.add_special_tokens = true}).ids, last) << "special: " << text;
    }
    if (expected.contains("shown")) {
      EXPECT_EQ(tokenizer.decode(last), expected["shown"].get<std::string>());
    }
    EXPECT_EQ(tokenizer.decode(last, {.skip_special_tokens = true}),
              expected.contains("decoded") ? expected["decoded"].get<std::string>() : text);
  }
  for (const auto& row : golden["decodings"]) {
    EXPECT_EQ(tokenizer.decode(row[0].get<Ids>(), {.skip_special_tokens = true}), row[1].get<std::string>())
        << row[0].dump();
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, GoldenFolder, ::testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace hooked::text::folder_golden_test
