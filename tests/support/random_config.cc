#include "tests/support/random_config.h"

#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <variant>
#include <vector>

#include "tests/support/activations.h"

namespace hooked {
namespace {

// splitmix64 (Steele, Lea and Flood 2014). The distributions of <random> differ between standard libraries.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t roll(std::uint64_t sides) {
    state_ += 0x9E3779B97F4A7C15u;
    auto mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return (mixed ^ (mixed >> 31)) % sides;
  }
  bool coin() { return roll(2) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[roll(values.size())];
  }
  template <class T>
  T element_of(const std::vector<T>& values) {
    return values[roll(values.size())];
  }

 private:
  std::uint64_t state_;
};

ModelConfig with_sizes(ModelConfig c, Dice& dice) {
  c.n_layers = 2;
  c.n_ctx = 8;
  c.d_model = dice.one_of<std::int64_t>({8, 12, 16, 24});
  c.n_heads = dice.one_of<std::int64_t>({1, 2, 3, 4});
  c.d_head = dice.one_of<std::int64_t>({4, 6, 8});
  c.n_kv_heads = dice.one_of<std::int64_t>({1, 2, 3, 4});
  if (c.n_heads % c.n_kv_heads != 0) c.n_kv_heads = dice.coin() ? 1 : c.n_heads;
  c.d_vocab = dice.coin() ? dice.one_of<std::int64_t>({10, 13, 20}) : c.d_model;
  c.unembedding =
      Unembedding{.d_vocab = dice.coin() ? c.d_vocab : dice.one_of<std::int64_t>({7, 11, c.d_model})};
  return c;
}

ModelConfig with_blocks(ModelConfig c, Dice& dice) {
  c.mlp = dice.one_of({MlpKind::none, MlpKind::plain, MlpKind::gated, MlpKind::plain, MlpKind::gated});
  c.activation = dice.element_of(all_activations());
  if (c.mlp == MlpKind::gated && c.activation.kind() == Activation::solu) c.mlp = MlpKind::plain;
  if (c.mlp == MlpKind::none && c.activation.kind() == Activation::xielu) c.activation = Activation::relu;
  if (c.has_mlp()) c.d_mlp = dice.one_of<std::int64_t>({10, 20, 32, c.d_model});
  c.mlp_bias = dice.coin();
  c.gated_bias_after_product = dice.coin() && c.mlp == MlpKind::gated;
  if (c.has_mlp() && c.norm_place == NormPlace::pre) {
    c.layout =
        dice.one_of({BlockLayout::serial, BlockLayout::parallel_two_norms, BlockLayout::parallel_one_norm});
  }
  return c;
}

ModelConfig with_norms(ModelConfig c, Dice& dice) {
  c.norm = dice.one_of(
      {NormKind::layer_norm, NormKind::rms_norm, NormKind::layer_norm, NormKind::rms_norm, NormKind::none});
  c.norm_place = dice.one_of({NormPlace::pre, NormPlace::pre, NormPlace::post, NormPlace::output,
                              NormPlace::both, NormPlace::stream});
  if (c.norm == NormKind::none) c.norm_place = NormPlace::pre;
  c.final_norm = dice.roll(8) == 0 ? NormKind::none : c.norm;
  if (c.norm == NormKind::layer_norm && dice.roll(4) == 0) c.final_norm = NormKind::rms_norm;
  if (c.norm_place == NormPlace::post) c.final_norm = NormKind::none;
  c.norm_folded = dice.roll(3) == 0 && c.norm != NormKind::none && !c.norms_stream();
  c.norm_bias = dice.roll(3) != 0;
  c.norm_offset = dice.coin() && c.norm != NormKind::none;
  c.post_embedding_norm = dice.roll(3) == 0;
  if (c.post_embedding_norm && dice.roll(3) == 0) c.embedding_norm = NormKind::rms_norm;
  c.eps = dice.one_of({1e-5, 1e-6, 1e-12, 0.1});
  return c;
}

