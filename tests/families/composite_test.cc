// config.json of checkpoints that hold several models: which keys are the text model's.
#include "families/composite.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/json.h"
#include "families/shared/native_config.h"
#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::composite_test {
namespace {

FamilyConfig read(const std::string& config) {
  const RecognisedFamily named = named_family({config, "config.json"});
  return read_family_config(named.family, named.config);
}

void expect_refused(const std::string& config, std::string_view key, const std::vector<std::string>& said) {
  const auto error = thrown_by<ConfigError>([&] { read(config); });
  ASSERT_TRUE(error) << key;
  EXPECT_EQ(error->where(), fmt::format("config.json: {}", key)) << error->what();
  for (const std::string& words : said) {
    EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << words << ": " << error->what();
  }
}

// A text model of few keys, and the whole around it.
std::string text(const std::string& more = "") {
  return R"({"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 23, "max_position_embeddings": 32, "head_dim": 4)" +
         (more.empty() ? "" : ", " + more) + "}";
}

std::string whole(std::string_view model_type, const std::string& group, const std::string& more = "") {
  return fmt::format(
      R"({{"model_type": "{}", "text_config": {}, "vision_config": {{"hidden_size": 3}}{}{}}})", model_type,
      group, more.empty() ? "" : ", ", more);
}

TEST(Composites, StandInOrderAndAreNoFamilies) {
  std::string_view last;
  std::set<std::string_view> families;
  for (const Family& family : all_families()) families.insert(family.model_type);
  for (const Composite& composite : all_composites()) {
    EXPECT_LT(last, composite.model_type);
    last = composite.model_type;
    EXPECT_FALSE(families.contains(composite.model_type)) << composite.model_type;
    EXPECT_FALSE(composite.prefixes.empty());
    EXPECT_FALSE(composite.others.empty());
  }
}

// A prefix that begins with another one would never be found after it.
TEST(Composites, LongerPrefixesGoFirst) {
  for (const Composite& composite : all_composites()) {
    for (std::size_t i = 0; i < composite.prefixes.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(composite.prefixes[i].starts_with(composite.prefixes[j]))
            << composite.model_type << ": " << composite.prefixes[i];
      }
    }
  }
}

// tests/golden/make.py text-parts asked transformers.
TEST(CompositeConfigs, SizesThatTheGroupLeavesOutAreThoseOfTransformers) {
  const std::ifstream file(HOOKED_SOURCE_DIR "/tests/golden/text_parts.json", std::ios::binary);
  std::ostringstream rows;
  rows << file.rdbuf();
  std::set<std::string> compared;
  for (const Json& row : parse_json(rows.str(), {})) {
    SCOPED_TRACE(row.at("config").dump());
    compared.insert(row.at("config").at("model_type"));
    // The class's default may be an unsupported form: Gemma 4's per-layer embeddings.
    const auto where_refused = [&](const char* which) -> std::string {
      try {
        read(row.at(which).dump());
      } catch (const ConfigError& error) {
        return std::string(error.where());
      }
      return {};
    };
    if (const std::string where = where_refused("means"); !where.empty()) {
      EXPECT_EQ(where_refused("config"), where);
      continue;
    }
    const ModelConfig got = read(row.at("config").dump()).config, meant = read(row.at("means").dump()).config;
    EXPECT_EQ(got, meant) << write_native_config(got) << "\nmeant " << write_native_config(meant);
  }
  for (const Composite& composite : all_composites()) {
    EXPECT_TRUE(compared.contains(std::string(composite.model_type))) << composite.model_type;
  }
}

