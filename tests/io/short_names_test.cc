#include "io/files/short_names.h"

#include <gtest/gtest.h>

namespace hooked::short_names_test {
namespace {

std::string whole(std::string_view id) {
  const auto name = whole_name(parse_hub_name(id).value());
  return name ? name->id() : std::string();
}

TEST(ShortNames, AreThoseOfTransformerLens) {
  EXPECT_EQ(whole("gpt2-small"), "openai-community/gpt2");
  EXPECT_EQ(whole("distilgpt2"), "distilbert/distilgpt2");
  EXPECT_EQ(whole("pythia"), "EleutherAI/pythia-70m");
  EXPECT_EQ(whole("gelu-1l"), "NeelNanda/GELU_1L512W_C4_Code");
  EXPECT_EQ(whole("solu-2l-pile"), "NeelNanda/SoLU_2L_v10_old");
  EXPECT_EQ(whole("attn-only-2l-demo"), "NeelNanda/Attn-Only-2L512W-Shortformer-6B-big-lr");
  EXPECT_EQ(whole("tiny-stories-1L-21M"), "roneneldan/TinyStories-1Layer-21M");
  EXPECT_EQ(whole("EleutherAI/pythia-19m"), "EleutherAI/pythia-70m") << "they may have their organisation";
  EXPECT_EQ(whole("yi-34b"), "01-ai/Yi-34B") << "the first of the table";
  EXPECT_EQ(whole("apertus-instruct"), "swiss-ai/Apertus-8B-Instruct-2509") << "the last";
}

TEST(ShortNames, KeepRevisionAndFile) {
  EXPECT_EQ(whole("pythia-70m@step1000"), "EleutherAI/pythia-70m@step1000");
  EXPECT_EQ(whole("Gemma-2B:m.gguf"), "google/gemma-2b:m.gguf");
}

TEST(ShortNames, OthersStandForThemselves) {
  for (const auto* id : {"openai-community/gpt2", "someone/gpt2-small", "gpt3", "org/name"})
    EXPECT_EQ(whole(id), "") << id;
}

}  // namespace
}  // namespace hooked::short_names_test
