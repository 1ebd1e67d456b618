#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace hooked {

/// A tensor of tests/golden/tensors.txt; tests/golden/makers/drawn.py says what the fields mean.
struct DrawnTensor {
  std::string name;
  std::string dtype;  ///< as safetensors files have it
  std::vector<std::int64_t> shape;
  std::string how;  ///< a power of two, `norm`, `=number` or `@name`
};

/// The lists of the file by model folder (`cases/llama`), with a name for each number of a `{0-3}`.
/// Throws std::runtime_error with the line that it cannot read.
std::map<std::string, std::vector<DrawnTensor>> read_drawn(const std::filesystem::path& file);

/// The numbers of a tensor in a folder of that name, of any way to draw but `@`. Throws std::runtime_error
/// for a dtype or a way that it does not know.
at::Tensor draw(const std::string& folder, const DrawnTensor& tensor);

/// Writes the model folders of `goldens` (tests/golden) into `out`, replacing what was there: each of
/// `cases` and `models` without what was recorded, and with the weights that tensors.txt lists for it. The
/// adapters are copied too: their configs find their base by a relative path.
void write_model_folders(const std::filesystem::path& goldens, const std::filesystem::path& out);

}  // namespace hooked
