#include "tests/combinations/sweep_parts.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "hooked/analysis/answers.h"
#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

using reference::PlainRun;

/// A model without an unembedding has none; the engine refuses metrics that read them.
std::vector<double> logits_at(const PlainRun& run, const Row& row, std::int64_t column) {
  if (run.logits.values.empty()) return {0.0};
  const double* first = run.logits.row(row.place_of(column));
  return {first, first + run.logits.last()};
}

std::vector<double> log_softmax(std::vector<double> logits) {
  double total = 0.0;
  const double largest = std::ranges::max(logits);
  for (const double logit : logits) total += std::exp(logit - largest);
  for (double& logit : logits) logit -= largest + std::log(total);
  return logits;
}

double mean_over(const std::vector<double>& values, const std::vector<std::int64_t>& answers) {
  const std::set<std::int64_t> once(answers.begin(), answers.end());
  double sum = 0.0;
  for (const std::int64_t token : once) sum += values.at(static_cast<std::size_t>(token));
  return sum / static_cast<double>(once.size());
}

double loss_of(const PlainRun& run, const Row& row) {
  double sum = 0.0;
  for (std::size_t i = 0; i + 1 < row.tokens.size(); ++i) {
    sum -= log_softmax(logits_at(run, row, row.columns[i])).at(static_cast<std::size_t>(row.tokens[i + 1]));
  }
  return sum / static_cast<double>(row.tokens.size() - 1);
}

double divergence(const std::vector<double>& reference, const std::vector<double>& logits) {
  const std::vector<double> p = log_softmax(reference), q = log_softmax(logits);
  double sum = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

const PlainRun& reference_run(const Subject& subject, const Row& row) {
  const auto r = static_cast<std::size_t>(row.index);
  return subject.combination().sweep.score.kind == Score::Kind::kl_from_itself ? subject.runs().at(r)
                                                                               : subject.other_runs().at(r);
}

Position position_of(const Score& score, const std::vector<Row>& rows) {
  if (score.column) return *score.column;
  if (!score.named) return Position::last();
  return named_place(*score.named, rows);
}

std::vector<Row> data_rows(const Subject& subject) {
  Combination data = subject.combination();
  data.lengths = data.sweep.source.data_lengths;
  data.less = {};
  if (data.lengths.empty()) return {};
  return make_rows(subject.config(), data, data.seed + 5);
}

}  // namespace

std::int64_t score_column(const Score& score, const Row& row) {
  if (score.named) return row.named(*score.named);
  if (!score.column) return row.last();
  const std::int64_t column = *score.column < 0 ? *score.column + row.width : *score.column;
  return row.place_of(column) < 0 ? -1 : column;
}

Metric metric_of(const Subject& subject) {
  const Score& score = subject.combination().sweep.score;
  const Position at = position_of(score, subject.rows());
  const auto answers = [&](const std::vector<std::int64_t>& tokens) {
    if (!score.by_row) return Answers::any_of(tokens);
    return Answers::sets_by_row(std::vector<std::vector<std::int64_t>>(subject.rows().size(), tokens));
  };
  const auto reference = [&] {
    std::vector<at::Tensor> rows;
    for (const Row& row : subject.rows()) {
      const PlainRun& run = reference_run(subject, row);
      const std::int64_t column = score_column(score, row);
      rows.push_back(
          at::tensor(logits_at(run, row, column < 0 ? row.last() : column), at::kDouble).unsqueeze(0));
    }
    return at::stack(rows);
  };
  switch (score.kind) {
    case Score::Kind::logit:
      return logit(answers(score.answers), at);
    case Score::Kind::logit_difference:
      return logit_difference(answers(score.answers), answers(score.against), at);
    case Score::Kind::probability:
      return probability(answers(score.answers), at);
    case Score::Kind::log_probability:
      return log_probability(answers(score.answers), at);
    case Score::Kind::rank:
      return rank(answers(score.answers), at);
    case Score::Kind::loss:
      return loss();
    case Score::Kind::kl_from_other:
    case Score::Kind::kl_from_itself:
      break;
  }
  return kl_divergence(reference(), {at});
}

