#include "hooked/hooks/activation_name.h"

#include <random>
#include <regex>

#include "tests/reference/option_table.h"
#include "tests/support/random_config.h"
#include "tests/support/test.h"

namespace hooked::activation_name_test {
namespace {

constexpr std::uint64_t kRandomConfigs = 200;

TEST(ActivationName, ParsesWhatItPrintsForEveryNameOfManyModels) {
  std::vector<ModelConfig> configs = reference::two_stack_configs();
  for (std::uint64_t seed = 0; seed < kRandomConfigs; ++seed) configs.push_back(random_config(seed));
  std::set<Site> seen;
  for (const ModelConfig& config : configs) {
    std::set<std::string> texts;
    const auto names = activation_names(config);
    for (const ActivationName& name : names) {
      const std::string text = name.to_string();
      EXPECT_EQ(ActivationName::parse(text), name) << text;
      texts.insert(text);
      seen.insert(name.site);
    }
    EXPECT_EQ(texts.size(), names.size()) << "two points have one name";
  }
  const auto in_models = std::ranges::count_if(
      site_table(), [](const SiteRow& row) { return row.scope != SiteScope::dictionary; });
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(in_models)) << "some site turns up in no model";
}

TEST(ActivationName, ParsesEverySiteInEveryStack) {
  for (const SiteRow& row : site_table()) {
    if (row.scope != SiteScope::block) continue;
    for (const Stack stack : {Stack::blocks, Stack::encoder, Stack::decoder}) {
      if (!stands_in(row, stack)) continue;
      for (const std::int32_t layer : {0, 7, 10, 2147483647}) {
        const ActivationName name{row.site, stack, layer, per_expert(row) ? 12 : -1};
        EXPECT_EQ(ActivationName::parse(name.to_string()), name) << name.to_string();
      }
    }
  }
}

TEST(ActivationName, RefusesJunkNearAName) {
  for (const char* text : {"",
                           ".",
                           "..",
                           "blocks",
                           "blocks.",
                           "blocks.0",
                           "blocks.0.",
                           "hook_",
                           "hook_embed ",
                           " hook_embed",
                           "hook_embed.",
                           ".hook_embed",
                           "hook_Embed",
                           "blocks.-1.hook_resid_pre",
                           "blocks.+1.hook_resid_pre",
                           "blocks.01.hook_resid_pre",
                           "blocks.00.hook_resid_pre",
                           "blocks. 1.hook_resid_pre",
                           "blocks.1 .hook_resid_pre",
                           "blocks.1.hook_resid_pre\n",
                           "blocks.0x1.hook_resid_pre",
                           "blocks.1e0.hook_resid_pre",
                           "blocks.1.0.hook_resid_pre",
                           "blocks..hook_resid_pre",
                           "blocks.2147483648.hook_resid_pre",
                           "blocks.99999999999999999999.hook_resid_pre",
                           "block.1.hook_resid_pre",
                           "Blocks.1.hook_resid_pre",
                           "none.1.hook_resid_pre",
                           ".1.hook_resid_pre",
                           "hook_resid_pre",
                           "blocks.1.hook_pattern",
                           "blocks.1.attn.hook_pattern[head=1]",
                           "blocks.1.mlp.hook_q",
                           "blocks.{layer}.hook_resid_pre",
                           "{stack}.1.hook_resid_pre",
                           "blocks.1.hook_resid_pre.1",
                           "pattern"}) {
    EXPECT_EQ(ActivationName::try_parse(text), std::nullopt) << '"' << text << '"';
    const std::string shown = std::regex_replace(text, std::regex("\n"), "\\x0a");  // errors are one line
    EXPECT_TRUE(throws<HookError>([&] { ActivationName::parse(text); }, shown)) << text;
  }
}

TEST(ActivationName, RefusesANameWithNulInside) {
  const std::string text("blocks.1.hook_resid_pre\0", 24);
  EXPECT_EQ(ActivationName::try_parse(text), std::nullopt);
}

TEST(ActivationName, SuggestsTheNearestName) {
  const std::string text =
      text_thrown_by<HookError>([] { ActivationName::parse("blocks.0.attn.hook_patern"); });
  EXPECT_NE(text.find("[blocks.0.attn.hook_patern]"), std::string::npos) << text;
  EXPECT_NE(text.find("'blocks.0.attn.hook_pattern'"), std::string::npos) << text;
}

// A mutation of a valid name is invalid, or it is a name that prints as exactly the mutated text.
TEST(ActivationName, MutatedNamesAreJunkOrPrintAsThemselves) {
  std::mt19937 generator(11);
  constexpr std::string_view kLetters = "abhkoqz_.0129-+ []{}\t\"/*";
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(generator() % n); };
  int junk = 0;
  constexpr int kMutations = 2000;  // the fuzz target of names draws millions
  const auto names = activation_names(random_config(3));
  for (int i = 0; i < kMutations; ++i) {
    std::string text = names[pick(names.size())].to_string();
    for (std::size_t change = 0; change <= pick(3); ++change) {
      const std::size_t at = pick(text.size());
      switch (pick(4)) {
        case 0:
          text.erase(at, 1 + pick(3));
          break;
        case 1:
          text.insert(at, 1, kLetters[pick(kLetters.size())]);
          break;
        case 2:
          text[at] = kLetters[pick(kLetters.size())];
          break;
        default:
          std::swap(text[at], text[pick(text.size())]);
      }
      if (text.empty()) text = ".";
    }
    const auto name = ActivationName::try_parse(text);
    if (name) {
      EXPECT_EQ(name->to_string(), text);
    } else {
      ++junk;
      EXPECT_THROW(ActivationName::parse(text), HookError) << text;
    }
  }
  EXPECT_GT(junk, kMutations / 2) << "the mutations hardly changed anything";
}

