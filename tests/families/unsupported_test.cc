// Kinds of checkpoints that are known and not read: their errors say what the graph lacks for them.
#include "families/unsupported.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
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

// The advice for other checkpoints of several models, to save the text part by itself, would not help here.
TEST(UnsupportedKinds, ErrorsSayWhatIsLacking) {
  expect_refused(R"({"model_type": "gemma3n_text", "hidden_size": 16})", "config.json",
                 {"'gemma3n_text'", "hidden_size_per_layer_input", "num_kv_shared_layers"});
  expect_refused(R"({"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text"}})",
                 "config.json: model_type", {"'gemma3n'", "altup_num_inputs", "laurel_rank"});
  // As the text part of a kind that is read.
  expect_refused(R"({"model_type": "llava", "text_config": {"model_type": "gemma3n_text"}})",
                 "config.json: text_config.model_type", {"'gemma3n_text'", "laurel_rank"});
  // Others are told where it stands what is read.
  expect_refused(R"({"model_type": "rwkv", "hidden_size": 16})", "config.json", {"docs/families.md"});
  expect_refused(R"({"model_type": "florence2", "text_config": {}})", "config.json: model_type",
                 {"save the text part"});
}

}  // namespace
}  // namespace hooked::unsupported_test
