#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "hooked/hooks/activation_name.h"
#include "tests/combinations/combination.h"

/// How the dimensions of a combination are drawn.
namespace hooked::combinations {

/// Numbers that are the same for a seed on every machine; the distributions of <random> are not.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  /// 0 to n - 1.
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(n));
  }
  /// True this many times out of a hundred.
  bool percent(int chance) { return below(100) < chance; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values.at(static_cast<std::size_t>(below(static_cast<std::int64_t>(values.size()))));
  }

 private:
  std::mt19937_64 generator_;
};

/// Some places of that many, in any form; `last` only if it has a meaning.
Places draw_places(Dice& dice, std::int64_t size, bool last);

/// A block of one of these points.
Where draw_where(Dice& dice, const Combination& c, const std::vector<ActivationName>& points);

/// A change that fits the combination's run.
Change draw_change(Dice& dice, const Combination& c);

/// The same at one of these points.
Change draw_change_of(Dice& dice, const Combination& c, const std::vector<ActivationName>& points);

/// How a run is less than a whole one.
Less draw_less(Dice& dice, const Combination& c);

/// A score of rows.
Score draw_score(Dice& dice, const Combination& c);

/// A patching experiment.
Sweep draw_sweep(Dice& dice, const Combination& c);

}  // namespace hooked::combinations
