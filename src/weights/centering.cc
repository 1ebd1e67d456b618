#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/nanmedian.h>
#include <ATen/ops/where.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>

#include "hooked/core/tensor_text.h"
#include "weights/steps.h"

namespace hooked::weights {
namespace {

/// Calls `use` with every weight that is added to the stream. However a token's experts are weighted, their
/// sum has no mean if each one has none.
void for_each_writer(const ModelConfig& config, const WeightPart& part,
                     const std::function<void(const WeightRow& row, const std::string& name)>& use) {
  if (!part && config.embedding_sum_norm) return;  // a norm writes to the stream, not the embeddings
  for_each_weight(config, part, [&](const WeightRow& row, const std::string& name) {
    if (row.writes_stream) use(row, name);
  });
}

void center_writers(WorkingWeights& part, const ModelConfig& before) {
  if (!part.part() && !before.embedding_sum_norm) untie(part, before);
  for_each_writer(before, part.part(), [&](const WeightRow&, const std::string& name) {
    part.changing(name).center(Axis::d_model);
  });
}

double root_mean_square(const at::Tensor& values) { return values.square().mean().sqrt().item<double>(); }

/// Why a weight cannot lose its mean over d_model: next to that mean, its dtype cannot represent the rest.
std::optional<std::string> writer_risk(const StoredNumbers& numbers, const WeightPart& part,
                                       const WeightRow& row, const std::string& name) {
  const auto sample = numbers.sample(part, name, Axis::d_model);
  if (!sample) return std::nullopt;
  const at::Tensor means = sample->values.mean(*row.axes.find(Axis::d_model), /*keepdim=*/true);
  // A value that is not finite stays within its own vector, with or without the mean.
  const at::Tensor counts = means.isfinite();
  const double shift = root_mean_square(at::where(counts, means, 0.0));
  const double spread = root_mean_square(at::where(counts, sample->values - means, 0.0));
  const at::ScalarType kept = numbers.kept_dtype(sample->stored);
  // A bias is one vector and may be constant; the stream that it is added to has a spread of about 1.
  const double least = row.axes.size() == 1 ? 1.0 : 0.0;
  if (shift <= std::max(spread, least) * largest_shift(kept)) return std::nullopt;
  return fmt::format(
      "the mean of {} over d_model is {:.2g}, next to which {} does not hold its spread of {:.2g}",
      numbers.name_of(part, name), shift, dtype_text(kept), spread);
}

std::optional<std::string> writers_risk(const StoredNumbers& numbers, const WeightPart& part,
                                        const ModelConfig& before) {
  std::optional<std::string> found;
  for_each_writer(before, part, [&](const WeightRow& row, const std::string& name) {
    if (!found) found = writer_risk(numbers, part, row, name);
  });
  return found;
}

/// Centring the stream changes nothing only if every reader of the stream subtracts its mean.
std::optional<Obstacle> writers_obstacle(const ModelConfig& config) {
  using enum Obstacle::Kind;
  if (config.norm == NormKind::none) {
    return Obstacle{would_change, "the model has no norms that would subtract the stream's mean"};
  }
  if (config.norm != NormKind::layer_norm) {
    return Obstacle{
        would_change,
        "RMSNorm does not subtract the stream's mean, so centring would change what its readers get"};
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
  const auto take_mean = [&](const std::string& name, const std::string& mean) {
    // A mean that was subtracted earlier, but not recorded as a step, stays subtracted.
    const bool more = before.unembedding->keeps_mean && part.has(mean);
    const at::Tensor taken = part.take_mean(name, Axis::vocab_out);
    part.set(mean, more ? part.get(mean) + taken : taken);
  };
  take_mean("unembed.W_U", "unembed.W_mean");
  if (before.unembedding->bias) take_mean("unembed.b_U", "unembed.b_mean");
}

/// Half of the numbers are closer to their median than `spread`.
struct Middle {
  at::Tensor median, spread;
};

Middle middle_of(const at::Tensor& values, std::int64_t dimension) {
  const at::Tensor median = std::get<0>(at::nanmedian(values, dimension, /*keepdim=*/true));
  return {median, std::get<0>(at::nanmedian((values - median).abs(), dimension, /*keepdim=*/true))};
}

// A mean that comes from a few entries is far from the median. Subtracting it would give every other entry a
// number of its size, which would use up the dtype's digits.
constexpr double kFarFromMedian = 8.0;
// float32 has digits to spare.
constexpr double kFarInSingle = 64.0;

/// Why b_U cannot lose its mean: for example, because it masks entries of the vocabulary.
std::optional<std::string> output_bias_risk(const at::Tensor& bias) {
  if (const std::string where = not_finite(bias); !where.empty())
    return fmt::format("unembed.b_U holds {}, so it has no mean over the vocabulary", where);
  const Middle middle = middle_of(bias, 0);
  const double apart = (bias.mean() - middle.median).abs().item<double>();
  if (apart <= std::max(1.0, kFarFromMedian * middle.spread.item<double>()))
    return std::nullopt;  // of a logit
  const auto farthest = (bias - middle.median).abs().argmax().item<std::int64_t>();
  return fmt::format(
      "few entries of unembed.b_U, such as {:.2g} of token {}, carry its mean over the vocabulary, "
      "next to which the other logits would lose digits",
      bias[farthest].item<double>(), farthest);
}

/// The same for W_U, with one mean over the vocabulary for each entry of the stream.
std::optional<std::string> unembedding_risk(const StoredNumbers& numbers) {
  const auto weight = numbers.find(std::nullopt, "unembed.W_U");
  if (!weight) return std::nullopt;
  const at::Tensor mean = weight->mean(Axis::vocab_out);
  if (!mean.isfinite().all().item<bool>())
    return "unembed.W_U holds numbers that are not finite, so it has no mean over the vocabulary";
  const Sample sample = *numbers.sample(std::nullopt, "unembed.W_U", Axis::vocab_out);
  const Middle middle = middle_of(sample.values, 1);  // [d_model, 1]
  const at::Tensor means = (sample.dimension == 0 ? mean.index_select(0, sample.places) : mean).unsqueeze(1);
  const at::Tensor typical = middle.spread.mean();
  const at::ScalarType kept = numbers.kept_dtype(sample.stored);
  const double limit = c10::elementSize(kept) > 2 ? kFarInSingle : kFarFromMedian;
  // In a small vocabulary, some entries are close together by chance.
  const at::Tensor far = (means - middle.median).abs() > limit * (middle.spread + 0.25 * typical);
  if (far.any().item<bool>())
    return "few rows of unembed.W_U carry its mean over the vocabulary, next to which the others would lose "
           "digits";
  const double shift = means.abs().max().item<double>(), spread = typical.item<double>();
  if (shift <= spread * largest_shift(kept)) return std::nullopt;
  return fmt::format(
      "the mean of unembed.W_U over the vocabulary reaches {:.2g}, next to which {} does not hold its "
      "spread of {:.2g}",
      shift, dtype_text(kept), spread);
}

std::optional<std::string> vocabulary_risk(const StoredNumbers& numbers, const WeightPart& part,
                                           const ModelConfig&) {
  if (part) return std::nullopt;
  if (const at::Tensor bias = numbers.values(std::nullopt, "unembed.b_U"); bias.defined()) {
    if (auto found = output_bias_risk(bias)) return found;
  }
  return unembedding_risk(numbers);
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

void update_vocabulary(ModelConfig& config) {
  config.unembedding->tied = false;
  config.unembedding->keeps_mean = true;
}

}  // namespace

void untie(WorkingWeights& ends, const ModelConfig& before) {
  if (before.tied_unembedding()) ends.set_transposed("unembed.W_U", "embed.W_E");
}

StepDefinition center_writing_weights_step() {
  return {.step = ProcessingStep::center_writing_weights,
          .obstacle = writers_obstacle,
          .risk = writers_risk,
          .apply = center_writers,
          .update = update_writers};
}

StepDefinition center_unembed_step() {
  return {.step = ProcessingStep::center_unembed,
          .obstacle = vocabulary_obstacle,
          .risk = vocabulary_risk,
          .apply = center_vocabulary,
          .update = update_vocabulary};
}

}  // namespace hooked::weights
