// Kinds of checkpoints that are known but not supported: their errors say what the graph lacks for them.
#include "families/unsupported.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "families/composite.h"
#include "families/family.h"
#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::unsupported_test {
namespace {

void expect_refused(const std::string& config, std::string_view where, const std::vector<std::string>& said) {
  const auto error = thrown_by<ConfigError>([&] { named_family({config, "config.json"}); });
  ASSERT_TRUE(error) << config;
  EXPECT_EQ(error->where(), where);
  for (const std::string& words : said) {
    EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << words << ": " << error->what();
  }
}

TEST(UnsupportedKinds, StandInOrderAndAreNotRead) {
  std::string_view last;
  for (const UnsupportedKind& kind : unsupported_kinds()) {
    EXPECT_LT(last, kind.model_type);
    last = kind.model_type;
    EXPECT_EQ(find_composite(kind.model_type), nullptr) << kind.model_type;
    for (const Family& family : all_families()) EXPECT_NE(family.model_type, kind.model_type);
    EXPECT_EQ(lacking_for(kind.model_type), kind.lacking);
  }
  EXPECT_FALSE(lacking_for("llama"));
  EXPECT_FALSE(lacking_for("rwkv"));
}

// The whole sentence, for every kind, wherever the kind is named.
TEST(UnsupportedKinds, ErrorsAreWhole) {
  constexpr std::string_view kStateSpace =
      "layers of a state-space model (Mamba) instead of attention or parallel to it";
  constexpr std::string_view kGemma3n =
      "several streams that predict one another (altup_num_inputs), a low-rank path parallel to attention "
      "(laurel_rank), inputs of their own for each layer (hidden_size_per_layer_input), layers that read the "
      "keys and values of others (num_kv_shared_layers) and MLPs that keep their largest neurons only "
      "(activation_sparsity_pattern)";
  const std::map<std::string_view, std::string_view> kinds = {
      {"albert", "blocks that share one block's weights, and an embedding narrower than the stream"},
      {"bamba", kStateSpace},
      {"falcon_h1", kStateSpace},
      {"falcon_mamba", kStateSpace},
      {"gemma3n", kGemma3n},
      {"gemma3n_text", kGemma3n},
      {"jamba", kStateSpace},
      {"mamba", kStateSpace},
      {"mamba2", kStateSpace},
      {"nemotron_h", kStateSpace},
      {"zamba2", kStateSpace}};
  EXPECT_EQ(unsupported_kinds().size(), kinds.size());
  for (const auto& [kind, lacking] : kinds) {
    const std::string sentence =
        fmt::format("models of type '{}' are not supported; expected one without {}", kind, lacking);
    const auto refused = [&](const std::string& config, std::string_view where) {
      const auto error = thrown_by<ConfigError>([&] { named_family({config, "m/config.json"}); });
      ASSERT_TRUE(error) << config;
      EXPECT_EQ(std::string_view(error->what()), fmt::format("[{}] {}", where, sentence));
    };
    refused(fmt::format(R"({{"model_type": "{}"}})", kind), "m/config.json");
    refused(fmt::format(R"({{"model_type": "{}", "text_config": {{}}}})", kind), "m/config.json: model_type");
    refused(fmt::format(R"({{"model_type": "llava", "text_config": {{"model_type": "{}"}}}})", kind),
            "m/config.json: text_config.model_type");
  }
}

// The advice for other checkpoints of several models, to save the text part alone, would not help here.
TEST(UnsupportedKinds, ErrorsSayWhatIsLacking) {
  expect_refused(R"({"model_type": "gemma3n_text", "hidden_size": 16})", "config.json",
                 {"'gemma3n_text'", "hidden_size_per_layer_input", "num_kv_shared_layers"});
  expect_refused(R"({"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}})",
                 "config.json: model_type", {"'gemma3n'", "altup_num_inputs", "laurel_rank"});
  // As the text part of a kind that is read.
  expect_refused(R"({"model_type": "llava", "text_config": {"model_type": "gemma3n_text"}})",
                 "config.json: text_config.model_type", {"'gemma3n_text'", "laurel_rank"});
  // Other kinds get a pointer to the list of supported ones.
  expect_refused(R"({"model_type": "rwkv", "hidden_size": 16})", "config.json", {"docs/families.md"});
  expect_refused(R"({"model_type": "florence2", "text_config": {}})", "config.json: model_type",
                 {"save the text part"});
}

}  // namespace
}  // namespace hooked::unsupported_test
