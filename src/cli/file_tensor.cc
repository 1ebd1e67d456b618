// Tensors of safetensors files as values of edits.
#include "cli/file_tensor.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/saved_activation.h"
#include "hooked/io/provenance.h"
#include "hooked/io/safetensors.h"

namespace hooked::cli {
namespace {

// Files that do not name a model are the user's own.
void require_model_of(const SafetensorsFile& file, const TensorSource& source) {
  const Provenance from = read_provenance(file);
  const std::shared_ptr<const ModelIdentity> own = source.model.identity();
  if (from.fingerprint.empty() || from.fingerprint == own->fingerprint) return;
  const std::string& meant = source.from_model;
  if (!meant.empty() && (from.model == meant || from.fingerprint.starts_with(meant))) return;
  throw HookError(
      printable(file.path().native()),
      fmt::format("the file is of another model; expected {}{}, got {}; run this model, or say with "
                  "--from-model and the name or fingerprint that the other's values are meant",
                  own->text(), meant.empty() ? "" : fmt::format(" or '{}'", printable(meant)),
                  ModelIdentity{from.model, from.fingerprint}.text()));
}

// The activation that a key names, with the indices; nothing if it names none.
std::optional<Address> address_of(std::string_view key, const ModelConfig& config) {
  const auto bracket = key.find('[');
  try {
    const Stacks stacks{config.n_layers, config.n_encoder_layers()};
    Address address = stacks.resolve(Address(key.substr(0, bracket)).name());
    if (bracket == std::string_view::npos) return address;
    const Address given(key);  // throws what is wrong with the indices
    for (const auto& [axis, index] : given.indices().entries()) address = address.at(axis, index);
    return address;
  } catch (const HookError&) {
    if (bracket == std::string_view::npos || !address_of(key.substr(0, bracket), config)) return std::nullopt;
    throw;
  }
}

// The places of a tensor that has an activation's name, but was not saved with a record of its columns.
at::Tensor block_of_plain(const at::Tensor& value, const Address& address, const std::string& file) {
  const AxisList& axes = row(address.name().site).axes;
  if (value.dim() == static_cast<std::int64_t>(axes.size())) {
    const std::string where = address.name().to_string();
    return take_block(value, address.indices(), {address.name().site, where, {}});
  }
  throw HookError(
      address.to_string(),
      fmt::format("the tensor in {} does not have the activation's axes; expected {} of them, got "
                  "shape {}; name the tensor without indices",
                  printable(file), axes.size(), shape_text(value.sizes())));
}

}  // namespace

FileTensor read_file_tensor(std::string_view path, std::string_view key, const TensorSource& source) {
  const auto file = SafetensorsFile::open(std::string(path));
  require_model_of(file, source);
  const std::string name(key);
  if (file.find(name)) return {.value = file.read(name), .cache = saved_activation(file, name)};
  const auto address = address_of(key, source.model.config());
  if (!address) return {.value = file.read(name), .cache = {}};  // throws the names that it has
  const std::string full = address->name().to_string();
  FileTensor read{.value = file.read(full), .cache = saved_activation(file, full)};
  if (address->indices().empty()) return read;
  read.value = read.cache ? at::Tensor((*read.cache)[*address]).clone()
                          : block_of_plain(read.value, *address, std::string(path)).clone();
  return {.value = std::move(read.value), .cache = {}, .is_block = true};
}

at::Tensor in_dtype(const at::Tensor& value, at::ScalarType dtype, std::string_view where) {
  const bool makes_integers = value.is_floating_point() && !at::isFloatingType(dtype);
  if (value.scalar_type() == dtype || value.is_complex() || makes_integers) return value;
  at::Tensor converted = value.to(dtype);
  if (!at::isFloatingType(dtype)) return converted;
  const at::Tensor wide = value.to(at::kDouble);
  const at::Tensor beyond = converted.to(at::kDouble).isinf().logical_and(wide.isfinite());
  if (!beyond.any().item<bool>()) return converted;
  throw HookError(where,
                  fmt::format("the tensor holds {:g}, which is beyond the range of {}; expected numbers "
                              "that the model's dtype can hold; scale them, or choose another --dtype",
                              wide.masked_select(beyond)[0].item<double>(), dtype_text(dtype)));
}

}  // namespace hooked::cli
