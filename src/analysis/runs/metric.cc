#include "hooked/analysis/metric.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "analysis/places/row_columns.h"
#include "core/id_list.h"
#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooks/ragged_rows.h"

namespace hooked {
namespace {

/// Distinct numbers, ascending; nothing: all.
using Numbers = std::optional<std::vector<std::int64_t>>;

// The score as the function gives it, checked.
at::Tensor checked_scores(const Metric& metric, const MetricInput& run, std::int64_t rows) {
  auto scores = metric.definition().function(run);
  if (scores.defined() && scores.dim() == 1 && scores.size(0) == rows) return scores;
  throw ShapeError(metric.name(),
                   fmt::format("a metric gives one number per row; expected shape [{}], got {}", rows,
                               scores.defined() ? shape_text(scores.sizes()) : "an undefined tensor"));
}

// A token that no vocabulary lacks and answers of any number of rows are checked when the metric meets a run.
void require_answers_fit(const Metric& metric, std::int64_t rows, const at::Tensor& logits) {
  for (const auto& answers : metric.definition().answers)
    answers.require_fit(rows, logits.size(2), metric.name());
}

void require_of_logits(const Metric& metric) {
  if (metric.definition().reads_logits && metric.definition().activations.empty()) return;
  throw HookError(
      metric.name(),
      "this metric reads activations; expected a metric of logits, or a request for gradients `of_run` with "
      "the metric of that input: metric.on(model, input)");
}

void require_gradient(const Metric& metric) {
  if (!metric.definition().differentiable) {
    throw HookError(metric.name(),
                    "this metric moves in steps, so its gradient is zero everywhere; expected one that does "
                    "not, such as logit_difference or log_probability");
  }
}

std::vector<std::int64_t> distinct(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<std::int64_t> counted(std::int64_t rows) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

at::Tensor as_rows(const at::Tensor& columns) {
  return columns.defined() && columns.dim() == 1 ? columns.unsqueeze(0) : columns;
}

/// Logits that a metric reads, on one axis of those that a run has.
struct ReadLogits {
  const char* what;  ///< column or token
  std::int64_t axis;
  const Numbers& wanted;    ///< nothing: all
  const Numbers& computed;  ///< nothing: `first` and what follows
  std::int64_t first;
};

at::Tensor those_of(const at::Tensor& logits, const ReadLogits& read, const std::string& metric) {
  const auto& [what, axis, wanted, computed, first] = read;
  if (wanted == computed) return logits;
  const auto refuse = [&](const std::string& lacks) {
    throw ShapeError(metric, fmt::format("the metric reads the logits of {}, which the run did not compute; "
                                         "run with metric.needs()",
                                         lacks));
  };
  if (!wanted) refuse(fmt::format("every {}", what));
  std::vector<std::int64_t> places = *wanted;
  if (computed) places = places_among(*wanted, *computed);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!computed) places[i] -= first;
    if (places[i] < 0 || places[i] >= logits.size(axis))
      refuse(fmt::format("{} {}", read.what, (*read.wanted)[i]));
  }
  return logits.index_select(axis, to_device(places, logits.device()));
}

Input with_tokens(const HookedTransformer& model, const Input& input) {
  return (input.text ? Input(model.to_tokens(*input.text), input) : input).with_decoder_start(model.config());
}

// The metric with ids in place of texts.
Metric with_ids(const Metric& metric, const HookedTransformer& model) {
  const auto ids = [&](const Answers& answers) { return answers.in(model); };
  std::vector<Answers> answers;
  std::ranges::transform(metric.definition().answers, std::back_inserter(answers), ids);
  if (answers == metric.definition().answers) return metric;
  Metric::Definition definition = metric.definition();
  definition.answers = std::move(answers);
  return Metric(std::move(definition));
}

}  // namespace

Metric::Metric(Definition definition)
    : definition_(std::make_shared<const Definition>(std::move(definition)), "metric") {
  if (definition_->reads_answers_only && (definition_->answers.empty() || !definition_->reads_logits)) {
    throw HookError(name(),
                    "the metric reads its answers' logits only, but has none; expected `answers`, and "
                    "`reads_logits`");
  }
}

at::Tensor Metric::operator()(const at::Tensor& logits) const {
  const auto n_positions = static_cast<std::int64_t>(definition_->positions.size());
  if (!logits.defined() || logits.dim() != 3 || (n_positions > 0 && logits.size(1) != n_positions)) {
    throw ShapeError(
        name(), fmt::format("the metric looks at {} positions; expected logits [row, {}, vocab], got {}; "
                            "the metric's score() runs the model as it wants it",
                            n_positions, n_positions,
                            logits.defined() ? shape_text(logits.sizes()) : "an undefined tensor"));
  }
  if (!definition_->reads_logits) {
    throw HookError(name(), "this metric reads activations; score a run with the metric's score() or on()");
  }
  require_answers_fit(*this, logits.size(0), logits);
  return checked_scores(*this,
                        {.logits = logits,
                         .logit_tokens = {},
                         .cache = {},
                         .columns = {},
                         .real = {},
                         .tokens = {},
                         .rows = counted(logits.size(0)),
                         .answers = definition_->answers},
                        logits.size(0));
}

