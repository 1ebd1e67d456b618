#include "hooked/analysis/interchange.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

#include "analysis/directions/interchange_runs.h"
#include "analysis/places/row_columns.h"
#include "analysis/values/numberless.h"
#include "analysis/work/work_steps.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr const char* kAlign = "align_subspace";

/// Adam's steps for one tensor (Kingma and Ba 2015).
class Adam {
 public:
  explicit Adam(const at::Tensor& like) : mean_(at::zeros_like(like)), square_(at::zeros_like(like)) {}

  at::Tensor step(const at::Tensor& gradient, double rate) {
    ++steps_;
    mean_ = kMean * mean_ + (1 - kMean) * gradient;
    square_ = kSquare * square_ + (1 - kSquare) * gradient.square();
    const at::Tensor mean = mean_ / (1 - std::pow(kMean, steps_));
    const at::Tensor square = square_ / (1 - std::pow(kSquare, steps_));
    return mean * -rate / (square.sqrt() + kEps);
  }

 private:
  static constexpr double kMean = 0.9, kSquare = 0.999, kEps = 1e-8;
  int steps_ = 0;
  at::Tensor mean_, square_;
};

void shuffle_rows(std::vector<std::int64_t>& rows, std::mt19937_64& engine) {
  for (std::size_t i = 0; i + 1 < rows.size(); ++i)
    std::swap(rows[i], rows[i + engine() % (rows.size() - i)]);
}

void check_alignment(const AlignmentOptions& options, std::int64_t pairs, std::int64_t d) {
  const auto refuse = [](const std::string& what) { throw ConfigError(kAlign, what); };
  if (options.dimensions < 1 || options.dimensions > d)
    refuse(fmt::format("dimensions of the subspace: expected 1 to {}, got {}", d, options.dimensions));
  if (!(options.held_out > 0 && options.held_out < 1))
    refuse(fmt::format("held_out: expected more than 0 and less than 1, got {}", options.held_out));
  if (options.epochs < 1 || options.pairs_per_step < 1 || !(options.learning_rate > 0)) {
    refuse(
        fmt::format("epochs, pairs_per_step and learning_rate: expected numbers above 0, got {}, {} and {}",
                    options.epochs, options.pairs_per_step, options.learning_rate));
  }
  if (pairs < 2) throw ShapeError(kAlign, "one pair cannot be learned from and judged; expected 2 or more");
  const at::Tensor& start = options.start;
  if (start.defined() && (start.dim() != 2 || start.size(0) != d || start.size(1) != options.dimensions)) {
    throw ShapeError(kAlign, fmt::format("the start does not fit; expected [{}, {}], got {}", d,
                                         options.dimensions, shape_text(start.sizes())));
  }
}

at::Tensor orthonormal(const at::Tensor& columns) { return std::get<0>(at::linalg_qr(columns, "reduced")); }

}  // namespace

at::Tensor Subspace::projection() const { return basis.matmul(basis.t()); }

double Subspace::distance(const Subspace& other) const {
  if (!basis.defined() || !other.basis.defined() || basis.sizes() != other.basis.sizes()) {
    throw ShapeError(place.to_string(),
                     fmt::format("the subspaces have other sizes; expected {}, got {}",
                                 basis.defined() ? shape_text(basis.sizes()) : "none",
                                 other.basis.defined() ? shape_text(other.basis.sizes()) : "none"));
  }
  return at::linalg_svdvals(projection() - other.projection()).max().item<double>();
}

Edits interchange(const HookedTransformer& model, const Subspace& subspace, const at::Tensor& source,
                  const Input& base, const std::vector<Position>& positions) {
  constexpr const char* kInterchange = "interchange";
  require_vectors_at(model, subspace.place, kInterchange);
  const SweepInput input(model, base, kInterchange);
  const at::Tensor columns = columns_in(input, subspace.place, positions);
  const std::vector<std::int64_t> expected{
      input.rows(), columns.size(1),
      subspace.basis.defined() && subspace.basis.dim() == 2 ? subspace.basis.size(0) : source.size(-1)};
  if (positions.empty() || source.sizes() != at::IntArrayRef(expected)) {
    throw ShapeError(kInterchange,
                     fmt::format("the source's vectors do not fit; expected [row, position, d] {}, "
                                 "got {}",
                                 shape_text(expected), shape_text(source.sizes())));
  }
  require_orthonormal(subspace.basis, expected.back(), kInterchange);
  const at::Tensor P = subspace.basis.to(source.options());
  const at::Tensor part = source.detach().matmul(P).matmul(P.t()).to(model.device(), model.dtype());
  const at::Tensor vectors = subspace.basis.t().to(model.device(), model.dtype());
  Edits edits;
  for (std::int64_t row = 0; row < input.rows(); ++row) {
    for (std::int64_t i = 0; i < columns.size(1); ++i) {
      const Address block = subspace.place.row(row).pos(columns[row][i].item<std::int64_t>());
      for (std::int64_t k = 0; k < vectors.size(0); ++k) edits.push_back(project_out(block, vectors[k]));
      edits.push_back(add(block, part[row][i]));
    }
  }
  return edits;
}