// As on the hub: the group of google/gemma-3-4b-it, written when defaults were left out.
TEST(CompositeConfigs, PublishedGemma3) {
  const FamilyConfig gemma = read(R"({"architectures": ["Gemma3ForConditionalGeneration"],
      "boi_token_index": 255999, "eoi_token_index": 256000, "eos_token_id": [1, 106], "image_token_index": 262144,
      "initializer_range": 0.02, "mm_tokens_per_image": 256, "model_type": "gemma3",
      "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
        "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
      "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
      "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model", "vision_use_head": false}})");
  EXPECT_EQ(gemma.config.n_heads, 8);
  EXPECT_EQ(gemma.config.n_kv_heads, 4);
  EXPECT_EQ(gemma.config.d_head, 256);
  EXPECT_EQ(gemma.config.d_vocab, 262208);
  EXPECT_EQ(gemma.config.window->size, 1024);
  EXPECT_EQ(gemma.config.rotary()->base, 1e6);
  EXPECT_TRUE(gemma.config.tied_unembedding());
  EXPECT_TRUE(gemma.ignored_keys.empty()) << gemma.ignored_keys.front();
}

// A layer's own heads hold before global_head_dim; what makes no sense is refused at its key.
TEST(CompositeConfigs, Gemma4) {
  const std::string dense =
      R"("model_type": "gemma4_text", "hidden_size_per_layer_input": 0, "num_hidden_layers": 6)";
  const auto gemma4 = [&](const std::string& more) {
    return whole("gemma4", "{" + dense + (more.empty() ? "" : ", ") + more + "}");
  };
  const ModelConfig usual = read(gemma4(R"("num_global_key_value_heads": 2)")).config;
  ASSERT_TRUE(usual.full_heads);
  EXPECT_EQ(*usual.full_heads, (FullHeads{.d_head = 512, .n_kv_heads = 4})) << "keys make no values";
  EXPECT_EQ(usual.rotary()->turned_pairs, 64);
  EXPECT_EQ(usual.window->layers, (std::vector<bool>{true, true, true, true, true, false}));
  const ModelConfig shared =
      read(gemma4(R"("num_global_key_value_heads": 2, "attention_k_eq_v": true)")).config;
  EXPECT_EQ(*shared.full_heads, (FullHeads{.d_head = 512, .n_kv_heads = 2}));
  const ModelConfig own = read(gemma4(R"("per_layer_config": {"5": {"head_dim": 128}})")).config;
  EXPECT_EQ(*own.full_heads, (FullHeads{.d_head = 128, .n_kv_heads = 4}));
  EXPECT_FALSE(read(gemma4(R"("per_layer_config": null)")).config.full_heads);
  const auto refuse = [&](const std::string& more, const std::string& key) {
    expect_refused(gemma4(more), "text_config." + key, {"expected"});
  };
  EXPECT_EQ(read(whole("gemma4", R"({"model_type": "gemma4_text"})")).config.layer_input->width, 256);
  const ModelConfig sharing =
      read(gemma4(R"("num_kv_shared_layers": 2, "layer_types": ["sliding_attention", "full_attention",
           "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
           "use_double_wide_mlp": true, "intermediate_size": 7)"))
          .config;
  EXPECT_EQ(*sharing.shared_keys, (SharedKeys{.layers = 2, .d_mlp = 14}));
  refuse(R"("num_kv_shared_layers": 6)", "num_kv_shared_layers");
  refuse(R"("num_kv_shared_layers": -1)", "num_kv_shared_layers");
  expect_refused(whole("gemma4", R"({"model_type": "gemma4_text", "vocab_size_per_layer_input": 5})"),
                 "text_config.vocab_size_per_layer_input", {"expected"});
  const std::string mixture =
      R"("intermediate_size": 9, "enable_moe_block": true, "moe_intermediate_size": 7, "num_experts": 5)";
  const ModelConfig experts = read(gemma4(mixture + R"(, "top_k_experts": 2)")).config;
  EXPECT_EQ(experts.experts, (Experts{.n_experts = 5,
                                      .per_token = 2,
                                      .d_expert = 7,
                                      .renormalised = true,
                                      .d_shared = 9,
                                      .own_norms = true,
                                      .expert_scale = true}));
  EXPECT_EQ(experts.d_mlp, 7);
  EXPECT_FALSE(read(gemma4(R"("enable_moe_block": false, "num_experts": 5)")).config.experts);
  refuse(mixture, "top_k_experts");
  refuse(mixture + R"(, "top_k_experts": 6)", "top_k_experts");
  refuse(R"("enable_moe_block": true, "num_experts": 5, "top_k_experts": 2)", "moe_intermediate_size");
  expect_refused(
      whole("gemma4_unified", R"({"model_type": "gemma4_unified_text", "enable_moe_block": true})"),
      "text_config.enable_moe_block", {"not supported"});
  refuse(R"("per_layer_config": {"6": {"head_dim": 128}})", "per_layer_config.6");
  refuse(R"("per_layer_config": {"5": {"head_dim": 128, "intermediate_size": 7}})",
         "per_layer_config.5.intermediate_size");
  refuse(R"("per_layer_config": {"1": {"head_dim": 128}})", "per_layer_config");
  refuse(R"("use_bidirectional_attention": "some")", "use_bidirectional_attention");
}

// As on the hub: Qwen/Qwen2.5-VL-3B-Instruct, whose text keys are next to those of the whole.
TEST(CompositeConfigs, PublishedQwen25Vl) {
  const std::string keys = R"("attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
      "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 11008,
      "max_position_embeddings": 128000, "max_window_layers": 70, "num_attention_heads": 16,
      "num_hidden_layers": 36, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
      "sliding_window": 32768, "tie_word_embeddings": true, "use_cache": true, "use_sliding_window": false,
      "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 151936)";
  const std::string beside = R"("model_type": "qwen2_5_vl", "vision_start_token_id": 151652,
      "vision_end_token_id": 151653, "vision_token_id": 151654, "image_token_id": 151655,
      "video_token_id": 151656, "vision_config": {"depth": 32, "hidden_act": "silu", "window_size": 112}, )";
  const FamilyConfig flat = read("{" + beside + keys + "}");
  EXPECT_EQ(flat.config.d_head, 128);
  EXPECT_EQ(flat.config.rotary()->scaling, RopeScaling(NoScaling{}));
  EXPECT_TRUE(flat.config.qkv_bias);
  EXPECT_TRUE(flat.config.tied_unembedding());
  EXPECT_TRUE(flat.ignored_keys.empty()) << flat.ignored_keys.front();
  const FamilyConfig grouped =
      read("{" + beside + R"("text_config": {"model_type": "qwen2_5_vl_text", )" + keys + "}}");
  EXPECT_EQ(flat.config, grouped.config);
}

