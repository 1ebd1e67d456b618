#include "analysis/figures/heat_map_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/figures/picture_page.h"
#include "analysis/figures/picture_text.h"
#include "analysis/values/grid_panels.h"

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

  double title_height = 0;
  if (axes.size() > 2) {
    title_height = 22;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      std::string title;
      for (const auto& [axis, place] : panel_place(grid, panel))
        title += (title.empty() ? "" : ", ") + axis->name + ' ' + visible_label(axis->labels[place]);
      for (std::size_t length = 40; length > 4 && text_width(title, 13) > panel_width + 12; --length)
        title = shortened(title, length);
      panel_titles.push_back(std::move(title));
    }
  }
  top = kPictureHeader + title_height;
  // If the last row of panels is short, labels of the row above reach in next to its last panel.
  across = panel_width + std::max(18.0, panels % per_row != 0 ? std::ceil(overhang) : 0);
  down = panel_height + title_height + 10;
}

}  // namespace hooked