double score_of(const Subject& subject, const Row& row, const PlainRun& run) {
  const Score& score = subject.combination().sweep.score;
  if (score.kind == Score::Kind::loss) return loss_of(run, row);
  const std::int64_t column = score_column(score, row);
  const std::vector<double> logits = logits_at(run, row, column);
  switch (score.kind) {
    case Score::Kind::logit:
      return mean_over(logits, score.answers);
    case Score::Kind::logit_difference:
      return mean_over(logits, score.answers) - mean_over(logits, score.against);
    case Score::Kind::rank: {
      double best = -std::numeric_limits<double>::infinity();
      for (const std::int64_t token : score.answers)
        best = std::max(best, logits.at(static_cast<std::size_t>(token)));
      return static_cast<double>(std::ranges::count_if(logits, [best](double x) { return x > best; }));
    }
    case Score::Kind::kl_from_other:
    case Score::Kind::kl_from_itself:
      return divergence(logits_at(reference_run(subject, row), row, column), logits);
    case Score::Kind::probability:
    case Score::Kind::log_probability:
    case Score::Kind::loss:
      break;
  }
  const std::set<std::int64_t> once(score.answers.begin(), score.answers.end());
  const std::vector<double> log_probs = log_softmax(logits);
  double sum = 0.0;
  for (const std::int64_t token : once) sum += std::exp(log_probs.at(static_cast<std::size_t>(token)));
  return score.kind == Score::Kind::probability ? sum : std::log(sum);
}

PatchSource source_of(const Subject& subject) {
  const Source& source = subject.combination().sweep.source;
  const auto cache_of = [&](const std::vector<Row>& rows) {
    return subject.model()
        .run_with_cache(subject.whole(rows), act::everything, {.output = Output::none})
        .cache;
  };
  const auto made = [&]() -> PatchSource {
    switch (source.kind) {
      case Source::Kind::run:
        return cache_of(subject.other_rows());
      case Source::Kind::zero:
        return PatchSource::zero();
      case Source::Kind::value:
        return PatchSource::value(source.number);
      case Source::Kind::mean_rows:
        return PatchSource::mean(cache_of(data_rows(subject)), MeanOver::rows);
      case Source::Kind::mean_positions:
        return PatchSource::mean(cache_of(data_rows(subject)), MeanOver::rows_and_positions);
      case Source::Kind::resampled:
        break;
    }
    return PatchSource::resampled(cache_of(data_rows(subject)), subject.combination().seed);
  }();
  return source.share_of_zero ? PatchSource::mixture(made, PatchSource::zero(), *source.share_of_zero) : made;
}

OracleSource::OracleSource(const Subject& subject)
    : subject_(subject), source_(subject.combination().sweep.source), data_(data_rows(subject)) {
  for (const Row& row : data_) data_runs_.push_back(subject.oracle().run(row));
  if (source_.kind == Source::Kind::resampled) draws_ = std::ssize(data_);
}

std::optional<double> OracleSource::run_value(const ActivationName& name, const Row& row, const PlainRun& run,
                                              const std::vector<std::int64_t>& index) const {
  const Array& value = run.activations.at(name.to_string());
  std::int64_t flat = 0;
  for (std::size_t dim = 1; dim < index.size(); ++dim) {
    const bool columns =
        dimension_of(name.site, Index::pos) == dim || dimension_of(name.site, Index::key) == dim;
    const std::int64_t place = columns ? row.place_of(index[dim]) : index[dim];
    if (place < 0) return std::nullopt;
    flat = flat * value.shape[dim] + place;
  }
  return value.values.at(static_cast<std::size_t>(flat));
}

std::optional<double> OracleSource::mean(const ActivationName& name,
                                         const std::vector<std::int64_t>& index) const {
  double sum = 0.0, count = 0.0;
  for (std::size_t r = 0; r < data_.size(); ++r) {
    std::vector<std::int64_t> at = index;
    const auto pos = dimension_of(name.site, Index::pos);
    const bool over_positions = source_.kind == Source::Kind::mean_positions && pos;
    for (const std::int64_t column : over_positions ? data_[r].columns : std::vector<std::int64_t>{0}) {
      if (over_positions) at[*pos] = column;
      const auto value = run_value(name, data_[r], data_runs_[r], at);
      if (!value) continue;
      sum += *value;
      count += 1.0;
    }
  }
  return count > 0.0 ? std::optional(sum / count) : std::nullopt;
}

std::optional<double> OracleSource::value(const ActivationName& name, const Row& row,
                                          std::vector<std::int64_t> index, std::optional<std::int64_t> from,
                                          std::int64_t draw) const {
  std::optional<double> made;
  std::vector<std::int64_t> there = index;
  if (from) there.at(*dimension_of(name.site, Index::pos)) = *from;
  const auto r = static_cast<std::size_t>(row.index), d = static_cast<std::size_t>(draw);
  switch (source_.kind) {
    case Source::Kind::run:
      made = run_value(name, subject_.other_rows()[r], subject_.other_runs()[r], there);
      break;
    case Source::Kind::zero:
      made = 0.0;
      break;
    case Source::Kind::value:
      made = source_.number;
      break;
    case Source::Kind::mean_rows:
    case Source::Kind::mean_positions:
      made = mean(name, index);
      break;
    case Source::Kind::resampled:
      made = run_value(name, data_[d], data_runs_[d], there);
      break;
  }
  if (made && source_.share_of_zero) *made *= 1.0 - *source_.share_of_zero;
  return made;
}

}  // namespace hooked::combinations
