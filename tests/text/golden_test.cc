// Equality with the PyPI package tokenizers: ids, offsets and decoded texts, for a tiny tokenizer of each
// family and for GPT-2's own vocabulary (tests/golden/make.py tokenizers).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/utf8.h"
#include "hooked/text/tokenizer.h"
#include "tests/support/temp_folder.h"
#include "text/unicode/byte_characters.h"
#include "text/unicode/unicode.h"

namespace hooked::text::tokenizer_golden_test {
namespace {

const std::filesystem::path kFiles = std::filesystem::path(HOOKED_SOURCE_DIR) / "tests/text/files";

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in) << file;
  return {std::istreambuf_iterator<char>(in), {}};
}

Json read_json(const std::filesystem::path& file) { return parse_json(read(file), {.bytes = 1 << 24}); }

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFiles)) {
    const auto name = entry.path().stem().string();
    if (entry.path().extension() == ".json" && name != "texts") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// GPT-2's vocabulary: the spellings of all bytes, printable ones first, then each merge's result, then the
// end of a document.
std::string gpt2_vocabulary(std::string_view merges) {
  std::vector<std::string> spelled;
  std::string piece;
  const auto add_bytes = [&](bool themselves) {
    for (int byte = 0; byte < 256; ++byte) {
      const auto character = byte_character(static_cast<std::uint8_t>(byte));
      if ((character == static_cast<char32_t>(byte)) != themselves) continue;
      piece.clear();
      append_utf8(piece, character);
      spelled.push_back(piece);
    }
  };
  add_bytes(true);
  add_bytes(false);
  std::istringstream lines{std::string(merges)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with("#version")) continue;
    line.erase(line.find(' '), 1);
    spelled.push_back(line);
  }
  spelled.emplace_back("<|endoftext|>");
  std::string json = "{";
  for (std::size_t id = 0; id < spelled.size(); ++id) {
    json += fmt::format("{}{}: {}", id == 0 ? "" : ", ", Json(spelled[id]).dump(), id);
  }
  return json + "}";
}

// The folder with GPT-2's older pair of files.
Tokenizer load_gpt2(const TempFolder& folder, const std::string& vocabulary, const std::string& merges) {
  const auto lines = read(kFiles / "gpt2/merges.txt");
  std::ofstream(folder / merges) << lines;
  std::ofstream(folder / vocabulary) << gpt2_vocabulary(lines);
  return Tokenizer::load(folder.path());
}

// Each piece begins where the one before it ends; [n] comes before one that begins n bytes after that.
std::vector<TextSpan> spans_of(const Json& lengths) {
  std::vector<TextSpan> spans;
  std::size_t at = 0;
  for (const Json& length : lengths) {
    if (length.is_array()) {
      at += static_cast<std::size_t>(length[0].get<std::int64_t>());
      continue;
    }
    spans.push_back({at, at + length.get<std::size_t>()});
    at = spans.back().end;
  }
  return spans;
}

class GoldenText : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenText, IdsOffsetsAndDecodedTextAreThePackages) {
  const auto texts = read_json(kFiles / "texts.json");
  const auto golden = read_json(kFiles / (GetParam() + ".json"));
  const TempFolder folder;
  const auto tokenizer = golden["tokenizer"].is_null() ? load_gpt2(folder, "vocab.json", "merges.txt")
                                                       : Tokenizer::parse(golden["tokenizer"].dump());
  using Ids = std::vector<std::int64_t>;
  const auto before = golden["before"].get<Ids>();
  const auto behind = golden["behind"].get<Ids>();
  ASSERT_EQ(golden["expected"].size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto text = texts[i].get<std::string>();
    const auto& expected = golden["expected"][i];
    auto ids = expected[0].get<Ids>();
    std::vector<TextSpan> offsets = spans_of(expected[1]);
    const auto encoding = tokenizer.encode(text);
    EXPECT_EQ(encoding.ids, ids) << text;
    EXPECT_TRUE(encoding.offsets == offsets) << text;
    EXPECT_EQ(encoding.pieces.size(), ids.size());

    const auto special = tokenizer.encode(text, {.add_special_tokens = true});
    ids.insert(ids.begin(), before.begin(), before.end());
    ids.insert(ids.end(), behind.begin(), behind.end());
    offsets.insert(offsets.begin(), before.size(), {});
    offsets.insert(offsets.end(), behind.size(), {});
    EXPECT_EQ(special.ids, ids) << text;
    EXPECT_TRUE(special.offsets == offsets) << text;

    const auto decoded = expected[2].is_null() ? text : expected[2].get<std::string>();
    EXPECT_EQ(tokenizer.decode(ids), decoded);
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = true}),
              expected[3].is_null() ? decoded : expected[3].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenText, ::testing::ValuesIn(families()),
                         [](const auto& test) { return test.param; });

// The vectors that llama.cpp publishes for GPT-2.
TEST(Gpt2Vectors, AreMet) {
  const TempFolder folder;
  const auto tokenizer = load_gpt2(folder, "encoder.json", "vocab.bpe");
  EXPECT_EQ(tokenizer.vocab_size(), 50257);
  const auto input = read(kFiles / "gpt2/texts.inp");
  std::istringstream output(read(kFiles / "gpt2/ids.out"));
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::size_t begin = 0; begin <= input.size(); ++count) {
    const auto end = std::min(input.find(kSeparator, begin), input.size());
    const auto text = input.substr(begin, end - begin);
    std::string line;
    std::getline(output, line);  // the last text is empty, and so is its line
    std::istringstream numbers(line);
    const std::vector<std::int64_t> ids{std::istream_iterator<std::int64_t>(numbers), {}};
    EXPECT_EQ(tokenizer.encode(text).ids, ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), text);
    begin = end + kSeparator.size();
  }
  EXPECT_EQ(count, 47U);
}

}  // namespace
}  // namespace hooked::text::tokenizer_golden_test
