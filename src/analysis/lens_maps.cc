#include "hooked/analysis/lens_maps.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/parse_integer.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/safetensors.h"

namespace hooked {
namespace {

class LensFile {
 public:
  explicit LensFile(const std::filesystem::path& path) : file_(SafetensorsFile::open(path)) {}

  LensMaps maps() const {
    LensMaps maps;
    for (const auto& tensor : file_.tensors()) add(tensor.name, maps);
    if (maps.by_depth.empty()) refuse("the file holds no map");
    for (const auto& [depth, map] : maps.by_depth) {
      if (!map.matrix.defined()) refuse(fmt::format("'{0}.bias' has no '{0}.weight' beside it", depth));
      if (map.matrix.dim() != 2 || map.matrix.size(0) != map.matrix.size(1))
        refuse(fmt::format("a map has the shape {}, which is not square", shape_text(map.matrix.sizes())));
      if (map.bias.defined() && map.bias.sizes() != map.matrix.sizes().slice(1))
        refuse(fmt::format("'{}.bias' has the shape {}, which is not that of its matrix {}", depth,
                           shape_text(map.bias.sizes()), shape_text(map.matrix.sizes())));
    }
    return maps;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw CheckpointError(
        file_.path().string(),
        what +
            "; expected a tuned lens ('0.weight', '0.bias', ...) or a Jacobian lens ('J.0', "
            "..., or 'J' with 'source_layers')");
  }

  at::Tensor read(const std::string& name) const { return file_.read(name).to(at::kDouble); }

  void add(const std::string& name, LensMaps& maps) const {
    const auto dot = name.find('.');
    const auto before = std::string_view(name).substr(0, dot);
    const auto after = dot == std::string::npos ? std::string_view() : std::string_view(name).substr(dot + 1);
    if (const auto depth = parse_integer(before); depth && *depth >= 0) {
      auto& map = maps.by_depth[*depth];
      map.adds = true;
      if (after == "weight") {
        map.matrix = read(name);
        return;
      }
      if (after == "bias") {
        map.bias = read(name);
        return;
      }
    } else if (before == "J" && !after.empty()) {
      if (const auto layer = parse_integer(after); layer && *layer >= 0) {
        maps.by_depth[*layer + 1] = {.matrix = read(name)};
        return;
      }
    } else if (name == "J") {
      return add_all(maps);
    } else if (name == "source_layers" || name == "n_prompts" || name == "d_model") {
      return;  // what the artifacts say besides; the layers are read with J
    }
    refuse(fmt::format("'{}' is no map", name));
  }

  void add_all(LensMaps& maps) const {
    const auto all = read("J");
    if (file_.find("source_layers") == nullptr) refuse("'J' has no 'source_layers' beside it");
    const auto layers = file_.read("source_layers").to(at::kLong);
    if (all.dim() != 3 || layers.dim() != 1 || layers.size(0) != all.size(0))
      refuse(fmt::format("'J' {} and 'source_layers' {} do not fit", shape_text(all.sizes()),
                         shape_text(layers.sizes())));
    for (std::int64_t i = 0; i < all.size(0); ++i)
      maps.by_depth[layers[i].item<std::int64_t>() + 1] = {.matrix = all[i]};
  }

  SafetensorsFile file_;
};

}  // namespace

at::Tensor LensMaps::Map::operator()(const at::Tensor& x) const {
  auto mapped = x.matmul(matrix.to(at::kDouble).t());
  if (bias.defined()) mapped = mapped + bias.to(at::kDouble);
  return adds ? x + mapped : mapped;
}

LensMaps LensMaps::load(const std::filesystem::path& file) { return LensFile(file).maps(); }

}  // namespace hooked
