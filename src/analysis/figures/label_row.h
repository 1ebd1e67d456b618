#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hooked/analysis/grid.h"

namespace hooked {

/// Labels of an axis along one side of a picture: which are shown, and how.
struct LabelRow {
  /// Labels of places one below the other, `cell` pixels apart.
  static LabelRow beside(const GridAxis& axis, double cell);
  /// Labels of places next to each other, `cell` pixels apart: tilted if too few would fit otherwise.
  static LabelRow below(const GridAxis& axis, double cell);

  std::vector<std::string> texts;  ///< as shown: spaces visible, cut if very long; one per place
  std::int64_t step = 1;           ///< every step-th label is shown
  double font = 12;                ///< pixels
  double widest = 0;               ///< pixels, of those shown
  bool tilted = false;

  bool shows(std::int64_t place) const { return place % step == 0; }
  /// How far labels below the picture reach down.
  double height() const;
  /// How far the first of them reaches to the left of its place's middle.
  double overhang() const;

  /// The element of the label next to a place whose middle is at `y`, right-aligned at `right`.
  std::string beside_element(std::int64_t place, double right, double y, std::string_view css_class) const;
  /// The element of the label below a place whose middle is at `x`, if the picture ends at `foot`.
  std::string below_element(std::int64_t place, double x, double foot, std::string_view css_class) const;
};

/// The least of 1, 2, 5, 10, 20, 50, ... that is at least `number`, to rounding.
std::int64_t round_step(double number);

/// A place of an axis, or several from the first to the last, in words: `pos 3 a`, `pos 3 – 5`.
std::string place_words(const GridAxis& axis, std::int64_t begin, std::int64_t end);

/// The range of the numbers in a part of a picture.
class NumberRange {
 public:
  void add(double number);
  /// `0.5`, `0.5 to 2, NaN`; empty before a number was added.
  std::string words() const;

 private:
  double lowest_ = 0, highest_ = 0;
  bool any_ = false, has_nan_ = false;
};

}  // namespace hooked
