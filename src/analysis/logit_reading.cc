#include "analysis/logit_reading.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include "analysis/final_stage.h"
#include "core/to_device.h"
#include "hooked/core/error.h"

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

}  // namespace

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

LogitReading logit_reading(const ReadLogit& logit, const RunReading& run) {
  const auto& config = run.model.config();
  require_linear(config, logit.where);
  const auto rows = run.columns.rows();
  logit.answer.require_fit(rows, config.d_vocab_out(), "answer");
  if (logit.against) logit.against->require_fit(rows, config.d_vocab_out(), "against");
  const auto difference = [&](const at::Tensor& by_token) {  // [.., vocab] to [row, ..]
    const auto answer = at_answers(by_token, logit.answer, rows);
    return logit.against ? answer - at_answers(by_token, *logit.against, rows) : answer;
  };
  const auto weights = run.model.weights();
  const auto scale = config.unembedding->scale;
  const auto affine = final_affine(run.model);
  const auto column = difference(weights.W_U()) * scale;  // [row, d_model]
  LogitReading reading{
      .directions = column.view({rows, 1, 1, -1}).expand({-1, run.columns.positions(), -1, -1}),
      .norm_bias = column.matmul(affine.bias).unsqueeze(1),
      .unembed_bias = difference(weights.b_U()).unsqueeze(1) * scale};
  if (config.final_norm == NormKind::none) {
    reading.directions = reading.directions * affine.weight;
  } else {
    const FrozenNorm norm{.centres = config.final_norm == NormKind::layer_norm,
                          .scale = run(final_norm_of(config).scale),
                          .weight = affine.weight};
    reading.directions = norm.before(reading.directions);
  }
  return reading;
}

}  // namespace hooked
