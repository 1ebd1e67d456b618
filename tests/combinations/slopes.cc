#include "tests/combinations/slopes.h"

#include <cmath>

#include "tests/combinations/sweep_parts.h"

namespace hooked::combinations {

std::optional<double> slope_at_zero(const std::function<double(double)>& f) {
  constexpr double kStep = 2e-4;
  const double here = f(0.0), up = f(kStep), down = f(-kStep), far_up = f(2 * kStep),
               far_down = f(-2 * kStep);
  const double near = up - down, far = far_up - far_down;
  const double slope = (8 * near - far) / (12 * kStep), rough = near / (2 * kStep);
  // By how much the slope differs on the other side of a kink: what is left of the difference of both sides'
  // slopes after the curvature's share, which is twice as large at twice the step.
  const double bend = (up + down - 2 * here) / kStep, far_bend = (far_up + far_down - 2 * here) / (2 * kStep);
  // Where f is smooth these differ by its third and fourth derivatives times the step's square and cube.
  const double least = 1e-6 * (std::abs(slope) + 1.0);
  if (!(std::abs(slope - rough) < least && std::abs(2 * bend - far_bend) < least)) return std::nullopt;
  return slope;
}

std::optional<double> score_slope(const Subject& subject, const Row& row, const Moved& moved) {
  return slope_at_zero([&](double x) { return score_of(subject, row, subject.oracle().run(row, moved(x))); });
}

reference::Change adding(const std::string& name, const Array& along, double x) {
  return [=](const std::string& at, Array& value) {
    if (at != name) return;
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      if (!std::isnan(along.values.at(i))) value.values[i] += x * along.values[i];
    }
  };
}

}  // namespace hooked::combinations
