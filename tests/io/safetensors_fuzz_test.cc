// The fuzz target's property over a corpus of headers and over every small change of one.
#include <gtest/gtest.h>

#include <random>

#include "tests/fuzz/safetensors_property.h"
#include "tests/io/file_bytes.h"

namespace hooked::safetensors_fuzz_test {
namespace {

const std::vector<std::pair<std::string, std::uint64_t>> kCorpus = {
    {"{}", 0},
    {R"( {"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}  )", 24},
    {R"({"__metadata__":{"format":"pt","n":"\u00e9"},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]},)"
     R"("b\n":{"shape":[],"data_offsets":[4,12],"dtype":"F64"},"z":{"dtype":"BF16","shape":[0,2],"data_offsets":[12,12]}})",
     12},
    {R"({"\ud83d\ude00":{"dtype":"X","shape":[1,1],"data_offsets":[0,3]}})", 3},
};

TEST(SafetensorsFuzz, CorpusIsAccepted) {
  for (const auto& [header, data] : kCorpus)
    EXPECT_TRUE(safetensors_header_property(header, 8 + header.size() + data));
}

TEST(SafetensorsFuzz, EveryByteChangedToEveryOther) {
  std::size_t accepted = 0;
  std::size_t tried = 0;
  for (const auto& [header, data] : kCorpus) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      for (int value = 0; value < 256; ++value, ++tried) {
        auto changed = header;
        changed[i] = static_cast<char>(value);
        accepted += safetensors_header_property(changed, 8 + header.size() + data) ? 1 : 0;
      }
    }
  }
  // Letters of names and metadata may change; the structure may not. Both kinds must have been met.
  EXPECT_GT(accepted, 0U);
  EXPECT_LT(accepted, tried / 2);
}

TEST(SafetensorsFuzz, CutAtEveryLength) {
  for (const auto& [header, data] : kCorpus) {
    for (std::size_t length = 0; length < header.size(); ++length) {
      const auto cut = std::string_view(header).substr(0, length);
      const auto rest = header.substr(length);
      const bool only_blanks_lost = rest.find_first_not_of(' ') == std::string::npos;
      EXPECT_EQ(safetensors_header_property(cut, 8 + length + data), only_blanks_lost) << cut;
    }
  }
}

TEST(SafetensorsFuzz, RandomEdits) {
  std::mt19937 random(1);
  const std::string tokens = "{}[]:,\"\\u0 19.-eE\n\xE2\x80tf";
  for (int run = 0; run < 20'000; ++run) {
    auto [header, data] = kCorpus[random() % kCorpus.size()];
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const auto at = random() % (header.size() + 1);
      switch (random() % 3) {
        case 0:
          header.insert(at, 1, tokens[random() % tokens.size()]);
          break;
        case 1:
          header.erase(at, random() % 5);
          break;
        default:
          header.insert(at, header.substr(random() % header.size(), random() % 40));
      }
      if (header.empty()) header = " ";
    }
    safetensors_property(std::string(1, static_cast<char>(data)) + header);
  }
}

}  // namespace
}  // namespace hooked::safetensors_fuzz_test