ModelConfig with_attention(ModelConfig c, Dice& dice) {
  c.direction = dice.roll(3) == 0 ? AttentionDirection::bidirectional : AttentionDirection::causal;
  c.attn_scale = dice.one_of({std::sqrt(static_cast<double>(c.d_head)), 1.0, 2.5});
  c.scale_by_inverse_layer = dice.coin();
  c.score_soft_cap = dice.coin() ? dice.one_of({1.5, 30.0}) : 0.0;
  using Spans = std::optional<QkNorm::Span>;
  if (const auto span =
          dice.one_of<Spans>({std::nullopt, QkNorm::per_head, QkNorm::each_head, QkNorm::whole_projection})) {
    c.qk_norm = QkNorm{.span = *span};
    if (dice.coin()) {
      c.qk_norm->kind = NormKind::layer_norm;
      c.qk_norm->bias = dice.coin();
    }
  }
  c.qkv_clip = dice.roll(4) == 0 ? 0.7 : 0.0;
  c.qkv_bias = dice.coin();
  c.attn_out_bias = dice.coin();
  if (dice.coin()) {
    c.window = Window{.size = dice.one_of<std::int64_t>({1, 2, 3, 8})};
    c.window->layers = dice.one_of<std::vector<bool>>({{true, false}, {false, true}, {true, true}});
  }
  return c;
}

RopeScaling random_scaling(Dice& dice) {
  const auto kind = dice.roll(std::variant_size_v<RopeScaling>);
  if (kind == 0) return NoScaling{};
  if (kind == 4) {
    DynamicScaling scaling{.factor = dice.one_of({2.0, 1.5})};
    scaling.original_n_ctx = dice.one_of({3.0, 64.0});
    return scaling;
  }
  if (kind == 5) {
    LongropeScaling scaling{.original_n_ctx = dice.one_of({3.0, 64.0})};
    scaling.attention_factor = dice.one_of({1.0, 1.25});
    return scaling;
  }
  const double factor = dice.one_of({2.0, 4.0, 0.5});
  if (kind == 1) return LinearScaling{.factor = factor};
  if (kind == 2) {
    Llama3Scaling scaling{.factor = factor};
    scaling.low_freq_factor = dice.one_of({1.0, 0.5});
    scaling.high_freq_factor = dice.one_of({4.0, 2.5});
    scaling.original_n_ctx = dice.one_of({4.0, 64.0});
    return scaling;
  }
  YarnScaling scaling{.factor = factor};
  scaling.original_n_ctx = dice.one_of({16.0, 200.0});
  scaling.attention_factor = dice.one_of({1.0, 1.25});
  scaling.beta_fast = dice.one_of({32.0, 2.0});
  scaling.beta_slow = dice.one_of({1.0, 0.5});
  scaling.truncate = dice.coin();
  return scaling;
}

RotaryPositions random_rotary(const ModelConfig& c, Dice& dice) {
  RotaryPositions rotary;
  rotary.dim = dice.one_of<std::int64_t>({0, 2, 4, c.d_head});
  rotary.base = dice.one_of({10000.0, 50.0});
  rotary.adjacent_pairs = dice.coin();
  rotary.scaling = random_scaling(dice);
  const std::int64_t dim = rotary.dim > 0 ? rotary.dim : c.d_head;
  rotary.at_end = dim < c.d_head && dice.coin();
  if (std::holds_alternative<DynamicScaling>(rotary.scaling) && dim == 2) rotary.scaling = NoScaling{};
  if (auto* longrope = std::get_if<LongropeScaling>(&rotary.scaling)) {
    const auto pairs = static_cast<std::size_t>(dim / 2);
    longrope->short_factors.assign(pairs, 1.25);
    longrope->long_factors.assign(pairs, 3.0);
  }
  if (dice.coin()) rotary.unrotated_layers = dice.one_of<std::vector<bool>>({{true, false}, {false, true}});
  if (c.window && dice.coin()) rotary.local_base = dice.one_of({100.0, 10000.0});
  return rotary;
}

