#include "random_weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <random>

namespace hooked::reference {
namespace {

bool ends_with(const std::string& name, std::string_view ending) { return name.ends_with(ending); }

class ShapeList {
 public:
  explicit ShapeList(const ModelConfig& config) : c_(config) {}

  std::vector<NamedShape> list() {
    add("embed.W_E", {c_.d_vocab, c_.d_model});
    if (c_.token_types > 0) add("embed.token_type_embed.W_token_type", {c_.token_types, c_.d_model});
    if (c_.post_embedding_norm || c_.embedding_sum_norm) add_norm("embed.ln", c_.embedding_norm, c_.d_model);
    if (c_.has_pos_embed()) add("pos_embed.W_pos", {c_.n_ctx, c_.d_model});
    if (c_.has_encoder() && c_.has_pos_embed()) add("decoder_embed.W_pos", {c_.n_ctx, c_.d_model});
    if (c_.has_encoder() && c_.embedding_sum_norm)
      add_norm("decoder_embed.ln", c_.embedding_norm, c_.d_model);
    if (c_.has_encoder()) {
      add_stack("encoder", c_.n_encoder_layers());
      if (!c_.norm_folded && c_.norm_place != NormPlace::post)
        add_norm("encoder_final_ln", c_.norm, c_.d_model);
    }
    add_stack(c_.has_encoder() ? "decoder" : "blocks", c_.n_layers);
    if (!c_.norm_folded)
      add_norm(c_.has_encoder() ? "decoder_final_ln" : "ln_final", c_.final_norm, c_.d_model);
    if (c_.has_mlm_head()) {
      add("mlm_head.W", {c_.d_model, c_.d_model});
      add("mlm_head.b", {c_.d_model});
      add_norm("mlm_head.ln", NormKind::layer_norm, c_.d_model);
    }
    if (c_.d_vocab_out() == 0) return std::move(shapes_);
    if (!c_.tied_unembedding()) add("unembed.W_U", {c_.d_model, c_.d_vocab_out()});
    if (c_.unembedding->bias) add("unembed.b_U", {c_.d_vocab_out()});
    if (c_.unembedding->keeps_mean) add("unembed.W_mean", {c_.d_model});
    if (c_.unembedding->keeps_mean && c_.unembedding->bias) add("unembed.b_mean", {1});
    return std::move(shapes_);
  }

 private:
  void add_stack(const std::string& stack, std::int64_t layers) {
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const std::string block = stack + "." + std::to_string(layer) + ".";
      add_block_norms(block, layer);
      if (c_.layer_input) add_layer_input(block + "layer_input.");
      if (c_.layer_scale) add(block + "resid_scale", {1});
      if (c_.convolves(layer)) {
        add_short_convolution(block + "conv.");
      } else if (c_.recurs(layer)) {
        add_delta_net(block + "linear_attn.");
      } else {
        add_attention(block + "attn.", layer);
        if (c_.norms_heads(layer)) add_head_norms(block + "attn.", layer);
      }
      if (stack == "decoder") {
        if (!c_.norm_folded) add_norm(block + "ln3", c_.norm, c_.d_model);
        add_attention(block + "cross_attn.", layer);
      }
      if (c_.relative() != nullptr && (layer == 0 || c_.relative()->in_every_block)) {
        add(block + "attn.rel_pos_bias.weight", {c_.relative()->buckets, c_.n_heads});
      }
      if (c_.mixture(layer)) {
        add_mixture(block + "mlp.");
      } else if (c_.has_mlp()) {
        add_mlp(block + "mlp.", shares_keys(layer) ? c_.shared_keys->d_mlp : c_.d_mlp);
      }
    }
  }

  bool shares_keys(std::int64_t layer) const {
    return c_.shared_keys && layer >= c_.n_layers - c_.shared_keys->layers;
  }

  void add_layer_input(const std::string& input) {
    const std::int64_t width = c_.layer_input->width;
    add(input + "W_token", {c_.d_vocab, width});
    add(input + "W_embed", {c_.d_model, width});
    add(input + "ln.w", {width});
    add(input + "W_gate", {c_.d_model, width});
    add(input + "W_out", {width, c_.d_model});
    add(input + "ln_post.w", {c_.d_model});
  }

