// Families of checkpoints whose config.json does not name one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "families/family.h"
#include "hooked/core/error.h"
#include "tests/support/thrown_by.h"

namespace hooked::unnamed_family_test {
namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>, std::less<>>;

constexpr std::string_view kArgs =
    R"("n_layer": 2, "n_head": 2, "n_embd": 8, "block_size": 16, "vocab_size": 11, "dropout": 0.1)";

CheckpointTraits seen(std::string config, Shapes shapes = {}, std::string values = "{}") {
  return {.config = std::move(config),
          .config_where = "m/config.json",
          .values = std::move(values),
          .weights_where = "m/model.pt",
          .shapes = std::move(shapes)};
}

// Sizes 8, 11 tokens, 16 positions, two layers; linear maps as torch.nn.Linear has them.
Shapes gpt_shapes(const std::string& prefix = "transformer.") {
  Shapes shapes{
      {prefix + "wte.weight", {11, 8}}, {prefix + "wpe.weight", {16, 8}}, {prefix + "ln_f.bias", {8}}};
  for (const char* layer : {"0", "1"})
    shapes[fmt::format("{}h.{}.attn.c_attn.weight", prefix, layer)] = {24, 8};
  return shapes;
}

Shapes early_shapes() {
  return {{"tok_emb.weight", {11, 8}},
          {"pos_emb", {1, 16, 8}},
          {"blocks.0.attn.query.weight", {8, 8}},
          {"blocks.1.attn.query.weight", {8, 8}}};
}

std::string model_args(const std::string& more = "") {
  return fmt::format(R"({{"iter_num": 5, "model_args": {{{}{}}}, "config": {{"n_layer": 12}}}})", kArgs,
                     more);
}

std::string_view family_of_seen(const CheckpointTraits& traits) {
  const auto found = recognise_family(traits);
  return found ? found->family.model_type : "";
}

FamilyConfig read(const CheckpointTraits& traits) {
  const auto found = recognise_family(traits);
  if (!found) throw std::logic_error("nothing recognises it");
  return read_family_config(found->family, found->config);
}

void expect_refused(const CheckpointTraits& traits, std::string_view where,
                    const std::vector<std::string>& said) {
  const auto error = thrown_by<ConfigError>([&] { read(traits); });
  ASSERT_TRUE(error) << where;
  EXPECT_EQ(error->where(), where);
  for (const std::string& words : said) {
    EXPECT_NE(std::string(error->what()).find(words), std::string::npos) << error->what();
  }
}

constexpr const char* kLens =
    R"({"n_layers": 2, "d_model": 8, "n_ctx": 16, "d_head": 4, "n_heads": 3, "d_vocab": 11, "act_fn": "gelu")";

TEST(UnnamedFamilies, AreKnownByWhatTheirFilesHold) {
  EXPECT_EQ(family_of_seen(seen("{}", gpt_shapes(), model_args())), "nanogpt");
  EXPECT_EQ(family_of_seen(seen(R"({"model": {"n_head": 2}})", gpt_shapes())), "mingpt");
  EXPECT_EQ(family_of_seen(seen(R"({"n_head": 2})", early_shapes())), "mingpt");
  EXPECT_EQ(family_of_seen(seen(std::string(kLens) + "}")), "transformer_lens");
  EXPECT_EQ(family_of_seen(seen(std::string(kLens) + "}", early_shapes())), "transformer_lens");
}

TEST(UnnamedFamilies, ANameInTheConfigGoesFirst) {
  EXPECT_EQ(family_of_seen(seen(R"({"model_type": "llama"})", gpt_shapes(), model_args())), "llama");
  EXPECT_EQ(family_of_seen(seen(R"({"model_type": "mingpt", "n_head": 2})", gpt_shapes())), "mingpt");
  EXPECT_EQ(family_of_seen(seen(R"({"model_type": "nanogpt", "n_head": 2})", gpt_shapes())), "nanogpt");
  EXPECT_THROW(family_of_seen(seen(R"({"model_type": "gpt-mini"})", gpt_shapes())), ConfigError);
}

TEST(UnnamedFamilies, OthersAreNotGuessed) {
  Shapes gpt2 = gpt_shapes();
  for (auto& [name, shape] : gpt2) {
    if (shape.front() == 24) shape = {8, 24};
  }
  EXPECT_EQ(family_of_seen(seen("{}", gpt2)), "") << "GPT-2 itself stores linear maps the other way round";
  EXPECT_EQ(family_of_seen(seen("{}", {{"w", {2}}})), "");
  EXPECT_EQ(family_of_seen(seen(R"({"hidden_size": 8, "num_hidden_layers": 2})", {{"w", {2}}})), "");
  EXPECT_EQ(family_of_seen(seen("{}", {}, R"({"model_args": [1, 2]})")), "");
  const auto error = thrown_by<ConfigError>([] { refuse_unnamed_family("m/config.json"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "m/config.json: model_type");
  for (const char* said : {"model_args", "nanogpt", "minGPT", "d_head", "(transformer_lens)"}) {
    EXPECT_NE(std::string(error->what()).find(said), std::string::npos) << error->what();
  }
}

TEST(NanoGpt, ReadsModelArgs) {
  const FamilyConfig with = read(seen("{}", gpt_shapes(), model_args(R"(, "bias": true)")));
  EXPECT_EQ(with.config.n_layers, 2);
  EXPECT_EQ(with.config.d_mlp, 32);
  EXPECT_EQ(with.config.n_ctx, 16);
  EXPECT_EQ(with.config.activation, Activation::gelu);
  EXPECT_TRUE(with.config.tied_unembedding());
  EXPECT_TRUE(with.config.norm_bias && with.config.qkv_bias && with.config.mlp_bias &&
              with.config.attn_out_bias);
  ASSERT_EQ(with.notes.size(), 1u);
  EXPECT_NE(with.notes[0].find("tanh approximation"), std::string::npos);
  EXPECT_TRUE(with.ignored_keys.empty());
  const ModelConfig without = read(seen("{}", gpt_shapes(), model_args(R"(, "bias": false)"))).config;
  EXPECT_FALSE(without.norm_bias || without.qkv_bias || without.mlp_bias || without.attn_out_bias);
}

TEST(NanoGpt, BeforeTheBiasOptionItHadTheTanhApproximation) {
  const FamilyConfig early = read(seen("{}", gpt_shapes(), model_args()));
  EXPECT_EQ(early.config.activation, Activation::gelu_tanh);
  EXPECT_TRUE(early.config.qkv_bias);
  EXPECT_TRUE(early.notes.empty());
}

TEST(NanoGpt, AConfigBesideTheFileAddsWhatItCannotSay) {
  const auto with = [](const std::string& keys) {
    return seen("{" + keys + "}", gpt_shapes(), model_args(R"(, "bias": true)"));
  };
  const FamilyConfig other = read(with(R"("activation_function": "gelu_new")"));
  EXPECT_EQ(other.config.activation, Activation::gelu_tanh);
  EXPECT_TRUE(other.notes.empty());
  EXPECT_EQ(read(with(R"("model_type": "nanogpt", "n_head": 4)")).config.n_heads, 4);
}

TEST(NanoGpt, KeysAreHonouredOrRefused) {
  const auto with = [](const std::string& args) {
    return seen("{}", gpt_shapes(), R"({"model_args": {)" + args + "}}");
  };
  const std::string at = "m/model.pt: model_args: ";
  expect_refused(with(std::string(kArgs) + R"(, "mlp_ratio": 2)"), at + "mlp_ratio", {"unknown field"});
  expect_refused(with(R"("n_layer": 2)"), at + "n_embd", {"missing"});
  expect_refused(with(R"("n_layer": 2.0, "n_head": 2)"), at + "n_layer", {"expected an integer"});
  expect_refused(with(R"("n_layer": 2, "n_embd": 8, "n_head": 3, "block_size": 16, "vocab_size": 11)"),
                 at + "n_head", {"heads do not divide n_embd = 8"});
  expect_refused(with(R"("n_layer": 2, "n_embd": 8, "n_head": 2, "block_size": 16, "vocab_size": null)"),
                 at + "vocab_size", {"no value"});
  expect_refused(with(R"("n_layer": -1)"), at + "n_layer", {"out of range"});
}

TEST(BareTensors, NeedTheNumberOfHeadsAndAFamily) {
  for (const std::string prefix : {"transformer.", ""}) {
    expect_refused(seen("{}", gpt_shapes(prefix)), "m/config.json: n_head",
                   {"tensors of m/model.pt do not tell", R"("model_type": "mingpt" or "nanogpt")"});
  }
  expect_refused(seen(R"({"n_head": 2})", gpt_shapes()), "m/config.json: n_head", {"nanogpt"});
  expect_refused(seen("{}", early_shapes()), "m/config.json: n_head",
                 {R"("model_type": "mingpt" and "n_head")"});
  expect_refused(seen(R"({"model_type": "nanogpt"})", gpt_shapes()), "m/config.json: n_head",
                 {"\"nanogpt\""});
  expect_refused(seen(R"({"model_type": "mingpt"})", gpt_shapes()), "m/config.json: n_head", {"mingpt"});
}

TEST(BareTensors, GiveTheOtherSizes) {
  for (const char* family : {"mingpt", "nanogpt"}) {
    const auto config = fmt::format(R"({{"model_type": "{}", "n_head": 2}})", family);
    const ModelConfig c = read(seen(config, gpt_shapes())).config;
    EXPECT_EQ(c.n_layers, 2);
    EXPECT_EQ(c.d_model, 8);
    EXPECT_EQ(c.d_vocab, 11);
    EXPECT_EQ(c.n_ctx, 16);
    EXPECT_EQ(c.activation, std::string_view(family) == "mingpt" ? Activation::gelu_tanh : Activation::gelu);
    EXPECT_EQ(c.tied_unembedding(), std::string_view(family) == "nanogpt");
    EXPECT_TRUE(c.qkv_bias);
  }
  Shapes unbiased = gpt_shapes();
  unbiased.erase("transformer.ln_f.bias");
  EXPECT_FALSE(read(seen(R"({"model_type": "nanogpt", "n_head": 2})", unbiased)).config.qkv_bias);
}

TEST(MinGpt, ReadsTheSettingsOfItsTrainer) {
  const auto settings = [](const std::string& model) {
    return seen(R"({"system": {"seed": 1}, "data": {"block_size": 128}, "model": {)" + model +
                    R"(, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.1}, "trainer": {}})",
                gpt_shapes());
  };
  const ModelConfig own =
      read(settings(R"("model_type": null, "n_layer": 2, "n_head": 4, "n_embd": 8, "vocab_size": null)"))
          .config;
  EXPECT_EQ(own.n_heads, 4);
  EXPECT_EQ(own.n_ctx, 16) << "what the trainer was given, not what its data section says";
  EXPECT_FALSE(own.tied_unembedding());
  const ModelConfig named =
      read(settings(R"("model_type": "gpt-nano", "n_layer": null, "n_head": null)")).config;
  EXPECT_EQ(named.n_layers, 3);
  EXPECT_EQ(named.n_heads, 3);
  EXPECT_EQ(named.d_model, 48) << "sizes by name are obeyed: the loader refuses tensors of other shapes";
  expect_refused(settings(R"("model_type": "gpt-huge")"), "m/config.json: n_head", {"missing"});
  expect_refused(settings(R"("n_head": 2, "rotary": true)"), "m/config.json: model: rotary",
                 {"unknown field"});
}

TEST(MinGpt, TheFirstOneComputedTheExactGelu) {
  EXPECT_EQ(read(seen(R"({"n_head": 2})", early_shapes())).config.activation, Activation::gelu);
}

TEST(TransformerLens, NamesOfTrainingRunsAreTranslated) {
  const auto with = [](const std::string& keys) {
    return read(seen(std::string(kLens) + keys + "}")).config;
  };
  EXPECT_EQ(with(R"(, "normalization": null)").norm, NormKind::none);
  EXPECT_EQ(with(R"(, "normalization": "RMS")").norm, NormKind::rms_norm);
  EXPECT_TRUE(with(R"(, "shortformer_pos": true, "attn_only": true)").shortformer());
  EXPECT_TRUE(with(R"(, "shortformer_pos": false)").learned_positions());
  EXPECT_TRUE(with(R"(, "positional_embedding_type": "rotary")").rotary());
  EXPECT_EQ(with(R"(, "ln_eps": 0.001)").eps, 0.001);
  EXPECT_TRUE(with(R"(, "final_rms": true)").final_norm == NormKind::rms_norm);
}

TEST(TransformerLens, TrainingSettingsAreListedAsIgnored) {
  EXPECT_EQ(read(seen(std::string(kLens) + R"(, "lr_hidden": 0.1, "normalization": "LN"})")).ignored_keys,
            (std::vector<std::string>{"lr_hidden"}));
}

TEST(TransformerLens, FieldsThatLackOrLieAreRefused) {
  expect_refused(seen(R"({"n_layers": 2, "d_model": 8, "n_ctx": 16, "d_head": 4})"), "m/config.json: d_vocab",
                 {"missing"});
  expect_refused(seen(std::string(kLens) + R"(, "normalization": "BatchNorm"})"),
                 "m/config.json: normalization_type", {"BatchNorm", "LNPre"});
  expect_refused(seen(std::string(kLens) + R"(, "num_experts": 4})"), "m/config.json: experts_per_token",
                 {"missing"});
  EXPECT_EQ(family_of_seen(seen(R"({"n_layers": 2, "d_model": 8})")), "") << "MPT has these keys as well";
}

// Transposed matrices: all of them up to 6 layers, the positions' up to 8.
TEST(TransformerLens, TheFirstSoluModelsAreTurnedByTheirNumberOfLayers) {
  for (const std::int64_t n_layers : {6, 8, 9}) {
    const auto config = fmt::format(
        R"({{"n_layers": {}, "d_model": 8, "n_ctx": 16, "d_head": 4, "d_vocab": 11, "act_fn": "solu_ln"}})",
        n_layers);
    const FamilyConfig read_config = read(seen(config, {{"norm.w", {8}}}));
    int turned = 0;
    for (const TensorRecipe& recipe : read_config.recipes(read_config.config)) {
      EXPECT_EQ(recipe.sources.front().find("ln"), std::string::npos) << recipe.target;
      if (!recipe.make) continue;
      ++turned;
      EXPECT_NE(recipe.target.find("W_"), std::string::npos);
      EXPECT_TRUE(n_layers < 8 || recipe.target == "pos_embed.W_pos") << recipe.target;
    }
    EXPECT_EQ(turned, n_layers == 6 ? 6 * 6 + 3 : n_layers == 8 ? 1 : 0);
  }
}

}  // namespace
}  // namespace hooked::unnamed_family_test
