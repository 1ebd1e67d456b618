#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/analysis/answers.h"
#include "hooked/analysis/position.h"
#include "hooked/core/export.h"
#include "hooked/core/one_or_more.h"
#include "hooked/core/shared.h"
#include "hooked/engine/hooked_transformer.h"

namespace HOOKED_EXPORT hooked {

/// What a metric's function gets: the part of a run that the metric reads, row by row.
struct MetricInput {
  at::Tensor logits;  ///< [row, position, vocab] at the metric's positions; undefined: it reads none
  /// The tokens on the last axis of `logits`, in ascending order, if the metric reads only its answers'
  /// logits; empty: the vocabulary.
  std::vector<std::int64_t> logit_tokens;
  const ActivationCache& cache;    ///< the activations it asked for
  at::Tensor columns;              ///< int64 [row, position] on the CPU: where its positions are, absolute
  at::Tensor real;                 ///< bool [row, position] on the CPU: not padding; undefined: all
  at::Tensor tokens;               ///< int64 [row, pos]: what the rows read; undefined if that is not known
  std::int64_t first_column = 0;   ///< of `tokens`: the columns before it belong to a prefix
  std::vector<std::int64_t> rows;  ///< for each row, its index among the rows that the metric was made for
  const std::vector<Answers>& answers;  ///< those of the metric's definition, as ids
};

class BoundMetric;

/// A score of a run, row by row: a function of logits, or of activations, to one number per row.
///
/// It declares what it reads, so that callers that run the model for it compute no more than that. Row `i` of
/// the result must depend only on row `i` of the run; a sweep checks that. A value: copies are cheap.
///
///     const auto metric = logit_difference(" Mary", " John");
///     metric.score(model, "When John and Mary went to the shop, John gave a bag to")  // [1]
class Metric {
 public:
  /// Maps what the metric reads to [row].
  using Function = std::function<at::Tensor(const MetricInput& run)>;

  /// A callable of the logits [row, position, vocab] at `positions`, in their order; empty: at all columns,
  /// padding included.
  template <std::invocable<const at::Tensor&> F>
  requires(!std::same_as<std::remove_cvref_t<F>, Metric>)
      Metric(F function,
             std::vector<Position> positions = {Position::last()},  // NOLINT: a callable is a metric
             std::string name = "metric")
      : Metric({.name = std::move(name),
                .function = [function = std::move(function)](
                                const MetricInput& run) { return at::Tensor(function(run.logits)); },
                .positions = std::move(positions)}) {}

  /// A callable of the activations that it asks for (attention to a place, a feature). Its gradients are
  /// those of a BoundMetric; it is not a LogitMetric.
  template <std::invocable<const ActivationCache&> F>
  static Metric of_activations(Selection activations, F function, std::string name) {
    return Metric({.name = std::move(name),
                   .function = [function = std::move(function)](
                                   const MetricInput& run) { return at::Tensor(function(run.cache)); },
                   .positions = {},
                   .activations = std::move(activations),
                   .reads_logits = false});
  }

  /// Everything about a metric. For designated initialisers.
  struct Definition {
    std::string name;                                      ///< what the score is, for titles
    Function function;                                     ///< the score
    std::vector<Position> positions = {Position::last()};  ///< empty: all columns
    Selection activations = {};                            ///< which the function reads
    bool reads_logits = true;                              ///< whether its input has logits
    bool reads_answers_only = false;                       ///< reads only the logits of `answers`
    bool differentiable = true;                            ///< whether its gradient is meaningful
    std::vector<Answers> answers = {};                     ///< which must fit the run
    /// The least that it can be, if it has no slope there: 0 for a divergence of a run from itself.
    std::optional<double> minimum = std::nullopt;
    std::int64_t rows = 0;  ///< that the run must have: those of the reference; 0: any number
    /// The fingerprint of the model that its numbers belong to; empty: any model.
    std::string fingerprint = {};
  };
  /// A metric of any part of a run. Throws HookError if it reads only its answers' logits and has no answers.
  explicit Metric(Definition definition);

  /// What the score is, for titles: `logit difference`.
  const std::string& name() const& { return definition_->name; }
  /// The same of a temporary, as a copy.
  std::string name() const&& { return definition_->name; }
  /// Everything about it; answers that were given as texts are texts.
  const Definition& definition() const& { return *definition_; }
  /// The same of a temporary, as a copy.
  Definition definition() const&& { return *definition_; }

  /// The metric for one input: its positions as columns of each row. Throws HookError if it reads logits and
  /// the model has no unembedding, and for another model than that of its fingerprint; ShapeError if a
  /// position is outside or padding, or answers do not fit; TokenizerError for a text without a tokenizer,
  /// and for an answer that is not one token.
  BoundMetric on(const HookedTransformer& model, const Input& input) const;

  /// Runs the model and scores each row, [row]. `options` may edit and hook; what the metric reads is added.
  at::Tensor score(const HookedTransformer& model, const Input& input, const RunOptions& options = {}) const;

  /// The score of each row, [row], from logits at the metric's positions, [row, position, vocab]. Throws
  /// ShapeError if the logits have another number of positions, or the function returns anything but [row];
  /// HookError for answers that are texts: no model says here which tokens they are.
  at::Tensor operator()(const at::Tensor& logits) const;

  /// For gradients: the sum over rows. Since rows are independent, each row's gradient is that of its own
  /// score. For a metric whose positions are columns; last() counts as -1, which the engine refuses if that
  /// is padding. Named places need on(). Throws HookError for a metric of activations, one without a gradient
  /// (rank), and for named places.
  operator LogitMetric() const;  // NOLINT: wherever the engine wants one, a Metric will do