  void add(std::string name, std::vector<std::int64_t> shape) {
    shapes_.emplace_back(std::move(name), std::move(shape));
  }

  void add_norm(const std::string& name, NormKind kind, std::int64_t width) {
    if (kind == NormKind::none) return;
    add(name + ".w", {width});
    if (kind == NormKind::layer_norm && c_.norm_bias) add(name + ".b", {width});
  }

  void add_block_norms(const std::string& block, std::int64_t layer) {
    const bool two_norms = c_.has_mlp() && !(c_.layout == BlockLayout::parallel_one_norm);
    const bool pre = !c_.pre_norm_layers.empty() && c_.pre_norm_layers[static_cast<std::size_t>(layer)];
    if ((pre || c_.norm_place != NormPlace::output) && !c_.norm_folded) {
      if (layer > 0 || c_.first_attention_norm) add_norm(block + "ln1", c_.norm, c_.d_model);
      if (two_norms) add_norm(block + "ln2", c_.norm, c_.d_model);
    }
    if (!pre && (c_.norm_place == NormPlace::output || c_.norm_place == NormPlace::both)) {
      add_norm(block + "ln1_post", c_.norm, c_.d_model);
      if (c_.has_mlp()) add_norm(block + "ln2_post", c_.norm, c_.d_model);
    }
  }

  void add_heads(const std::string& attn, std::int64_t layer) {
    const std::string kv = c_.grouped_query() ? "_" : "";
    const std::int64_t kv_heads = c_.kv_heads(layer), d_head = c_.head_width(layer);
    add(attn + "W_Q", {c_.n_heads, c_.d_model, d_head});
    const bool makes_keys = !shares_keys(layer);
    if (makes_keys) add(attn + kv + "W_K", {kv_heads, c_.d_model, d_head});
    if (makes_keys) add(attn + kv + "W_V", {kv_heads, c_.d_model, d_head});
    if (!c_.qkv_bias) return;
    add(attn + "b_Q", {c_.n_heads, d_head});
    if (!makes_keys) return;
    add(attn + kv + "b_K", {kv_heads, d_head});
    add(attn + kv + "b_V", {kv_heads, d_head});
  }

  void add_latents(const std::string& attn) {
    const Latents& latent = *c_.latent;
    const auto add_reader = [&](const std::string& which, std::int64_t width) {
      add(attn + "W_" + which, {c_.d_model, width});
      if (c_.qkv_bias) add(attn + "b_" + which, {width});
    };
    if (latent.d_query > 0) {
      add_reader("DQ", latent.d_query);
      add(attn + "q_latent_norm.w", {latent.d_query});
      add(attn + "W_UQ", {c_.n_heads, latent.d_query, c_.d_head});
    } else {
      add(attn + "W_Q", {c_.n_heads, c_.d_model, c_.d_head});
      if (c_.qkv_bias) add(attn + "b_Q", {c_.n_heads, c_.d_head});
    }
    add_reader("DKV", latent.d_kv);
    if (latent.d_shared_key > 0) add_reader("KR", latent.d_shared_key);
    add(attn + "kv_latent_norm.w", {latent.d_kv});
    add(attn + "W_UK", {c_.n_heads, latent.d_kv, c_.own_key_dim()});
    add(attn + "W_UV", {c_.n_heads, latent.d_kv, latent.d_value});
  }

  void add_attention(const std::string& attn, std::int64_t layer) {
    const std::int64_t d_value = c_.value_dim(layer);
    if (c_.latent_attention()) {
      add_latents(attn);
    } else {
      add_heads(attn, layer);
    }
    add(attn + "W_O", {c_.n_heads, d_value, c_.d_model});
    if (c_.attn_out_bias) add(attn + "b_O", {c_.d_model});
    if (c_.gated_heads) {
      add(attn + "W_G", {c_.n_heads, c_.d_model, d_value});
      if (c_.qkv_bias) add(attn + "b_G", {c_.n_heads, d_value});
    }
    if (c_.attention_sinks) add(attn + "sinks", {c_.n_heads});
  }

