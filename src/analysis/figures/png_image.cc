#include "analysis/figures/png_image.h"

#include <libdeflate.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string_view>

#include "core/base64.h"

namespace hooked {
namespace {

void append_big_endian(std::string& out, std::uint32_t number) {
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>((number >> shift) & 0xFF);
}

void append_chunk(std::string& png, std::string_view type, std::string_view data) {
  append_big_endian(png, static_cast<std::uint32_t>(data.size()));
  const auto begin = png.size();
  png.append(type).append(data);
  append_big_endian(png, libdeflate_crc32(0, png.data() + begin, png.size() - begin));
}

/// `data` as a zlib stream.
std::string compressed(std::string_view data) {
  const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
      libdeflate_alloc_compressor(9), &libdeflate_free_compressor);
  if (!compressor) throw std::bad_alloc();
  std::string out(libdeflate_zlib_compress_bound(compressor.get(), data.size()), '\0');
  out.resize(libdeflate_zlib_compress(compressor.get(), data.data(), data.size(), out.data(), out.size()));
  return out;
}

}  // namespace

std::string png_data_address(std::span<const std::uint8_t> pixels, std::size_t width,
                             std::span<const Rgb> palette) {
  const auto height = pixels.size() / width;
  std::string header;
  append_big_endian(header, static_cast<std::uint32_t>(width));
  append_big_endian(header, static_cast<std::uint32_t>(height));
  header += std::string("\x08\x03\0\0\0", 5);  // 8 bits, palette, no interlacing
  std::string colours;
  for (const auto& colour : palette) colours.append(colour.begin(), colour.end());
  std::string opacity(palette.size(), '\xFF');
  opacity.back() = '\0';
  std::string rows;
  for (std::size_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + row * width, width);
  }
  std::string png = "\x89PNG\r\n\x1A\n";
  append_chunk(png, "IHDR", header);
  append_chunk(png, "PLTE", colours);
  append_chunk(png, "tRNS", opacity);
  append_chunk(png, "IDAT", compressed(rows));
  append_chunk(png, "IEND", "");
  return "data:image/png;base64," + encode_base64(png);
}

}  // namespace hooked
