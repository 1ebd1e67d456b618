#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "hooked/engine/hooked_transformer.h"
#include "hooked/weights/processing.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/scratch.h"
#include "tests/fuzz/small_model.h"

namespace hooked {

/// A folder with the packed weights of a small model.
inline const std::filesystem::path& packed_folder() {
  static const std::filesystem::path folder = [] {
    const auto path = scratch() / "packed";
    small_model().save(path, {.packed = true});
    return path;
  }();
  return folder;
}

/// What must hold for any bytes in the place of a packed folder's config.json, or of the header of its packed
/// weights, as the first byte says: the folder is refused with an Error, or there is a model that runs, and
/// that is the same after it was saved and loaded. Returns whether they were accepted; throws
/// std::logic_error where this does not hold.
inline bool packed_property(std::string_view input) {
  const std::filesystem::path& folder = packed_folder();
  static const std::array kFiles = {folder / "config.json", folder / "packed.safetensors"};
  static const std::array kOriginal = {bytes_of(kFiles[0]), bytes_of(kFiles[1])};
  const auto [number, bytes] = chosen(input, kFiles.size());
  for (std::size_t i = 0; i < kFiles.size(); ++i)
    write_bytes(kFiles.at(i), i != number ? kOriginal.at(i)
                              : i == 0    ? std::string(bytes)
                                          : safetensors_of(bytes, data_of(kOriginal[1])));
  const LoadOptions options = {.processing = WeightProcessing::none()};
  return accepts([&] {
    const auto model = HookedTransformer::load(folder.native(), options);
    if (model.config().parameter_count() > 10'000) return;
    const at::Tensor tokens = at::zeros({1, 2}, at::kLong);
    const at::Tensor logits = model.run(tokens).logits();
    hold(logits.size(1) == 2 && logits.size(2) == model.config().d_vocab_out(), "logits of another shape");
    const auto saved = scratch() / "saved";
    std::filesystem::remove_all(saved);
    model.save(saved, {.packed = true});
    const at::Tensor again = HookedTransformer::load(saved.native(), options).run(tokens).logits();
    hold(std::memcmp(logits.contiguous().const_data_ptr(), again.contiguous().const_data_ptr(),
                     logits.nbytes()) == 0,
         "other logits");
  });
}

}  // namespace hooked