TEST(CompositeConfigs, KeysOfTheWholeAreIgnoredByNameOrListedOrNoted) {
  const FamilyConfig listed =
      read(whole("gemma3", text(R"("colour": "green")"), R"("favourite": 3, "image_token_index": 5)"));
  EXPECT_EQ(listed.ignored_keys, (std::vector<std::string>{"favourite", "text_config.colour"}));
  for (const auto& [config, key] :
       {std::pair{whole("gemma3", text(), R"("attention_multiplier": 3)"), "attention_multiplier"},
        std::pair{whole("gemma3", text(R"("attention_multiplier": 3)")),
                  "text_config.attention_multiplier"}}) {
    const FamilyConfig noted = read(config);
    EXPECT_EQ(noted.ignored_keys, std::vector<std::string>{key});
    ASSERT_FALSE(noted.notes.empty());
    EXPECT_NE(noted.notes.back().find(fmt::format("{} has no effect", key)), std::string::npos)
        << noted.notes.back();
  }
  expect_refused(whole("gemma3", text(), R"("quantization_config": {"bits": 4})"), "quantization_config",
                 {"expected null"});
  EXPECT_NO_THROW(read(whole("gemma3", text(R"("attention_multiplier": null)"))));
}

TEST(CompositeConfigs, ErrorsNameTheKeyInItsGroup) {
  expect_refused(whole("gemma3", text(R"("sliding_window": "wide")")), "text_config.sliding_window",
                 {"expected an integer"});
  expect_refused(whole("mistral3", text(R"("rope_scaling": {"rope_type": "spiral"})")),
                 "text_config.rope_scaling.rope_type", {"spiral"});
  // If a number is refused in combination with others.
  expect_refused(whole("mistral3", text(R"("rope_theta": -1.5)")), "text_config.rope_theta", {"-1.5"});
}

