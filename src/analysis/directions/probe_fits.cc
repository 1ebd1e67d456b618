#include "hooked/analysis/probe_fits.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "analysis/directions/moments.h"
#include "analysis/directions/vector_stream.h"
#include "analysis/places/cache_reading.h"
#include "analysis/places/row_columns.h"
#include "analysis/runs/sweep_input.h"
#include "analysis/values/numberless.h"
#include "hooked/analysis/row_intervals.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr const char* kFitProbes = "fit_probes";
constexpr const char* kMethodNames[] = {"ridge", "logistic", "mean difference"};

/// Which rows are fitted to, and which are held out: int64, ascending.
struct Split {
  at::Tensor fitted, held_out;
};

/// The share of each class's rows, drawn; a class keeps at least one row to fit to.
Split split_of(const at::Tensor& labels, std::int64_t classes, double share, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto* label = labels.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> fitted, held_out;
  for (std::int64_t c = 0; c < classes; ++c) {
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < labels.size(0); ++row) {
      if (label[row] == c) rows.push_back(row);
    }
    for (std::size_t i = 0; i + 1 < rows.size(); ++i)
      std::swap(rows[i], rows[i + engine() % (rows.size() - i)]);
    const auto count = std::min(
        static_cast<std::size_t>(std::llround(share * static_cast<double>(rows.size()))), rows.size() - 1);
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(count);
    held_out.insert(held_out.end(), rows.begin(), middle);
    fitted.insert(fitted.end(), middle, rows.end());
  }
  std::ranges::sort(fitted);
  std::ranges::sort(held_out);
  return {at::tensor(fitted, at::kLong), at::tensor(held_out, at::kLong)};
}

/// Fits probes at the places of a stream, and tries them.
class ProbeFitter {
 public:
  ProbeFitter(const HookedTransformer& model, const VectorPlaces& places, const at::Tensor& labels,
              const ProbeOptions& options)
      : places_(places), options_(options) {
    classes_ = checked_classes(labels, places.rows(), kFitProbes);
    labels_ = labels.to(at::kCPU, at::kLong).contiguous();
    check_options();
    split_ = split_of(labels_, classes_, options.held_out, options.seed);
    is_held_out_ = at::zeros({places.rows()}, at::kBool).index_fill_(0, split_.held_out, true);
    targets_ = one_hot_of(labels_, classes_);
    correct_ = numberless({split_.held_out.size(0), static_cast<std::int64_t>(places.size())});
    states_.resize(places.size());
    probes_.resize(places.size());
    origin_ = model.provenance();
  }

  VectorWork work() {
    return {.bytes = [this](std::size_t place) { return bytes(place); },
            .add =
                [this](PlaceGroup group, const std::vector<at::Tensor>& vectors, std::int64_t first) {
                  for (std::size_t i = 0; i < vectors.size(); ++i) add(group.begin + i, vectors[i], first);
                },
            .finish =
                [this](PlaceGroup group) {
                  for (std::size_t place = group.begin; place < group.end; ++place) finish(place);
                }};
  }

