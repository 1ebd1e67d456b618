#include "families/storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/config_reader.h"

namespace hooked {
namespace {

using Keys = std::initializer_list<std::string_view>;

void read_modules(const ConfigReader& group, Keys keys, QuantisedStorage& storage) {
  for (const std::string_view key : keys) {
    if (!group.has(key)) continue;
    const std::vector<std::string> modules = group.texts(key);
    storage.as_they_are.insert(storage.as_they_are.end(), modules.begin(), modules.end());
  }
}

// `key` must say one of `allowed`, or nothing.
void one_of_texts(const ConfigReader& group, std::string_view key, Keys allowed) {
  if (!group.has(key)) return;
  const std::string text = group.text(key);
  if (std::ranges::find(allowed, text) == allowed.end())
    group.refuse(key, fmt::format("is not supported; expected {}", fmt::join(allowed, " or ")));
}

void refuse_set(const ConfigReader& group, Keys keys) {
  for (const std::string_view key : keys) {
    if (!group.is_unset(key)) group.refuse(key, "is not supported; expected null, false or no such key");
  }
}

void read_block(const ConfigReader& group, std::string_view key, QuantisedStorage& storage) {
  const std::vector<std::int64_t> sizes = group.integers(key);
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1)
    group.refuse(key, "is no size of blocks; expected two numbers above 0, rows and columns");
  storage.block = {sizes[0], sizes[1]};
}

void read_mxfp4(const ConfigReader& group, QuantisedStorage& storage) {
  group.ignore({"dequantize"});  // always
  read_modules(group, {"modules_to_not_convert"}, storage);
}

// DeepSeek's and Qwen's, with blocks; with `weight_block_size` null a factor for the whole matrix.
void read_fp8(const ConfigReader& group, QuantisedStorage& storage) {
  group.ignore({"dequantize", "kv_cache_scheme"});
  one_of_texts(group, "activation_scheme", {"dynamic", "static"});
  one_of_texts(group, "fmt", {"e4m3"});
  one_of_texts(group, "scale_fmt", {"float", "ue8m0"});  // factors that are powers of two are stored as such
  one_of_texts(group, "expert_dtype", {"fp8"});
  refuse_set(group, {"modules_to_convert"});
  read_modules(group, {"modules_to_not_convert", "ignored_layers"}, storage);
  constexpr std::string_view kBlock = "weight_block_size";
  if (group.has(kBlock)) {
    read_block(group, kBlock, storage);
  } else {
    storage.by_tensor = true;
    if (!group.is_null(kBlock)) storage.block = {128, 128};  // what transformers takes
  }
}

void read_fbgemm(const ConfigReader& group, QuantisedStorage& storage) {
  group.ignore({"activation_scale_ub"});
  read_modules(group, {"modules_to_not_convert"}, storage);
  storage.by_row = true;
}

// How the weights of one group of compressed-tensors are stored.
void read_compressed_weights(const ConfigReader& weights, QuantisedStorage& storage) {
  weights.ignore({"observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  if (const std::int64_t bits = weights.integer_or("num_bits", 8); bits != 8)
    weights.refuse("num_bits", "is not supported; expected 8");
  one_of_texts(weights, "type", {"float"});
  if (!weights.boolean_or("symmetric", true)) weights.refuse("symmetric", "is not supported; expected true");
  refuse_set(weights, {"dynamic", "group_size", "actorder"});
  const std::string strategy = weights.text_or("strategy", "tensor");
  constexpr std::string_view kBlock = "block_structure";
  if (strategy == "block") return read_block(weights, kBlock, storage);
  refuse_set(weights, {kBlock});
  storage.by_tensor = storage.by_tensor || strategy == "tensor";
  storage.by_row = storage.by_row || strategy == "channel";
  if (strategy != "tensor" && strategy != "channel")
    weights.refuse("strategy", "is not supported; expected tensor, channel or block");
}

void read_compressed(const ConfigReader& group, QuantisedStorage& storage) {
  constexpr std::string_view kFormat = "float-quantized", kGroups = "config_groups";
  // Of activations and keys, which are not quantised here, and of the tool that wrote the file.
  group.ignore({"kv_cache_scheme", "global_compression_ratio", "version"});
  one_of_texts(group, "format", {kFormat});
  one_of_texts(group, "quantization_status", {"compressed", "frozen"});
  refuse_set(group, {"sparsity_config", "transform_config"});
  read_modules(group, {"ignore"}, storage);
  const ConfigReader groups = group.object(kGroups);
  for (const std::string& name : groups.keys()) {
    const ConfigReader each = groups.object(name);
    each.ignore({"targets", "input_activations", "output_activations"});
    one_of_texts(each, "format", {kFormat});
    if (!each.has("weights")) continue;
    read_compressed_weights(each.object("weights"), storage);
  }
  if (!storage.by_tensor && !storage.by_row && !storage.block)
    group.refuse(kGroups, "says of no weights how they are stored; expected a group with weights");
}

constexpr std::string_view kScales[] = {"_scales"};
constexpr std::string_view kScale[] = {"_scale_inv", "_scale"};
constexpr std::string_view kFp8 = "fp8 (e4m3)";

constexpr StorageFormat kFormats[] = {
    {.method = "compressed-tensors",
     .name = kFp8,
     .code = NumberCode::fp8,
     .ending = "",
     .dtype = "F8_E4M3",
     .factors = kScale,
     .read = read_compressed},
    {.method = "fbgemm_fp8",
     .name = kFp8,
     .code = NumberCode::fp8,
     .ending = "",
     .dtype = "F8_E4M3",
     .factors = kScale,
     .read = read_fbgemm},
    {.method = "fp8",
     .name = kFp8,
     .code = NumberCode::fp8,
     .ending = "",
     .dtype = "F8_E4M3",
     .factors = kScale,
     .read = read_fp8},
    {.method = "mxfp4",
     .name = "MXFP4",
     .code = NumberCode::mxfp4,
     .ending = "_blocks",
     .dtype = "U8",
     .factors = kScales,
     .read = read_mxfp4},
};

}  // namespace

std::span<const StorageFormat> storage_formats() { return kFormats; }

std::optional<QuantisedStorage> read_storage(const ConfigReader& config) {
  if (config.is_unset(kQuantisationKey)) return std::nullopt;
  constexpr std::string_view kMethod = "quant_method";
  std::vector<std::string_view> methods;
  for (const StorageFormat& format : kFormats) methods.push_back(format.method);
  const auto refuse = [&] {
    config.refuse(kQuantisationKey,
                  fmt::format("is no storage that this engine reads; expected null, or a group whose {} "
                              "is {}",
                              kMethod, fmt::join(methods, ", ")));
  };
  if (!config.holds_object(kQuantisationKey)) refuse();
  const ConfigReader group = config.object(kQuantisationKey);
  if (!group.holds_text(kMethod)) refuse();
  const std::string method = group.text(kMethod);
  const auto* format = std::ranges::find(kFormats, method, &StorageFormat::method);
  if (format == std::end(kFormats)) refuse();
  QuantisedStorage storage{.format = format, .where = config.where(kQuantisationKey)};
  format->read(group, storage);
  group.refuse_unread();
  return storage;
}

}  // namespace hooked
