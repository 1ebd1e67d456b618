// Keys that a config.json lacks get transformers' defaults (tests/golden/make.py absent-keys).
#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "families/family.h"
#include "families/shared/native_config.h"
#include "hooked/core/error.h"
#include "tests/support/golden_configs.h"

namespace hooked::absent_keys_test {
namespace {

Json absent_keys() {
  const std::ifstream file(HOOKED_SOURCE_DIR "/tests/golden/absent_keys.json", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return parse_json(text.str(), {.bytes = 1 << 24});
}

const GoldenConfig& golden(const std::string& name) {
  for (const GoldenConfig& config : golden_configs()) {
    if (config.name == name) return config;
  }
  throw std::invalid_argument("no golden checkpoint " + name);
}

struct Outcome {
  std::optional<ModelConfig> config;
  std::string error;
};

Outcome outcome(const GoldenConfig& base, const Json& json) {
  try {
    ModelConfig config = read_as(base, json).config;
    config.dtype = at::kFloat;
    return {std::move(config), ""};
  } catch (const ConfigError& error) {
    return {std::nullopt, error.what()};
  }
}

// Sizes of weights, whose defaults in transformers are those of one published model. A file without them is
// cut off or of another family: a guess would move the error to the tensors or, for heads, lose it.
const std::set<std::string> kRequired = {"hidden_size",
                                         "d_model",
                                         "n_embd",
                                         "dim",
                                         "num_hidden_layers",
                                         "n_layers",
                                         "n_layer",
                                         "num_layers",
                                         "n_heads",
                                         "num_attention_heads",
                                         "n_head",
                                         "num_heads",
                                         "ffn_dim",
                                         "attention_heads",
                                         "intermediate_size",
                                         "hidden_dim",
                                         "vocab_size",
                                         "moe_intermediate_size",
                                         "shared_expert_intermediate_size",
                                         "n_routed_experts",
                                         "kv_lora_rank",
                                         "q_lora_rank",
                                         "qk_nope_head_dim",
                                         "qk_rope_head_dim",
                                         "v_head_dim",
                                         "d_ff",
                                         "dff",
                                         "encoder_layers",
                                         "decoder_layers",
                                         "encoder_attention_heads",
                                         "decoder_attention_heads",
                                         "encoder_ffn_dim",
                                         "decoder_ffn_dim"};

TEST(AbsentKeys, MeanWhatTransformersTakesForThem) {
  std::set<std::string> families;
  int compared = 0;
  const Json recorded = absent_keys();
  for (const auto& [name, keys] : recorded.items()) {
    const GoldenConfig& base = golden(name);
    for (const auto& [without, now] : keys.items()) {
      SCOPED_TRACE(base.name + " without " + without);
      Json full = base.json, cut = base.json;
      for (const auto& [key, value] : now.items()) {
        if (key != "<gone>") full[key] = value;
      }
      if (now.contains("<gone>")) {
        for (const std::string gone : now.at("<gone>")) full.erase(gone);
      }
      if (!without.empty()) cut = without_key(cut, path_from(without));
      const Outcome expected = outcome(base, full), got = outcome(base, cut);
      if (kRequired.contains(without) && !got.config) {
        EXPECT_NE(got.error.find("missing; expected this field, got nothing"), std::string::npos)
            << got.error;
        continue;
      }
      if (without == "decoder_start_token_id" && !expected.config && got.config) {
        // The family's own token is outside a small vocabulary, so none is set.
        EXPECT_EQ(got.config->encoder->decoder_start_token, std::nullopt);
        continue;
      }
      EXPECT_EQ(expected.config.has_value(), got.config.has_value()) << expected.error << got.error;
      if (!expected.config || !got.config) continue;
      if (*expected.config == *got.config) {
        ++compared;
        families.insert(base.model_type);
        continue;
      }
      ADD_FAILURE() << "transformers: " << now.dump() << "\nmeans " << write_native_config(*expected.config)
                    << "\nread as " << write_native_config(*got.config);
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(families.size(), 45u);
}

}  // namespace
}  // namespace hooked::absent_keys_test