  ProbeReport report(StreamEnd end) {
    std::vector<std::int64_t> shape = places_.shape();
    auto axes = places_.axes();
    const std::string title = fmt::format("Held-out accuracy of {} probes",
                                          kMethodNames[static_cast<std::size_t>(options_.method)]);
    const at::Tensor counted = correct_.isnan().logical_not().to(at::kDouble).sum(0).view(shape);
    const Grid hits(correct_.nansum(0).view(shape), axes, {.title = title, .unit = "share"});
    const Grid accuracy = share_interval(hits, Grid(counted, axes, {.title = title, .unit = "share"}));
    const at::Tensor held = split_.held_out;
    GridAxis rows{.name = "row", .labels = {}};
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < held.size(0); ++i) {
      numbers.push_back(held[i].item<std::int64_t>());
      rows.labels.push_back(std::to_string(numbers.back()));
    }
    axes.insert(axes.begin(), std::move(rows));
    shape.insert(shape.begin(), held.size(0));
    for (const std::string& note : notes_) end.notes.push_back(note);
    const double largest =
        held.size(0) == 0 ? 0 : targets_.index_select(0, held).mean(0).max().item<double>();
    return {.accuracy = accuracy,
            .correct = Grid(correct_.view(shape), std::move(axes),
                            {.title = "Held-out rows whose class is said right", .unit = "share"}),
            .probes = end.complete ? std::move(probes_) : std::vector<Probe>(),
            .held_out = std::move(numbers),
            .largest_class = largest,
            .complete = end.complete,
            .notes = std::move(end.notes)};
  }

 private:
  /// What is kept of a place until it is fitted.
  struct State {
    std::optional<Moments> moments;
    std::vector<at::Tensor> fitted, held_out;
  };

  void check_options() const {
    if (!(options_.held_out >= 0 && options_.held_out < 1)) {
      throw ConfigError(kFitProbes,
                        fmt::format("held_out is a share of the rows; expected at least 0 and less "
                                    "than 1, got {}",
                                    options_.held_out));
    }
    if (options_.sparse < 0)
      throw ConfigError(kFitProbes, fmt::format("expected 0 or more features, got {}", options_.sparse));
    const auto named = static_cast<std::int64_t>(options_.classes.size());
    if (named != 0 && named != classes_) {
      throw ShapeError(
          kFitProbes,
          fmt::format("the names of classes do not fit the labels; expected {}, got {}", classes_, named));
    }
    if (options_.method == ProbeMethod::mean_difference && options_.standardize)
      throw ConfigError(kFitProbes, "a mean difference is not standardized; expected ridge or logistic");
  }

  bool is_logistic() const { return options_.method == ProbeMethod::logistic; }

  std::int64_t bytes(std::size_t place) const {
    const std::int64_t d = places_.width(place);
    const std::int64_t kept = is_logistic() ? places_.rows() : split_.held_out.size(0);
    return 8 * d * kept + (is_logistic() ? 0 : Moments::bytes(d, classes_));
  }

  void add(std::size_t place, const at::Tensor& vectors, std::int64_t first) {
    State& state = states_[place];
    const at::Tensor held = is_held_out_.narrow(0, first, vectors.size(0));
    const at::Tensor fitted = held.logical_not().nonzero().squeeze(1);
    const at::Tensor some = vectors.index_select(0, fitted);
    if (is_logistic()) {
      state.fitted.push_back(some);
    } else {
      if (!state.moments) state.moments.emplace(places_.width(place), classes_);
      state.moments->add(some, targets_.index_select(0, fitted + first));
    }
    state.held_out.push_back(vectors.index_select(0, held.nonzero().squeeze(1)));
  }

  LinearFit fit(std::size_t place, State& state) const {
    const std::int64_t d = places_.width(place);
    const auto of_moments = [&](const Moments& moments) {
      if (options_.method == ProbeMethod::mean_difference) return mean_difference_of(moments);
      return ridge_classifier_of(moments,
                                 {.alpha = options_.penalty.value_or(1.0),
                                  .intercept = options_.intercept,
                                  .standardize = options_.standardize},
                                 kFitProbes);
    };
    if (!is_logistic()) {
      if (options_.sparse == 0) return of_moments(*state.moments);
      const at::Tensor features = separating_features_of(*state.moments, options_.sparse, kFitProbes);
      return spread_over(of_moments(state.moments->of_features(features)), features, d);
    }
    const LogisticOptions how{.c = options_.penalty.value_or(1.0),
                              .intercept = options_.intercept,
                              .standardize = options_.standardize};
    const at::Tensor x = at::cat(state.fitted), labels = labels_.index_select(0, split_.fitted);
    if (options_.sparse == 0) return logistic_regression(x, labels, how);
    const at::Tensor features = separating_features(x, labels, options_.sparse);
    return spread_over(logistic_regression(x.index_select(1, features), labels, how), features, d);
  }

  void finish(std::size_t place) {
    State state = std::exchange(states_[place], {});
    Probe& probe = probes_[place];
    probe.fit = fit(place, state);
    probe.place = places_.all()[place].place;
    probe.position = places_.position_label(place);
    probe.origin = origin_;
    probe.classes = options_.classes;
    for (std::int64_t c = 0; probe.classes.size() < static_cast<std::size_t>(classes_); ++c)
      probe.classes.push_back(std::to_string(c));
    const at::Tensor said = probe.fit.classes_of(at::cat(state.held_out));
    const at::Tensor right = said.eq(labels_.index_select(0, split_.held_out)).to(at::kDouble);
    correct_.select(1, static_cast<std::int64_t>(place)).copy_(right);
    const bool penalised = options_.method != ProbeMethod::mean_difference;
    probe.facts = {.method = kMethodNames[static_cast<std::size_t>(options_.method)],
                   .penalty = penalised ? options_.penalty.value_or(1.0) : 0,
                   .rows = split_.fitted.size(0),
                   .held_out_rows = right.size(0),
                   .held_out_accuracy = right.size(0) == 0 ? 0 : right.mean().item<double>(),
                   .seed = options_.seed,
                   .converged = probe.fit.converged};
    if (!probe.fit.converged) {
      notes_.push_back(
          fmt::format("the logistic regression of {} did not converge in {} iterations; "
                      "standardize, or take a smaller penalty C",
                      probe.place.to_string(), probe.fit.iterations));
    }
  }

  const VectorPlaces& places_;
  const ProbeOptions& options_;
  std::int64_t classes_ = 0;
  at::Tensor labels_, targets_;  // [row], [row, class]
  Split split_;
  at::Tensor is_held_out_;  // [row]
  at::Tensor correct_;      // [held-out row, place]
  std::vector<State> states_;
  std::vector<Probe> probes_;
  std::vector<std::string> notes_;
  Provenance origin_;
};

}  // namespace

ProbeReport fit_probes(const HookedTransformer& model, const Input& input, const at::Tensor& labels,
                       const ProbeOptions& options) {
  const SweepInput rows(model, input, kFitProbes);
  const VectorPlaces places(model.config(), options.at.of, options.at.positions, rows.rows(), kFitProbes);
  ProbeFitter fitter(model, places, labels, options);
  return fitter.report(
      run_vectors(model, {.input = rows.all()}, places, options.at, kFitProbes, fitter.work()));
}

ProbeReport fit_probes(const HookedTransformer& model, const ActivationCache& cache, const at::Tensor& labels,
                       const ProbeOptions& options) {
  require_cache_of(model, cache, kFitProbes);
  const std::int64_t rows = labels.defined() && labels.dim() == 1 ? labels.size(0) : 0;
  const VectorPlaces places(model.config(), options.at.of, options.at.positions, rows, kFitProbes);
  ProbeFitter fitter(model, places, labels, options);
  read_vectors(cache, places, fitter.work());
  return fitter.report({});
}

}  // namespace hooked
