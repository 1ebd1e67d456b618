#include "weights/steps.h"

namespace hooked::weights {
namespace {

/// Everything that is added to the stream; however a token's experts are weighed, their sum has no mean if
/// each has none.
void center_writers(WorkingWeights& part, const ModelConfig& before) {
  if (!part.part()) {
    if (before.embedding_sum_norm) return;  // a norm writes to the stream, not the embeddings
    untie(part, before);
  }
  for_each_weight(before, part.part(), [&](const WeightRow& row, const std::string& name) {
    if (row.writes_stream) part.center(name, Axis::d_model);
  });
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
  if (!config.first_attention_norm) {
    return Obstacle{would_change,
                    "attention of the first block reads the stream without a norm, so it sees the mean"};
  }
  if (config.final_norm != NormKind::layer_norm) {
    return Obstacle{would_change, config.final_norm == NormKind::none
                                      ? "there is no final norm, so the unembedding sees the stream's mean"
                                      : "the final RMSNorm does not subtract the stream's mean"};
  }
  if (config.post_embedding_norm && config.embedding_norm != NormKind::layer_norm) {
    return Obstacle{would_change, "the embedding's RMSNorm does not subtract its mean"};
  }
  if (config.shortformer()) {
    return Obstacle{would_change, "shortformer positions reach queries and keys without passing a norm"};
  }
  return std::nullopt;
}

void center_vocabulary(WorkingWeights& part, const ModelConfig& before) {
  if (part.part()) return;
  untie(part, before);
  part.center("unembed.W_U", Axis::vocab_out);
  if (before.unembedding->bias) part.center("unembed.b_U", Axis::vocab_out);
}

std::optional<Obstacle> vocabulary_obstacle(const ModelConfig& config) {
  if (!config.has_unembedding()) {
    return Obstacle{Obstacle::Kind::nothing_to_do, "the model has no unembedding"};
  }
  if (config.d_vocab_out() < config.d_vocab) {
    return Obstacle{
        Obstacle::Kind::would_change,
        "the logits are fewer than the tokens that the model reads: they may be scores, and a score means "
        "something on its own"};
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
          .obstacle = writers_obstacle,
          .apply = center_writers,
          .update = update_writers};
}

StepDefinition center_unembed_step() {
  return {.step = ProcessingStep::center_unembed,
          .obstacle = vocabulary_obstacle,
          .apply = center_vocabulary,
          .update = update_vocabulary};
}

}  // namespace hooked::weights
