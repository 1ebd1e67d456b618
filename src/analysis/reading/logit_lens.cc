#include "hooked/analysis/logit_lens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/stream/final_stage.h"
#include "analysis/stream/logit_reading.h"
#include "analysis/stream/stream_path.h"
#include "analysis/values/numberless.h"
#include "analysis/work/obstacles.h"
#include "analysis/work/work_steps.h"
#include "core/number_text.h"
#include "core/token_ranks.h"
#include "hooked/analysis/answers.h"
#include "hooked/core/error.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

constexpr const char* kLogitLens = "logit_lens";
// The most logits of a point that are held at a time: 64 MiB in float64.
constexpr std::int64_t kNumbersAtOnce = std::int64_t{1} << 23;

void require_readable(const ModelConfig& config, const LogitLensOptions& options) {
  if (!config.has_unembedding()) {
    throw HookError(kLogitLens, "this model has no unembedding and so no logits; expected a model with one");
  }
  require_free_of(config, kLogitLens, obstacles::kLens);
  if (options.maps && (options.parts || !config.processing.empty())) {
    throw HookError(kLogitLens,
                    options.parts
                        ? "maps read the stream, not parts; expected `maps` without `parts`"
                        : "maps are of the stream as the published weights make it, and this model's "
                          "weights are processed; load it without weight processing");
  }
  if (options.maps && !options.maps->by_depth.empty() &&
      options.maps->by_depth.rbegin()->first > config.n_layers) {
    throw ShapeError(
        kLogitLens,
        fmt::format("the lens has a map of the stream after {} blocks; expected one of a model with {}",
                    options.maps->by_depth.rbegin()->first, config.n_layers));
  }
  if (options.maps && options.maps->target_depth.value_or(config.n_layers) != config.n_layers) {
    throw ShapeError(
        kLogitLens,
        fmt::format("the lens leads to the stream after {} blocks; expected the end of this model, after {}",
                    *options.maps->target_depth, config.n_layers));
  }
  if (options.top_k < 1) {
    throw HookError(kLogitLens, fmt::format("top_k is {}; expected at least 1", options.top_k));
  }
  if (options.tokens.empty()) return;
  Answers::any_of(options.tokens).require_fit(1, config.d_vocab_out(), kLogitLens);
}

/// What is kept of the logits of some residuals.
struct Reading {
  at::Tensor logits, probabilities, ranks;            ///< [residual, token] of the tokens asked for
  at::Tensor top_ids, top_logits, top_probabilities;  ///< [residual, rank]
};

/// Reads one place of the axis `point` after another, and keeps what is asked of their logits.
class ReadPoints {
 public:
  ReadPoints(const HookedTransformer& model, const LogitLensOptions& options, GridAxis points,
             const RowColumns& columns)
      : axis_(std::move(points)),
        total_(static_cast<std::int64_t>(axis_.labels.size()) * columns.rows() * columns.positions()),
        model_(model),
        options_(options),
        tokens_(at::tensor(options.tokens, at::kLong)),
        steps_(total_, options.progress) {}

  /// Vectors [point, row, position, d_model], of any dtype and device. A bounded number of them is unembedded
  /// at a time, in one run each. Returns false if the work is to end.
  bool read(const at::Tensor& vectors) {
    const auto vocab = model_.config().d_vocab_out();
    const auto at_once = std::max<std::int64_t>(1, kNumbersAtOnce / vocab);
    const auto residuals = vectors.flatten(0, 2);
    for (std::int64_t begin = 0; !ended_ && begin < residuals.size(0); begin += at_once) {
      const auto some = logits_of_residuals(
          model_,
          residuals.slice(0, begin, begin + at_once).to(model_.device(), model_.config().stream_dtype()));
      const auto shares = at::softmax(some, -1);  // [some, vocab]
      auto [best, best_ids] = at::topk(some, std::min(options_.top_k, vocab));
      logits_.push_back(some.index_select(1, tokens_));
      ranks_.push_back(token_ranks(logits_.back(), some));
      probabilities_.push_back(shares.index_select(1, tokens_));
      top_probabilities_.push_back(shares.gather(1, best_ids));
      top_logits_.push_back(std::move(best));
      ids_.push_back(std::move(best_ids));
      if (options_.parts) says_nothing_.push_back(residuals.slice(0, begin, begin + at_once).eq(0).all(-1));
      done_ += some.size(0);
      ended_ = !steps_.done(done_);
    }
    return !ended_;
  }

