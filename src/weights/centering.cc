#include <fmt/format.h>

#include "weights/steps.h"

namespace hooked::weights {
namespace {

/// However a token's experts are weighed, their sum has no mean if each has none.
void center_mixture_writers(WorkingWeights& block, const ModelConfig& before) {
  const Experts& experts = *before.experts;
  for (std::int64_t e = 0; e < experts.n_experts; ++e) {
    block.center(fmt::format("mlp.experts.{}.W_out.weight", e), Axis::d_model);
    if (experts.bias) block.center(fmt::format("mlp.experts.{}.W_out.bias", e), Axis::d_model);
  }
  if (experts.d_shared == 0) return;
  block.center("mlp.shared_expert.W_out", Axis::d_model);
  if (before.mlp_bias) block.center("mlp.shared_expert.b_out", Axis::d_model);
}

void center_block_writers(WorkingWeights& block, const ModelConfig& before) {
  block.center("attn.W_O", Axis::d_model);
  if (before.attn_out_bias) block.center("attn.b_O", Axis::d_model);
  if (before.dense_mlp(block.layer())) {
    block.center("mlp.W_out", Axis::d_model);
    if (before.mlp_bias) block.center("mlp.b_out", Axis::d_model);
  } else if (before.mixture(block.layer())) {
    center_mixture_writers(block, before);
  }
}

void center_embeddings(WorkingWeights& ends, const ModelConfig& before) {
  if (before.embedding_sum_norm) return;  // a norm writes to the stream, not the embeddings
  untie(ends, before);
  ends.center("embed.W_E", Axis::d_model);
  if (before.learned_positions()) ends.center("pos_embed.W_pos", Axis::d_model);
}

/// Centring the stream changes nothing only if everything that reads the stream subtracts its mean.
std::optional<Obstacle> writers_obstacle(const ModelConfig& config) {
  using enum Obstacle::Kind;
  if (config.norm == NormKind::none) {
    return Obstacle{would_change, "the model has no norms that would subtract the stream's mean"};
  }
  if (config.norm != NormKind::layer_norm) {
    return Obstacle{would_change, "RMSNorm does not subtract the stream's mean, so its readers see it"};
  }
  if (config.norm_place != NormPlace::pre) {
    return Obstacle{would_change,
                    "norms write to the stream, so the weights before them do not set its mean"};
  }
  if (config.final_norm != NormKind::layer_norm) {
    return Obstacle{would_change, config.final_norm == NormKind::none
                                      ? "there is no final norm, so the unembedding sees the stream's mean"
                                      : "the final RMSNorm does not subtract the stream's mean"};
  }
  if (config.shortformer()) {
    return Obstacle{would_change, "shortformer positions reach queries and keys without passing a norm"};
  }
  return std::nullopt;
}

void center_vocabulary(WorkingWeights& ends, const ModelConfig& before) {
  untie(ends, before);
  ends.center("unembed.W_U", Axis::vocab_out);
  if (before.unembedding->bias) ends.center("unembed.b_U", Axis::vocab_out);
}

std::optional<Obstacle> vocabulary_obstacle(const ModelConfig& config) {
  if (!config.has_unembedding()) {
    return Obstacle{Obstacle::Kind::nothing_to_do, "the model has no unembedding"};
  }
  if (config.unembedding->soft_cap > 0.0) {
    return Obstacle{
        Obstacle::Kind::would_change,
        "the soft cap on the logits is not linear, so a constant shift before it changes probabilities"};
  }
  return std::nullopt;
}

void update_writers(ModelConfig& config) {
  if (config.unembedding && !config.embedding_sum_norm) config.unembedding->tied = false;
}

void update_vocabulary(ModelConfig& config) { config.unembedding->tied = false; }

}  // namespace

void untie(WorkingWeights& ends, const ModelConfig& before) {
  if (before.tied_unembedding()) ends.set_transposed("unembed.W_U", "embed.W_E");
}

StepDefinition center_writing_weights_step() {
  return {.step = ProcessingStep::center_writing_weights,
          .name = "center_writing_weights",
          .obstacle = writers_obstacle,
          .apply_to_block = center_block_writers,
          .apply_to_ends = center_embeddings,
          .update = update_writers};
}

StepDefinition center_unembed_step() {
  return {.step = ProcessingStep::center_unembed,
          .name = "center_unembed",
          .obstacle = vocabulary_obstacle,
          .apply_to_block = leave_unchanged,
          .apply_to_ends = center_vocabulary,
          .update = update_vocabulary};
}

}  // namespace hooked::weights