ModelConfig with_positions(ModelConfig c, Dice& dice) {
  const Positions kinds[] = {NoPositions{},     LearnedPositions{},  ShortformerPositions{},
                             AlibiPositions{},  RelativePositions{}, RotaryPositions{},
                             RotaryPositions{}, RotaryPositions{}};
  c.positions = kinds[dice.roll(std::size(kinds))];
  if (auto* alibi = c.alibi()) {
    alibi->slopes = geometric_alibi_slopes(c.n_heads);
    if (dice.coin()) alibi->slopes[0] = 0.3;
    alibi->in_bfloat16 = dice.coin() && c.direction == AttentionDirection::causal;
    alibi->scaled = dice.coin();
  }
  if (auto* relative = c.relative()) {
    relative->buckets = dice.one_of<std::int64_t>({4, 7, 32});
    relative->max_distance = dice.one_of<std::int64_t>({17, 128});
  }
  if (c.rotary() != nullptr) c.positions = random_rotary(c, dice);
  return c;
}

Experts random_experts(const ModelConfig& c, Dice& dice) {
  Experts e;
  e.n_experts = dice.one_of<std::int64_t>({2, 3, 4, 5});
  e.router = dice.one_of({RouterKind::softmax_then_choose, RouterKind::sigmoid_then_choose,
                          RouterKind::choose_then_softmax, RouterKind::sparse_mixer});
  e.per_token = e.router == RouterKind::sparse_mixer ? 2 : dice.one_of<std::int64_t>({1, 2, e.n_experts});
  if (e.router == RouterKind::sparse_mixer) e.mixer_tolerance = dice.one_of({0.02, 0.5});
  if (e.router == RouterKind::softmax_then_choose || e.router == RouterKind::sigmoid_then_choose) {
    e.choice_bias = dice.coin();
    e.renormalised = dice.coin();
    if (e.renormalised) e.least_sum = dice.one_of({0.0, 1e-12, 0.7});
  }
  const bool weighs_all = e.router != RouterKind::choose_then_softmax && e.router != RouterKind::sparse_mixer;
  if (weighs_all && e.n_experts == 4 && e.per_token <= 2) {
    e.n_groups = 2;
    e.groups_per_token = dice.one_of<std::int64_t>({1, 2});
    e.group_score = dice.one_of({GroupScore::best, GroupScore::best_two});
  }
  e.router_bias = dice.coin();
  e.bias = dice.coin();
  e.d_expert = c.d_mlp;
  if (dice.coin()) {
    e.dense_layers = dice.one_of<std::vector<bool>>({{true, false}, {false, true}});
    e.d_expert = dice.one_of<std::int64_t>({6, 11});
  }
  if (dice.coin()) {
    e.d_shared = dice.one_of<std::int64_t>({7, c.d_model});
    e.shared_gate = dice.coin();
    e.shared_gate_bias = dice.coin() && e.shared_gate;
  }
  return e;
}

// Weights that are kept in float32 in narrower models, if the config may say so.
LeastDtypes random_least_dtypes(const ModelConfig& c, Dice& dice) {
  using enum KeptInFloat32;
  const auto kept = [&](bool allowed) {
    const KeptInFloat32 drawn = dice.one_of({never, in_float16, in_half});
    return allowed ? drawn : never;
  };
  return {.choice_bias = kept(c.experts && c.experts->choice_bias),
          .router = kept(c.experts && c.experts->router_in_float32),
          .norms = kept(true),
          .mlp_out = kept(c.has_mlp() && !c.experts && c.norm != NormKind::none &&
                          c.norm_place == NormPlace::pre && c.first_attention_norm &&
                          c.final_norm != NormKind::none && !c.layer_input && !c.layer_scale)};
}

}  // namespace

