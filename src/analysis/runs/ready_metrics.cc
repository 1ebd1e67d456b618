// The built-in metrics.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/places/cache_reading.h"
#include "analysis/places/row_columns.h"
#include "core/id_list.h"
#include "core/to_device.h"
#include "core/token_ranks.h"
#include "hooked/analysis/metric.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/engine/loss.h"

namespace hooked {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// At least float32, whatever the dtype of the logits.
at::Tensor wide(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

/// The answers' values in each row, [row, answer]; rows may have sets of different sizes.
struct OfAnswers {
  at::Tensor values;
  at::Tensor is_answer;  ///< bool, false beyond the end of a smaller set
};

/// `by_token` [row, vocab or logit_tokens].
OfAnswers of_answers(const at::Tensor& by_token, const Answers& answers, const MetricInput& run) {
  std::size_t most = 0;
  for (const auto row : run.rows) most = std::max(most, answers.of_row(row).size());
  const std::vector<std::int64_t> shape{static_cast<std::int64_t>(run.rows.size()),
                                        static_cast<std::int64_t>(most)};
  const auto ids = at::zeros(shape, at::kLong), is_answer = at::zeros(shape, at::kBool);
  for (std::size_t i = 0; i < run.rows.size(); ++i) {
    const auto& set = answers.of_row(run.rows[i]);
    const auto row = static_cast<std::int64_t>(i), count = static_cast<std::int64_t>(set.size());
    const auto places = run.logit_tokens.empty() ? set : places_among(set, run.logit_tokens);
    ids[row].narrow(0, 0, count).copy_(at::tensor(places, at::kLong));
    is_answer[row].narrow(0, 0, count).fill_(true);
  }
  return {by_token.gather(1, to_device(ids, by_token.device())), to_device(is_answer, by_token.device())};
}

/// The next token's logits at the metric's one position, [row, vocab or logit_tokens].
at::Tensor at_position(const MetricInput& run) { return wide(run.logits.select(1, 0)); }

at::Tensor mean_logit(const MetricInput& run, const Answers& answers) {
  const auto of = of_answers(at_position(run), answers, run);
  return of.values.masked_fill(of.is_answer.logical_not(), 0.0).sum(1) / of.is_answer.sum(1);
}

at::Tensor log_share(const MetricInput& run, const Answers& answers) {
  const auto of = of_answers(at::log_softmax(at_position(run), -1), answers, run);
  return at::logsumexp(of.values.masked_fill(of.is_answer.logical_not(), -kInfinity), {1});
}

at::Tensor rank_of(const MetricInput& run, const Answers& answers) {
  const auto logits = at_position(run);
  const auto of = of_answers(logits, answers, run);
  const auto best = of.values.masked_fill(of.is_answer.logical_not(), -kInfinity).amax(1, true);  // [row, 1]
  return token_ranks(best, logits).squeeze(1);
}

/// A metric of answers at one position.
Metric of_answer(const char* name, Answers answer, Position position,
                 at::Tensor (*score)(const MetricInput&, const Answers&)) {
  return Metric({.name = name,
                 .function = [score](const MetricInput& run) { return score(run, run.answers[0]); },
                 .positions = {std::move(position)},
                 .reads_answers_only = score == &mean_logit,
                 .differentiable = score != &rank_of,
                 .answers = {std::move(answer)}});
}

/// [row, position] to the mean over the positions that are not padding, [row].
at::Tensor mean_of_real(const at::Tensor& values, const MetricInput& run) {
  if (!run.real.defined()) return values.mean(1);
  const auto real = to_device(run.real, values.device());
  return values.masked_fill(real.logical_not(), 0.0).sum(1) / real.sum(1);
}

/// p (log p - log q) summed over the vocabulary; a token with probability 0 adds nothing.
at::Tensor divergence(const at::Tensor& log_p, const at::Tensor& log_q) {
  return (log_p.exp() * (log_p - log_q)).masked_fill(log_p == -kInfinity, 0.0).sum(-1);
}

/// A comparison of the next token's log-probabilities with those of a reference run.
Metric from_reference(const char* name, const at::Tensor& reference, std::vector<Position> positions,
                      at::Tensor (*compare)(const at::Tensor& log_reference, const at::Tensor& log_run)) {
  if (!reference.defined() || reference.dim() != 3) {
    throw ShapeError(
        name, fmt::format("the reference is the logits of another run; expected [row, position, "
                          "vocab], got {}; logits_at gives them",
                          reference.defined() ? shape_text(reference.sizes()) : "an undefined tensor"));
  }
  const auto log_reference = at::log_softmax(wide(reference.detach()), -1);
  return Metric({.name = name,
                 .function =
                     [=](const MetricInput& run) {
                       auto expected = log_reference;
                       if (expected.size(0) != 1 && !run.rows.empty()) {
                         const auto last = *std::max_element(run.rows.begin(), run.rows.end());
                         if (last < expected.size(0)) {
                           expected = expected.index_select(0, to_device(run.rows, expected.device()));
                         }
                       }
                       const auto log_run = at::log_softmax(wide(run.logits), -1);
                       if ((expected.size(0) != 1 && expected.size(0) != log_run.size(0)) ||
                           expected.size(1) != log_run.size(1) || expected.size(2) != log_run.size(2)) {
                         throw ShapeError(
                             name,
                             fmt::format("the reference does not fit the run; expected logits "
                                         "{}, or of one row, got {}",
                                         shape_text(log_run.sizes()), shape_text(log_reference.sizes())));
                       }
                       expected = expected.to(log_run.options());
                       return mean_of_real(compare(expected, log_run), run);
                     },
                 .positions = std::move(positions),
                 .minimum = 0.0,
                 .rows = reference.size(0) == 1 ? 0 : reference.size(0)});
}

/// The value [row, pos, ...] of an activation at each row's column `position`, [row, ...].
at::Tensor at_column(const ActivationName& name, const at::Tensor& value, const MetricInput& run,
                     std::int64_t position) {
  return columns_like(run.cache, name, value,
                      {.columns = run.columns.narrow(1, position, 1), .real = {}, .axis = {}})
      .squeeze(1);
}

}  // namespace

Metric logit(Answers answer, Position position) {
  return of_answer("logit", std::move(answer), std::move(position), &mean_logit);
}

Metric logit_difference(Answers answer, Answers against, Position position) {
  return Metric({.name = "logit difference",
                 .function =
                     [](const MetricInput& run) {
                       return mean_logit(run, run.answers[0]) - mean_logit(run, run.answers[1]);
                     },
                 .positions = {std::move(position)},
                 .reads_answers_only = true,
                 .answers = {std::move(answer), std::move(against)}});
}

Metric probability(Answers answer, Position position) {
  return of_answer(
      "probability", std::move(answer), std::move(position),
      [](const MetricInput& run, const Answers& answers) { return log_share(run, answers).exp(); });
}

Metric log_probability(Answers answer, Position position) {
  return of_answer("log-probability", std::move(answer), std::move(position), &log_share);
}

Metric rank(Answers answer, Position position) {
  return of_answer("rank", std::move(answer), std::move(position), &rank_of);
}

Metric top1(Answers answer, Position position) {
  return Metric({.name = "top-1",
                 .function =
                     [](const MetricInput& run) {
                       const auto ranks = rank_of(run, run.answers[0]);
                       return at::where(ranks.isnan(), ranks, ranks == 0);
                     },
                 .positions = {std::move(position)},
                 .differentiable = false,
                 .answers = {std::move(answer)}});
}

Metric loss() {
  return Metric(
      {.name = "loss",
       .function =
           [](const MetricInput& run) {
             if (!run.tokens.defined()) {
               throw ShapeError("loss",
                                "the tokens that are predicted are not known; expected a run "
                                "of token ids (the metric's score() or on())");
             }
             // Padding is not predicted.
             const auto tokens =
                 run.real.defined() ? run.tokens.masked_fill(run.real.logical_not(), 0) : run.tokens;
             const auto real = run.real.defined() ? to_device(run.real, run.logits.device()) : run.real;
             const auto losses = next_token_loss(run.logits, tokens, real, LossReduction::per_token);
             const auto n = losses.size(1);
             if (!real.defined()) return losses.mean(1);
             const auto counted = real.narrow(1, 0, n).logical_and(real.narrow(1, 1, n));
             return losses.sum(1) / counted.sum(1);
           },
       .positions = {}});
}

Metric kl_divergence(at::Tensor reference, std::vector<Position> positions) {
  return from_reference("KL divergence", reference, std::move(positions), &divergence);
}

Metric js_divergence(at::Tensor reference, std::vector<Position> positions) {
  return from_reference("JS divergence", reference, std::move(positions),
                        [](const at::Tensor& log_p, const at::Tensor& log_q) {
                          const auto log_mean = at::logaddexp(log_p, log_q) - std::log(2.0);
                          return (divergence(log_p, log_mean) + divergence(log_q, log_mean)) / 2;
                        });
}

Metric attention(const Address& head, Position query, Position key) {
  return Metric(
      {.name = fmt::format("attention of {} from {} to {}", head.to_string(), query.label(), key.label()),
       .function =
           [head](const MetricInput& run) {
             const auto pattern = run.cache[head];
             if (pattern.dim() != 3) {
               throw HookError(
                   head.to_string(),
                   fmt::format("this is not the pattern of one head; expected [row, query, "
                               "key], got {}; name one head, as in blocks.0.attn.hook_pattern[head=1]",
                               shape_text(pattern.sizes())));
             }
             const auto of_query = at_column(head.name(), pattern, run, 0);  // [row, key]
             const auto key = run.columns.select(1, 1).unsqueeze(1).to(of_query.device());
             return of_query.gather(1, key).squeeze(1);
           },
       .positions = {std::move(query), std::move(key)},
       .activations = Selection(head.name()),
       .reads_logits = false});
}

Metric projection(const Address& activation, at::Tensor direction, Position position) {
  return Metric({.name = fmt::format("projection of {}", activation.to_string()),
                 .function =
                     [activation, direction = direction.detach()](const MetricInput& run) {
                       const auto all = run.cache[activation];  // [row, pos, d]
                       const bool vectors = all.dim() == 3;
                       const auto value = vectors ? at_column(activation.name(), all, run, 0) : all;
                       if (!vectors || direction.dim() != 1 || value.size(1) != direction.size(0)) {
                         throw ShapeError(
                             activation.to_string(),
                             fmt::format("the direction does not fit the activation; expected [{}], "
                                         "got {}",
                                         value.size(-1), shape_text(direction.sizes())));
                       }
                       return value.matmul(direction.to(value.options()));
                     },
                 .positions = {std::move(position)},
                 .activations = Selection(activation.name()),
                 .reads_logits = false});
}

}  // namespace hooked
