// A grid as a CSV: writing it and reading it back.
#include "analysis/figures/grid_csv.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/values/csv.h"
#include "analysis/values/row_major.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

constexpr std::string_view kAddressColumn = " address";

// A CSV's number: the shortest text that reads back as the same number.
std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

// The columns of a CSV that belong to an axis.
struct AxisColumns {
  std::size_t label;
  std::optional<std::size_t> address;
};

/// The columns after those of the axes.
struct NumberColumns {
  std::size_t value;
  bool has_interval;

  std::size_t low() const { return value + 1; }
  std::size_t high() const { return value + 2; }
  std::size_t about() const { return value + 3; }
  std::size_t unit() const { return has_interval ? value + 4 : value + 1; }
  std::size_t title() const { return unit() + 1; }
};

NumberColumns number_columns(const CsvTable& table, const RecordReader& reader) {
  const std::vector<std::string> plain{"value", "unit", "title"},
      sure{"value", "low", "high", "interval", "unit", "title"};
  const auto n = table.columns.size();
  for (const auto& names : {sure, plain}) {
    if (n < names.size() || !std::equal(names.rbegin(), names.rend(), table.columns.rbegin())) continue;
    return {.value = n - names.size(), .has_interval = names.size() == sure.size()};
  }
  reader.fail("the last columns are not value, unit and title");
}

std::vector<AxisColumns> axis_columns(const CsvTable& table, std::size_t count, const RecordReader& reader) {
  if (table.rows.empty()) reader.fail("there is no number");
  std::vector<AxisColumns> axes;
  for (std::size_t c = 0; c < count; ++c) {
    const bool is_address = !axes.empty() && c == axes.back().label + 1 &&
                            table.columns[c] == table.columns[c - 1] + std::string(kAddressColumn);
    if (is_address) {
      axes.back().address = c;
    } else {
      axes.push_back({c, std::nullopt});
    }
  }
  return axes;
}

// A CSV distinguishes places only by their labels.
void require_csv_can_hold(const Grid& grid) {
  const auto refuse = [&](const std::string& what) {
    throw ShapeError(grid.title(), what + "; save it as .json or .safetensors");
  };
  if (grid.values().numel() == 0) refuse("a CSV has a line per number, and this grid has none");
  for (const auto& axis : grid.axes()) {
    if (axis.name.ends_with(kAddressColumn))
      refuse(fmt::format("the axis '{}' reads as the addresses of another one in a CSV", axis.name));
    std::set<std::string_view> seen;
    for (const auto& label : axis.labels) {
      if (!seen.insert(label).second)
        refuse(fmt::format("a CSV cannot tell places of axis {} apart that have the same label '{}'",
                           axis.name, printable(label)));
    }
  }
}

}  // namespace

Grid grid_of_csv(std::string_view text, std::string_view where, const RecordReader& reader) {
  const CsvTable table = parse_csv(text, where);
  const auto last = number_columns(table, reader);
  const auto columns = axis_columns(table, last.value, reader);
  std::vector<GridAxis> axes;
  for (const auto& column : columns) {
    GridAxis axis{.name = table.columns[column.label], .labels = {}};
    std::set<std::string> seen;
    for (const auto& row : table.rows) {
      if (!seen.insert(row.fields[column.label]).second) continue;
      axis.labels.push_back(row.fields[column.label]);
      if (!column.address) continue;
      const auto& address = row.fields[*column.address];
      axis.places.push_back(address.empty() ? std::nullopt : reader.address(address));
    }
    axes.push_back(std::move(axis));
  }
  std::vector<double> numbers, low, high;
  for (const auto& row : table.rows) {
    const auto index = index_of(static_cast<std::int64_t>(numbers.size()), axes);
    for (std::size_t i = axes.size(); i-- > 0;) {
      const auto place = static_cast<std::size_t>(index[i]);
      const auto& expected = axes[i].labels[place];
      if (row.fields[columns[i].label] != expected) {
        reader.fail(fmt::format(
            "line {}: {} '{}' where '{}' should stand: rows are missing or in another order", row.line,
            axes[i].name, printable(row.fields[columns[i].label]), printable(expected)));
      }
      if (columns[i].address && row.fields[*columns[i].address] !=
                                    (axes[i].places[place] ? axes[i].places[place]->to_string() : ""))
        reader.fail(fmt::format("line {}: another address than the same place has before", row.line));
    }
    for (const auto column : {last.has_interval ? last.about() : last.unit(), last.unit(), last.title()}) {
      if (row.fields[column] != table.rows[0].fields[column])
        reader.fail(fmt::format("line {}: the {} changes within the file", row.line, table.columns[column]));
    }
    numbers.push_back(reader.number(row.fields[last.value], row.line));
    if (!last.has_interval) continue;
    low.push_back(reader.number(row.fields[last.low()], row.line));
    high.push_back(reader.number(row.fields[last.high()], row.line));
  }
  const auto& words = table.rows[0].fields;
  const Grid grid = reader.grid(at::tensor(numbers, at::kDouble), std::move(axes),
                                {.title = words[last.title()], .unit = words[last.unit()]});
  if (!last.has_interval) return grid;
  return reader.with_interval(
      grid, {at::tensor(low, at::kDouble), at::tensor(high, at::kDouble), words[last.about()]});
}

std::string Grid::to_csv() const {
  require_csv_can_hold(*this);
  std::string text;
  for (const auto& axis : axes_) {
    text += csv_field(axis.name) + ',';
    if (!axis.places.empty()) text += csv_field(axis.name + std::string(kAddressColumn)) + ',';
  }
  text += interval_ ? "value,low,high,interval,unit,title\n" : "value,unit,title\n";
  const auto ending = (interval_ ? ',' + csv_field(interval_->about) : "") + ',' + csv_field(unit()) + ',' +
                      csv_field(title()) + '\n';
  const auto* numbers = values().const_data_ptr<double>();
  for (std::int64_t i = 0; i < values().numel(); ++i) {
    const auto index = index_of(i, axes_);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      const auto place = static_cast<std::size_t>(index[a]);
      text += csv_field(axes_[a].labels[place]) + ',';
      if (axes_[a].places.empty()) continue;
      const auto& address = axes_[a].places[place];
      text += csv_field(address ? address->to_string() : "") + ',';
    }
    text += number_text(numbers[i]);
    if (interval_) {
      for (const at::Tensor& ends : {interval_->low, interval_->high})
        text += ',' + number_text(ends.const_data_ptr<double>()[i]);
    }
    text += ending;
  }
  return text;
}

}  // namespace hooked