TEST(CompositeConfigs, TheGroupMustBeThereAndOfAFamily) {
  expect_refused(R"({"model_type": "gemma3"})", "text_config", {"missing", "expected"});
  expect_refused(R"({"model_type": "gemma3", "text_config": 3})", "text_config", {"expected an object"});
  expect_refused(whole("mistral3", text(R"("model_type": "ministral9")")), "text_config.model_type",
                 {"'ministral9' is not supported", "docs/families.md", "the nearest name is 'ministral'"});
  expect_refused(whole("mistral3", text(R"("model_type": 3)")), "text_config.model_type",
                 {"expected a string"});
  expect_refused(whole("flamingo9", text()), "model_type", {"'flamingo9'", "gemma3", "qwen3_vl"});
}

TEST(CompositeConfigs, SectionsOfRotaryPositionsSayNothingOfText) {
  const auto rope = [](const std::string& group) { return text(R"("rope_scaling": )" + group); };
  const std::string sections = R"("mrope_section": [1, 1, 0])";
  const ModelConfig plain = read(whole("qwen2_5_vl", text())).config;
  EXPECT_EQ(read(whole("qwen2_5_vl", rope(R"({"type": "mrope", )" + sections + "}"))).config, plain);
  EXPECT_EQ(
      read(whole("qwen2_5_vl", rope(R"({"rope_type": "default", "type": "default", )" + sections + "}")))
          .config,
      plain);
  EXPECT_EQ(read(whole("qwen3_vl",
                       rope(R"({"rope_type": "default", "mrope_interleaved": true, )" + sections + "}")))
                .config,
            read(whole("qwen3_vl", text())).config);
  for (const char* bad : {"[1, 1]", "[1, -1, 2]", "3", R"(["a", 1, 1])"}) {
    const auto error = thrown_by<ConfigError>(
        [&] { read(whole("qwen3_vl", rope(fmt::format(R"({{"mrope_section": {}}})", bad)))); });
    ASSERT_TRUE(error) << bad;
    EXPECT_EQ(error->where().find("config.json: text_config.rope_scaling.mrope_section"), 0u)
        << error->what();
  }
  // A text model alone has no sections.
  expect_refused(whole("llava", text(R"("model_type": "qwen2", "rope_scaling": {"type": "mrope"})")),
                 "text_config.rope_scaling.type", {"mrope"});
}

TEST(CompositeConfigs, TheWholeTiesTheUnembedding) {
  const auto tied = [](std::string_view type, const std::string& of_group, const std::string& of_whole) {
    return read(whole(type, text(of_group), of_whole)).config.tied_unembedding();
  };
  const std::string yes = R"("tie_word_embeddings": true)", no = R"("tie_word_embeddings": false)";
  EXPECT_TRUE(tied("gemma3", "", ""));
  EXPECT_TRUE(tied("gemma3", no, ""));
  EXPECT_FALSE(tied("gemma3", yes, no));
  EXPECT_FALSE(tied("llava", "", ""));
  EXPECT_TRUE(tied("llava", yes, ""));
  EXPECT_TRUE(tied("llava", no, yes));
  EXPECT_FALSE(tied("qwen3_vl", yes, ""));
  EXPECT_TRUE(tied("qwen3_vl", "", yes));
}

TEST(CompositeConfigs, PaliGemmaSettlesWhatItsTextSees) {
  const std::string both = R"("use_bidirectional_attention": true, "num_image_tokens": 4, "model_type": )";
  for (const char* type : {R"("gemma")", R"("gemma2")"}) {
    const ModelConfig c = read(whole("paligemma", text(both + type), R"("hidden_size": 16)")).config;
    EXPECT_EQ(c.direction, AttentionDirection::causal);
  }
  expect_refused(whole("llava", text(both + R"("gemma")")), "text_config.use_bidirectional_attention",
                 {"true"});
}

