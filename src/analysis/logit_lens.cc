#include "hooked/analysis/logit_lens.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "analysis/cache_reading.h"
#include "analysis/final_stage.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {

std::vector<LogitLensRow> logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                                     const LogitLensOptions& options) {
  const auto& config = model.config();
  if (!config.has_unembedding()) {
    throw HookError("logit_lens",
                    "this model has no unembedding and so no logits; expected a model with one");
  }
  if (config.norms_stream()) {
    throw HookError("logit_lens",
                    "this model's blocks norm the stream itself (norm_place post or stream), so no point of "
                    "it can be read as the last one; expected another norm_place");
  }
  if (options.top_k < 1) {
    throw HookError("logit_lens", fmt::format("top_k is {}; expected at least 1", options.top_k));
  }
  std::vector<Address> points{act::resid_pre(0)};
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) points.push_back(act::resid_post(layer));
  std::vector<at::Tensor> residuals;
  for (const auto& point : points)
    residuals.push_back(read_token(cache, point, {options.row, options.position}));

  const auto logits = logits_of_residuals(model, at::stack(residuals));  // [point, vocab]
  const auto probabilities = at::softmax(logits, -1);
  const auto [best, ids] = at::topk(logits, std::min(options.top_k, logits.size(1)));
  std::vector<LogitLensRow> rows;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto point = static_cast<std::int64_t>(i);
    LogitLensRow row{.name = cache.entry(points[i].name()).name, .predictions = {}};
    const auto row_ids = ids[point];
    const auto pieces = model.has_tokenizer() ? model.to_str_tokens(row_ids) : std::vector<std::string>();
    for (std::int64_t k = 0; k < row_ids.size(0); ++k) {
      const auto token = row_ids[k].item<std::int64_t>();
      row.predictions.push_back(
          {.token = token,
           .piece = pieces.empty() ? std::to_string(token) : pieces[static_cast<std::size_t>(k)],
           .logit = best[point][k].item<double>(),
           .probability = probabilities[point][token].item<double>()});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::ostream& operator<<(std::ostream& out, const LogitLensRow& row) {
  out << fmt::format("{:<26}", row.name.to_string());
  for (const auto& prediction : row.predictions) {
    out << fmt::format("  {:<12} {:5.1f} %", prediction.piece, 100 * prediction.probability);
  }
  return out;
}

}  // namespace hooked
