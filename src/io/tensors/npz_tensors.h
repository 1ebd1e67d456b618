#pragma once

#include <memory>
#include <string_view>

#include "hooked/io/file.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

inline constexpr std::string_view kNpzEnding = ".npz";

/// The arrays of a .npz file, as numpy.savez writes it: a zip archive of .npy files, each stored
/// uncompressed. Numbers with the lowest byte first, in either order of axes. Nothing in it is run: arrays of
/// objects, which are pickles, are refused. Throws CheckpointError or IoError. Format:
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
std::unique_ptr<TensorFile> describe_npz(const InputFile& file);

}  // namespace hooked
