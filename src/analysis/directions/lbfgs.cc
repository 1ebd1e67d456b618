#include "analysis/directions/lbfgs.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace hooked {
namespace {

constexpr std::size_t kRemembered = 20;  // steps
constexpr double kDecrease = 1e-4;       // of the one that the slope promises
constexpr int kMostHalvings = 40;

double product(const at::Tensor& a, const at::Tensor& b) { return a.dot(b).item<double>(); }
double steepest(const at::Tensor& x) { return x.abs().max().item<double>(); }

/// The steps of the past, from which the next direction is computed.
class Memory {
 public:
  explicit Memory(at::Tensor curvature) : curvature_(std::move(curvature)) {}

  void add(at::Tensor step, at::Tensor change) {
    const double along = product(step, change);
    if (!(along > 0)) return;  // rounding, at the end
    if (steps_.size() == kRemembered) steps_.pop_front();
    steps_.push_back({std::move(step), std::move(change), along});
  }
  void clear() { steps_.clear(); }
  bool empty() const { return steps_.empty(); }

  at::Tensor direction(const at::Tensor& gradient) const {
    at::Tensor d = -gradient;
    std::vector<double> shares(steps_.size());
    for (std::size_t i = steps_.size(); i-- > 0;) {
      shares[i] = product(steps_[i].step, d) / steps_[i].along;
      d = d - steps_[i].change * shares[i];
    }
    const double scale = steps_.empty() ? 1.0
                                        : steps_.back().along / product(steps_.back().change,
                                                                        steps_.back().change / curvature_);
    d = d / curvature_ * scale;
    for (std::size_t i = 0; i < steps_.size(); ++i)
      d = d + steps_[i].step * (shares[i] - product(steps_[i].change, d) / steps_[i].along);
    return d;
  }

 private:
  struct Step {
    at::Tensor step, change;
    double along;
  };
  at::Tensor curvature_;
  std::deque<Step> steps_;
};

}  // namespace

Minimum minimum_of(const SmoothFunction& function, at::Tensor start, const MinimumOptions& options) {
  Minimum found{std::move(start), 0, false};
  ValueAndGradient here = function(found.at);
  Memory memory(options.curvature);
  for (; found.iterations < options.most_iterations; ++found.iterations) {
    if (steepest(here.gradient) <= options.tolerance) {
      found.converged = true;
      return found;
    }
    const at::Tensor direction = memory.direction(here.gradient);
    const double slope = product(direction, here.gradient);
    std::optional<ValueAndGradient> next;
    at::Tensor there;
    double share = 1;
    // Near the minimum, values differ by rounding alone; there a smaller gradient is what counts.
    const double rounding = 1e-13 * std::abs(here.value);
    for (int halving = 0; halving < kMostHalvings && slope < 0; ++halving, share /= 2) {
      there = found.at + direction * share;
      ValueAndGradient value = function(there);
      const bool lower = value.value <= here.value + kDecrease * share * slope;
      const bool as_low = std::abs(value.value - here.value) <= rounding &&
                          steepest(value.gradient) < steepest(here.gradient);
      if (lower || as_low) {
        next = std::move(value);
        break;
      }
    }
    if (!next) {
      if (memory.empty()) return found;
      memory.clear();  // the past may mislead: once more from here
      continue;
    }
    memory.add(there - found.at, next->gradient - here.gradient);
    found.at = there;
    here = *std::move(next);
  }
  found.converged = steepest(here.gradient) <= options.tolerance;
  return found;
}

}  // namespace hooked