ModelConfig random_config(std::uint64_t seed) {
  Dice dice(seed);
  auto c = with_sizes({}, dice);
  c = with_norms(c, dice);
  c = with_blocks(c, dice);
  c.mlp_norm = c.mlp == MlpKind::plain && c.activation.kind() == Activation::solu &&
               c.norm == NormKind::layer_norm && dice.coin();
  c = with_attention(c, dice);
  c = with_positions(c, dice);
  Unembedding& unembedding = *c.unembedding;
  unembedding.tied = dice.coin() && unembedding.d_vocab == c.d_vocab;
  unembedding.bias = dice.coin();
  c.embedding_scale = dice.one_of({1.0, 1.0, 2.5});
  unembedding.in_scale = dice.one_of({1.0, 1.0, 0.7});
  unembedding.scale = dice.one_of({1.0, 1.0, 0.3});
  unembedding.soft_cap = dice.coin() ? dice.one_of({2.0, 25.0}) : 0.0;
  c.default_prepend_bos = dice.coin();
  if (!c.post_embedding_norm && dice.roll(3) == 0) {
    c.embedding_sum_norm = true;
    c.token_types = dice.one_of<std::int64_t>({0, 1, 2, 3});
  }
  if (dice.roll(4) == 0) {
    unembedding.mlm_head = dice.one_of({Activation::gelu, Activation::relu, Activation::silu});
  }
  c.attention_sinks = dice.roll(4) == 0;
  if (!c.grouped_query() && !c.shortformer() && dice.coin()) {
    c.latent = Latents{.d_kv = dice.one_of<std::int64_t>({3, 8}),
                       .d_query = dice.one_of<std::int64_t>({0, 5}),
                       .d_shared_key = dice.one_of<std::int64_t>({0, 1, 2}),
                       .d_value = dice.one_of<std::int64_t>({3, c.d_head, 10}),
                       .eps = dice.one_of({1e-6, 0.1})};
  }
  if (c.mlp == MlpKind::gated) {
    if (dice.roll(4) == 0) c.gate_limit = dice.one_of({0.5, 7.0});
    c.up_offset = dice.roll(4) == 0;
    const bool mixture = !c.gated_bias_after_product && c.activation.kind() != Activation::xielu;
    if (mixture && dice.coin()) c.experts = random_experts(c, dice);
  }
  if (c.has_mlp() && dice.roll(10) == 0 && !c.mlp_norm) {
    c.activation = Activation::swish_with(dice.one_of({1.0, 1.702, 0.3}));
  }
  auto* longrope = c.rotary() == nullptr ? nullptr : std::get_if<LongropeScaling>(&c.rotary()->scaling);
  if (longrope != nullptr && dice.coin()) longrope->long_attention_factor = 1.5;
  if (c.direction == AttentionDirection::causal && c.relative() == nullptr && dice.roll(4) == 0) {
    const std::size_t layer = dice.roll(2);
    if (!c.window || !c.window->layers[layer]) {
      c.short_conv = ShortConvolution{.kernel = dice.one_of<std::int64_t>({1, 2, 4}), .bias = dice.coin()};
      c.short_conv->layers = {layer == 0, layer == 1};
    }
  }
  if (RotaryPositions* rotary = c.rotary()) {
    rotary->reversed = dice.roll(4) == 0;
    if (c.qk_norm) c.qk_norm->after_rotary = dice.roll(3) == 0;
  }
  if (dice.roll(5) == 0)
    c.query_growth = QueryGrowth{.growth = 0.5, .tokens = 2.0, .offset = dice.roll(2) == 0};
  const bool can_lack_first =
      c.norm != NormKind::none && c.norm_place == NormPlace::pre && c.layout == BlockLayout::serial;
  if (can_lack_first) c.first_attention_norm = dice.roll(4) != 0;
  if (!c.post_embedding_norm && !c.embedding_sum_norm && dice.roll(8) == 0) {
    c.token_types = dice.one_of<std::int64_t>({1, 2});
  }
  if (c.direction == AttentionDirection::causal && c.relative() == nullptr && !c.short_conv &&
      dice.roll(4) == 0) {
    const std::size_t layer = dice.roll(2);
    if (!c.window || !c.window->layers[layer]) {
      c.delta_net = DeltaNet{.n_key_heads = dice.one_of<std::int64_t>({1, 2}),
                             .n_heads = dice.one_of<std::int64_t>({2, 4}),
                             .d_key = dice.one_of<std::int64_t>({3, 4}),
                             .d_value = dice.one_of<std::int64_t>({2, 5}),
                             .kernel = dice.one_of<std::int64_t>({2, 4})};
      c.delta_net->layers = {layer == 0, layer == 1};
    }
  }
  c.gated_heads = dice.roll(4) == 0;
  if (RelativePositions* relative = c.relative()) relative->in_every_block = dice.coin();
  if (c.norm_place == NormPlace::output && dice.coin()) {
    c.pre_norm_layers = dice.one_of<std::vector<bool>>({{true, false}, {false, true}});
  }
  if (c.delta_net) {
    c.delta_net->doubled_beta = dice.coin();
    if (dice.coin()) c.delta_net->norm_eps = dice.one_of({1e-5, 0.1});
  }
  if (c.window && dice.coin()) c.window->kind = Window::chunks;
  if (c.qk_norm && dice.roll(3) == 0) {
    c.qk_norm->layers = dice.one_of<std::vector<bool>>({{true, false}, {false, true}});
  }
  if (c.experts) c.experts->weighted_inputs = dice.roll(3) == 0;
  c.value_norm = dice.roll(4) == 0 && !c.latent;
  c.layer_scale = dice.roll(4) == 0 && c.norm_place != NormPlace::post;
  if (RotaryPositions* rotary = c.rotary(); rotary != nullptr && dice.roll(4) == 0) rotary->turned_pairs = 1;
  const bool whole_heads =
      c.rotary() == nullptr || (c.rotary()->dim == 0 && !depends_on_length(c.rotary()->scaling));
  if (c.window && !c.latent && whole_heads && dice.coin()) {
    c.full_heads = FullHeads{.d_head = c.d_head + 2, .n_kv_heads = dice.coin() ? 1 : c.n_heads};
  }
  const bool one_kind = c.n_layers == 2 && c.windowed(0) == c.windowed(1);
  if (one_kind && !c.latent && c.attends_everywhere() && !c.shortformer() && dice.roll(3) == 0) {
    const bool own_width = c.has_mlp() && (!c.experts || !c.experts->dense_layers.empty());
    c.shared_keys = SharedKeys{.layers = 1, .d_mlp = c.d_mlp + (own_width ? 2 : 0)};
  }
  if (c.norm == NormKind::rms_norm && !c.norms_stream() && c.layout == BlockLayout::serial && c.has_mlp() &&
      c.activation.kind() != Activation::xielu && !c.summed_embedding() && !c.post_embedding_norm &&
      dice.roll(3) == 0) {
    c.layer_input = LayerInput{.width = dice.one_of<std::int64_t>({3, 8})};
  }
  if (c.experts) {
    c.experts->expert_scale = dice.roll(3) == 0;
    c.experts->own_norms = c.norm != NormKind::none && !c.norms_stream() && !c.shortformer() && dice.coin();
    if (c.experts->own_norms) {
      c.norm = NormKind::rms_norm;
      if (c.final_norm == NormKind::layer_norm) c.final_norm = NormKind::rms_norm;
      c.norm_place = NormPlace::both;
      c.layout = BlockLayout::serial;
      c.first_attention_norm = true;
      c.pre_norm_layers.clear();
      if (c.experts->d_shared == 0) c.experts->d_shared = 7;
    }
  }
  if (c.experts) {
    Experts& e = *c.experts;
    e.router_in_float32 = dice.coin();
    if (e.renormalised && e.least_sum == 0.0) e.added_to_sum = dice.one_of({0.0, 1e-20, 0.4});
  }
  c.least_dtypes = random_least_dtypes(c, dice);
  return c;
}

}  // namespace hooked
