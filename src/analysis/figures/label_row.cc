#include "analysis/figures/label_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/figures/picture_page.h"
#include "analysis/figures/picture_text.h"

namespace hooked {
namespace {

constexpr double kSinus = 0.7072;         // of the angle by which labels tilt
constexpr double kLine = 1.15;            // of the font's size
constexpr std::size_t kLabelLength = 24;  // characters

/// Labels whose lines need `line` times the font's size of each cell.
LabelRow labels_of(const GridAxis& axis, double cell, double line) {
  LabelRow labels;
  for (const auto& label : axis.labels) labels.texts.push_back(shortened(visible_label(label), kLabelLength));
  labels.font = std::clamp(cell / line, 9.0, 12.0);
  return labels;
}

double widest_shown(const LabelRow& labels) {
  double widest = 0;
  for (std::size_t i = 0; i < labels.texts.size(); ++i) {
    if (labels.shows(static_cast<std::int64_t>(i)))
      widest = std::max(widest, text_width(labels.texts[i], labels.font));
  }
  return widest;
}

std::string label_element(const LabelRow& labels, std::int64_t place, double x, double y,
                          std::string_view css_class, std::string_view turn) {
  return svg_text(x, y, css_class, labels.texts[static_cast<std::size_t>(place)],
                  fmt::format(" transform=\"translate({:.1f},{:.1f}){}\" style=\"font-size:{:.1f}px\"", x, y,
                              turn, labels.font));
}

}  // namespace

std::int64_t round_step(double number) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      if (static_cast<double>(digit * power) >= number - 1e-6) return digit * power;
    }
  }
}

LabelRow LabelRow::beside(const GridAxis& axis, double cell) {
  LabelRow labels = labels_of(axis, cell, kLine);
  labels.step = round_step(kLine * labels.font / cell);
  labels.widest = widest_shown(labels);
  return labels;
}

LabelRow LabelRow::below(const GridAxis& axis, double cell) {
  constexpr double kTiltedLine = kLine / kSinus;
  LabelRow labels = labels_of(axis, cell, kTiltedLine);
  const auto lying = round_step((widest_shown(labels) + 6) / cell),
             tilted = round_step(kTiltedLine * labels.font / cell);
  labels.tilted = lying > 1 && (tilted == 1 || lying > 4 * tilted);
  labels.step = labels.tilted ? tilted : lying;
  labels.widest = widest_shown(labels);
  return labels;
}

double LabelRow::height() const { return tilted ? kSinus * (widest + font) + 8 : font + 8; }

double LabelRow::overhang() const { return tilted ? kSinus * (widest + font) : 0; }

std::string LabelRow::beside_element(std::int64_t place, double right, double y,
                                     std::string_view css_class) const {
  return label_element(*this, place, right, y + font * 0.36, fmt::format("end {}", css_class), "");
}

std::string LabelRow::below_element(std::int64_t place, double x, double foot,
                                    std::string_view css_class) const {
  return tilted ? label_element(*this, place, x + 4, foot + font, fmt::format("end {}", css_class),
                                " rotate(-45)")
                : label_element(*this, place, x, foot + font + 4, fmt::format("middle {}", css_class), "");
}

std::string place_words(const GridAxis& axis, std::int64_t begin, std::int64_t end) {
  const auto label = [&](std::int64_t i) {
    return shortened(visible_label(axis.labels[static_cast<std::size_t>(i)]), end - begin > 1 ? 12 : 40);
  };
  return axis.name + ' ' + label(begin) + (end - begin > 1 ? " – " + label(end - 1) : "");
}

void NumberRange::add(double number) {
  if (std::isnan(number)) {
    has_nan_ = true;
    return;
  }
  lowest_ = any_ ? std::min(lowest_, number) : number;
  highest_ = any_ ? std::max(highest_, number) : number;
  any_ = true;
}

std::string NumberRange::words() const {
  std::string words = any_ ? readable_number(lowest_) : "";
  if (lowest_ < highest_) words += " to " + readable_number(highest_);
  if (has_nan_) words += words.empty() ? "NaN" : ", NaN";
  return words;
}

}  // namespace hooked
