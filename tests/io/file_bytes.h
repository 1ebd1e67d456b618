#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "hooked/core/error.h"

namespace hooked {

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void put_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Eight little-endian bytes, as a safetensors file begins.
inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(length >> (8 * i) & 0xFF));
  return bytes;
}

inline std::string safetensors_bytes(std::string_view header, std::string_view data = {}) {
  return length_bytes(header.size()) + std::string(header) + std::string(data);
}

/// Names in a folder, to see that nothing was left over.
inline std::set<std::string> names_left_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().native());
  return names;
}

/// Runs `action`, which must throw exactly `Expected` about `where` with each of `parts` in its text.
template <class Expected, class Action>
void expect_refused(Action&& action, std::string_view where, std::initializer_list<std::string_view> parts) {
  try {
    action();
  } catch (const Expected& error) {
    EXPECT_EQ(error.where(), where);
    for (const auto part : parts) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "no '" << part << "' in: " << error.what();
    }
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another class of error: " << error.what();
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

}  // namespace hooked