  const GridAxis& axis() const { return axis_; }
  /// The number of vectors that were read.
  std::int64_t done() const { return done_; }
  bool complete() const { return !ended_; }
  /// Bool [residual], of parts: those that wrote zeros, such as a bias that the model does not have. There is
  /// nothing to read in them.
  at::Tensor say_nothing() const {
    return says_nothing_.empty() ? at::zeros({done_}, at::kBool) : at::cat(says_nothing_).to(at::kCPU);
  }

  Reading reading() const {
    return {all_of(logits_), all_of(probabilities_), all_of(ranks_),
            at::cat(ids_),   at::cat(top_logits_),   at::cat(top_probabilities_)};
  }

 private:
  /// With NaN for what was not read.
  at::Tensor all_of(std::vector<at::Tensor> read) const {
    const auto& last = read.back();
    if (done_ < total_) read.push_back(numberless({total_ - done_, last.size(1)}, last.options()));
    return at::cat(read);
  }

  GridAxis axis_;
  std::int64_t total_;
  const HookedTransformer& model_;
  const LogitLensOptions& options_;
  at::Tensor tokens_;
  WorkSteps steps_;
  std::int64_t done_ = 0;
  bool ended_ = false;
  std::vector<at::Tensor> logits_, probabilities_, ranks_, ids_, top_logits_, top_probabilities_;
  std::vector<at::Tensor> says_nothing_;
};

/// A point of the stream that is read.
struct StreamPoint {
  ActivationName name;
  const LensMaps::Map* map;  ///< it is read through this; null: as it is
};

std::vector<StreamPoint> stream_points(const ModelConfig& config, const LogitLensOptions& options) {
  std::vector<StreamPoint> points;
  // `depth` blocks have run before it.
  const auto add = [&](const ActivationName& name, std::int64_t depth) {
    if (!options.maps || depth == config.n_layers) return points.push_back({name, nullptr});
    const auto map = options.maps->by_depth.find(depth);
    if (map == options.maps->by_depth.end()) return;
    if (map->second.matrix.size(1) != config.d_model) {
      throw ShapeError(kLogitLens, fmt::format("the lens has maps of width {}; expected the model's {}",
                                               map->second.matrix.size(1), config.d_model));
    }
    points.push_back({name, &map->second});
  };
  for (const StreamStep& step : stream_of(config)) {
    if (options.mid && !options.maps && step.shows_within_block()) points.push_back({step.point, nullptr});
    if (step.kind != StreamStep::Kind::show) continue;
    if (step.point.site == Site::resid_pre && step.point.layer == 0) add(step.point, 0);
    if (step.point.site == Site::resid_post) add(step.point, step.point.layer + 1);
  }
  return points;
}

ReadPoints read_stream(const RunReading& run, const LogitLensOptions& options) {
  const auto points = stream_points(run.model.config(), options);
  GridAxis axis{.name = "point", .labels = {}};
  for (const auto& point : points) {
    axis.labels.push_back(fmt::format("{} {}", row(point.name.site).word, point.name.layer));
    axis.places.emplace_back(run.cache.entry(point.name).name);  // throws for a missing one before any work
  }
  ReadPoints read(run.model, options, std::move(axis), run.columns);
  for (const auto& point : points) {
    auto x = read_columns(run.cache, Address(point.name), run.columns);
    if (point.map != nullptr) x = (*point.map)(x.to(at::kCPU, at::kDouble)).to(x.device(), x.scalar_type());
    if (!read.read(x.unsqueeze(0))) break;
  }
  return read;
}

