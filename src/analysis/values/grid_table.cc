#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/values/row_major.h"
#include "core/number_text.h"
#include "hooked/analysis/grid.h"

namespace hooked {
namespace {

constexpr std::size_t kPage = 100;  // characters: wider tables are turned if that makes them narrower

/// Characters of a UTF-8 text, for alignment.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded_left(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, width(text)), ' ') + text;
}

/// How the numbers of a grid are written: all in the same way, except probabilities that are too small for
/// it.
std::function<std::string(double)> format_of(const Grid& grid) {
  constexpr int kDecimals = 3;
  std::vector<double> numbers;
  const auto add = [&](const at::Tensor& held) {
    const std::span values(held.const_data_ptr<double>(), static_cast<std::size_t>(held.numel()));
    numbers.insert(numbers.end(), values.begin(), values.end());
  };
  add(grid.values());
  if (grid.interval()) {
    add(grid.interval()->low);
    add(grid.interval()->high);
  }
  const bool whole =
      std::ranges::all_of(numbers, [](double n) { return !std::isfinite(n) || n == std::round(n); });
  if (grid.unit() == "probability" && !whole)
    return [](double number) { return probability_text(number, kDecimals); };
  return ColumnFormat::of(numbers, kDecimals);
}

/// Cells with labels above them and to their left.
struct CellTable {
  std::string corner;
  std::vector<std::string> rows, columns;  ///< labels
  std::vector<std::string> cells;          ///< one row after another

  std::vector<std::size_t> widths() const {
    std::vector<std::size_t> all;
    for (const auto& label : columns) all.push_back(width(label));
    for (std::size_t i = 0; i < cells.size(); ++i)
      all[i % columns.size()] = std::max(all[i % columns.size()], width(cells[i]));
    return all;
  }
  std::size_t margin() const {
    std::size_t most = width(corner);
    for (const auto& label : rows) most = std::max(most, width(label));
    return most;
  }
  std::size_t total_width() const {
    std::size_t total = margin();
    for (const std::size_t column : widths()) total += 2 + column;
    return total;
  }
  CellTable turned(std::string new_corner) const {
    CellTable other{std::move(new_corner), columns, rows, {}};
    for (std::size_t c = 0; c < columns.size(); ++c) {
      for (std::size_t r = 0; r < rows.size(); ++r) other.cells.push_back(cells[r * columns.size() + c]);
    }
    return other;
  }
  void print(std::ostream& out) const {
    const auto column_widths = widths();
    const auto line = [&](const std::string& label, const auto& text_of) {
      std::string text = padded_left(label, margin());
      for (std::size_t c = 0; c < columns.size(); ++c)
        text += "  " + padded_left(text_of(c), column_widths[c]);
      text.erase(text.find_last_not_of(' ') + 1);
      out << text << '\n';
    };
    line(corner, [&](std::size_t c) { return columns[c]; });
    for (std::size_t r = 0; r < rows.size(); ++r)
      line(rows[r], [&](std::size_t c) { return cells[r * columns.size() + c]; });
  }
};

/// The range of a number, after it: ` [0.1, 0.3]`; nothing for one without.
std::string range_text(const Grid& grid, std::int64_t flat,
                       const std::function<std::string(double)>& format) {
  if (!grid.interval()) return "";
  const double low = grid.interval()->low.const_data_ptr<double>()[flat],
               high = grid.interval()->high.const_data_ptr<double>()[flat];
  return std::isnan(low) || std::isnan(high) ? "" : fmt::format(" [{}, {}]", format(low), format(high));
}

/// The table of one panel.
CellTable table_of(const Grid& grid, std::int64_t panel, const std::function<std::string(double)>& format) {
  const auto& axes = grid.axes();
  const GridAxis& columns = axes.back();
  const GridAxis* rows = axes.size() > 1 ? &axes[axes.size() - 2] : nullptr;
  CellTable table{rows ? rows->name + " \\ " + columns.name : columns.name,
                  rows ? rows->labels : std::vector<std::string>{""},
                  columns.labels,
                  {}};
  const at::Tensor held = grid.values();
  const auto count = table.rows.size() * table.columns.size();
  const auto* numbers = held.const_data_ptr<double>() + static_cast<std::size_t>(panel) * count;
  for (std::size_t i = 0; i < count; ++i) table.cells.push_back(format(numbers[i]));
  if (grid.interval()) {
    const auto first = static_cast<std::size_t>(panel) * count;
    for (std::size_t i = 0; i < count; ++i)
      table.cells[i] += range_text(grid, static_cast<std::int64_t>(first + i), format);
  }
  if (table.total_width() <= kPage) return table;
  CellTable turned = table.turned(rows ? columns.name + " \\ " + rows->name : columns.name);
  return turned.total_width() < table.total_width() ? turned : table;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Grid& grid) {
  const auto format = format_of(grid);
  out << grid.title() << " (" << grid.unit() << ")\n";
  if (grid.interval()) out << "in brackets: " << grid.interval()->about << '\n';
  if (grid.axes().empty()) return out << format(grid.at({})) << range_text(grid, 0, format) << '\n';
  for (std::int64_t panel = 0; panel < panel_count(grid); ++panel) {
    std::string heading;
    for (const auto& [axis, place] : panel_place(grid, panel))
      heading += (heading.empty() ? "" : ", ") + axis->name + ' ' + axis->labels[place];
    if (!heading.empty()) out << heading << '\n';
    table_of(grid, panel, format).print(out);
  }
  return out;
}

}  // namespace hooked