// Gemma 3's whole makes masks without the key that its attention reads, Gemma 4's makes them by it.
TEST(CompositeConfigs, BothDirectionsInsideOfGemma) {
  const auto both = [](const std::string& value) {
    return text(R"("use_bidirectional_attention": )" + value);
  };
  expect_refused(whole("gemma3", both("true")), "text_config.use_bidirectional_attention",
                 {"inside a gemma3 checkpoint", "depends on the kernel of attention", "expected null"});
  for (const char* unset : {"false", "null"}) {
    EXPECT_EQ(read(whole("gemma3", both(unset))).config.direction, AttentionDirection::causal) << unset;
  }
  // Inside other models the text model makes its own masks.
  EXPECT_EQ(read(whole("llava", text(R"("model_type": "gemma3_text", "use_bidirectional_attention": true)")))
                .config.direction,
            AttentionDirection::bidirectional);
  const auto gemma4 = [](const std::string& value) {
    return whole("gemma4",
                 text(R"("hidden_size_per_layer_input": 0, "use_bidirectional_attention": )" + value));
  };
  EXPECT_EQ(read(gemma4(R"("all")")).config.direction, AttentionDirection::bidirectional);
  for (const char* images : {R"("vision")", "null"}) {
    EXPECT_EQ(read(gemma4(images)).config.direction, AttentionDirection::causal) << images;
  }
}

// As in transformers: only PaliGemma's code caps its logits.
TEST(CompositeConfigs, LogitsAreScaledAndCappedWhereTheWholeDoes) {
  const std::string capped = R"("final_logit_softcapping": 5.0)";
  const FamilyConfig gemma = read(whole("gemma3", text(capped)));
  EXPECT_EQ(gemma.config.unembedding->soft_cap, 0.0);
  ASSERT_EQ(gemma.notes.size(), 1u);
  EXPECT_NE(gemma.notes[0].find("nor capped (at 5)"), std::string::npos) << gemma.notes[0];
  EXPECT_TRUE(read(whole("gemma3", text())).notes.empty());
  const FamilyConfig aya = read(whole("aya_vision", text(R"("logit_scale": 0.25)")));
  EXPECT_EQ(aya.config.unembedding->scale, 1.0);
  ASSERT_EQ(aya.notes.size(), 1u);
  EXPECT_NE(aya.notes[0].find("scaled (by 0.25)"), std::string::npos) << aya.notes[0];
  EXPECT_EQ(
      read(whole("paligemma", text(capped + R"(, "model_type": "gemma2")"))).config.unembedding->soft_cap,
      5.0);
}

TEST(CompositeConfigs, Qwen3VlMoeAlwaysRenormalises) {
  const std::string moe =
      R"("num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 7, "norm_topk_prob": )";
  const FamilyConfig yes = read(whole("qwen3_vl_moe", text(moe + "true")));
  const FamilyConfig no = read(whole("qwen3_vl_moe", text(moe + "false")));
  EXPECT_TRUE(yes.config.experts->renormalised);
  EXPECT_TRUE(no.config.experts->renormalised);
  EXPECT_TRUE(yes.notes.empty());
  ASSERT_EQ(no.notes.size(), 1u);
  EXPECT_NE(no.notes[0].find("norm_topk_prob"), std::string::npos);
}

TEST(CompositeNames, SayWhoseATensorIs) {
  const Composite &gemma = *find_composite("gemma3"), &qwen = *find_composite("qwen2_5_vl");
  for (const char* name : {"vision_tower.a", "model.vision_tower.a"}) {
    EXPECT_EQ(other_part(gemma, name), "vision_tower") << name;
  }
  EXPECT_EQ(other_part(gemma, "model.multi_modal_projector.mm_input_projection_weight"),
            "multi_modal_projector");
  EXPECT_EQ(other_part(gemma, "language_model.model.vision_tower.a"), std::nullopt);
  EXPECT_EQ(other_part(qwen, "visual.blocks.0.a"), "visual");
  EXPECT_EQ(prefix_in_composite(gemma, "language_model.model.norm.weight"), "language_model.model.");
  EXPECT_EQ(prefix_in_composite(gemma, "language_model.lm_head.weight"), "language_model.");
  EXPECT_EQ(prefix_in_composite(gemma, "model.language_model.norm.weight"), "model.language_model.");
  EXPECT_EQ(prefix_in_composite(gemma, "lm_head.weight"), "");
  EXPECT_EQ(prefix_in_composite(qwen, "model.norm.weight"), "model.");
}

}  // namespace
}  // namespace hooked::composite_test