  void add_head_norms(const std::string& attn, std::int64_t layer) {
    const bool shared = c_.qk_norm->span == QkNorm::per_head;
    const std::int64_t d_head = c_.head_width(layer);
    for (const auto& [norm, heads] :
         {std::pair{"q_norm", c_.n_heads}, std::pair{"k_norm", c_.kv_heads(layer)}}) {
      if (shares_keys(layer) && norm[0] == 'k') continue;
      add(attn + norm + ".w", {shared ? d_head : heads * d_head});
      if (c_.qk_norm->bias) add(attn + norm + ".b", {shared ? d_head : heads * d_head});
    }
  }

  void add_short_convolution(const std::string& conv) {
    for (const char* letter : {"B", "C", "X"}) {
      add(conv + "W_" + letter, {c_.d_model, c_.d_model});
      if (c_.short_conv->bias) add(conv + "b_" + letter, {c_.d_model});
    }
    add_linear(conv + "filter", c_.d_model, c_.short_conv->kernel, c_.short_conv->bias);
    add(conv + "W_out", {c_.d_model, c_.d_model});
    if (c_.short_conv->bias) add(conv + "b_out", {c_.d_model});
  }

  void add_delta_net(const std::string& net) {
    const DeltaNet& sizes = *c_.delta_net;
    for (const char* which : {"W_Q", "W_K"}) add(net + which, {sizes.n_key_heads, c_.d_model, sizes.d_key});
    for (const char* which : {"W_V", "W_gate"}) add(net + which, {sizes.n_heads, c_.d_model, sizes.d_value});
    for (const char* which : {"W_beta", "W_decay"}) add(net + which, {c_.d_model, sizes.n_heads});
    add_linear(net + "filter", sizes.d_qkv(), sizes.kernel, /*bias=*/false);
    add(net + "A_log", {sizes.n_heads});
    add(net + "dt_bias", {sizes.n_heads});
    add(net + "norm.w", {sizes.d_value});
    add(net + "W_O", {sizes.n_heads, sizes.d_value, c_.d_model});
  }

  void add_linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
    add(name + ".weight", {out, in});
    if (bias) add(name + ".bias", {out});
  }

  void add_mixture(const std::string& mlp) {
    const Experts& e = *c_.experts;
    add_linear(mlp + "W_gate", e.n_experts, c_.d_model, e.router_bias);
    if (e.choice_bias) add(mlp + "choice_bias", {e.n_experts});
    if (e.expert_scale) add(mlp + "expert_scale", {e.n_experts});
    if (e.own_norms) {
      for (const char* before : {"router_ln.w", "experts_ln.w"}) {
        if (!c_.norm_folded) add(mlp + before, {c_.d_model});
      }
      for (const char* behind : {"experts_ln_post.w", "shared_expert.ln_post.w"})
        add(mlp + behind, {c_.d_model});
    }
    for (std::int64_t i = 0; i < e.n_experts; ++i) {
      const std::string expert = mlp + "experts." + std::to_string(i) + ".";
      add_linear(expert + "W_in", e.d_expert, c_.d_model, e.bias);
      add_linear(expert + "W_gate", e.d_expert, c_.d_model, e.bias);
      add_linear(expert + "W_out", c_.d_model, e.d_expert, e.bias);
    }
    if (e.d_shared == 0) return;
    const std::string shared = mlp + "shared_expert.";
    add(shared + "W_in", {c_.d_model, e.d_shared});
    add(shared + "W_gate", {c_.d_model, e.d_shared});
    add(shared + "W_out", {e.d_shared, c_.d_model});
    if (c_.mlp_bias) {
      add(shared + "b_in", {e.d_shared});
      add(shared + "b_gate", {e.d_shared});
      add(shared + "b_out", {c_.d_model});
    }
    if (e.shared_gate) add_linear(mlp + "shared_expert_gate", 1, c_.d_model, e.shared_gate_bias);
  }

