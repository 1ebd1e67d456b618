#include "hooked/analysis/logit_lens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
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

/// What is read: places on the axis `point`, and what is kept of their logits, one after the other.
class ReadPoints {
 public:
  ReadPoints(const HookedTransformer& model, const LogitLensOptions& options)
      : model_(model), options_(options), tokens_(at::tensor(options.tokens, at::kLong)) {}

  /// Vectors [point, row, position, d_model], whatever their dtype and device. The logits of a bounded number
  /// of them at a time, in one run each.
  void read(const at::Tensor& vectors) {
    const auto vocab = model_.config().d_vocab_out();
    const auto at_once = std::max<std::int64_t>(1, kNumbersAtOnce / vocab);
    const auto residuals = vectors.flatten(0, 2);
    for (std::int64_t begin = 0; begin < residuals.size(0); begin += at_once) {
      const auto some = logits_of_residuals(
          model_, residuals.slice(0, begin, begin + at_once).to(model_.device(), model_.dtype()));
      const auto shares = at::softmax(some, -1);  // [some, vocab]
      auto [best, best_ids] = at::topk(some, std::min(options_.top_k, vocab));
      logits_.push_back(some.index_select(1, tokens_));
      ranks_.push_back(ranks_of(logits_.back(), some));
      probabilities_.push_back(shares.index_select(1, tokens_));
      top_probabilities_.push_back(shares.gather(1, best_ids));
      top_logits_.push_back(std::move(best));
      ids_.push_back(std::move(best_ids));
    }
  }

  Reading reading() const {
    return {at::cat(logits_), at::cat(probabilities_), at::cat(ranks_),
            at::cat(ids_),    at::cat(top_logits_),    at::cat(top_probabilities_)};
  }

  GridAxis axis{.name = "point", .labels = {}};

 private:
  const HookedTransformer& model_;
  const LogitLensOptions& options_;
  at::Tensor tokens_;
  std::vector<at::Tensor> logits_, probabilities_, ranks_, ids_, top_logits_, top_probabilities_;
};

/// The points of the stream. `depth` blocks have run before a point; -1 between sublayers.
class StreamPoints {
 public:
  StreamPoints(const RunReading& run, const LogitLensOptions& options, ReadPoints& points)
      : run_(run), options_(options), points_(points) {}

  void add(const Address& address, std::int64_t depth) {
    const auto& entry = run_.cache.entry(address.name());
    auto x = read_columns(run_.cache, address, run_.columns);
    if (options_.maps && depth != run_.model.config().n_layers) {
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
    points_.read(x.unsqueeze(0));
  }

 private:
  const RunReading& run_;
  const LogitLensOptions& options_;
  ReadPoints& points_;
};

void read_stream(const RunReading& run, const LogitLensOptions& options, ReadPoints& read) {
  const auto& config = run.model.config();
  StreamPoints points(run, options, read);
  points.add(act::resid_pre(0), 0);
  const bool between = options.mid && config.has_mlp() && !config.parallel() && !options.maps;
  for (std::int32_t layer = 0; layer < config.n_layers; ++layer) {
    if (between) points.add(act::resid_mid(layer), -1);
    if (between && config.has_encoder()) points.add(act::resid_mid_cross(layer), -1);
    points.add(act::resid_post(layer), layer + 1);
  }
}

/// What each part wrote, one module after the other: all neurons of a model at once would be far more than
/// the model. (By its own size a remainder of rounding would say as much as any part, so there is none.)
void read_parts(const RunReading& run, Grain grain, ReadPoints& read) {
  const auto path = path_to(end_of_stream(run.model.config()), {.grain = grain}, run);
  walk_forward(path, [&](const Writing& writing, const at::Tensor& vectors) {
    append(read.axis, writing);
    read.read(vectors);
  });
}

std::vector<std::string> pieces_of(const HookedTransformer& model, const at::Tensor& ids) {
  if (model.has_tokenizer() && ids.numel() > 0) return model.to_str_tokens(ids);
  std::vector<std::string> pieces;
  for (std::int64_t i = 0; i < ids.size(0); ++i)
    pieces.push_back(std::to_string(ids[i].item<std::int64_t>()));
  return pieces;
}

/// The likeliest tokens of residual `i`.
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

/// [point * row * position, token] as a grid [row, token, point, pos].
Grid grid_of(const at::Tensor& values, const RowColumns& columns, std::vector<GridAxis> axes,
             const Grid::Description& description) {
  const auto points = values.size(0) / (columns.rows() * columns.positions());
  const auto by_point = values.view({points, columns.rows(), columns.positions(), values.size(1)});
  return Grid(without_padding(by_point.permute({1, 3, 0, 2}), columns), std::move(axes), description);
}

}  // namespace

LogitLens logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                     const LogitLensOptions& options) {
  require_readable(model.config(), options);
  const RunReading run{model, cache, columns_of(cache, act::resid_pre(0), options.positions)};
  const auto& columns = run.columns;
  ReadPoints points(model, options);
  if (options.parts) {
    read_parts(run, *options.parts, points);
  } else {
    read_stream(run, options, points);
  }
  const Reading reading = points.reading();

  GridAxis tokens{.name = "token", .labels = pieces_of(model, at::tensor(options.tokens, at::kLong))};
  const std::vector<GridAxis> axes{numbered_axis("row", columns.rows()), std::move(tokens), points.axis,
                                   columns.axis};
  LogitLens lens{.logits = grid_of(reading.logits, columns, axes, {.title = "Logit lens", .unit = "logits"}),
                 .probabilities = grid_of(reading.probabilities, columns, axes,
                                          {.title = "Logit lens", .unit = "probability"}),
                 .ranks = grid_of(reading.ranks, columns, axes, {.title = "Logit lens", .unit = "rank"}),
                 .top = {}};
  const auto places = columns.rows() * columns.positions();
  for (std::int64_t i = 0; i < places; ++i) {
    const auto row = i / columns.positions(), position = i % columns.positions();
    if (columns.real.defined() && !columns.real[row][position].item<bool>()) continue;
    for (std::size_t point = 0; point < points.axis.labels.size(); ++point) {
      const auto& place = points.axis.places[point];
      lens.top.push_back(
          {.name = place ? place->name() : ActivationName(),
           .row = row,
           .column = columns.columns[row][position].item<std::int64_t>(),
           .predictions = predictions_of(model, reading, static_cast<std::int64_t>(point) * places + i),
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
