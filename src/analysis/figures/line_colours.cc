#include "analysis/figures/line_colours.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

namespace hooked {
namespace {

// Up to six lines: after Okabe and Ito 2008, readable for the common kinds of colour blindness, darker on a
// light page and lighter on a dark one.
constexpr std::array<Rgb, 6> kLightLines = {{{0x00, 0x68, 0xA8},
                                             {0xC8, 0x4E, 0x00},
                                             {0x00, 0x85, 0x60},
                                             {0xA8, 0x3C, 0x7C},
                                             {0x8A, 0x6A, 0x00},
                                             {0x50, 0x50, 0x50}}};
constexpr std::array<Rgb, 6> kDarkLines = {{{0x5A, 0xB4, 0xF0},
                                            {0xFF, 0x92, 0x50},
                                            {0x3C, 0xC9, 0x9A},
                                            {0xF0, 0x90, 0xC8},
                                            {0xE0, 0xC0, 0x40},
                                            {0xC8, 0xC8, 0xC8}}};

}  // namespace

std::vector<Rgb> line_colours(std::int64_t count, bool dark) {
  const auto& own = dark ? kDarkLines : kLightLines;
  if (count <= static_cast<std::int64_t>(own.size())) return {own.begin(), own.begin() + count};
  const ColourScale scale(at::zeros({0}, at::kDouble), at::zeros({0}, at::kBool), {.palette = "viridis"});
  const auto levels = scale.colours(dark);
  // The end that is close to the page's colour is left out.
  const double first = dark ? 28 : 0, last = dark ? 100 : 82;
  std::vector<Rgb> colours;
  for (std::int64_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(count - 1);
    colours.push_back(levels[static_cast<std::size_t>(std::lround(first * (1 - t) + last * t))]);
  }
  return colours;
}

}  // namespace hooked
