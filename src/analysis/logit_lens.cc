#include "hooked/analysis/logit_lens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "analysis/cache_reading.h"
#include "analysis/final_stage.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

constexpr const char* kLogitLens = "logit_lens";
// What the logits of a point may hold at a time: 64 MiB in float64.
constexpr std::int64_t kNumbersAtOnce = std::int64_t{1} << 23;

void require_readable(const ModelConfig& config, const LogitLensOptions& options) {
  if (!config.has_unembedding()) {
    throw HookError(kLogitLens, "this model has no unembedding and so no logits; expected a model with one");
  }
  if (config.norms_stream()) {
    throw HookError(kLogitLens,
                    "this model's blocks norm the stream itself (norm_place post or stream), so no point of "
                    "it can be read as the last one; expected another norm_place");
  }
  if (options.top_k < 1) {
    throw HookError(kLogitLens, fmt::format("top_k is {}; expected at least 1", options.top_k));
  }
  for (const auto token : options.tokens) {
    if (token >= 0 && token < config.d_vocab_out()) continue;
    throw ShapeError(kLogitLens, fmt::format("token id {} is outside the vocabulary; expected 0 to {}", token,
                                             config.d_vocab_out() - 1));
  }
}

/// What is kept of the logits of some residuals.
struct Reading {
  at::Tensor logits, probabilities;                   ///< [residual, token] of the tokens asked for
  at::Tensor top_ids, top_logits, top_probabilities;  ///< [residual, rank]
};

/// `residuals` [residual, d_model]; the logits of a few of them at a time.
Reading read_point(const HookedTransformer& model, const at::Tensor& residuals,
                   const LogitLensOptions& options) {
  const auto vocab = model.config().d_vocab_out();
  const auto at_once = std::max<std::int64_t>(1, kNumbersAtOnce / vocab);
  const auto tokens = at::tensor(options.tokens, at::kLong);
  std::vector<at::Tensor> logits, probabilities, ids, top_logits, top_probabilities;
  for (std::int64_t begin = 0; begin < residuals.size(0); begin += at_once) {
    const auto some =
        logits_of_residuals(model, residuals.slice(0, begin, begin + at_once));  // [some, vocab]
    const auto shares = at::softmax(some, -1);
    auto [best, best_ids] = at::topk(some, std::min(options.top_k, vocab));
    logits.push_back(some.index_select(1, tokens));
    probabilities.push_back(shares.index_select(1, tokens));
    top_probabilities.push_back(shares.gather(1, best_ids));
    top_logits.push_back(std::move(best));
    ids.push_back(std::move(best_ids));
  }
  return {at::cat(logits), at::cat(probabilities), at::cat(ids), at::cat(top_logits),
          at::cat(top_probabilities)};
}

/// The points that are read, with their full names.
GridAxis point_axis(const ActivationCache& cache, const ModelConfig& config) {
  GridAxis axis{.name = "point", .labels = {"resid_pre 0"}};
  axis.places.emplace_back(cache.entry(Address(act::resid_pre(0)).name()).name);
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    axis.labels.push_back(fmt::format("resid_post {}", layer));
    axis.places.emplace_back(cache.entry(Address(act::resid_post(layer)).name()).name);
  }
  return axis;
}

std::vector<std::string> pieces_of(const HookedTransformer& model, const at::Tensor& ids) {
  if (model.has_tokenizer() && ids.numel() > 0) return model.to_str_tokens(ids);
  std::vector<std::string> pieces;
  for (std::int64_t i = 0; i < ids.size(0); ++i)
    pieces.push_back(std::to_string(ids[i].item<std::int64_t>()));
  return pieces;
}

/// The likeliest tokens of residual `i` of a point.
std::vector<LogitLensRow::Prediction> predictions_of(const HookedTransformer& model, const Reading& reading,
                                                     std::int64_t i) {
  const auto ids = reading.top_ids[i];
  const auto pieces = pieces_of(model, ids);
  std::vector<LogitLensRow::Prediction> predictions;
  for (std::int64_t k = 0; k < ids.size(0); ++k) {
    predictions.push_back({.token = ids[k].item<std::int64_t>(),
                           .piece = pieces[static_cast<std::size_t>(k)],
                           .logit = reading.top_logits[i][k].item<double>(),
                           .probability = reading.top_probabilities[i][k].item<double>()});
  }
  return predictions;
}

/// [point][row * position, token] as a grid.
Grid grid_of(const std::vector<Reading>& points, at::Tensor Reading::*value, const RowColumns& columns,
             std::vector<GridAxis> axes, const Grid::Description& description) {
  std::vector<at::Tensor> by_point;
  for (const auto& reading : points)
    by_point.push_back((reading.*value).view({columns.rows(), columns.positions(), -1}).transpose(1, 2));
  return Grid(without_padding(at::stack(by_point, 2), columns), std::move(axes), description);
}

}  // namespace

LogitLens logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                     const LogitLensOptions& options) {
  require_readable(model.config(), options);
  const GridAxis points = point_axis(cache, model.config());
  const auto columns = columns_of(cache, points.places.front().value(), options.positions);
  std::vector<Reading> readings;
  for (const auto& point : points.places)
    readings.push_back(read_point(model, read_columns(cache, point.value(), columns).flatten(0, 1), options));

  GridAxis tokens{.name = "token", .labels = pieces_of(model, at::tensor(options.tokens, at::kLong))};
  const std::vector<GridAxis> axes{numbered_axis("row", columns.rows()), std::move(tokens), points,
                                   columns.axis};
  LogitLens lens{
      .logits = grid_of(readings, &Reading::logits, columns, axes, {.title = "Logit lens", .unit = "logits"}),
      .probabilities = grid_of(readings, &Reading::probabilities, columns, axes,
                               {.title = "Logit lens", .unit = "probability"}),
      .top = {}};
  for (std::int64_t i = 0; i < columns.rows() * columns.positions(); ++i) {
    const auto row = i / columns.positions(), position = i % columns.positions();
    if (columns.real.defined() && !columns.real[row][position].item<bool>()) continue;
    for (std::size_t point = 0; point < readings.size(); ++point) {
      lens.top.push_back({.name = points.places[point]->name(),
                          .row = row,
                          .column = columns.columns[row][position].item<std::int64_t>(),
                          .predictions = predictions_of(model, readings[point], i)});
    }
  }
  return lens;
}

std::ostream& operator<<(std::ostream& out, const LogitLensRow& row) {
  out << fmt::format("{:<26}", row.name.to_string());
  for (const auto& prediction : row.predictions) {
    out << fmt::format("  {:<12} {:5.1f} %", prediction.piece, 100 * prediction.probability);
  }
  return out;
}

std::ostream& operator<<(std::ostream& out, const LogitLens& lens) {
  const auto is_other = [](const LogitLensRow& a, const LogitLensRow& b) {
    return a.row != b.row || a.column != b.column;
  };
  const bool several = !lens.top.empty() && is_other(lens.top.front(), lens.top.back());
  for (std::size_t i = 0; i < lens.top.size(); ++i) {
    const auto& row = lens.top[i];
    if (several && (i == 0 || is_other(row, lens.top[i - 1])))
      out << fmt::format("row {}, pos {}\n", row.row, row.column);
    out << row << '\n';
  }
  return out;
}

}  // namespace hooked
