#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "hooked/analysis/lens_maps.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"

namespace hooked {

/// What must hold for any bytes as the header of a lens's safetensors file, whose data is zeros, as a file of
/// torch.save's, and as the config.json next to a tuned lens of two layers, as the first byte says: they are
/// refused with an Error, or the maps are square and of one width. Returns whether they were accepted; throws
/// std::logic_error where this does not hold.
inline bool lens_maps_property(std::string_view input) {
  const auto [number, bytes] = chosen(input, 3);
  std::filesystem::path path;
  if (number == 0) {
    path = put("lens.safetensors", safetensors_of(bytes, std::string(72, '\0')));
  } else if (number == 1) {
    path = put("lens.pt", bytes);
  } else {
    path = scratch() / "lens";
    std::filesystem::create_directories(path);
    write_bytes(path / "params.safetensors",
                safetensors_of(R"({"0.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                               R"("0.bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},)"
                               R"("1.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[24,40]},)"
                               R"("1.bias":{"dtype":"F32","shape":[2],"data_offsets":[40,48]}})",
                               std::string(48, '\0')));
    write_bytes(path / "config.json", bytes);
  }
  return accepts([&] {
    const LensMaps maps = LensMaps::load(path);
    hold(!maps.by_depth.empty(), "a lens without maps");
    const std::int64_t width = maps.by_depth.begin()->second.matrix.size(0);
    for (const auto& [depth, map] : maps.by_depth) {
      hold(depth >= 0 && depth <= std::int64_t{1} << 20, "a map of no layer");
      hold(map.matrix.sizes() == at::IntArrayRef({width, width}), "a map of another shape");
      hold(!map.bias.defined() || map.bias.sizes() == at::IntArrayRef({width}), "a bias of another shape");
    }
    hold(!maps.target_depth || *maps.target_depth >= 0, "a lens that ends before the model begins");
  });
}

}  // namespace hooked