Metric::operator LogitMetric() const {
  require_of_logits(*this);
  require_gradient(*this);
  std::vector<std::int64_t> columns;
  for (const auto& position : definition_->positions) {
    if (!position.is_last() && !position.column()) {
      throw HookError(
          name(), fmt::format("the place '{}' has a column for each row of one input; expected the metric of "
                              "that input: metric.on(model, input)",
                              position.label()));
    }
    columns.push_back(position.column().value_or(-1));
  }
  return {[metric = *this](const at::Tensor& logits) { return metric(logits).sum(); }, std::move(columns)};
}

BoundMetric Metric::on(const HookedTransformer& model, const Input& input) const {
  return BoundMetric(*this, model, with_tokens(model, input));
}

at::Tensor Metric::score(const HookedTransformer& model, const Input& input,
                         const RunOptions& options) const {
  const Input whole = with_tokens(model, input);
  const BoundMetric bound(*this, model, whole);
  return bound(model.run(whole, bound.needs(options)));
}

BoundMetric::BoundMetric(Metric metric, const HookedTransformer& model, const Input& input)
    : metric_(with_ids(metric, model)),
      vocabulary_(model.config().d_vocab_out()),
      rows_(counted(input.batch())) {
  if (metric_.definition().reads_logits && !model.config().has_unembedding()) {
    throw HookError(metric_.name(),
                    "this metric reads logits, and the model has no unembedding; expected a metric of "
                    "activations, or a model with one");
  }
  const std::string& fingerprint = metric_.definition().fingerprint;
  if (const auto identity = model.identity(); !fingerprint.empty() && fingerprint != identity->fingerprint) {
    throw HookError(
        metric_.name(),
        fmt::format("this metric was made for the model of fingerprint {}; expected that one, got {}; "
                    "make it for this model, or say that it is meant with assigned_to()",
                    fingerprint.substr(0, 8), identity->text()));
  }
  first_column_ = input.first_column();
  TokenColumns tokens{.first = first_column_, .end = first_column_ + input.length()};
  if (const auto mask = as_rows(input.main_mask()); mask.defined()) tokens.mask = mask.ne(0).to(at::kCPU);
  if (!input.first_columns.empty()) {
    tokens.mask = RaggedRows(input.first_columns, tokens.end, {at::kCPU}).own();
  }
  const auto columns = RowColumns::of(metric_.definition().positions, input.batch(), tokens);
  columns_ = columns.columns;
  real_ = columns.real;
  if (!input.start) tokens_ = as_rows(input.main_tokens()).to(at::kCPU);
  for (const auto& answers : metric_.definition().answers)
    answers.require_fit(rows(), vocabulary_, metric_.name());
  if (const std::int64_t expected = metric_.definition().rows; expected != 0 && expected != rows()) {
    throw ShapeError(metric_.name(),
                     fmt::format("the reference does not fit the run; expected a run of its {} rows, got {}",
                                 expected, rows()));
  }
  find_read_logits();
}

void BoundMetric::find_read_logits() {
  const auto& definition = metric_.definition();
  if (!definition.positions.empty()) {
    const auto flat = columns_.flatten();
    const auto* numbers = flat.const_data_ptr<std::int64_t>();
    logit_columns_ = distinct({numbers, numbers + flat.numel()});
  }
  if (definition.reads_answers_only) {
    std::vector<std::int64_t> tokens;
    for (const auto& answers : definition.answers) {
      for (const auto row : rows_) {
        const auto& of_row = answers.of_row(row);
        tokens.insert(tokens.end(), of_row.begin(), of_row.end());
      }
    }
    logit_tokens_ = distinct(std::move(tokens));
  }
}

RunOptions BoundMetric::needs(RunOptions options) const {
  const auto& definition = metric_.definition();
  options.capture = options.capture | definition.activations;
  options.output = definition.reads_logits ? Output::logits : Output::none;
  options.logit_positions = definition.reads_logits ? logit_columns_ : std::nullopt;
  options.logit_tokens = definition.reads_logits ? logit_tokens_ : std::nullopt;
  return options;
}

at::Tensor BoundMetric::operator()(const RunResult& run) const {
  return (*this)(metric_.definition().reads_logits ? logits_of(run) : at::Tensor(), run.cache);
}

at::Tensor BoundMetric::logits_of(const RunResult& run) const {
  const at::Tensor columns = those_of(
      run.logits(), {"column", 1, logit_columns_, run.logit_positions(), first_column_}, metric_.name());
  return those_of(columns, {"token", 2, logit_tokens_, run.logit_tokens(), 0}, metric_.name());
}

