#include "tests/combinations/slopes.h"

#include <cmath>

#include "tests/combinations/sweep_parts.h"

namespace hooked::combinations {

std::optional<double> slope_at_zero(const std::function<double(double)>& f) {
  constexpr double kStep = 2e-4;
  const double near = f(kStep) - f(-kStep), far = f(2 * kStep) - f(-2 * kStep);
  const double slope = (8 * near - far) / (12 * kStep), rough = near / (2 * kStep);
  // Where f is smooth these differ by its third derivative times the step's square.
  if (!(std::abs(slope - rough) < 1e-6 * (std::abs(slope) + 1.0))) return std::nullopt;
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
