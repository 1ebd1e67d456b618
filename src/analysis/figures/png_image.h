#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace hooked {

/// A colour of the screen (sRGB).
using Rgb = std::array<std::uint8_t, 3>;

/// A PNG image as a `data:` address. `pixels` holds rows of `width` indices into `palette`; the last colour
/// of the palette is transparent.
std::string png_data_address(std::span<const std::uint8_t> pixels, std::size_t width,
                             std::span<const Rgb> palette);

}  // namespace hooked
