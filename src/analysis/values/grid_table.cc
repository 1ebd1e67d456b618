#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "analysis/values/row_major.h"
#include "core/unsigned_nan.h"
#include "hooked/analysis/grid.h"

namespace hooked {
namespace {

/// Characters of a UTF-8 text, for alignment.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded_left(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, width(text)), ' ') + text;
}

/// Three decimals, or three significant digits if all numbers are too small or one is too large for that.
class TableFormat {
 public:
  explicit TableFormat(const at::Tensor& values) {
    const auto* numbers = values.const_data_ptr<double>();
    double largest = 0;
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      if (std::isfinite(numbers[i])) largest = std::max(largest, std::abs(numbers[i]));
    }
    digits_ = largest != 0 && (largest < 0.1 || largest >= 1e6);
  }

  std::string operator()(double value) const {
    const double number = unsigned_nan(value);
    return digits_ ? fmt::format("{:.3g}", number) : fmt::format("{:.3f}", number);
  }

 private:
  bool digits_ = false;
};

/// Prints values [row, column] with labels to the left and above.
void print_table(std::ostream& out, const at::Tensor& values, const GridAxis* rows, const GridAxis& columns,
                 const TableFormat& format) {
  const std::string corner = rows ? rows->name + " \\ " + columns.name : columns.name;
  std::size_t margin = width(corner);
  if (rows) {
    for (const auto& label : rows->labels) margin = std::max(margin, width(label));
  }
  const auto n_columns = columns.labels.size();
  const auto* numbers = values.const_data_ptr<double>();
  std::vector<std::string> texts;
  std::vector<std::size_t> widths;
  for (const auto& label : columns.labels) widths.push_back(width(label));
  for (std::size_t i = 0; i < static_cast<std::size_t>(values.numel()); ++i) {
    texts.push_back(format(numbers[i]));
    widths[i % n_columns] = std::max(widths[i % n_columns], texts.back().size());
  }
  out << padded_left(corner, margin);
  for (std::size_t c = 0; c < n_columns; ++c) out << "  " << padded_left(columns.labels[c], widths[c]);
  out << '\n';
  for (std::size_t r = 0; r < static_cast<std::size_t>(values.size(0)); ++r) {
    out << padded_left(rows ? rows->labels[r] : "", margin);
    for (std::size_t c = 0; c < n_columns; ++c)
      out << "  " << padded_left(texts[r * n_columns + c], widths[c]);
    out << '\n';
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Grid& grid) {
  const auto& axes = grid.axes();
  const TableFormat format(grid.values());
  out << grid.title() << " (" << grid.unit() << ")\n";
  if (axes.empty()) return out << format(grid.at({})) << '\n';
  if (axes.size() == 1) {
    print_table(out, grid.values().unsqueeze(0), nullptr, axes[0], format);
    return out;
  }
  const GridAxis& rows = axes[axes.size() - 2];
  const auto n_panels = panel_count(grid);
  const auto panels = grid.values().reshape({n_panels, static_cast<std::int64_t>(rows.labels.size()),
                                             static_cast<std::int64_t>(axes.back().labels.size())});
  for (std::int64_t panel = 0; panel < n_panels; ++panel) {
    std::string heading;
    for (const auto& [axis, place] : panel_place(grid, panel))
      heading += (heading.empty() ? "" : ", ") + axis->name + ' ' + axis->labels[place];
    if (!heading.empty()) out << heading << '\n';
    print_table(out, panels[panel], &rows, axes.back(), format);
  }
  return out;
}

}  // namespace hooked
