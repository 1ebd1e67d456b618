#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_header.h"
#include "io/gguf/gguf_value.h"

namespace hooked {

/// The lowest `width` bytes of a number, little-endian.
inline std::string little(std::uint64_t number, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<char>(number >> (8 * i) & 0xFFU));
  return bytes;
}

inline std::string gguf_text(std::string_view text) { return little(text.size(), 8) + std::string(text); }

inline std::string gguf_type(GgufType type) { return little(static_cast<std::uint64_t>(type), 4); }

/// The header of a file of these bytes. Throws CheckpointError, in the name of `where`.
inline GgufHeader gguf_header_of(std::string_view bytes, std::string_view where) {
  const auto read = [&](std::uint64_t offset, std::span<std::byte> into) {
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()) + offset, into.size(), into.begin());
  };
  return read_gguf_header(bytes.size(), read, where);
}

/// A GGUF file as bytes, each part under the control of the test.
struct GgufBytes {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::string> entries = {};  ///< keys with their values, as stored in a file
  std::vector<std::string> tensors = {};  ///< their descriptions
  std::string data = {};
  std::uint64_t alignment = 32;                     ///< of the data
  std::uint64_t entry_count = 0, tensor_count = 0;  ///< added to the true ones

  GgufBytes& number(std::string_view key, GgufType type, std::uint64_t value, int width) {
    entries.push_back(gguf_text(key) + gguf_type(type) + little(value, width));
    return *this;
  }
  GgufBytes& uint32(std::string_view key, std::uint32_t value) {
    return number(key, GgufType::uint32, value, 4);
  }
  GgufBytes& float32(std::string_view key, float value) {
    return number(key, GgufType::float32, std::bit_cast<std::uint32_t>(value), 4);
  }
  GgufBytes& boolean(std::string_view key, std::uint8_t value) {
    return number(key, GgufType::boolean, value, 1);
  }
  GgufBytes& text(std::string_view key, std::string_view value) {
    entries.push_back(gguf_text(key) + gguf_type(GgufType::text) + gguf_text(value));
    return *this;
  }
  /// An array of `count` elements, whose bytes are `elements`.
  GgufBytes& array(std::string_view key, GgufType type, std::uint64_t count, std::string_view elements) {
    entries.push_back(gguf_text(key) + gguf_type(GgufType::array) + gguf_type(type) + little(count, 8) +
                      std::string(elements));
    return *this;
  }
  /// The description of a tensor of these sizes, the last axis' first.
  GgufBytes& tensor(std::string_view name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                    std::uint64_t offset) {
    std::string bytes = gguf_text(name) + little(sizes.size(), 4);
    for (const std::uint64_t size : sizes) bytes += little(size, 8);
    tensors.push_back(bytes + little(type, 4) + little(offset, 8));
    return *this;
  }

  std::string header() const {
    std::string bytes = magic + little(version, 4) + little(tensors.size() + tensor_count, 8) +
                        little(entries.size() + entry_count, 8);
    for (const std::string& entry : entries) bytes += entry;
    for (const std::string& tensor : tensors) bytes += tensor;
    return bytes;
  }
  /// The whole file.
  std::string bytes() const {
    std::string all = header();
    if (!data.empty()) all.resize((all.size() + alignment - 1) / alignment * alignment);
    return all + data;
  }
};

}  // namespace hooked