InterchangeReport judge_interchange(const HookedTransformer& model, const InterchangePairs& pairs,
                                    const Subspace& subspace) {
  constexpr const char* kJudge = "judge_interchange";
  const InterchangeRuns runs(model, pairs, subspace.place, kJudge);
  require_orthonormal(subspace.basis, runs.width(), kJudge);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(runs.pairs()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return runs.report(subspace.basis, rows);
}

Alignment align_subspace(const HookedTransformer& model, const InterchangePairs& pairs,
                         const AlignmentOptions& options) {
  const InterchangeRuns runs(model, pairs, options.place, kAlign);
  const std::int64_t d = runs.width(), count = runs.pairs();
  check_alignment(options, count, d);
  std::mt19937_64 engine(options.seed);
  std::vector<std::int64_t> learned(static_cast<std::size_t>(count));
  std::iota(learned.begin(), learned.end(), std::int64_t{0});
  shuffle_rows(learned, engine);
  const auto judged =
      std::clamp<std::int64_t>(std::llround(options.held_out * static_cast<double>(count)), 1, count - 1);
  std::vector<std::int64_t> held_out(learned.begin(), learned.begin() + judged);
  learned.erase(learned.begin(), learned.begin() + judged);
  std::ranges::sort(held_out);

  const at::Tensor start =
      options.start.defined()
          ? options.start.detach().to(at::kCPU, at::kDouble)
          : at::randn({d, options.dimensions}, at::detail::createCPUGenerator(options.seed), at::kDouble);
  at::Tensor columns = orthonormal(start);
  const auto n = static_cast<std::int64_t>(learned.size());
  const std::int64_t steps_per_epoch = (n + options.pairs_per_step - 1) / options.pairs_per_step;
  const std::int64_t all_steps = options.epochs * steps_per_epoch;
  const WorkSteps steps(all_steps, options.progress);
  at::Tensor losses = numberless({options.epochs});
  Adam adam(columns);
  const double rate = options.learning_rate / std::sqrt(static_cast<double>(d));
  bool complete = true;
  std::int64_t done = 0;
  for (std::int64_t epoch = 0; complete && epoch < options.epochs; ++epoch) {
    shuffle_rows(learned, engine);
    double sum = 0;
    std::int64_t begin = 0;
    for (; complete && begin < n; begin += options.pairs_per_step) {
      const std::int64_t end = std::min(n, begin + options.pairs_per_step);
      const at::AutoGradMode with_gradients(true);
      const at::Tensor leaf = columns.detach().requires_grad_(true);
      const at::Tensor loss = -runs.scores(runs.objective(), orthonormal(leaf),
                                           {learned.begin() + begin, learned.begin() + end}, true)
                                   .to(at::kDouble)
                                   .mean();
      loss.backward();
      sum += loss.detach().item<double>() * static_cast<double>(end - begin);
      const double left = 1 - static_cast<double>(done) / static_cast<double>(all_steps);
      const at::Tensor moved = columns + adam.step(leaf.grad(), rate * left);
      columns = orthonormal(moved.detach());
      // QR may turn a column around; Adam remembers it as it was.
      columns = columns * (columns * moved.detach()).sum(0).sign();
      complete = steps.done(++done);
    }
    if (begin >= n) losses[epoch] = sum / static_cast<double>(n);
  }
  Subspace found{.place = runs.place(), .basis = columns.contiguous()};
  return {.subspace = found,
          .loss = Grid(
              losses, {numbered_axis("epoch", options.epochs)},
              {.title = fmt::format("Alignment search at {}", runs.place().to_string()), .unit = "nats"}),
          .held_out = runs.report(found.basis, held_out),
          .whole = runs.report(at::eye(d, at::kDouble), held_out),
          .rows = held_out,
          .complete = complete};
}

}  // namespace hooked