  void add_mlp(const std::string& mlp, std::int64_t d_mlp) {
    const bool gated = c_.mlp == MlpKind::gated;
    add(mlp + "W_in", {c_.d_model, d_mlp});
    if (gated) add(mlp + "W_gate", {c_.d_model, d_mlp});
    add(mlp + "W_out", {d_mlp, c_.d_model});
    if (c_.mlp_bias) {
      add(mlp + "b_in", {d_mlp});
      if (gated && !c_.gated_bias_after_product) add(mlp + "b_gate", {d_mlp});
      add(mlp + "b_out", {c_.d_model});
    }
    if (c_.activation.kind() == Activation::xielu) {
      for (const char* number : {"alpha_p", "alpha_n", "beta", "eps"}) add(mlp + "xielu." + number, {1});
    }
    if (c_.mlp_norm && !c_.norm_folded) add_norm(mlp + "ln", NormKind::layer_norm, d_mlp);
  }

  const ModelConfig& c_;
  std::vector<NamedShape> shapes_;
};

/// The centre and the spread of a weight's random values. Matrices keep the size of their inputs;
/// scores get enough spread for patterns that are far from uniform.
struct Spread {
  double centre;
  double width;
};

Spread spread_of(const std::string& name, const std::vector<std::int64_t>& shape, const ModelConfig& config) {
  if (ends_with(name, ".w")) {
    const bool plain = ends_with(name, "mlp.ln.w") || ends_with(name, "embed.ln.w") ||
                       ends_with(name, "mlm_head.ln.w") || ends_with(name, "linear_attn.norm.w");
    // A weight stored as an offset means one plus itself.
    return {config.norm_offset && !plain ? 0.0 : 1.0, 0.3};
  }
  if (ends_with(name, "resid_scale") || ends_with(name, "expert_scale")) return {0.8, 0.2};
  if (ends_with(name, "xielu.eps")) return {-0.1, 0.0};
  if (name.find("xielu") != std::string::npos) return {0.7, 0.1};
  // The input of this router is not normalized: with large logits most weights would be zeros, which tie.
  if (ends_with(name, "mlp.W_gate.weight") && config.norm == NormKind::none) return {0.0, 1e-3};
  if (ends_with(name, ".weight")) return {0.0, 1.3 / std::sqrt(static_cast<double>(shape[1]))};
  if (shape.size() == 1 || (name.find("W_") == std::string::npos && !ends_with(name, ".W")))
    return {0.0, 0.4};
  if (ends_with(name, "W_E") || ends_with(name, "W_pos") || ends_with(name, "W_token_type")) {
    return {0.0, 1.0};
  }
  const double fan_in =
      static_cast<double>(ends_with(name, "W_O") ? shape[0] * shape[1] : shape[shape.size() - 2]);
  return {0.0, 1.3 / std::sqrt(fan_in)};
}

}  // namespace

std::vector<NamedShape> weight_shapes(const ModelConfig& config) { return ShapeList(config).list(); }

StateDict random_weights(const ModelConfig& config, std::uint64_t seed, at::ScalarType dtype) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  StateDict weights;
  for (const auto& [name, shape] : weight_shapes(config)) {
    const Spread spread = spread_of(name, shape, config);
    at::Tensor weight = at::empty(shape, at::TensorOptions().dtype(at::kDouble));
    double* values = weight.data_ptr<double>();
    for (std::int64_t i = 0; i < weight.numel(); ++i) {
      values[i] = static_cast<float>(spread.centre + spread.width * normal(generator));
    }
    weights[name] = weight.to(dtype);
  }
  return weights;
}

std::vector<std::vector<std::int64_t>> random_tokens(const ModelConfig& config, std::int64_t batch,
                                                     std::int64_t length, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<std::int64_t> token(0, config.d_vocab - 1);
  std::vector<std::vector<std::int64_t>> tokens(static_cast<std::size_t>(batch),
                                                std::vector<std::int64_t>(static_cast<std::size_t>(length)));
  for (auto& row : tokens) {
    for (auto& id : row) id = token(generator);
  }
  return tokens;
}

}  // namespace hooked::reference
