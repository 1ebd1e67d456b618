#include "analysis/stream/logit_reading.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/final_stage.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"
#include "hooks/norm_points.h"

namespace hooked {
namespace {

void require_linear(const ModelConfig& config, const char* where) {
  if (!config.has_unembedding()) {
    throw HookError(where,
                    "this model has no unembedding and so no logits; expected a model with one; "
                    "residual_parts takes its stream apart");
  }
  if (config.has_mlm_head()) {
    throw HookError(where,
                    "the logits are read through a masked-LM head, whose activation no sum of parts passes; "
                    "expected a model without mlm_head; residual_parts takes the stream before it apart");
  }
}

/// The mean over each row's answers, which index the last axis of `by_token` [.., vocab]: [row, ..].
at::Tensor at_answers(const at::Tensor& by_token, const Answers& answers, std::int64_t rows) {
  const auto of_row = [&](std::int64_t row) {
    const auto ids = to_device(answers.of_row(row), by_token.device());
    return by_token.index_select(-1, ids).to(at::kCPU, at::kDouble).mean(-1);
  };
  std::vector<at::Tensor> each;
  for (std::int64_t row = 0; row < rows; ++row)
    each.push_back(answers.rows() == 0 && row > 0 ? each.front() : of_row(row));
  return at::stack(each);
}

/// A number for each token of the vocabulary, [.., vocab], as the logit or the difference: [row, ..].
class AnswersOfRun {
 public:
  AnswersOfRun(const ReadLogit& logit, const RunReading& run)
      : rows_(run.columns.rows()), answer_(logit.answer.in(run.model)) {
    const auto vocab = run.model.config().d_vocab_out();
    answer_.require_fit(rows_, vocab, "answer");
    if (!logit.against) return;
    against_ = logit.against->in(run.model);
    against_->require_fit(rows_, vocab, "against");
  }

  at::Tensor operator()(const at::Tensor& by_token) const {
    const auto answer = at_answers(by_token, answer_, rows_);
    return against_ ? answer - at_answers(by_token, *against_, rows_) : answer;
  }

 private:
  std::int64_t rows_;
  Answers answer_;
  std::optional<Answers> against_;
};

/// The logit (difference) itself, [row, pos], as the cache shows it nearest to the end of the run.
at::Tensor shown_logit(const ReadLogit& logit, const RunReading& run) {
  const AnswersOfRun difference(logit, run);
  const auto [logits, unembedded] = shown_end(run);
  if (logits.defined()) return difference(logits).diagonal(0, 0, 1).t();  // of answers by row, each row's own
  if (!unembedded.defined()) return {};
  const auto scale = run.model.config().unembedding->scale;
  const auto column = difference(run.model.weights().W_U()) * scale;             // [row, d_model]
  const auto bias = difference(run.model.weights().b_U()).unsqueeze(1) * scale;  // [row, 1]
  return (unembedded * column.unsqueeze(1)).sum(-1) + bias;
}

}  // namespace

const char* unit_of_logits(const ModelConfig& config) {
  return config.logits_centred() ? "logits (centred)" : "logits";
}

ShownEnd shown_end(const RunReading& run) {
  const auto& config = run.model.config();
  // A run may have computed only the logits of a few tokens.
  const auto logits = columns_if_kept(run.cache, act::unembed_out, run.columns);
  if (logits && logits->size(-1) == config.d_vocab_out()) return {.logits = *logits, .unembedded = {}};
  if (const auto x = columns_if_kept(run.cache, act::unembed_in, run.columns))
    return {.logits = {}, .unembedded = x->to(at::kCPU, at::kDouble)};
  if (config.final_norm == NormKind::none) return {};
  const auto x = columns_if_kept(run.cache, Address(final_norm_of(config)), run.columns);
  if (!x) return {};
  const auto affine = final_affine(run.model);
  return {.logits = {}, .unembedded = x->to(at::kCPU, at::kDouble) * affine.weight + affine.bias};
}

LogitReading logit_reading(const ReadLogit& logit, const RunReading& run) {
  const auto& config = run.model.config();
  require_linear(config, logit.where);
  const auto rows = run.columns.rows();
  const AnswersOfRun difference(logit, run);
  const auto weights = run.model.weights();
  const auto scale = config.unembedding->scale;
  const auto affine = final_affine(run.model);
  const auto column = difference(weights.W_U()) * scale;  // [row, d_model]
  LogitReading reading{
      .directions = column.view({rows, 1, 1, -1}).expand({-1, run.columns.positions(), -1, -1}),
      .norm_bias = column.matmul(affine.bias).unsqueeze(1),
      .unembed_bias = difference(weights.b_U()).unsqueeze(1) * scale,
      .unit = logit.against ? "logits" : unit_of_logits(config)};
  if (config.final_norm == NormKind::none) {
    reading.directions = reading.directions * affine.weight;
  } else {
    const FrozenNorm norm{.centres = config.final_norm == NormKind::layer_norm,
                          .scale = run(scale_of(final_norm_of(config))),
                          .weight = affine.weight};
    reading.directions = norm.before(reading.directions);
  }
  return reading;
}

at::Tensor behind_stream(const ReadLogit& logit, const LogitReading& reading, const RunReading& run) {
  const auto stream = run(end_of_stream(run.model.config()));
  const auto read = at::einsum("rpm,rpnm->rp", {stream, reading.directions});
  const auto shown = shown_logit(logit, run);
  return shown.defined() ? shown - read - reading.norm_bias - reading.unembed_bias : at::zeros_like(read);
}

}  // namespace hooked
