#include "analysis/figures/heat_map_layout.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/figures/svg.h"
#include "analysis/values/row_major.h"
#include "core/number_text.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

constexpr std::int64_t kSingleCells = 4096;     // more cells than this become an image
constexpr std::int64_t kSquaresOfImage = 1024;  // which show their range

std::int64_t cells_across(std::int64_t n, std::int64_t each, std::int64_t gap) { return n * (each + gap); }

/// The number of panels per row that makes the whole about one and a half times as wide as it is high, with
/// few empty places.
std::int64_t panels_for_a_page(std::int64_t panels, std::int64_t rows, std::int64_t columns) {
  std::int64_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t per_row = 1; per_row <= panels; ++per_row) {
    const auto down = (panels + per_row - 1) / per_row;
    const auto wide = static_cast<double>(cells_across(per_row, columns, 1));
    const auto high = static_cast<double>(cells_across(down, rows, 2));
    const double empty = static_cast<double>(per_row * down - panels) / static_cast<double>(panels);
    const double badness = std::abs(std::log(wide / high / 1.5)) + empty;
    if (badness < least) {
      least = badness;
      best = per_row;
    }
  }
  return best;
}

std::int64_t cell_for_a_page(std::int64_t widest) {
  constexpr std::int64_t kPage = 900;
  return std::clamp<std::int64_t>(kPage / std::max<std::int64_t>(widest, 1), widest <= 600 ? 2 : 1, 34);
}

/// Whether all keys after a query have 0, or -inf, as in a causal model, and not all others do.
at::Tensor causal_blank(const Grid& grid) {
  const auto& values = grid.values();
  const auto none = at::zeros(values.sizes(), at::kBool);
  const auto& axes = grid.axes();
  if (axes.size() < 2 || axes.back().name != "key" || axes[axes.size() - 2].name != "query") return none;
  const auto later = at::ones(values.sizes(), at::kBool).triu(values.size(-1) - values.size(-2) + 1);
  const auto empty = values.eq(0).logical_or(values.eq(-std::numeric_limits<double>::infinity()));
  const bool causal = later.any().item<bool>() && empty.logical_or(later.logical_not()).all().item<bool>() &&
                      !empty.all().item<bool>();
  return causal ? later : none;
}

bool fits_cell(const std::string& words, double font, std::int64_t cell) {
  const auto side = static_cast<double>(cell);
  return text_width(words, font) <= side - 6 && 1.4 * font <= side;
}

}  // namespace

HeatMapLayout::HeatMapLayout(const Grid& grid, const HeatMapOptions& options) {
  const auto& axes = grid.axes();
  const auto size = [](const GridAxis& axis) { return static_cast<std::int64_t>(axis.labels.size()); };
  columns = size(axes.back());
  rows = axes.size() > 1 ? size(axes[axes.size() - 2]) : 1;
  panels = panel_count(grid);
  per_row = options.panels_per_row > 0 ? std::min(options.panels_per_row, std::max<std::int64_t>(panels, 1))
                                       : panels_for_a_page(panels, rows, columns);
  cell = options.cell > 0 ? options.cell : cell_for_a_page(std::max(per_row * columns, panel_rows() * rows));
  block = 1;
  if (panels * rows * columns > kSingleCells) {
    const auto blocks = [&](std::int64_t n) { return (n + block - 1) / block; };
    do {
      ++block;
    } while (panels * blocks(rows) * blocks(columns) > std::max(kSquaresOfImage, panels));
  }
  const auto cell_width = static_cast<double>(cell);
  panel_width = cell_width * static_cast<double>(columns);
  panel_height = cell_width * static_cast<double>(rows);

  column_labels = LabelRow::below(axes.back(), cell_width);
  label_height = column_labels.height();
  left = kPictureMargin + 6;
  if (axes.size() > 1) {
    row_labels = LabelRow::beside(axes[axes.size() - 2], cell_width);
    left += 20 + row_labels.widest;
  }
  // How far the first of the tilted labels reaches to the left of its panel.
  const double overhang = column_labels.tilted ? column_labels.overhang() - cell_width / 2 : 0;
  left = std::max(left, kPictureMargin + overhang);
  left = std::ceil(left);

  constexpr double kTitleRoom = 240;  // a narrow panel leaves this much for its title
  double title_height = 0, widest_title = 0;
  if (axes.size() > 2) {
    title_height = 22;
    const double room = std::max(panel_width + 12, kTitleRoom);
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      std::string title;
      for (const auto& [axis, place] : panel_place(grid, panel))
        title += (title.empty() ? "" : ", ") + axis->name + ' ' + visible_label(axis->labels[place]);
      for (std::size_t length = 40; length > 4 && bold_width(title, kPictureFont) > room; --length)
        title = shortened(title, length);
      widest_title = std::max(widest_title, bold_width(title, kPictureFont));
      panel_titles.push_back(std::move(title));
    }
  }
  top = kPictureHeader + title_height;
  // If the last row of panels is short, labels of the row above reach in next to its last panel.
  panel_extent = widest_title > panel_width + 12 ? std::ceil(widest_title) : panel_width;
  across = panel_extent + std::max(18.0, panels % per_row != 0 ? std::ceil(overhang) : 0);
  down = panel_height + title_height + 10;
}

