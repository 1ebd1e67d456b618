#include "hooked/analysis/logit_lens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "analysis/cache_reading.h"
#include "analysis/final_stage.h"
#include "analysis/stream_path.h"
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
  if (options.maps && (options.parts || !config.processing.empty())) {
    throw HookError(kLogitLens,
                    options.parts
                        ? "maps read the stream, not parts; expected `maps` without `parts`"
                        : "maps are of the stream as the published weights make it, and this model's "
                          "weights are processed; load it with WeightProcessing::none()");
  }
  if (options.maps && !options.maps->by_depth.empty() &&
      options.maps->by_depth.rbegin()->first > config.n_layers) {
    throw ShapeError(kLogitLens,
                     fmt::format("the lens has a map of the stream behind {} blocks; expected one of "
                                 "a model with {}",
                                 options.maps->by_depth.rbegin()->first, config.n_layers));
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
  at::Tensor logits, probabilities, ranks;            ///< [residual, token] of the tokens asked for
  at::Tensor top_ids, top_logits, top_probabilities;  ///< [residual, rank]
};

/// How many of all logits [residual, vocab] are larger than each chosen one [residual, token].
at::Tensor ranks_of(const at::Tensor& chosen, const at::Tensor& all) {
  auto ranks = at::zeros_like(chosen);
  for (std::int64_t token = 0; token < chosen.size(1); ++token)
    ranks.select(1, token).copy_(all.gt(chosen.narrow(1, token, 1)).sum(1));
  return ranks;
}

/// `residuals` [residual, d_model]; the logits of a few of them at a time.
Reading read_point(const HookedTransformer& model, const at::Tensor& residuals,
                   const LogitLensOptions& options) {
  const auto vocab = model.config().d_vocab_out();
  const auto at_once = std::max<std::int64_t>(1, kNumbersAtOnce / vocab);
  const auto tokens = at::tensor(options.tokens, at::kLong);
  std::vector<at::Tensor> logits, probabilities, ranks, ids, top_logits, top_probabilities;
  for (std::int64_t begin = 0; begin < residuals.size(0); begin += at_once) {
    const auto some =
        logits_of_residuals(model, residuals.slice(0, begin, begin + at_once));  // [some, vocab]
    const auto shares = at::softmax(some, -1);
    auto [best, best_ids] = at::topk(some, std::min(options.top_k, vocab));
    logits.push_back(some.index_select(1, tokens));
    ranks.push_back(ranks_of(logits.back(), some));
    probabilities.push_back(shares.index_select(1, tokens));
    top_probabilities.push_back(shares.gather(1, best_ids));
    top_logits.push_back(std::move(best));
    ids.push_back(std::move(best_ids));
  }
  return {at::cat(logits), at::cat(probabilities), at::cat(ranks),
          at::cat(ids),    at::cat(top_logits),    at::cat(top_probabilities)};
}

/// What is read: places on the axis `point` and their vectors [row, position, d_model].
struct ReadPoints {
  GridAxis axis{.name = "point", .labels = {}};
  std::vector<at::Tensor> vectors;
};

/// The points of the stream. `depth` blocks have run before a point; -1 between sublayers.
class StreamPoints {
 public:
  StreamPoints(const ActivationCache& cache, const RowColumns& columns, const LogitLensOptions& options,
               std::int64_t n_layers)
      : cache_(cache), columns_(columns), options_(options), n_layers_(n_layers) {}

  void add(const Address& address, std::int64_t depth) {
    const auto& entry = cache_.entry(address.name());
    auto x = read_columns(cache_, address, columns_);
    if (options_.maps && depth != n_layers_) {
      const auto map = options_.maps->by_depth.find(depth);
      if (map == options_.maps->by_depth.end()) return;
      if (map->second.matrix.size(1) != x.size(-1)) {
        throw ShapeError(kLogitLens, fmt::format("the lens has maps of width {}; expected the model's {}",
                                                 map->second.matrix.size(1), x.size(-1)));
      }
      x = map->second(x.to(at::kCPU, at::kDouble)).to(x.device(), x.scalar_type());
    }
    points_.axis.labels.push_back(fmt::format("{} {}", row(entry.name.site).word, entry.name.layer));
    points_.axis.places.emplace_back(entry.name);
    points_.vectors.push_back(std::move(x));
  }
  ReadPoints take() && { return std::move(points_); }

