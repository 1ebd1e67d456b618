#include "tests/combinations/comparison.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/combinations/points.h"

namespace hooked::combinations {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool equal(double got, double expected, double allowed) {
  return got == expected || std::abs(got - expected) <= allowed;
}

}  // namespace

void Comparison::differs(const std::string& what) {
  if (outcome_.difference.empty()) outcome_.difference = what;
}

void Comparison::expect(const std::string& what, const at::Tensor& got, const Array& expected,
                        double tolerance) {
  if (got.sizes().vec() != expected.shape) {
    return differs(fmt::format("{}: got the shape {}, expected {}", what, got.sizes().vec(), expected.shape));
  }
  const at::Tensor dense = got.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* numbers = dense.data_ptr<double>();
  double largest = 1.0;
  for (const double value : expected.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    if (std::isnan(expected.values[i])) continue;
    ++outcome_.numbers;
    if (equal(numbers[i], expected.values[i], tolerance * largest)) continue;
    std::vector<std::int64_t> index;
    for (auto rest = static_cast<std::int64_t>(i), dim = std::ssize(expected.shape); dim-- > 0;) {
      index.insert(index.begin(), rest % expected.shape[static_cast<std::size_t>(dim)]);
      rest /= expected.shape[static_cast<std::size_t>(dim)];
    }
    return differs(fmt::format("{}{}: got {}, expected {}", what, index, numbers[i], expected.values[i]));
  }
}

void Comparison::expect_number(const std::string& what, double got, double expected, double tolerance) {
  ++outcome_.numbers;
  if (std::isnan(expected) ? std::isnan(got)
                           : equal(got, expected, tolerance * std::max(1.0, std::abs(expected)))) {
    return;
  }
  differs(fmt::format("{}: got {}, expected {}", what, got, expected));
}

Held all_columns(const std::vector<Row>& rows, std::int64_t first) {
  Held held(rows.size());
  for (auto& columns : held) {
    for (std::int64_t column = first; column < rows.front().width; ++column) columns.push_back(column);
  }
  return held;
}

Array block_of(const Where& where, const ActivationName& name, const std::vector<Row>& rows,
               const std::vector<reference::PlainRun>& runs, const Held& held) {
  const std::string text = name.to_string();
  const Array& first = runs.front().activations.at(text);
  const auto dims = first.shape.size();
  const auto of_pos = dimension_of(name.site, Index::pos), of_keys = dimension_of(name.site, Index::key);
  // For each dimension the places in the batch, for each row.
  std::vector<std::vector<std::vector<std::int64_t>>> places(rows.size());
  for (const Row& row : rows) {
    for (std::size_t dim = 0; dim < dims; ++dim) {
      const Places* said = places_on(where, name.site, dim);
      const Places given = said == nullptr ? Places{} : *said;
      const auto r = static_cast<std::size_t>(row.index);
      const std::int64_t size = dim == 0                          ? row.batch
                                : dim == of_pos || dim == of_keys ? row.width
                                                                  : first.shape[dim];
      const bool all_held = dim == of_pos && !given.given();
      places[r].push_back(all_held ? held.at(r) : resolved(given, size, row.last()));
    }
  }
  std::vector<std::int64_t> shape, full;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const Places* said = places_on(where, name.site, dim);
    const bool dropped =
        said != nullptr && (said->form == Places::Form::one || said->form == Places::Form::last);
    full.push_back(std::ssize(places.front()[dim]));
    if (!dropped) shape.push_back(full.back());
  }
  Array block(full);
  for_each(block, [&](const std::vector<std::int64_t>& index, double& element) {
    const auto r = static_cast<std::size_t>(places.front()[0][static_cast<std::size_t>(index.front())]);
    const Array& value = runs.at(r).activations.at(text);
    std::int64_t flat = 0;
    for (std::size_t dim = 1; dim < dims; ++dim) {
      std::int64_t place = places[r][dim][static_cast<std::size_t>(index[dim])];
      const bool not_run = dim == of_pos && place < rows[r].first_changed;
      if (dim == of_pos || dim == of_keys) place = rows[r].place_of(place);
      if (place < 0 || not_run) {
        element = kNaN;
        return;
      }
      flat = flat * value.shape[dim] + place;
    }
    element = value.values.at(static_cast<std::size_t>(flat));
  });
  block.shape = shape;
  return block;
}

Array by_columns(const std::vector<Row>& rows, const std::vector<Array>& values,
                 const std::vector<std::int64_t>& columns) {
  Array out({std::ssize(rows), std::ssize(columns), values.front().last()});
  for_each(out, [&](const std::vector<std::int64_t>& index, double& element) {
    const auto r = static_cast<std::size_t>(index[0]);
    const std::int64_t place = rows[r].place_of(columns[static_cast<std::size_t>(index[1])]);
    element = place < 0 ? kNaN : values[r].row(place)[index[2]];
  });
  return out;
}

Position named_place(std::int64_t back, const std::vector<Row>& rows) {
  std::vector<std::int64_t> columns;
  for (const Row& row : rows) columns.push_back(row.named(back));
  return {"place", columns};
}

}  // namespace hooked::combinations