at::Tensor BoundMetric::operator()(const at::Tensor& logits, const ActivationCache& cache) const {
  const bool reads_logits = metric_.definition().reads_logits;
  const bool whole = !reads_logits || require_vocabulary_or_tokens(logits);
  const MetricInput run{.logits = reads_logits ? at_positions(logits) : at::Tensor(),
                        .logit_tokens = whole ? std::vector<std::int64_t>() : *logit_tokens_,
                        .cache = cache,
                        .columns = columns_,
                        .real = real_,
                        .tokens = tokens_,
                        .first_column = first_column_,
                        .rows = rows_,
                        .answers = metric_.definition().answers};
  return checked_scores(metric_, run, rows());
}

/// Whether the logits are those of the whole vocabulary; throws if they are neither that nor those of
/// logit_tokens().
bool BoundMetric::require_vocabulary_or_tokens(const at::Tensor& logits) const {
  const std::int64_t width = logits.defined() && logits.dim() > 0 ? logits.size(-1) : 0;
  if (width == vocabulary_) return true;
  const auto tokens = logit_tokens_ ? static_cast<std::int64_t>(logit_tokens_->size()) : vocabulary_;
  if (width == tokens) return false;
  throw ShapeError(metric_.name(),
                   fmt::format("the metric reads the logits of {} tokens; expected [..., {}], "
                               "got {}; run with metric.needs()",
                               tokens, tokens, logits.defined() ? shape_text(logits.sizes()) : "no logits"));
}

/// Each row's logits at its own positions, [row, position, vocab], from those that were computed.
at::Tensor BoundMetric::at_positions(const at::Tensor& logits) const {
  const auto computed = logit_columns_ ? static_cast<std::int64_t>(logit_columns_->size()) : columns_.size(1);
  if (logits.dim() != 3 || logits.size(0) != rows() || logits.size(1) != computed) {
    throw ShapeError(
        metric_.name(),
        fmt::format("the metric reads the logits of {} rows at {} columns; expected [{}, {}, vocab], "
                    "got {}; run with metric.needs()",
                    rows(), computed, rows(), computed, shape_text(logits.sizes())));
  }
  if (!logit_columns_) return logits;
  const auto union_columns = at::tensor(*logit_columns_, at::kLong);
  if (columns_.equal(union_columns.expand({rows(), computed}))) return logits;
  const auto places = columns_.unsqueeze(2).eq(union_columns).to(at::kLong).argmax(2);  // [row, position]
  const auto flat = places + at::arange(rows(), at::kLong).unsqueeze(1) * computed;
  return logits.flatten(0, 1)
      .index_select(0, to_device(flat.flatten(), logits.device()))
      .view({rows(), columns_.size(1), logits.size(2)});
}

BoundMetric BoundMetric::of_rows(const std::vector<std::int64_t>& rows) const {
  for (const auto row : rows) {
    if (row >= 0 && row < this->rows()) continue;
    throw ShapeError(metric_.name(),
                     fmt::format("row {} is out of range; expected 0 to {}", row, this->rows() - 1));
  }
  BoundMetric some = *this;
  const auto index = at::tensor(rows, at::kLong);
  for (at::Tensor* of_rows : {&some.columns_, &some.real_, &some.tokens_}) {
    if (of_rows->defined()) *of_rows = of_rows->index_select(0, index);
  }
  some.rows_.clear();
  for (const auto row : rows) some.rows_.push_back(rows_[static_cast<std::size_t>(row)]);
  return some;
}

BoundMetric BoundMetric::of_row(std::int64_t row) const {
  BoundMetric one = of_rows({row});
  one.find_read_logits();
  return one;
}

BoundMetric::operator RunMetric() const {
  require_gradient(metric_);
  return {.reads = metric_.definition().activations,
          .function = [metric = *this](const at::Tensor& output,
                                       const ActivationCache& read) { return metric(output, read).sum(); },
          .logit_positions = metric_.definition().reads_logits ? logit_columns_ : std::nullopt,
          .logit_tokens = metric_.definition().reads_logits ? logit_tokens_ : std::nullopt};
}

BoundMetric::operator LogitMetric() const {
  require_of_logits(metric_);
  require_gradient(metric_);
  return {[metric = *this](const at::Tensor& logits) { return metric(logits).sum(); },
          logit_columns_.value_or(std::vector<std::int64_t>())};
}

at::Tensor logits_at(const HookedTransformer& model, const Input& input,
                     const std::vector<Position>& positions, const RunOptions& options) {
  at::Tensor read;
  const Metric reader(
      [&read](const at::Tensor& logits) {
        read = logits;
        return logits.select(2, 0).select(1, 0);
      },
      positions, "logits");
  reader.score(model, input, options);
  return read;
}

}  // namespace hooked