 private:
  const ActivationCache& cache_;
  const RowColumns& columns_;
  const LogitLensOptions& options_;
  std::int64_t n_layers_;
  ReadPoints points_;
};

ReadPoints points_of_stream(const ModelConfig& config, const ActivationCache& cache,
                            const RowColumns& columns, const LogitLensOptions& options) {
  StreamPoints points(cache, columns, options, config.n_layers);
  points.add(act::resid_pre(0), 0);
  const bool between = options.mid && config.has_mlp() && !config.parallel() && !options.maps;
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    if (between) points.add(act::resid_mid(layer), -1);
    if (between && config.has_encoder()) points.add(act::resid_mid_cross(layer), -1);
    points.add(act::resid_post(layer), layer + 1);
  }
  return std::move(points).take();
}

/// What each part wrote, in the model's dtype.
ReadPoints points_of_parts(const RunReading& run, Grain grain) {
  const auto end = end_of_stream(run.model.config());
  auto parts = vectors_along(path_to(end, {.grain = grain}, run), run(end));
  ReadPoints points{.axis = std::move(parts.axis), .vectors = {}};
  points.axis.name = "point";
  // By its own size a remainder of rounding would say as much as any part.
  points.axis.labels.pop_back();
  points.axis.places.pop_back();
  for (const auto& vectors : parts.values.slice(0, 0, -1).unbind(0))
    points.vectors.push_back(vectors.to(run.model.device(), run.model.dtype()));
  return points;
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
  const auto columns = columns_of(cache, act::resid_pre(0), options.positions);
  const auto points = options.parts ? points_of_parts({model, cache, columns}, *options.parts)
                                    : points_of_stream(model.config(), cache, columns, options);
  std::vector<Reading> readings;
  for (const auto& vectors : points.vectors)
    readings.push_back(read_point(model, vectors.flatten(0, 1), options));

  GridAxis tokens{.name = "token", .labels = pieces_of(model, at::tensor(options.tokens, at::kLong))};
  const std::vector<GridAxis> axes{numbered_axis("row", columns.rows()), std::move(tokens), points.axis,
                                   columns.axis};
  LogitLens lens{
      .logits = grid_of(readings, &Reading::logits, columns, axes, {.title = "Logit lens", .unit = "logits"}),
      .probabilities = grid_of(readings, &Reading::probabilities, columns, axes,
                               {.title = "Logit lens", .unit = "probability"}),
      .ranks = grid_of(readings, &Reading::ranks, columns, axes, {.title = "Logit lens", .unit = "rank"}),
      .top = {}};
  for (std::int64_t i = 0; i < columns.rows() * columns.positions(); ++i) {
    const auto row = i / columns.positions(), position = i % columns.positions();
    if (columns.real.defined() && !columns.real[row][position].item<bool>()) continue;
    for (std::size_t point = 0; point < readings.size(); ++point) {
      const auto& place = points.axis.places[point];
      lens.top.push_back({.name = place ? place->name() : ActivationName(),
                          .row = row,
                          .column = columns.columns[row][position].item<std::int64_t>(),
                          .predictions = predictions_of(model, readings[point], i),
                          .part = options.parts ? points.axis.labels[point] : std::string()});
    }
  }
  return lens;
}

std::ostream& operator<<(std::ostream& out, const LogitLensRow& row) {
  out << fmt::format("{:<26}", row.part.empty() ? row.name.to_string() : row.part);
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