 private:
  Shared<const Definition> definition_;
};

/// A metric for one input: knows the columns that it reads in each row.
class BoundMetric {
 public:
  /// Distinct absolute columns, ascending, whose logits it reads in some row; nothing: all.
  const std::optional<std::vector<std::int64_t>>& logit_positions() const& noexcept { return logit_columns_; }
  /// The same of a temporary, as a copy.
  std::optional<std::vector<std::int64_t>> logit_positions() const&& { return logit_columns_; }
  /// Distinct tokens, ascending, whose logits it reads in some row; nothing: the vocabulary.
  const std::optional<std::vector<std::int64_t>>& logit_tokens() const& noexcept { return logit_tokens_; }
  /// The same of a temporary, as a copy.
  std::optional<std::vector<std::int64_t>> logit_tokens() const&& { return logit_tokens_; }
  /// The metric.
  const Metric& metric() const& noexcept { return metric_; }
  /// The same of a temporary, as a copy.
  Metric metric() const&& { return metric_; }
  /// The number of rows that it scores.
  std::int64_t rows() const noexcept { return columns_.size(0); }

  /// These options plus what the metric reads: `capture`, and logits at logit_positions() of logit_tokens(),
  /// or no output.
  RunOptions needs(RunOptions options = {}) const;

  /// The score of each row, [row], of a run that computed at least what needs() asks for. Throws ShapeError
  /// if it did not.
  at::Tensor operator()(const RunResult& run) const;
  /// Of the logits that a run computed, those that the metric reads, [row, logit_positions(), vocab or
  /// logit_tokens()]. Throws ShapeError if the run computed other ones.
  at::Tensor logits_of(const RunResult& run) const;
  /// The score of each row from logits as from logits_of() and activations. Throws ShapeError for other
  /// shapes.
  at::Tensor operator()(const at::Tensor& logits, const ActivationCache& cache = {}) const;

  /// The metric for runs whose rows are these rows, in this order; a row may occur several times. Throws
  /// ShapeError out of range.
  BoundMetric of_rows(const std::vector<std::int64_t>& rows) const;
  /// The metric of one row alone: its needs() are the columns of that row only. Throws as of_rows().
  BoundMetric of_row(std::int64_t row) const;

  /// For gradients: the sum over rows, of logits at logit_positions() only. Throws HookError as
  /// Metric's.
  operator LogitMetric() const;  // NOLINT: as a Metric
  /// The same for a run made with needs(), of activations too: `{.of = act::z, .of_run = metric}`. Throws
  /// HookError for a metric without a gradient (rank).
  operator RunMetric() const;  // NOLINT: as a Metric

 private:
  friend class Metric;
  BoundMetric(Metric metric, const HookedTransformer& model, const Input& input);

  bool require_vocabulary_or_tokens(const at::Tensor& logits) const;
  at::Tensor at_positions(const at::Tensor& logits) const;
  void find_read_logits();

  Metric metric_;
  at::Tensor columns_;  // [row, position] int64
  at::Tensor real_;     // [row, position] bool, or undefined
  at::Tensor tokens_;   // [row, pos] int64, or undefined
  std::int64_t first_column_ = 0;
  std::int64_t vocabulary_ = 0;
  std::vector<std::int64_t> rows_;
  std::optional<std::vector<std::int64_t>> logit_columns_, logit_tokens_;
};

// Built-in metrics. An answer is a token or a set of tokens, for all rows or each row's own, by ids or by the
// texts that the model turns into ids; scores are computed in float32 or better. All throw ShapeError for ids
// outside the vocabulary when used with a run.

/// logit(answer), in logits; for a set the mean.
Metric logit(Answers answer, Position position = Position::last());
/// logit(answer) - logit(against), in logits; for a set the mean.
Metric logit_difference(Answers answer, Answers against, Position position = Position::last());
/// p(answer), 0 to 1; for a set the sum.
Metric probability(Answers answer, Position position = Position::last());
/// log p(answer), in nats; for a set the logarithm of the sum.
Metric log_probability(Answers answer, Position position = Position::last());
/// The number of tokens with a larger logit than the answer: 0 is the likeliest. For a set, its best rank.
Metric rank(Answers answer, Position position = Position::last());
/// 1 if no token has a larger logit than the answer (or than one of a set), else 0: its mean is the accuracy.
Metric top1(Answers answer, Position position = Position::last());
/// The mean loss of a row's next-token predictions, in nats, over those whose two tokens are real. NaN for a
/// row without any.
Metric loss();

/// The logits at these positions, [row, position, vocab]: what a run is compared with.
at::Tensor logits_at(const HookedTransformer& model, const Input& input,
                     const std::vector<Position>& positions = {Position::last()},
                     const RunOptions& options = {});
/// KL(reference || run) of the next token's probabilities, in nats, mean over the positions that are not
/// padding. `reference` [row or 1, position, vocab] has the logits of another run at the same positions
/// (logits_at).
Metric kl_divergence(at::Tensor reference, std::vector<Position> positions = {Position::last()});
/// The Jensen-Shannon divergence, half of the two KL divergences from the mean, in nats; as above.
Metric js_divergence(at::Tensor reference, std::vector<Position> positions = {Position::last()});

/// The attention that a head pays from one place to another: `act::pattern(1).head(3)`. The head must be
/// given.
Metric attention(const Address& head, Position query, Position key);
/// The activation at a place, [d], along a direction [d]: `act::resid_post(0)` along a probe. Sites with a
/// head axis need the head.
Metric projection(const Address& activation, at::Tensor direction, Position position = Position::last());

/// One metric, or several that score the same runs.
using Metrics = OneOrMore<Metric>;

}  // namespace hooked
