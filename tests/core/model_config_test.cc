#include "hooked/core/model_config.h"

#include "tests/support/activations.h"
#include "tests/support/random_config.h"
#include "tests/support/test.h"

namespace hooked::model_config_test {
namespace {

ModelConfig gpt2() {
  return {.n_layers = 12,
          .d_model = 768,
          .n_ctx = 1024,
          .n_heads = 12,
          .n_kv_heads = 12,
          .d_head = 64,
          .d_mlp = 3072,
          .d_vocab = 50257,
          .unembedding = Unembedding{.d_vocab = 50257},
          .activation = Activation::gelu_tanh,
          .attn_scale = 8.0};
}

ModelConfig llama() {
  auto c = gpt2();
  c.n_kv_heads = 4;
  c.norm = c.final_norm = NormKind::rms_norm;
  c.mlp = MlpKind::gated;
  c.activation = Activation::silu;
  c.mlp_bias = c.qkv_bias = c.attn_out_bias = c.unembedding->bias = false;
  c.positions = RotaryPositions{};
  return c;
}

TEST(ParameterCount, OfGpt2) {
  auto c = gpt2();
  c.unembedding->bias = false;
  c.unembedding->tied = true;
  EXPECT_EQ(c.parameter_count(), 124'439'808);  // the published model
  c.unembedding->tied = false;
  EXPECT_EQ(c.parameter_count(), 124'439'808 + 768 * 50257);
}

TEST(ParameterCount, OfLlama32OneBillion) {
  auto c = llama();
  c.n_layers = 16;
  c.d_model = 2048;
  c.n_heads = 32;
  c.n_kv_heads = 8;
  c.d_mlp = 8192;
  c.d_vocab = c.unembedding->d_vocab = 128256;
  c.unembedding->tied = true;
  EXPECT_EQ(c.parameter_count(), 1'235'814'400);  // the published model
}

// One option at a time against gpt2's count: what it adds or removes.
TEST(ParameterCount, FollowsEveryFlag) {
  const auto added = [](std::function<void(ModelConfig&)> change) {
    auto c = gpt2();
    change(c);
    return c.parameter_count() - gpt2().parameter_count();
  };
  constexpr std::int64_t layers = 12, dm = 768, df = 3072, heads = 12, dh = 64;
  EXPECT_EQ(added([](auto& c) { c.norm_folded = true; }), -(layers * 4 * dm + 2 * dm));
  EXPECT_EQ(added([](auto& c) { c.norm_bias = false; }), -(layers * 2 * dm + dm));
  EXPECT_EQ(added([](auto& c) { c.final_norm = NormKind::rms_norm; }), -dm);
  EXPECT_EQ(added([](auto& c) { c.final_norm = NormKind::none; }), -2 * dm);
  EXPECT_EQ(added([](auto& c) { c.norm = c.final_norm = NormKind::none; }), -(layers * 4 * dm + 2 * dm));
  EXPECT_EQ(added([](auto& c) { c.norm_place = NormPlace::both; }), layers * 4 * dm);
  EXPECT_EQ(added([](auto& c) { c.norm_place = NormPlace::output; }), 0);
  EXPECT_EQ(added([](auto& c) { c.norm_place = NormPlace::stream; }), 0);
  const auto some_before = [](auto& c) {
    c.norm_place = NormPlace::output, c.pre_norm_layers = std::vector<bool>(layers);
    c.pre_norm_layers[3] = true;
  };
  EXPECT_EQ(added(some_before), 0);
  EXPECT_EQ(added([&](auto& c) { some_before(c), c.norm_folded = true; }), -(4 * dm + 2 * dm));
  EXPECT_EQ(added([](auto& c) { c.norm_place = NormPlace::post, c.final_norm = NormKind::none; }), -2 * dm);
  EXPECT_EQ(added([](auto& c) { c.norm_place = NormPlace::both, c.norm_folded = true; }), -2 * dm);
  EXPECT_EQ(added([](auto& c) { c.layout = BlockLayout::parallel_two_norms; }), 0);
  EXPECT_EQ(added([](auto& c) { c.layout = BlockLayout::parallel_one_norm; }), -layers * 2 * dm);
  EXPECT_EQ(added([](auto& c) { c.post_embedding_norm = true; }), 2 * dm);
  EXPECT_EQ(added([](auto& c) { c.embedding_sum_norm = true, c.token_types = 3; }), 5 * dm);
  EXPECT_EQ(added([](auto& c) { c.token_types = 3; }), 3 * dm);
  EXPECT_EQ(added([](auto& c) { c.first_attention_norm = false; }), -2 * dm);
  EXPECT_EQ(added([](auto& c) { c.first_attention_norm = false, c.norm_folded = true; }),
            -(layers * 4 * dm + 2 * dm));
  EXPECT_EQ(added([](auto& c) { c.unembedding->mlm_head = Activation::gelu; }), dm * dm + 3 * dm);
  EXPECT_EQ(added([](auto& c) { c.mlp = MlpKind::none, c.d_mlp = 0; }),
            -layers * (2 * dm * df + df + dm + 2 * dm));
  EXPECT_EQ(added([](auto& c) { c.mlp = MlpKind::gated; }), layers * (dm * df + df));
  EXPECT_EQ(added([](auto& c) { c.mlp = MlpKind::gated, c.gated_bias_after_product = true; }),
            layers * dm * df);
  EXPECT_EQ(added([](auto& c) { c.mlp_bias = false; }), -layers * (df + dm));
  EXPECT_EQ(added([](auto& c) { c.activation = Activation::solu, c.mlp_norm = true; }), layers * 2 * df);
  EXPECT_EQ(added([](auto& c) { c.n_kv_heads = 4; }), -layers * 2 * 8 * dh * (dm + 1));
  EXPECT_EQ(added([](auto& c) { c.qk_norm = QkNorm{.span = QkNorm::per_head}; }), layers * 2 * dh);
  EXPECT_EQ(added([](auto& c) { c.qk_norm = QkNorm{.span = QkNorm::whole_projection}; }),
            layers * 2 * heads * dh);
  EXPECT_EQ(added([](auto& c) { c.qkv_bias = false; }), -layers * 3 * heads * dh);
  const auto latent = [&](std::int64_t d_query, bool bias) {
    return added([=](auto& c) {
      c.latent = Latents{.d_kv = 100, .d_query = d_query, .d_shared_key = 16, .d_value = 40},
      c.qkv_bias = bias;
    });
  };
  constexpr std::int64_t without = -layers * heads * dh * (4 * dm + 3);  // W_Q to W_O, b_Q to b_V
  constexpr std::int64_t kv = dm * 116 + 100 * (heads * (48 + 40) + 1) + heads * 40 * dm;
  EXPECT_EQ(latent(0, false), without + layers * (dm * heads * dh + kv));
  EXPECT_EQ(latent(70, false), without + layers * (dm * 70 + 70 * (heads * dh + 1) + kv));
  EXPECT_EQ(latent(70, true) - latent(70, false), layers * (70 + 116));
  EXPECT_EQ(added([](auto& c) { c.attn_out_bias = false; }), -layers * dm);
  EXPECT_EQ(added([](auto& c) { c.positions = NoPositions{}; }), -1024 * dm);
  EXPECT_EQ(added([](auto& c) { c.positions = ShortformerPositions{}; }), 0);
  EXPECT_EQ(added([](auto& c) { c.unembedding->bias = false; }), -50257);
}

TEST(Validate, TakesTheUsualModels) {
  EXPECT_NO_THROW(gpt2().validate());
  EXPECT_NO_THROW(llama().validate());
}

struct Refusal {
  const char* field;                         // where() of the error
  const char* got;                           // the value in the text
  std::function<void(ModelConfig&)> change;  // of a valid llama-like config
};

class ValidateRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ValidateRefuses, NamesFieldAndValue) {
  auto c = llama();
  GetParam().change(c);
  EXPECT_TRUE(throws<ConfigError>([&] { c.validate(); }, GetParam().field,
                                  {std::string("got ") + GetParam().got, "expected "}));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

YarnScaling& yarn(ModelConfig& c) {
  return c.rotary()->scaling.emplace<YarnScaling>(YarnScaling{.factor = 4.0});
}
Llama3Scaling& llama3(ModelConfig& c) {
  return c.rotary()->scaling.emplace<Llama3Scaling>(Llama3Scaling{.factor = 8.0});
}
void windows(ModelConfig& c) { c.window = Window{.size = 4, .layers = std::vector<bool>(12, true)}; }
AlibiPositions& alibi(ModelConfig& c) {
  return c.positions.emplace<AlibiPositions>(AlibiPositions{.slopes = geometric_alibi_slopes(12)});
}
QkNorm& qk_norm(ModelConfig& c) { return c.qk_norm.emplace(); }

// A latent config with something wrong in it.
Refusal wrong_latent(const char* field, const char* got, std::function<void(ModelConfig&)> change) {
  return {field, got, [change](ModelConfig& c) {
            c.latent = Latents{.d_kv = 5, .d_query = 7, .d_shared_key = 16, .d_value = 40};
            c.n_kv_heads = c.n_heads;
            change(c);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Latents, ValidateRefuses,
    testing::Values(wrong_latent("latent.d_kv", "-1", [](auto& c) { c.latent->d_kv = -1; }),
                    wrong_latent("latent.d_kv", "16777217", [](auto& c) { c.latent->d_kv = (1 << 24) + 1; }),
                    wrong_latent("latent.d_query", "-1", [](auto& c) { c.latent->d_query = -1; }),
                    wrong_latent("latent.d_value", "0", [](auto& c) { c.latent->d_value = 0; }),
                    wrong_latent("latent.d_shared_key", "64", [](auto& c) { c.latent->d_shared_key = 64; }),
                    wrong_latent("latent.d_shared_key", "-1", [](auto& c) { c.latent->d_shared_key = -1; }),
                    wrong_latent("latent.eps", "0", [](auto& c) { c.latent->eps = 0; }),
                    wrong_latent("latent.d_kv", "0", [](auto& c) { c.latent->d_kv = 0; }),
                    wrong_latent("n_kv_heads", "4", [](auto& c) { c.n_kv_heads = 4; }),
                    wrong_latent("positions", "shortformer",
                                 [](auto& c) { c.positions = ShortformerPositions{}; }),
                    wrong_latent("rotary.at_end", "true",
                                 [](auto& c) { c.rotary()->dim = 0, c.rotary()->at_end = true; })));

// A mixture whose experts are in groups, with something wrong in it.
Refusal wrong_groups(const char* field, const char* got, std::function<void(Experts&)> change) {
  return {field, got, [change](ModelConfig& c) {
            c.experts = Experts{.n_experts = 8, .per_token = 3, .d_expert = c.d_mlp};
            c.experts->n_groups = 4;
            c.experts->groups_per_token = 2;
            change(*c.experts);
          }};
}

INSTANTIATE_TEST_SUITE_P(
    Groups, ValidateRefuses,
    testing::Values(wrong_groups("experts.n_groups", "3", [](auto& e) { e.n_groups = 3; }),
                    wrong_groups("experts.n_groups", "0", [](auto& e) { e.n_groups = 0; }),
                    wrong_groups("experts.n_groups", "4",
                                 [](auto& e) { e.router = RouterKind::choose_then_softmax; }),
                    wrong_groups("experts.groups_per_token", "5", [](auto& e) { e.groups_per_token = 5; }),
                    wrong_groups("experts.groups_per_token", "0", [](auto& e) { e.groups_per_token = 0; }),
                    wrong_groups("experts.groups_per_token", "1", [](auto& e) { e.groups_per_token = 1; }),
                    wrong_groups("experts.group_score", "best_two",
                                 [](auto& e) {
                                   e.n_groups = 8, e.groups_per_token = 3,
                                   e.group_score = GroupScore::best_two;
                                 }),
                    wrong_groups("experts.group_score", "best_two",
                                 [](auto& e) {
                                   e.n_groups = e.groups_per_token = 1, e.group_score = GroupScore::best_two;
                                 }),
                    wrong_groups("experts.group_score", "7",
                                 [](auto& e) { e.group_score = static_cast<GroupScore>(7); })));

INSTANTIATE_TEST_SUITE_P(
    Sizes, ValidateRefuses,
    testing::Values(
        Refusal{"n_layers", "0", [](auto& c) { c.n_layers = 0; }},
        Refusal{"n_layers", "-1", [](auto& c) { c.n_layers = -1; }},
        Refusal{"n_layers", "10001", [](auto& c) { c.n_layers = 10'001; }},
        Refusal{"n_layers", "2147483648", [](auto& c) { c.n_layers = 1LL << 31; }},
        Refusal{"d_model", "0", [](auto& c) { c.d_model = 0; }},
        Refusal{"d_model", "16777217", [](auto& c) { c.d_model = (1 << 24) + 1; }},
        Refusal{"n_ctx", "0", [](auto& c) { c.n_ctx = 0; }},
        Refusal{"n_ctx", "16777217", [](auto& c) { c.n_ctx = (1 << 24) + 1; }},
        Refusal{"n_heads", "0", [](auto& c) { c.n_heads = 0; }},
        Refusal{"n_heads", "16385", [](auto& c) { c.n_heads = 16'385; }},
        Refusal{"n_kv_heads", "0", [](auto& c) { c.n_kv_heads = 0; }},
        Refusal{"n_kv_heads", "5", [](auto& c) { c.n_kv_heads = 5; }},
        Refusal{"n_kv_heads", "24", [](auto& c) { c.n_kv_heads = 24; }},
        Refusal{"d_head", "0", [](auto& c) { c.d_head = 0; }},
        Refusal{"d_head", "1398102", [](auto& c) { c.d_head = 1'398'102; }},
        Refusal{"d_mlp", "0", [](auto& c) { c.d_mlp = 0; }},
        Refusal{"d_mlp", "16777217", [](auto& c) { c.d_mlp = (1 << 24) + 1; }},
        Refusal{"d_mlp", "3072", [](auto& c) { c.mlp = MlpKind::none; }},
        Refusal{"d_vocab", "0", [](auto& c) { c.d_vocab = 0; }},
        Refusal{"unembedding.d_vocab", "0", [](auto& c) { c.unembedding->d_vocab = 0; }},
        Refusal{"unembedding.d_vocab", "-1", [](auto& c) { c.unembedding->d_vocab = -1; }},
        Refusal{"unembedding.d_vocab", "16777217", [](auto& c) { c.unembedding->d_vocab = (1 << 24) + 1; }},
        Refusal{"n_layers", "10000", [](auto& c) { c.n_layers = 10'000, c.d_model = c.d_mlp = 1 << 24; }}));

RelativePositions& relative(ModelConfig& c) { return c.positions.emplace<RelativePositions>(); }
Encoder& encoder(ModelConfig& c) {
  relative(c);
  return c.encoder.emplace(Encoder{.n_layers = 2});
}

INSTANTIATE_TEST_SUITE_P(
    Stacks, ValidateRefuses,
    testing::Values(
        Refusal{"relative.buckets", "1", [](auto& c) { relative(c).buckets = 1; }},
        Refusal{"relative.buckets", "3",
                [](auto& c) { relative(c).buckets = 3, c.direction = AttentionDirection::bidirectional; }},
        Refusal{"relative.max_distance", "16", [](auto& c) { relative(c).max_distance = 16; }},
        Refusal{"norm_place", "pre", [](auto& c) { encoder(c), c.pre_norm_layers.assign(12, true); }},
        Refusal{"encoder.decoder_start_token", "50257",
                [](auto& c) { encoder(c).decoder_start_token = 50257; }},
        Refusal{"encoder.n_layers", "0", [](auto& c) { encoder(c).n_layers = 0; }},
        Refusal{"encoder.n_layers", "-1", [](auto& c) { encoder(c).n_layers = -1; }},
        Refusal{"encoder.n_layers", "10001", [](auto& c) { encoder(c).n_layers = 10'001; }},
        Refusal{"positions", "rotary", [](auto& c) { encoder(c), c.positions = RotaryPositions{}; }},
        Refusal{"direction", "bidirectional",
                [](auto& c) { encoder(c), c.direction = AttentionDirection::bidirectional; }},
        Refusal{"layout", "parallel_one_norm",
                [](auto& c) { encoder(c), c.layout = BlockLayout::parallel_one_norm; }},
        Refusal{"window", "one", [](auto& c) { encoder(c), windows(c); }},
        Refusal{"qk_norm", "one", [](auto& c) { encoder(c), qk_norm(c); }},
        Refusal{"attention_sinks", "true", [](auto& c) { encoder(c), c.attention_sinks = true; }},
        Refusal{"norm_place", "output", [](auto& c) { encoder(c), c.norm_place = NormPlace::output; }},
        Refusal{"embedding_sum_norm", "true", [](auto& c) { encoder(c), c.embedding_sum_norm = true; }},
        Refusal{"token_types", "2",
                [](auto& c) {
                  encoder(c), c.positions = LearnedPositions{};
                  c.embedding_sum_norm = true, c.token_types = 2;
                }},
        Refusal{"score_soft_cap", "3", [](auto& c) { encoder(c), c.score_soft_cap = 3; }},
        Refusal{"qkv_clip", "3", [](auto& c) { encoder(c), c.qkv_clip = 3; }},
        Refusal{"unembedding.mlm_head", "one",
                [](auto& c) { encoder(c), c.unembedding->mlm_head = Activation::gelu; }}));

FullHeads& full_heads(ModelConfig& c) {
  windows(c);
  c.rotary()->dim = 0;
  return c.full_heads.emplace(FullHeads{.d_head = c.d_head + 2, .n_kv_heads = c.n_kv_heads});
}

INSTANTIATE_TEST_SUITE_P(
    LayersThatDiffer, ValidateRefuses,
    testing::Values(Refusal{"full_heads", "sizes", [](auto& c) { full_heads(c), c.window.reset(); }},
                    Refusal{"full_heads.d_head", "0", [](auto& c) { full_heads(c).d_head = 0; }},
                    Refusal{"full_heads.d_head", "7", [](auto& c) { full_heads(c).d_head = 7; }},
                    Refusal{"full_heads.d_head", "64", [](auto& c) { full_heads(c).d_head = c.d_head; }},
                    Refusal{"full_heads.n_kv_heads", "5", [](auto& c) { full_heads(c).n_kv_heads = 5; }},
                    Refusal{"rotary.dim", "4", [](auto& c) { full_heads(c), c.rotary()->dim = 4; }},
                    Refusal{
                        "positions", "dynamic",
                        [](auto& c) { full_heads(c), c.rotary()->scaling = DynamicScaling{.factor = 2.0}; }},
                    Refusal{"rotary.turned_pairs", "-1", [](auto& c) { c.rotary()->turned_pairs = -1; }},
                    Refusal{"rotary.turned_pairs", "1000", [](auto& c) { c.rotary()->turned_pairs = 1000; }},
                    Refusal{"value_norm", "true", [](auto& c) { encoder(c), c.value_norm = true; }},
                    Refusal{"layer_scale", "true", [](auto& c) { encoder(c), c.layer_scale = true; }},
                    Refusal{"layer_scale", "true", [](auto& c) {
                              c.norm_place = NormPlace::post, c.final_norm = NormKind::none,
                              c.layer_scale = true;
                            }}));

INSTANTIATE_TEST_SUITE_P(
    SharedKeysAndInputs, ValidateRefuses,
    testing::Values(Refusal{"shared_keys.layers", "0",
                            [](auto& c) {
                              c.shared_keys = SharedKeys{0, c.d_mlp};
                            }},
                    Refusal{"shared_keys.layers", "2",
                            [](auto& c) {
                              c.n_layers = 2, c.shared_keys = SharedKeys{2, c.d_mlp};
                            }},
                    Refusal{"shared_keys.d_mlp", "0",
                            [](auto& c) {
                              c.n_layers = 2, c.shared_keys = SharedKeys{1, 0};
                            }},
                    Refusal{"shared_keys.layers", "1",
                            [](auto& c) {
                              c.n_layers = 2, c.shared_keys = SharedKeys{1, c.d_mlp};
                              c.window = Window{.size = 2, .layers = {false, true}};
                            }},
                    Refusal{"shared_keys", "one",
                            [](auto& c) {
                              encoder(c), c.n_layers = 2, c.shared_keys = SharedKeys{1, c.d_mlp};
                            }},
                    Refusal{"layer_input.width", "0", [](auto& c) { c.layer_input = LayerInput{0}; }},
                    Refusal{"layer_input", "one", [](auto& c) { encoder(c), c.layer_input = LayerInput{3}; }},
                    Refusal{"layout", "parallel_two_norms", [](auto& c) {
                              c.norm = c.final_norm = NormKind::rms_norm;
                              c.layout = BlockLayout::parallel_two_norms, c.layer_input = LayerInput{3};
                            }}));

INSTANTIATE_TEST_SUITE_P(
    Ends, ValidateRefuses,
    testing::Values(
        Refusal{"embedding_sum_norm", "true",
                [](auto& c) { c.post_embedding_norm = c.embedding_sum_norm = true; }},
        Refusal{"token_types", "2", [](auto& c) { c.post_embedding_norm = true, c.token_types = 2; }},
        Refusal{"token_types", "2", [](auto& c) { encoder(c), c.token_types = 2; }},
        Refusal{"token_types", "-1", [](auto& c) { c.embedding_sum_norm = true, c.token_types = -1; }},
        Refusal{"unembedding.mlm_head", "xielu",
                [](auto& c) { c.unembedding->mlm_head = Activation::xielu; }},
        Refusal{"unembedding.mlm_head.beta", "0",
                [](auto& c) { c.unembedding->mlm_head = Activation::swish_with(0); }}));

INSTANTIATE_TEST_SUITE_P(
    Norms, ValidateRefuses,
    testing::Values(
        Refusal{"eps", "0", [](auto& c) { c.eps = 0; }}, Refusal{"eps", "-1", [](auto& c) { c.eps = -1; }},
        Refusal{"eps", "nan", [](auto& c) { c.eps = kNan; }},
        Refusal{"eps", "inf", [](auto& c) { c.eps = kInf; }},
        Refusal{"norm_place", "both",
                [](auto& c) { c.norm = c.final_norm = NormKind::none, c.norm_place = NormPlace::both; }},
        Refusal{"final_norm", "RMS", [](auto& c) { c.norm = NormKind::none; }},
        Refusal{"final_norm", "LN", [](auto& c) { c.final_norm = NormKind::layer_norm; }},
        Refusal{"final_norm", "RMS", [](auto& c) { c.norm_place = NormPlace::post; }},
        Refusal{"norm_folded", "true",
                [](auto& c) { c.norm = c.final_norm = NormKind::none, c.norm_folded = true; }},
        Refusal{"norm_folded", "true",
                [](auto& c) {
                  c.norm_place = NormPlace::post, c.final_norm = NormKind::none, c.norm_folded = true;
                }},
        Refusal{"norm_folded", "true",
                [](auto& c) { c.norm_place = NormPlace::stream, c.norm_folded = true; }},
        Refusal{"norm_offset", "true",
                [](auto& c) { c.norm = c.final_norm = NormKind::none, c.norm_offset = true; }},
        Refusal{"norm_place", "both",
                [](auto& c) { c.norm_place = NormPlace::both, c.pre_norm_layers.assign(12, true); }},
        Refusal{"pre_norm_layers", "only true",
                [](auto& c) { c.norm_place = NormPlace::output, c.pre_norm_layers.assign(12, true); }},
        Refusal{"pre_norm_layers", "1",
                [](auto& c) { c.norm_place = NormPlace::output, c.pre_norm_layers = {true}; }},
        Refusal{"qk_norm.kind", "0", [](auto& c) { qk_norm(c).kind = NormKind::none; }},
        Refusal{"qk_norm.span", "9", [](auto& c) { qk_norm(c).span = static_cast<QkNorm::Span>(9); }},
        Refusal{"qk_norm.bias", "true", [](auto& c) { qk_norm(c).bias = true; }},
        Refusal{"qk_norm.layers", "3",
                [](auto& c) {
                  qk_norm(c).layers = {true, false, true};
                }},
        Refusal{"qkv_clip", "-1", [](auto& c) { c.qkv_clip = -1.0; }},
        Refusal{"rotary.unrotated_layers", "1", [](auto& c) { c.rotary()->unrotated_layers = {true}; }},
        Refusal{"embedding_scale", "0", [](auto& c) { c.embedding_scale = 0.0; }},
        Refusal{"unembedding.scale", "inf", [](auto& c) { c.unembedding->scale = INFINITY; }},
        Refusal{"unembedding.in_scale", "0", [](auto& c) { c.unembedding->in_scale = 0; }},
        Refusal{"rotary.dynamic.factor", "0.5",
                [](auto& c) { c.rotary()->scaling = DynamicScaling{.factor = 0.5}; }},
        Refusal{"rotary.longrope.short_factors", "0",
                [](auto& c) { c.rotary()->scaling = LongropeScaling{}; }},
        Refusal{"norm", "9", [](auto& c) { c.norm = static_cast<NormKind>(9); }}));

INSTANTIATE_TEST_SUITE_P(
    Blocks, ValidateRefuses,
    testing::Values(Refusal{"layout", "parallel_one_norm",
                            [](auto& c) {
                              c.layout = BlockLayout::parallel_one_norm, c.mlp = MlpKind::none, c.d_mlp = 0;
                            }},
                    Refusal{"layout", "parallel_two_norms",
                            [](auto& c) {
                              c.layout = BlockLayout::parallel_two_norms, c.norm_place = NormPlace::output;
                            }},
                    Refusal{"activation", "solu", [](auto& c) { c.activation = Activation::solu; }},
                    Refusal{"mlp_norm", "true", [](auto& c) { c.mlp_norm = true; }},
                    Refusal{"mlp_norm", "true", [](auto& c) { c.mlp_norm = true, c.mlp = MlpKind::plain; }},
                    Refusal{"mlp_norm", "true",
                            [](auto& c) {
                              c.mlp_norm = true, c.mlp = MlpKind::plain, c.activation = Activation::solu;
                            }},
                    Refusal{"gated_bias_after_product", "true",
                            [](auto& c) { c.gated_bias_after_product = true, c.mlp = MlpKind::plain; }}));

INSTANTIATE_TEST_SUITE_P(
    Attention, ValidateRefuses,
    testing::Values(Refusal{"attn_scale", "0", [](auto& c) { c.attn_scale = 0; }},
                    Refusal{"attn_scale", "inf", [](auto& c) { c.attn_scale = kInf; }},
                    Refusal{"score_soft_cap", "-1", [](auto& c) { c.score_soft_cap = -1; }},
                    Refusal{"score_soft_cap", "nan", [](auto& c) { c.score_soft_cap = kNan; }},
                    Refusal{"window.size", "0", [](auto& c) { windows(c), c.window->size = 0; }},
                    Refusal{"window.layers", "11", [](auto& c) { windows(c), c.window->layers.pop_back(); }},
                    Refusal{"window.layers", "0", [](auto& c) { windows(c), c.window->layers.clear(); }},
                    Refusal{"window.layers", "only false",
                            [](auto& c) { windows(c), c.window->layers.assign(12, false); }}));

INSTANTIATE_TEST_SUITE_P(
    Positions, ValidateRefuses,
    testing::Values(
        Refusal{"rotary.dim", "3", [](auto& c) { c.rotary()->dim = 3; }},
        Refusal{"rotary.dim", "-2", [](auto& c) { c.rotary()->dim = -2; }},
        Refusal{"rotary.dim", "66", [](auto& c) { c.rotary()->dim = 66; }},
        Refusal{"rotary.dim", "0", [](auto& c) { c.d_head = 63; }},
        Refusal{"rotary.base", "0", [](auto& c) { c.rotary()->base = 0; }},
        Refusal{"rotary.base", "1", [](auto& c) { yarn(c), c.rotary()->base = 1; }},
        Refusal{"rotary.local_base", "100", [](auto& c) { c.rotary()->local_base = 100; }},
        Refusal{"rotary.local_base", "0", [](auto& c) { windows(c), c.rotary()->local_base = 0; }},
        Refusal{"rotary.linear.factor", "1", [](auto& c) { c.rotary()->scaling = LinearScaling{}; }},
        Refusal{"rotary.yarn.factor", "-2", [](auto& c) { yarn(c).factor = -2; }},
        Refusal{"rotary.llama3.factor", "inf", [](auto& c) { llama3(c).factor = kInf; }},
        Refusal{"rotary.yarn.beta_fast", "0.5", [](auto& c) { yarn(c).beta_fast = 0.5; }},
        Refusal{"rotary.llama3.high_freq_factor", "1", [](auto& c) { llama3(c).high_freq_factor = 1; }},
        Refusal{"rotary.llama3.low_freq_factor", "0", [](auto& c) { llama3(c).low_freq_factor = 0; }},
        Refusal{"rotary.yarn.original_n_ctx", "0", [](auto& c) { yarn(c).original_n_ctx = 0; }},
        Refusal{"alibi.slopes", "11", [](auto& c) { alibi(c).slopes.pop_back(); }},
        Refusal{"alibi.slopes", "nan", [](auto& c) { alibi(c).slopes[3] = kNan; }},
        Refusal{"alibi.in_bfloat16", "true", [](auto& c) {
                  alibi(c).in_bfloat16 = true, c.direction = AttentionDirection::bidirectional;
                }}));

INSTANTIATE_TEST_SUITE_P(
    Output, ValidateRefuses,
    testing::Values(Refusal{"unembedding.tied", "true",
                            [](auto& c) { c.unembedding->tied = true, c.unembedding->d_vocab = 7; }},
                    Refusal{"unembedding.soft_cap", "-30", [](auto& c) { c.unembedding->soft_cap = -30; }},
                    Refusal{"dtype", "int64", [](auto& c) { c.dtype = at::kLong; }},
                    Refusal{"processing", "\"fold_ln\"",
                            [](auto& c) {
                              c.processing = {"fold_ln", "fold_ln"};
                            }},
                    Refusal{"processing", "\"\"", [](auto& c) { c.processing = {""}; }}));

TEST(Validate, LimitsThemselvesAreAllowed) {
  auto c = gpt2();
  c.n_layers = 10'000;
  c.n_ctx = c.d_vocab = c.unembedding->d_vocab = 1 << 24;
  EXPECT_NO_THROW(c.validate());
  c = gpt2();
  c.n_layers = 1;
  c.d_model = c.d_mlp = 1 << 24;
  c.n_heads = c.n_kv_heads = 1 << 14;
  c.d_head = 1 << 10;
  EXPECT_NO_THROW(c.validate());
  EXPECT_GT(c.parameter_count(), 0);
}

TEST(Validate, EveryRefusedPairIsAllowedApart) {
  const std::function<void(ModelConfig&)> changes[] = {yarn, llama3, windows, alibi, qk_norm};
  for (const auto& change : changes) {
    auto c = llama();
    change(c);
    EXPECT_NO_THROW(c.validate());
  }
}

TEST(AlibiSlopes, AreGeometric) {
  EXPECT_EQ(geometric_alibi_slopes(8),
            (std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}));
  const auto three = geometric_alibi_slopes(3);
  ASSERT_EQ(three.size(), 3u);
  EXPECT_DOUBLE_EQ(three[0], std::pow(2.0, -8.0 / 3));
  EXPECT_DOUBLE_EQ(three[2], std::pow(2.0, -8.0));
  EXPECT_THROW(geometric_alibi_slopes(0), ConfigError);
  EXPECT_THROW(geometric_alibi_slopes(1'000'000'000), ConfigError);
}

TEST(ActivationNames, ParseBack) {
  EXPECT_GE(all_activations().size(), 21u);
  for (const Activation activation : all_activations()) {
    EXPECT_EQ(parse_activation(activation_name(activation)), activation) << activation_name(activation);
  }
}

TEST(ActivationNames, BothLibrariesNamesAreKnown) {
  EXPECT_EQ(parse_activation("gelu_new"), Activation::gelu_tanh);
  EXPECT_EQ(parse_activation("gelu_pytorch_tanh"), Activation::gelu_tanh);
  EXPECT_EQ(parse_activation("gelu"), Activation::gelu);
  EXPECT_EQ(parse_activation("quick_gelu"), Activation::gelu_quick);
  EXPECT_EQ(parse_activation("swish"), Activation::silu);
  EXPECT_EQ(parse_activation("relu2"), Activation::relu_squared);
  EXPECT_EQ(parse_activation("relu_squared"), Activation::relu_squared);
  for (const auto* unknown : {"", "solu_ln", "prelu", "GELU", "gelu "})
    EXPECT_FALSE(parse_activation(unknown));
}

TEST(ModelConfig, WindowedAndRotaryDim) {
  auto c = llama();
  EXPECT_FALSE(c.windowed(3));
  EXPECT_EQ(c.rotary_dim(0), 64);
  c.window = Window{.size = 2, .layers = std::vector<bool>(12, false)};
  c.window->layers[3] = true;
  EXPECT_TRUE(c.windowed(3));
  EXPECT_FALSE(c.windowed(4));
  c.rotary()->dim = 16;
  EXPECT_EQ(c.rotary_dim(0), 16);
}

TEST(RandomConfig, IsValidAndTheSameForTheSameSeed) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const auto c = random_config(seed);
    ASSERT_NO_THROW(c.validate()) << "seed " << seed;
    ASSERT_EQ(c, random_config(seed));
    ASSERT_LE(c.d_model, 24);
  }
  EXPECT_NE(random_config(1), random_config(2));
}

TEST(RandomConfig, CoversEveryValueOfEveryOption) {
  std::set<NormKind> norms, final_norms;
  std::set<NormPlace> places;
  std::set<BlockLayout> layouts;
  std::set<MlpKind> mlps;
  std::set<Activation::Kind> activations;
  std::set<std::size_t> positions, scalings;
  std::set<QkNorm::Span> qk_norms;
  std::set<AttentionDirection> directions;
  std::set<std::string> facts;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const auto c = random_config(seed);
    norms.insert(c.norm);
    final_norms.insert(c.final_norm);
    places.insert(c.norm_place);
    layouts.insert(c.layout);
    if (c.has_mlp()) activations.insert(c.activation.kind());
    mlps.insert(c.mlp);
    positions.insert(c.positions.index());
    const RotaryPositions rotary = c.rotary() != nullptr ? *c.rotary() : RotaryPositions();
    const Experts experts = c.experts.value_or(Experts());
    const Latents latent = c.latent.value_or(Latents());
    scalings.insert(rotary.scaling.index());
    if (c.qk_norm) qk_norms.insert(c.qk_norm->span);
    directions.insert(c.direction);
    const auto note = [&](bool holds, const char* fact) {
      if (holds) facts.insert(fact);
    };
    note(c.norm_folded, "folded");
    note(c.norm_offset, "offset");
    note(!c.norm_bias, "no norm bias");
    note(c.post_embedding_norm, "embedding norm");
    note(c.embedding_sum_norm && c.token_types == 0, "sum norm without token types");
    note(!c.first_attention_norm, "no norm before the first attention");
    note(c.token_types > 0 && !c.embedding_sum_norm, "token types without a sum norm");
    note(c.token_types == 1, "one token type");
    note(c.token_types > 1, "token types");
    note(c.has_mlm_head(), "masked-LM head");
    note(c.mlp_norm, "mlp norm");
    note(c.gated_bias_after_product, "bias after product");
    note(c.grouped_query() && c.n_kv_heads > 1, "grouped");
    note(c.grouped_query() && c.n_kv_heads == 1, "multi-query");
    note(c.window.has_value(), "windows");
    note(rotary.local_base.has_value(), "local base");
    note(rotary.adjacent_pairs, "adjacent pairs");
    note(rotary.dim > 0 && rotary.dim < c.d_head, "partial rotary");
    note(c.tied_unembedding(), "tied");
    note(c.d_mlp == c.d_model, "d_mlp = d_model");
    note(c.d_vocab == c.d_model, "d_vocab = d_model");
    note(c.n_heads * c.d_head != c.d_model, "heads differ from d_model");
    note(c.score_soft_cap > 0 && c.unembedding->soft_cap > 0, "both caps");
    note(c.attention_sinks, "sinks");
    note(c.gate_limit > 0 && c.up_offset, "held gate");
    note(c.experts && experts.dense_layers.empty(), "experts");
    note(!experts.dense_layers.empty() && experts.d_shared > 0, "experts next to MLPs and a shared one");
    note(experts.choice_bias && experts.least_sum > 0.5, "choice bias, least sum");
    note(experts.router == RouterKind::sparse_mixer, "sparse mixer");
    note(experts.shared_gate_bias, "shared gate with bias");
    note(experts.router == RouterKind::sigmoid_then_choose && experts.n_groups > 1, "sigmoid, groups");
    note(experts.group_score == GroupScore::best_two, "groups by their best two");
    note(c.latent_attention() && latent.d_query == 0, "latent of keys and values");
    note(latent.d_query > 0 && latent.d_shared_key > 0, "latents and a shared key");
    note(rotary.at_end, "rotary at the end");
    note(!c.pre_norm_layers.empty(), "norms before the sublayers of some layers");
    note(c.relative() != nullptr && c.relative()->in_every_block, "relative positions in every block");
    note(c.delta_net && c.delta_net->doubled_beta, "doubled beta");
    note(c.window && c.window->kind == Window::chunks, "chunks");
    note(c.qk_norm && !c.qk_norm->layers.empty(), "norms of some layers' queries and keys");
    note(experts.weighted_inputs && experts.per_token > 1, "weighted inputs of several experts");
    note(experts.own_norms && !experts.dense_layers.empty(), "norms of a mixture's own next to MLPs");
    note(experts.own_norms && experts.expert_scale && experts.bias, "norms after scaled and biased experts");
  }
  EXPECT_EQ(norms.size(), 3u);
  EXPECT_EQ(final_norms.size(), 3u);
  EXPECT_EQ(places.size(), 5u);
  EXPECT_EQ(layouts.size(), 3u);
  EXPECT_EQ(mlps.size(), 3u);
  EXPECT_EQ(activations.size(), 21u);
  EXPECT_EQ(positions.size(), 6u);
  EXPECT_EQ(scalings.size(), 6u);
  EXPECT_EQ(qk_norms.size(), 3u);
  EXPECT_EQ(directions.size(), 2u);
  EXPECT_EQ(facts.size(), 43u);
}

}  // namespace
}  // namespace hooked::model_config_test
