#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/matmul.h>
#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "weights/steps.h"

namespace hooked::weights {
namespace {

// Note [Folding norms]
// A norm's output is n ⊙ w + β, with n the normalised stream, so a reader computes (n ⊙ w + β) W + b
// = n (w ⊙ W) + (b + β W): the gain scales W's input axis and the bias moves into b, which comes into being
// where the reader had none. A LayerNorm's n has mean zero, so W may lose its mean over the input axis as
// well; then W reads only directions that n can have. An RMSNorm's n has a mean, and its readers keep theirs.
// ln1_post, ln2_post, the norms of q and k, those of latents and those of the embedding and of the masked-LM
// head are not read by a linear map alone (or their input axis is not the reader's, or the reader is tied):
// they stay.
//
// Note [Gated MLP with its bias after the product]
// TransformerLens's native files have (act(x W_gate) ⊙ (x W_in) + b_in) W_out + b_out. β W_in belongs inside
// the up branch, where b_in is not. W_out reads the sum directly (a gated MLP has no norm over its neurons),
// so b_in W_out is a constant that b_out can take; then b_in is free to stand inside, and b_gate beside it.

/// A norm's parameters in float64, and whether its readers are centred.
struct NormWeights {
  at::Tensor gain;
  at::Tensor bias;  ///< undefined without one
  bool centers;
};

bool has_bias(NormKind kind, const ModelConfig& config) {
  return kind == NormKind::layer_norm && config.norm_bias;
}

/// Reads the norm's parameters and takes them out of the model.
NormWeights take_norm(WorkingWeights& weights, const std::string& name, NormKind kind,
                      const ModelConfig& before) {
  NormWeights norm{.gain = weights.get(name + ".w"), .bias = {}, .centers = kind == NormKind::layer_norm};
  if (before.norm_offset && name != "mlp.ln") norm.gain = norm.gain + 1.0;
  if (has_bias(kind, before)) norm.bias = weights.get(name + ".b");
  weights.erase(name + ".w");
  weights.erase(name + ".b");
  return norm;
}

/// A linear map that reads a norm: its weight, its input axis, its bias and whether the model has that bias
/// so far.
struct Reader {
  std::string weight;
  Axis input;
  std::string bias;
  bool bias_exists;
  double input_scale = 1.0;  ///< between the norm and the map
};

void fold_into(const Reader& reader, const NormWeights& norm, WorkingWeights& weights) {
  if (norm.bias.defined()) {
    const at::Tensor bias = reader.bias_exists ? weights.get(reader.bias) : weights.zeros(reader.bias);
    weights.set(reader.bias,
                bias + weights.weighted_sum(reader.weight, {reader.input}, norm.bias * reader.input_scale));
  }
  weights.scale(reader.weight, reader.input, norm.gain);
  if (norm.centers) weights.center(reader.weight, reader.input);
}

bool mlp_biases_appear(const ModelConfig& before) {
  return before.some_dense_mlp() && !before.mlp_bias &&
         (has_bias(before.norm, before) || (before.mlp_norm && before.norm_bias));
}

/// Whether b_in leaves its place after the product. See Note [Gated MLP with its bias after the product].
bool moves_bias_inside(const ModelConfig& before) {
  return before.mlp == MlpKind::gated && before.gated_bias_after_product && has_bias(before.norm, before);
}

/// Sets a bias to zero, also one that the model lacks so far.
void make_zero(WorkingWeights& block, const std::string& bias) { block.set(bias, block.zeros(bias)); }

/// Makes the MLP's biases ready to take a norm's: zeros where there were none, b_in inside the up branch.
void prepare_mlp_biases(WorkingWeights& block, const ModelConfig& before) {
  if (mlp_biases_appear(before)) {
    for (const char* bias : {"mlp.b_in", "mlp.b_out"}) make_zero(block, bias);
  } else if (moves_bias_inside(before)) {
    const at::Tensor out = block.weighted_sum("mlp.W_out", {Axis::d_mlp}, block.get("mlp.b_in"));
    block.set("mlp.b_out", block.get("mlp.b_out") + out);
    make_zero(block, "mlp.b_in");
  }
  const bool gate_bias = before.mlp == MlpKind::gated && (before.mlp_bias || mlp_biases_appear(before)) &&
                         (!before.gated_bias_after_product || moves_bias_inside(before));
  if (gate_bias && !block.has("mlp.b_gate")) make_zero(block, "mlp.b_gate");
}

// Every reader of ln2 in a mixture: the router, each expert, the shared expert and its gate. Their biases
// come into being together, so that all of one config have them.
void fold_mixture(WorkingWeights& block, const ModelConfig& before, const NormWeights& ln2) {
  const Experts& experts = *before.experts;
  const auto fold = [&](const std::string& weight, const std::string& bias, bool bias_exists) {
    fold_into({.weight = weight, .input = Axis::d_model, .bias = bias, .bias_exists = bias_exists}, ln2,
              block);
  };
  fold("mlp.W_gate.weight", "mlp.W_gate.bias", experts.router_bias);
  for (std::int64_t e = 0; e < experts.n_experts; ++e) {
    const std::string expert = fmt::format("mlp.experts.{}.", e);
    for (const char* reader : {"W_in", "W_gate"}) {
      fold(expert + reader + ".weight", expert + reader + ".bias", experts.bias);
    }
    if (ln2.bias.defined() && !experts.bias) make_zero(block, expert + "W_out.bias");
  }
  if (experts.d_shared == 0) return;
  const std::string shared = "mlp.shared_expert.";
  if (before.mlp_bias && !block.has(shared + "b_gate")) make_zero(block, shared + "b_gate");
  fold(shared + "W_in", shared + "b_in", before.mlp_bias);
  fold(shared + "W_gate", shared + "b_gate", before.mlp_bias);
  if (ln2.bias.defined() && !before.mlp_bias) make_zero(block, shared + "b_out");
  if (experts.shared_gate) {
    fold("mlp.shared_expert_gate.weight", "mlp.shared_expert_gate.bias", experts.shared_gate_bias);
  }
}

/// What reads ln1, by the letters behind `W_` and `b_`.
std::vector<std::string_view> attention_readers(const ModelConfig& before) {
  if (!before.latent_attention()) return {"Q", "K", "V"};
  std::vector<std::string_view> readers = {before.query_latent() ? "DQ" : "Q", "DKV"};
  if (before.latent->d_shared_key > 0) readers.emplace_back("KR");
  return readers;
}

void fold_block(WorkingWeights& block, const ModelConfig& before) {
  const NormWeights ln1 = take_norm(block, "ln1", before.norm, before);
  for (const std::string_view which : attention_readers(before)) {
    fold_into({.weight = fmt::format("attn.W_{}", which),
               .input = Axis::d_model,
               .bias = fmt::format("attn.b_{}", which),
               .bias_exists = before.qkv_bias},
              ln1, block);
  }
  if (!before.has_mlp()) return;
  const NormWeights ln2 =
      before.layout == BlockLayout::parallel_one_norm ? ln1 : take_norm(block, "ln2", before.norm, before);
  if (before.mixture(block.layer())) return fold_mixture(block, before, ln2);
  prepare_mlp_biases(block, before);
  fold_into({.weight = "mlp.W_in", .input = Axis::d_model, .bias = "mlp.b_in", .bias_exists = true}, ln2,
            block);
  if (before.mlp == MlpKind::gated) {
    fold_into({.weight = "mlp.W_gate", .input = Axis::d_model, .bias = "mlp.b_gate", .bias_exists = true},
              ln2, block);
  }
  if (before.mlp_norm) {
    fold_into({.weight = "mlp.W_out", .input = Axis::d_mlp, .bias = "mlp.b_out", .bias_exists = true},
              take_norm(block, "mlp.ln", NormKind::layer_norm, before), block);
  }
}

void fold_final(WorkingWeights& ends, const ModelConfig& before) {
  if (before.final_norm == NormKind::none) return;
  if (before.has_mlm_head()) {  // whose axes are [d_model in, d_model out]: a step means the first
    return fold_into(
        {.weight = "mlm_head.W", .input = Axis::d_model, .bias = "mlm_head.b", .bias_exists = true},
        take_norm(ends, "ln_final", before.final_norm, before), ends);
  }
  untie(ends, before);
  fold_into({.weight = "unembed.W_U",
             .input = Axis::d_model,
             .bias = "unembed.b_U",
             .bias_exists = before.unembedding->bias,
             .input_scale = before.unembedding->in_scale},
            take_norm(ends, "ln_final", before.final_norm, before), ends);
}

std::optional<Obstacle> obstacle(const ModelConfig& config) {
  using enum Obstacle::Kind;
  if (config.norm == NormKind::none) return Obstacle{nothing_to_do, "the model has no norms"};
  if (config.norm_folded) return Obstacle{nothing_to_do, "the norms have no weights to fold"};
  if (config.norm_place == NormPlace::post) {
    return Obstacle{would_change,
                    "norms after the sublayers write to the stream itself, so no weight can absorb them"};
  }
  if (config.norm_place == NormPlace::stream) {
    return Obstacle{would_change, "the stream itself is normed, so no weight can absorb the norms"};
  }
  if (config.norm_place == NormPlace::output) {
    return Obstacle{would_change,
                    "norms on the sublayers' outputs write to the stream, so no weight can absorb them"};
  }
  if (config.shortformer()) {
    return Obstacle{would_change,
                    "shortformer positions are added between ln1 and the weights that would absorb it"};
  }
  return std::nullopt;
}

void update(ModelConfig& config) {
  const ModelConfig before = config;
  if (has_bias(before.norm, before)) config.qkv_bias = true;
  if (mlp_biases_appear(before)) config.mlp_bias = true;
  if (before.experts && has_bias(before.norm, before)) {
    config.experts->router_bias = config.experts->bias = true;
    config.experts->shared_gate_bias = before.experts->shared_gate;
  }
  if (moves_bias_inside(before)) config.gated_bias_after_product = false;
  if (before.unembedding && !before.unembedding->mlm_head) {
    if (has_bias(before.final_norm, before)) config.unembedding->bias = true;
    if (before.final_norm != NormKind::none) config.unembedding->tied = false;
  }
  config.norm_folded = true;
  // Norms that stay keep their stored form; where none stays, nothing is stored as an offset any more.
  config.norm_offset = before.norm_offset &&
                       (before.norm_place == NormPlace::both || before.qk_norm || before.latent_attention());
}

}  // namespace

StepDefinition fold_ln_step() {
  return {.step = ProcessingStep::fold_ln,
          .name = "fold_ln",
          .obstacle = obstacle,
          .apply_to_block = fold_block,
          .apply_to_ends = fold_final,
          .update = update};
}

}  // namespace hooked::weights
