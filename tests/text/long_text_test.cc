// Texts that make careless tokenizers slow.
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/golden_tokenizers.h"
#include "tests/support/processor_time.h"

namespace hooked::text::long_text_test {
namespace {

double seconds(const Tokenizer& tokenizer, const std::string& text) {
  const double begin = processor_seconds();
  const auto encoding = tokenizer.encode(text);
  EXPECT_FALSE(encoding.ids.empty() && text.find_first_not_of(" \n") != std::string::npos);
  return processor_seconds() - begin;
}

std::string repeated(std::string_view unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

// Quadratic time would take 64 times as long for a text of 8 times the length, and minutes for the longer
// one.
TEST(LongTexts, TakeLinearTime) {
  constexpr std::size_t kShort = 1 << 15;
  for (const auto& [family, json, tokenizer] : golden_tokenizers()) {
    if (family != "gpt2" && family != "llama2" && family != "llama3" && family != "bert" && family != "t5")
      continue;
    for (const std::string_view unit :
         {"a", "ab", " ", "\n", "e\u0301", "\U0001f600", "'", "<|", "\u202e\u05d0"}) {
      const auto once = seconds(tokenizer, repeated(unit, kShort));
      const auto longer = seconds(tokenizer, repeated(unit, 8 * kShort));
      EXPECT_LT(longer, 30 * once + 0.5) << family << " \"" << unit << '"';
    }
  }
}

TEST(LongTexts, OneWordOf10Megabytes) {
  for (const auto& [family, json, tokenizer] : golden_tokenizers()) {
    if (family == "gpt2") {
      EXPECT_LT(seconds(tokenizer, std::string(10'000'000, 'a')), 120);
    }
  }
}

}  // namespace
}  // namespace hooked::text::long_text_test
