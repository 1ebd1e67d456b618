#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

namespace hooked::reference {

/// A dense array of doubles in row-major order: `a(b, p, h, d)` is one element.
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> values;

  Array() = default;
  explicit Array(std::vector<std::int64_t> sizes)
      : shape(std::move(sizes)),
        values(static_cast<std::size_t>(
            std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()))) {}

  std::int64_t size(std::size_t dim) const { return shape.at(dim); }
  std::int64_t last() const { return shape.back(); }

  template <class... Index>
  double& operator()(Index... index) {
    return values.at(offset({static_cast<std::int64_t>(index)...}));
  }
  template <class... Index>
  double operator()(Index... index) const {
    return values.at(offset({static_cast<std::int64_t>(index)...}));
  }

  /// The first element of the `row`-th vector along the last axis.
  double* row(std::int64_t row) { return values.data() + row * last(); }
  const double* row(std::int64_t row) const { return values.data() + row * last(); }
  /// How many vectors along the last axis there are.
  std::int64_t rows() const {
    return std::accumulate(shape.begin(), shape.end() - 1, std::int64_t{1}, std::multiplies<>());
  }

 private:
  std::size_t offset(std::initializer_list<std::int64_t> index) const {
    std::int64_t place = 0;
    std::size_t dim = 0;
    for (const std::int64_t i : index) place = place * shape.at(dim++) + i;
    return static_cast<std::size_t>(place);
  }
};

}  // namespace hooked::reference