at::Tensor blank_cells(const Grid& grid, const at::Tensor& asked) {
  if (!asked.defined()) return causal_blank(grid);
  const auto shape = grid.values().sizes();
  bool fits = asked.scalar_type() == at::kBool && asked.dim() <= grid.values().dim();
  for (std::int64_t i = 1; fits && i <= asked.dim(); ++i)
    fits = asked.size(-i) == 1 || asked.size(-i) == grid.values().size(-i);
  if (!fits) {
    throw ShapeError(
        "heat map",
        fmt::format("blank does not fit the grid; expected bool {}, or what broadcasts to it, "
                    "got {} {}; true says that a cell stays empty",
                    shape_text(shape), dtype_text(asked.scalar_type()), shape_text(asked.sizes())));
  }
  return asked.to(at::kCPU).expand(shape).contiguous();
}

std::optional<NumberFormat> NumberFormat::that_fits(std::span<const double> numbers, std::int64_t cell) {
  double largest = 0;
  bool whole = true;
  for (const double number : numbers) {
    largest = std::max(largest, std::abs(number));
    whole = whole && number == std::round(number);
  }
  NumberFormat format;
  if (largest != 0 && (largest < 0.1 || largest >= 1e4))
    format.exponent = static_cast<int>(std::floor(std::log10(largest)));
  const double most = largest / std::pow(10.0, format.exponent);
  const int best = most >= 100 || (whole && format.exponent == 0) ? 0 : most >= 10 ? 1 : 2;
  for (format.decimals = best; format.decimals >= std::min(best, 1); --format.decimals) {
    for (format.font = 11; format.font >= 9; --format.font) {
      if (std::all_of(numbers.begin(), numbers.end(),
                      [&](double number) { return fits_cell(format(number), format.font, cell); }))
        return format;
    }
  }
  return std::nullopt;
}

std::string NumberFormat::operator()(double number) const {
  if (number == 0 || !std::isfinite(number)) return readable_number(number);
  return fixed_text(number / std::pow(10.0, exponent), decimals);
}

std::string NumberFormat::if_it_fits(double number, std::int64_t cell) const {
  if (keeps_small && number > 0 && (*this)(number).find_first_not_of("0.") == std::string::npos) {
    std::string words = fmt::format("{:.0e}", number / std::pow(10.0, exponent));
    if (const auto zero = words.find("e-0"); zero != std::string::npos) words.erase(zero + 2, 1);
    return fits_cell(words, font, cell) ? words : "";
  }
  if (auto words = (*this)(number); fits_cell(words, font, cell)) return words;
  if (auto words = readable_number(number, 2); exponent == 0 && fits_cell(words, font, cell)) return words;
  return "";
}

}  // namespace hooked
