#pragma once

#include <functional>
#include <optional>

#include "tests/combinations/subject.h"

/// Derivatives as differences of the oracle's runs.
namespace hooked::combinations {

/// Allowed difference of gradients and differences of runs, relative.
inline constexpr double kSlopeTolerance = 5e-6;

/// d f / d x at 0 by differences, or nothing if f has a kink nearby.
std::optional<double> slope_at_zero(const std::function<double(double)>& f);

/// The changes of a run with something moved by x: what is moved, and the change that moves it.
using Moved = std::function<std::vector<reference::Change>(double x)>;

/// The slope of the combination's score in a row, along what `moved` moves.
std::optional<double> score_slope(const Subject& subject, const Row& row, const Moved& moved);

/// The change that adds `x` times what `along` has at the point of that name, where that is not NaN.
reference::Change adding(const std::string& name, const Array& along, double x);

}  // namespace hooked::combinations