TEST(ActivationNames, FollowTheTableBlockByBlock) {
  ModelConfig config;
  config.n_layers = 2;
  config.unembedding = Unembedding{.d_vocab = 5};
  config.mlp = MlpKind::none;
  config.norm = config.final_norm = NormKind::none;
  config.positions = NoPositions{};
  std::vector<std::string> texts;
  for (const ActivationName& name : activation_names(config)) texts.push_back(name.to_string());
  ASSERT_GT(texts.size(), 4u);
  EXPECT_EQ(texts.front(), "hook_tokens");
  EXPECT_EQ(texts[1], "hook_embed");
  EXPECT_EQ(texts[2], "blocks.0.hook_resid_pre");
  EXPECT_EQ(texts.back(), "unembed.hook_out");
  const auto where = [&](const std::string& text) { return std::find(texts.begin(), texts.end(), text); };
  EXPECT_LT(where("blocks.0.hook_resid_post"), where("blocks.1.hook_resid_pre"));
  EXPECT_EQ(where("blocks.0.hook_resid_mid"), texts.end());
  EXPECT_EQ(where("blocks.0.ln1.hook_scale"), texts.end());
  EXPECT_EQ(where("blocks.0.mlp.hook_post"), texts.end());
}

struct Shorthand {
  std::string name;
  std::optional<std::int32_t> layer;
  std::string type;
  std::string full;
};

class ShorthandMeans : public testing::TestWithParam<Shorthand> {};

