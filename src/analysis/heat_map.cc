#include "hooked/analysis/heat_map.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace hooked {
namespace {

struct Colour {
  double red, green, blue;  // 0 to 255
};

// ColorBrewer's RdBu (Brewer 2003, colorbrewer2.org) from the strongest red through white to the strongest
// blue: readable for all common kinds of colour blindness.
constexpr std::array<Colour, 11> kScale = {{{103, 0, 31},
                                            {178, 24, 43},
                                            {214, 96, 77},
                                            {244, 165, 130},
                                            {253, 219, 199},
                                            {255, 255, 255},
                                            {209, 229, 240},
                                            {146, 197, 222},
                                            {67, 147, 195},
                                            {33, 102, 172},
                                            {5, 48, 97}}};
constexpr Colour kNotFinite = {200, 200, 200};

/// The colour of `share`, from -1 to 1 of the limit.
Colour colour_of(double share) {
  if (!std::isfinite(share)) return kNotFinite;
  const double place = (std::clamp(share, -1.0, 1.0) + 1) / 2 * (kScale.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), kScale.size() - 2);
  const double t = place - static_cast<double>(below);
  const auto mix = [t](double a, double b) { return a + t * (b - a); };
  const Colour &a = kScale[below], &b = kScale[below + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

std::string hex(const Colour& c) {
  return fmt::format("#{:02x}{:02x}{:02x}", std::lround(c.red), std::lround(c.green), std::lround(c.blue));
}

/// Black or white, whichever is readable on `c` (relative luminance, ITU-R BT.709 weights).
const char* ink_on(const Colour& c) {
  return 0.2126 * c.red + 0.7152 * c.green + 0.0722 * c.blue > 140 ? "#222222" : "#ffffff";
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters have no place in XML 1.0.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

/// A number short enough for a cell, as exact as the picture's largest number makes worthwhile.
std::string short_number(double value, double limit) {
  if (!std::isfinite(value)) return "";
  if (limit >= 1e5 || limit < 0.05) return value == 0 ? "0" : fmt::format("{:.0e}", value);
  auto text = fmt::format("{:.{}f}", value, limit >= 100 ? 0 : limit >= 10 ? 1 : 2);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  return is_zero && text.front() == '-' ? text.substr(1) : text;
}

std::size_t longest(const std::vector<std::string>& labels) {
  std::size_t length = 0;
  for (const auto& label : labels) length = std::max(length, label.size());
  return length;
}

constexpr double kFont = 12;             // pixels
constexpr double kLetter = 0.6 * kFont;  // a letter's width, generously
constexpr double kHeader = 48;           // height of title and unit
constexpr double kBarSpace = 64;         // width of the colour bar with its numbers
constexpr double kGap = 14;              // between the parts of the picture

/// Draws one grid; holds what the parts of the picture need of each other.
class Drawing {
 public:
  Drawing(const Grid& grid, const HeatMapOptions& options) : grid_(grid), cell_(options.cell) {
    const auto& axes = grid.axes();
    columns_ = &axes.back();
    rows_ = axes.size() > 1 ? &axes[axes.size() - 2] : nullptr;
    panels_ = axes.size() > 2 ? &axes[0] : nullptr;
    values_ = grid.values();
    while (values_.dim() < 3) values_ = values_.unsqueeze(0);  // [panel, row, column]
    limit_ = options.limit > 0 ? options.limit : largest_size();
    left_ = kGap + (rows_ ? kFont + 8 + kLetter * static_cast<double>(longest(rows_->labels)) : 0) + 6;
    tilted_ = kLetter * static_cast<double>(longest(columns_->labels)) > cell_ - 4;
    label_height_ =
        tilted_ ? 0.75 * kLetter * static_cast<double>(longest(columns_->labels)) + kFont : kFont + 8;
  }

  std::string svg() {
    const double panel_width = cell_ * static_cast<double>(values_.size(2));
    const double panel_height = cell_ * static_cast<double>(values_.size(1));
    const double panel_title = panels_ ? kFont + 10 : 0;
    const double bar_height = std::max(panel_height, 90.0);
    const double first_top = kHeader + panel_title;
    double y = kHeader;
    for (std::int64_t p = 0; p < values_.size(0); ++p) {
      if (panels_) {
        text(left_, y + kFont, panels_->name + ' ' + panels_->labels[static_cast<std::size_t>(p)], "start",
             kFont, 600);
      }
      draw_panel(values_[p], y + panel_title);
      y += panel_title + panel_height + label_height_ + kGap;
    }
    text(left_ + panel_width / 2, y + 2, columns_->name, "middle", kFont, 400);
    draw_colour_bar(left_ + panel_width + kGap + 4, first_top, bar_height);

    const double height = std::max(y + kGap, first_top + bar_height + kGap) + 4;
    const double title_width = 8.6 * static_cast<double>(grid_.title().size()) + 2 * kGap;
    const double unit_width = kLetter * static_cast<double>(grid_.unit().size()) + 2 * kGap;
    const double width = std::max({left_ + panel_width + kGap + kBarSpace, title_width, unit_width});
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
               "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, 'DejaVu Sans', "
               "sans-serif\">\n"
               "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
               width, height, escaped(grid_.title())) +
           header() + body_ + "</svg>\n";
  }

 private:
  double largest_size() const {
    double largest = 0;
    const auto flat = values_.flatten();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const double value = flat[i].item<double>();
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    return largest > 0 ? largest : 1;
  }

  std::string header() const {
    return fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"15\" font-weight=\"600\" fill=\"#222222\">{}</text>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{}\" fill=\"#666666\">{}</text>\n",
        kGap, kGap + 8, escaped(grid_.title()), kGap, kGap + 24, kFont - 1, escaped(grid_.unit()));
  }

  void text(double x, double y, const std::string& words, const char* anchor, double size, int weight) {
    body_ += fmt::format(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{:.1f}\" font-weight=\"{}\" "
        "fill=\"#222222\">{}</text>\n",
        x, y, anchor, size, weight, escaped(words));
  }

  void turned_text(double x, double y, const std::string& words, double degrees) {
    body_ += fmt::format(
        "<text transform=\"translate({:.1f},{:.1f}) rotate({})\" text-anchor=\"{}\" font-size=\"{}\" "
        "fill=\"#222222\">{}</text>\n",
        x, y, degrees, degrees == -90 ? "middle" : "end", kFont, escaped(words));
  }

  void draw_panel(const at::Tensor& values, double top) {
    const auto n_rows = values.size(0), n_columns = values.size(1);
    const double number_size = std::min(11.0, cell_ * 0.34);
    for (std::int64_t r = 0; r < n_rows; ++r) {
      for (std::int64_t c = 0; c < n_columns; ++c) {
        const double value = values[r][c].item<double>();
        const Colour colour = colour_of(value / limit_);
        const double x = left_ + cell_ * static_cast<double>(c), y = top + cell_ * static_cast<double>(r);
        const std::string place =
            (rows_ ? rows_->name + ' ' + rows_->labels[static_cast<std::size_t>(r)] + ", " : std::string()) +
            columns_->name + ' ' + columns_->labels[static_cast<std::size_t>(c)];
        body_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
            "stroke=\"#ffffff\">"
            "<title>{}: {}</title></rect>\n",
            x, y, cell_, cell_, hex(colour), escaped(place), value);
        if (cell_ >= 24) {
          body_ += fmt::format(
              "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" font-size=\"{:.1f}\" "
              "fill=\"{}\">{}</text>\n",
              x + cell_ / 2, y + cell_ / 2 + number_size * 0.36, number_size, ink_on(colour),
              short_number(value, limit_));
        }
      }
      if (rows_) {
        text(left_ - 6, top + cell_ * (static_cast<double>(r) + 0.5) + kFont * 0.36,
             rows_->labels[static_cast<std::size_t>(r)], "end", kFont, 400);
      }
    }
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
        "stroke=\"#999999\"/>\n",
        left_, top, cell_ * static_cast<double>(n_columns), cell_ * static_cast<double>(n_rows));
    if (rows_) turned_text(kGap + 4, top + cell_ * static_cast<double>(n_rows) / 2, rows_->name, -90);
    const double foot = top + cell_ * static_cast<double>(n_rows);
    for (std::int64_t c = 0; c < n_columns; ++c) {
      const double middle = left_ + cell_ * (static_cast<double>(c) + 0.5);
      const auto& label = columns_->labels[static_cast<std::size_t>(c)];
      if (tilted_) {
        turned_text(middle + 4, foot + kFont, label, -45);
      } else {
        text(middle, foot + kFont + 4, label, "middle", kFont, 400);
      }
    }
  }

  void draw_colour_bar(double x, double top, double height) {
    constexpr double kBarWidth = 12;
    constexpr int kSteps = 41;
    for (int i = 0; i < kSteps; ++i) {
      const double share = 1 - 2.0 * i / (kSteps - 1);
      body_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.2f}\" width=\"{}\" height=\"{:.2f}\" fill=\"{}\"/>\n", x,
                      top + height * i / kSteps, kBarWidth, height / kSteps + 0.5, hex(colour_of(share)));
    }
    body_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" fill=\"none\" stroke=\"#999999\"/>\n",
        x, top, kBarWidth, height);
    for (const int sign : {1, 0, -1}) {
      const std::string number = sign == 0 ? "0" : short_number(sign * limit_, limit_);
      text(x + kBarWidth + 5, top + height * (1 - sign) / 2 + kFont * 0.3, number, "start", kFont - 1, 400);
    }
  }

  const Grid& grid_;
  double cell_;
  const GridAxis* columns_;
  const GridAxis* rows_;    // null for a grid of one axis
  const GridAxis* panels_;  // null for fewer than three axes
  at::Tensor values_;       // [panel, row, column]
  double limit_ = 1;
  double left_ = 0;
  double label_height_ = 0;
  bool tilted_ = false;
  std::string body_;
};

}  // namespace

std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options) {
  return Drawing(grid, options).svg();
}

}  // namespace hooked