/// What each part wrote, one module after another: all neurons of a model at once would be far larger than
/// the model. (With its own scale, a remainder of rounding would say as much as any part, so there is none.)
ReadPoints read_parts(const RunReading& run, const LogitLensOptions& options) {
  const auto path = path_to(end_of_stream(run.model.config()), {.grain = *options.parts}, run);
  GridAxis axis{.name = "point", .labels = {}};
  for (const auto& step : path) {
    for (const auto& writing : step.written) append(axis, writing);
  }
  ReadPoints read(run.model, options, std::move(axis), run.columns);
  walk_forward(path, [&](const Writing&, const at::Tensor& vectors) { return read.read(vectors); });
  return read;
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

/// The text of the token at a position of a row, if it is known.
std::string token_at(const RunReading& run, std::int64_t row, std::int64_t position) {
  const auto& tokens = run.cache.tokens();
  if (!run.model.has_tokenizer() || !tokens || !tokens->ids.defined()) return "";
  const std::int64_t column = run.columns.columns[row][position].item<std::int64_t>();
  return run.model.to_str_tokens(tokens->ids[row].slice(0, column - tokens->first).slice(0, 0, 1)).front();
}

}  // namespace

LogitLens logit_lens(const HookedTransformer& model, const ActivationCache& cache,
                     const LogitLensOptions& options) {
  require_readable(model.config(), options);
  const RunReading run = reading_of(model, cache, {act::resid_pre(0), options.positions});
  const auto& columns = run.columns;
  const ReadPoints points = options.parts ? read_parts(run, options) : read_stream(run, options);
  const Reading reading = points.reading();

  GridAxis tokens{.name = "token", .labels = pieces_of(model, at::tensor(options.tokens, at::kLong))};
  const std::vector<GridAxis> axes{numbered_axis("row", columns.rows()), std::move(tokens), points.axis(),
                                   columns.axis};
  LogitLens lens{.logits = grid_of(reading.logits, columns, axes,
                                   {.title = "Logit lens", .unit = unit_of_logits(model.config())}),
                 .probabilities = grid_of(reading.probabilities, columns, axes,
                                          {.title = "Logit lens", .unit = "probability"}),
                 .ranks = grid_of(reading.ranks, columns, axes, {.title = "Logit lens", .unit = "rank"}),
                 .top = {},
                 .complete = points.complete()};
  const auto places = columns.rows() * columns.positions();
  const at::Tensor say_nothing = points.say_nothing();
  for (std::int64_t i = 0; i < places; ++i) {
    const auto row = i / columns.positions(), position = i % columns.positions();
    if (columns.real.defined() && !columns.real[row][position].item<bool>()) continue;
    const std::string token = token_at(run, row, position);
    for (std::size_t point = 0; point < points.axis().labels.size(); ++point) {
      const auto number = static_cast<std::int64_t>(point) * places + i;
      if (number >= points.done()) break;
      if (say_nothing[number].item<bool>()) continue;
      const auto& place = points.axis().places[point];
      lens.top.push_back({.name = place ? place->name() : ActivationName(),
                          .row = row,
                          .column = columns.columns[row][position].item<std::int64_t>(),
                          .predictions = predictions_of(model, reading, number),
                          .part = options.parts ? points.axis().labels[point] : std::string(),
                          .token = token});
    }
  }
  return lens;
}

std::ostream& operator<<(std::ostream& out, const LogitLensRow& row) {
  out << fmt::format("{:<26}", row.part.empty() ? row.name.to_string() : row.part);
  for (const auto& prediction : row.predictions)
    out << fmt::format("  {:<12} {:>9}", prediction.piece, percent_text(prediction.probability));
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
      out << fmt::format("row {}, pos {}{}{}\n", row.row, row.column, row.token.empty() ? "" : " ",
                         row.token);
    out << row << '\n';
  }
  return out;
}

}  // namespace hooked
