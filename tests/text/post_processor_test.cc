#include "text/pipeline/post_processor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/text/json_of.h"

namespace hooked::text::post_processor_test {
namespace {

using Ids = std::vector<std::int64_t>;
using Spans = std::vector<TextSpan>;

// The tokens of " a b": "_a" and "_b", where `_` is GPT-2's blank.
TokenList processed(std::string_view json, PostProcessor::SpecialTokens special) {
  TokenList tokens{.original = " a b", .ids = {5, 6}, .offsets = {{0, 2}, {2, 4}}, .texts = {}};
  static const std::string kA = "\u0120a";
  static const std::string kB = "\u0120b";
  const Spelling spelling = [](std::int64_t id) -> const std::string& { return id == 5 ? kA : kB; };
  read_post_processor(json_of(json))->apply(tokens, special, spelling);
  return tokens;
}

TEST(PostProcessor, EachTypeIsWhatItsNameSays) {
  constexpr auto kAdd = PostProcessor::SpecialTokens::add;
  const auto bert = processed(R"({"type": "BertProcessing", "sep": ["s", 2], "cls": ["c", 1]})", kAdd);
  EXPECT_EQ(bert.ids, (Ids{1, 5, 6, 2}));
  EXPECT_TRUE(bert.offsets == (Spans{{0, 0}, {0, 2}, {2, 4}, {0, 0}}));
  const auto roberta = processed(R"({"type": "RobertaProcessing", "sep": ["s", 2], "cls": ["c", 1],
                                     "trim_offsets": true, "add_prefix_space": false})",
                                 kAdd);
  EXPECT_EQ(roberta.ids, (Ids{1, 5, 6, 2}));
  EXPECT_TRUE(roberta.offsets == (Spans{{0, 0}, {1, 2}, {3, 4}, {0, 0}}));
  const auto byte_level =
      processed(R"({"type": "ByteLevel", "trim_offsets": true, "add_prefix_space": true})", kAdd);
  EXPECT_EQ(byte_level.ids, (Ids{5, 6}));
  EXPECT_TRUE(byte_level.offsets == (Spans{{0, 2}, {3, 4}}));  // the first blank may not be the text's
  constexpr auto* kTemplate = R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}},
                                  {"SpecialToken": {"id": "e"}}],
                                  "special_tokens": {"e": {"id": "e", "ids": [7, 8], "tokens": ["e", "f"]}}})";
  EXPECT_EQ(processed(kTemplate, kAdd).ids, (Ids{5, 6, 7, 8}));
  EXPECT_EQ(processed(kTemplate, PostProcessor::SpecialTokens::leave_out).ids, (Ids{5, 6}));
  EXPECT_EQ(
      processed(R"({"type": "Sequence", "processors": [)" + std::string(kTemplate) + "," + kTemplate + "]}",
                kAdd)
          .ids,
      (Ids{5, 6, 7, 8, 7, 8}));
}

}  // namespace
}  // namespace hooked::text::post_processor_test