TEST_P(ShorthandMeans, TheFullName) {
  const auto& [name, layer, type, full] = GetParam();
  EXPECT_EQ(from_shorthand(name, layer, type).to_string(), full) << name << " " << type;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ShorthandMeans,
    testing::Values(
        Shorthand{"pattern", 0, "", "blocks.0.attn.hook_pattern"},
        Shorthand{"k", 6, "a", "blocks.6.attn.hook_k"},
        Shorthand{"scale", 4, "ln1", "blocks.4.ln1.hook_scale"}, Shorthand{"embed", {}, "", "hook_embed"},
        Shorthand{"resid_pre", 3, "", "blocks.3.hook_resid_pre"},
        Shorthand{"normalized", {}, "", "ln_final.hook_normalized"},
        Shorthand{"scale", {}, "", "ln_final.hook_scale"},
        Shorthand{"attn", 2, "", "blocks.2.attn.hook_pattern"},
        Shorthand{"attn_logits", 2, "", "blocks.2.attn.hook_attn_scores"},
        Shorthand{"key", 1, "", "blocks.1.attn.hook_k"}, Shorthand{"query", 1, "", "blocks.1.attn.hook_q"},
        Shorthand{"value", 1, "", "blocks.1.attn.hook_v"},
        Shorthand{"mlp_pre", 1, "", "blocks.1.mlp.hook_pre"},
        Shorthand{"mlp_mid", 1, "", "blocks.1.mlp.hook_mid"},
        Shorthand{"mlp_post", 1, "", "blocks.1.mlp.hook_post"},
        Shorthand{"pre", 1, "", "blocks.1.mlp.hook_pre"}, Shorthand{"pre", 1, "m", "blocks.1.mlp.hook_pre"},
        Shorthand{"pre_linear", 1, "mlp", "blocks.1.mlp.hook_pre_linear"},
        Shorthand{"q", 1, "attention", "blocks.1.attn.hook_q"},
        Shorthand{"rot_k", 3, "", "blocks.3.attn.hook_rot_k"},
        Shorthand{"result", 3, "b", "blocks.3.attn.hook_result"},
        Shorthand{"resid_mid", 3, "blocks", "blocks.3.hook_resid_mid"},
        Shorthand{"attn_out", 3, "block", "blocks.3.hook_attn_out"},
        Shorthand{"normalized", 3, "ln2", "blocks.3.ln2.hook_normalized"},
        Shorthand{"scale", 1, "q_norm", "blocks.1.attn.q_norm.hook_scale"},
        // Joined forms.
        Shorthand{"k6a", {}, "", "blocks.6.attn.hook_k"},
        Shorthand{"scale4ln1", {}, "", "blocks.4.ln1.hook_scale"},
        Shorthand{"pre5", {}, "", "blocks.5.mlp.hook_pre"},
        Shorthand{"pattern12", {}, "", "blocks.12.attn.hook_pattern"},
        // Joined forms that the field's tools get wrong: an underscore before the digit.
        Shorthand{"resid_pre5", {}, "", "blocks.5.hook_resid_pre"},
        Shorthand{"rot_k3", {}, "", "blocks.3.attn.hook_rot_k"},
        // A word that has a digit itself.
        Shorthand{"ln1_scale4", {}, "", "blocks.4.ln1.hook_scale"},
        Shorthand{"ln2_normalized10", {}, "", "blocks.10.ln2.hook_normalized"},
        // Full names pass.
        Shorthand{"blocks.1.attn.hook_q", {}, "", "blocks.1.attn.hook_q"},
        Shorthand{"q", 1, "cross_attn", "decoder.1.cross_attn.hook_q"},
        Shorthand{"cross_pattern", 2, "", "decoder.2.cross_attn.hook_pattern"},
        Shorthand{"resid_mid_cross", 0, "", "decoder.0.hook_resid_mid_cross"},
        Shorthand{"scale", 0, "ln3", "decoder.0.ln3.hook_scale"},
        Shorthand{"hook_embed", {}, "", "hook_embed"},
        Shorthand{"unembed.hook_in", {}, "", "unembed.hook_in"}));

TEST(Shorthand, KeepsANegativeLayerForTheModelToResolve) {
  EXPECT_EQ(from_shorthand("pattern", -1), (ActivationName{Site::pattern, Stack::none, -1, -1}));
}

// What the field's tools turn into names that no model has is refused here.
TEST(Shorthand, RefusesWhatNamesNoSite) {
  const auto refused = [](std::string_view name, std::optional<std::int32_t> layer, std::string_view type) {
    EXPECT_THROW(from_shorthand(name, layer, type), HookError)
        << name << " " << layer.value_or(-99) << " " << type << " gave "
        << from_shorthand(name, layer, type).to_string();
  };
  refused("hook_q", 1, "");
  refused("hook_resid_pre", 1, "");
  refused("scale", 2, "");
  refused("normalized", 2, "");
  refused("scale", 2, "attn");
  refused("pattern", {}, "");
  refused("resid_pre", {}, "");
  refused("embed", 0, "");
  refused("unembed_in", 3, "");
  refused("", {}, "");
  refused("", 1, "");
  refused("5", {}, "");
  refused("pattern-1", {}, "");
  refused("pattern99999999999", {}, "");
  refused("patern", 1, "");
  refused("nothing", {}, "");
}

TEST(Shorthand, SuggestsTheNearestWord) {
  EXPECT_TRUE(throws<HookError>([] { from_shorthand("patern", 3); }, "patern",
                                {"layer 3", "'pattern3' (blocks.3.attn.hook_pattern)"}));
}

// What an error suggests can be typed.
TEST(Shorthand, AWordAndItsLayerAreRead) {
  for (const SiteRow& row : site_table()) {
    if (row.scope != SiteScope::block || per_expert(row)) continue;
    EXPECT_EQ(from_shorthand(std::string(row.word) + "12"), from_shorthand(row.word, 12)) << row.word;
  }
}

TEST(Shorthand, EveryWordOfTheTableIsOne) {
  for (const SiteRow& row : site_table()) {
    if (per_expert(row) || row.scope == SiteScope::dictionary) {
      EXPECT_THROW(from_shorthand(row.word, 2), HookError) << row.word << " names no expert or no place";
      continue;
    }
    const bool in_block = row.scope == SiteScope::block;
    const auto name = from_shorthand(row.word, in_block ? std::optional<std::int32_t>(2) : std::nullopt);
    EXPECT_EQ(name.site, row.site) << row.word;
    EXPECT_EQ(name.layer, in_block ? 2 : -1) << row.word;
  }
}

}  // namespace
}  // namespace hooked::activation_name_test
