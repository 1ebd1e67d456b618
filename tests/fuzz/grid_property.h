#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "hooked/analysis/grid.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

inline bool same_numbers(const at::Tensor& one, const at::Tensor& other) {
  if (one.sizes() != other.sizes()) return false;
  const auto* a = one.const_data_ptr<double>();
  const auto* b = other.const_data_ptr<double>();
  for (std::int64_t i = 0; i < one.numel(); ++i) {
    const bool same =
        std::isnan(a[i]) ? std::isnan(b[i]) : a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
    if (!same) return false;
  }
  return true;
}

inline bool same_grid(const Grid& one, const Grid& other) {
  const auto& a = one.interval();
  const auto& b = other.interval();
  return one.axes() == other.axes() && one.title() == other.title() && one.unit() == other.unit() &&
         same_numbers(one.values(), other.values()) && a.has_value() == b.has_value() &&
         (!a || (a->about == b->about && same_numbers(a->low, b->low) && same_numbers(a->high, b->high)));
}

/// What must hold for any bytes as a file of a grid, of the form that the first byte chooses: they are
/// refused with an Error, or the grid is the same after it was saved and loaded, in each form that takes it.
/// In a safetensors file the bytes are its header, and its data is a few zeros. Returns whether they were
/// accepted; throws std::logic_error where this does not hold.
inline bool grid_property(std::string_view input) {
  constexpr std::array kFiles = {"grid.json", "grid.csv", "grid.safetensors"};
  const auto [number, bytes] = chosen(input, kFiles.size());
  const auto file =
      put(kFiles.at(number), number == 2 ? safetensors_of(bytes, std::string(96, '\0')) : std::string(bytes));
  return accepts([&] {
    const Grid grid = Grid::load(file);
    for (const char* const name : {"saved.json", "saved.csv", "saved.safetensors"}) {
      const bool saved = accepts<ShapeError>([&] { grid.save(scratch() / name, Overwrite::any); });
      hold(saved || name == std::string_view("saved.csv"), "a grid that cannot be saved");
      if (saved) hold(same_grid(Grid::load(scratch() / name), grid), "a grid that changes");
    }
  });
}

}  // namespace hooked
