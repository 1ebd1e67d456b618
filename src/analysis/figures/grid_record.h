#pragma once

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/values/csv.h"
#include "core/json.h"
#include "core/json_number.h"
#include "hooked/analysis/grid.h"
#include "hooked/core/error.h"
#include "io/files/checked_size.h"

namespace hooked {

inline constexpr std::uint64_t kMostGridBytes = std::uint64_t{1} << 31;

/// What a file says about a grid, checked while reading.
class RecordReader {
 public:
  explicit RecordReader(std::string where) : where_(std::move(where)) {}

  [[noreturn]] void fail(std::string_view what) const {
    throw CheckpointError(where_, fmt::format("{}; expected a file of a saved grid", what));
  }

  Json parse(std::string_view text) const {
    try {
      return parse_json(text, {.bytes = kMostGridBytes, .depth = 128});
    } catch (const std::invalid_argument& error) {
      fail(error.what());
    }
  }

  const Json& field(const Json& object, const char* key) const {
    if (!object.is_object()) fail(fmt::format("{} where an object should stand", json_kind(object)));
    if (const auto found = object.find(key); found != object.end()) return *found;
    fail(fmt::format("'{}' is missing", key));
  }

  Grid::Description description(const Json& record) const {
    return {.title = text(record, "title"), .unit = text(record, "unit")};
  }

  std::string text(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_string()) fail(fmt::format("'{}' is {}, not a string", key, json_kind(value)));
    return value.get<std::string>();
  }

  const Json& list(const Json& object, const char* key) const {
    const Json& value = field(object, key);
    if (!value.is_array()) fail(fmt::format("'{}' is {}, not an array", key, json_kind(value)));
    return value;
  }

  std::optional<Address> address(const std::string& text) const {
    try {
      return Address::parse(text);
    } catch (const HookError& error) {
      fail(fmt::format("the address '{}' cannot be read ({})", text, error.what()));
    }
  }

  std::vector<GridAxis> axes(const Json& record) const {
    std::vector<GridAxis> axes;
    for (const Json& written : list(record, "axes")) {
      GridAxis axis{.name = text(written, "name"), .labels = {}};
      for (const Json& label : list(written, "labels")) {
        if (!label.is_string()) fail(fmt::format("a label of axis '{}' is {}", axis.name, json_kind(label)));
        axis.labels.push_back(label.get<std::string>());
      }
      if (written.contains("places")) {
        for (const Json& place : list(written, "places")) {
          if (!place.is_null() && !place.is_string())
            fail(fmt::format("a place of axis '{}' is {}", axis.name, json_kind(place)));
          axis.places.push_back(place.is_null() ? std::nullopt : address(place.get<std::string>()));
        }
      }
      axes.push_back(std::move(axis));
    }
    return axes;
  }

  /// The numbers of `values`, nested as the axes are.
  void numbers(const Json& values, std::span<const GridAxis> axes, std::vector<double>& into) const {
    if (axes.empty()) return into.push_back(number(values));
    if (!values.is_array() || values.size() != axes.front().labels.size()) {
      fail(fmt::format("the values along axis '{}' are not one per label ({})", axes.front().name,
                       axes.front().labels.size()));
    }
    for (const Json& value : values) numbers(value, axes.subspan(1), into);
  }

  double number(std::string_view text, std::size_t line) const {
    if (const auto value = parse_number(text)) return *value;
    fail(fmt::format("line {}: '{}' is not a number", line, printable(text)));
  }

  Grid grid(const at::Tensor& values, std::vector<GridAxis> axes,
            const Grid::Description& description) const {
    std::vector<std::int64_t> shape;
    for (const auto& axis : axes) shape.push_back(static_cast<std::int64_t>(axis.labels.size()));
    // The labels of many axes may multiply to more than an integer holds.
    const auto bytes = checked_bytes(shape, 64);
    if (values.scalar_type() != at::kDouble || !bytes || *bytes != values.nbytes())
      fail("the numbers do not fit the labels");
    try {
      return Grid(values.view(shape), std::move(axes), description);
    } catch (const ShapeError& error) {
      fail(error.what());
    }
  }

  /// The grid with ranges, whose ends have a number for each of the grid's.
  Grid with_interval(const Grid& grid, const GridInterval& given) const {
    for (const at::Tensor& ends : {given.low, given.high}) {
      if (ends.numel() != grid.values().numel() || ends.scalar_type() != at::kDouble)
        fail("the ranges do not fit the numbers");
    }
    const auto shape = grid.values().sizes();
    return grid.with_interval({given.low.view(shape), given.high.view(shape), given.about});
  }

 private:
  double number(const Json& value) const {
    if (value.is_number()) return value.get<double>();
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    fail(fmt::format("{} where a number should stand", json_kind(value)));
  }

  std::string where_;
};

}  // namespace hooked
