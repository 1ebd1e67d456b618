#include "families/storage_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// `key` must be one of `allowed`, or absent.
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
    group.refuse(key, "is not a block size; expected two numbers above 0, rows and columns");
  storage.block = {sizes[0], sizes[1]};
}

// How many neighbours on the summed axis share a factor; -1: all.
void read_group_size(const ConfigReader& group, std::int64_t fallback, QuantisedStorage& storage) {
  // The second is AutoAWQ's, in its own file.
  const std::string_view key = group.first_of({"group_size", "q_group_size"});
  const std::int64_t size = group.integer_or(key, fallback);
  if (size == -1) {
    storage.whole_axis = true;
    return;
  }
  if (size < 1) group.refuse(key, "is not a group size; expected a number above 0, or -1 for one group");
  storage.group = size;
}

void read_bits(const ConfigReader& group, std::string_view key, std::initializer_list<std::int64_t> allowed,
               std::optional<std::int64_t> fallback, QuantisedStorage& storage) {
  const std::int64_t bits = fallback ? group.integer_or(key, *fallback) : group.integer(key);
  if (std::ranges::find(allowed, bits) == allowed.end())
    group.refuse(key, fmt::format("is not supported; expected {}", fmt::join(allowed, ", ")));
  if (storage.bits && *storage.bits != bits)
    group.refuse(key, fmt::format("is another one than before; expected {} as there", *storage.bits));
  storage.bits = static_cast<int>(bits);
}

// Patterns of modules with their own settings. Modules that are left out (`-:`) are unquantised.
void read_exceptions(const ConfigReader& group) {
  constexpr std::string_view kDynamic = "dynamic";
  if (group.is_unset(kDynamic)) return;
  const ConfigReader modules = group.object(kDynamic);
  for (const std::string& pattern : modules.keys()) {
    modules.ignore({pattern});
    if (!pattern.starts_with("-:"))
      modules.refuse(pattern,
                     "gives modules settings of their own, which is not supported; expected patterns of "
                     "modules that are left out (-:)");
  }
}

/// The encoding of a `format` of compressed-tensors.
struct CompressedFormat {
  std::string_view name;
  std::string_view type;
  NumberCode code;
  std::initializer_list<std::int64_t> bits;
};

const CompressedFormat kCompressedFormats[] = {
    {"float-quantized", "float", NumberCode::fp8, {8}},
    {"int-quantized", "int", NumberCode::integers, {8}},
    {"naive-quantized", "int", NumberCode::integers, {2, 3, 4, 5, 6, 7, 8}},
    {"naive-quantized", "float", NumberCode::fp8, {8}},
    {"pack-quantized", "int", NumberCode::packed, {2, 4, 8}},  // others are packed in several ways
};

// How the weights of one group of compressed-tensors are stored. `format`: what the file says about all
// weights, or about these; empty if it says nothing.
void read_compressed_weights(const ConfigReader& weights, std::string_view format, QuantisedStorage& storage,
                             std::vector<NumberCode>& codes) {
  // If numbers were ordered by size, either another tensor has their groups, or their order is the usual one.
  weights.ignore({"actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
  const std::string type = weights.text_or("type", format == "float-quantized" ? "float" : "int");
  const auto* found = std::ranges::find_if(kCompressedFormats, [&](const CompressedFormat& row) {
    return row.name == format && row.type == type;
  });
  if (found == std::end(kCompressedFormats)) {
    weights.refuse(
        "type",
        format.empty()
            ? std::string("is given without a format; expected one next to the weights or for all groups")
            : fmt::format("is not supported with the format {}; expected {}", format,
                          format == "float-quantized" ? "float" : "int"));
  }
  codes.push_back(found->code);
  const bool symmetric = weights.boolean_or("symmetric", true);
  refuse_set(weights, {"dynamic"});
  const std::string strategy = weights.text_or("strategy", "tensor");
  constexpr std::string_view kBlock = "block_structure";
  if (type == "float") {
    if (const std::int64_t bits = weights.integer_or("num_bits", 8); bits != 8)
      weights.refuse("num_bits", "is not supported; expected 8");
    if (!symmetric) weights.refuse("symmetric", "is not supported; expected true");
    refuse_set(weights, {"group_size"});
    if (strategy == "block") return read_block(weights, kBlock, storage);
  } else {
    const bool another = storage.bits.has_value();
    read_bits(weights, "num_bits", found->bits, 8, storage);
    if (another && storage.zero_points == symmetric)
      weights.refuse("symmetric",
                     fmt::format("is another one than before; expected {} as there", !symmetric));
    storage.zero_points = !symmetric;
    if (strategy == "group") {
      refuse_set(weights, {kBlock});
      const auto before = storage.group;
      read_group_size(weights, -1, storage);
      if (!storage.group || (before && *before != *storage.group))
        weights.refuse("group_size", "is not supported; expected a number above 0, the same for all groups");
      return;
    }
    refuse_set(weights, {"group_size"});
  }
  refuse_set(weights, {kBlock});
  storage.by_tensor = storage.by_tensor || strategy == "tensor";
  storage.by_row = storage.by_row || strategy == "channel";
  if (strategy != "tensor" && strategy != "channel")
    weights.refuse("strategy", fmt::format("is not supported; expected tensor, channel or {}",
                                           type == "int" ? "group" : "block"));
}

}  // namespace

void read_mxfp4_keys(const ConfigReader& group, QuantisedStorage& storage) {
  group.ignore({"dequantize"});  // always
  read_modules(group, {"modules_to_not_convert"}, storage);
}

// DeepSeek's and Qwen's, with blocks; if `weight_block_size` is null, one factor for the whole matrix.
void read_fp8_keys(const ConfigReader& group, QuantisedStorage& storage) {
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
    if (!group.is_null(kBlock)) storage.block = {128, 128};  // transformers' default
  }
}

void read_fbgemm_keys(const ConfigReader& group, QuantisedStorage& storage) {
  group.ignore({"activation_scale_ub"});
  read_modules(group, {"modules_to_not_convert"}, storage);
  storage.by_row = true;
}

void read_gptq_keys(const ConfigReader& group, QuantisedStorage& storage) {
  // How the quantisation was done.
  group.ignore({"dataset", "tokenizer", "batch_size", "block_name_to_quantize",
                "modules_in_block_to_quantize", "module_name_preceding_first_block", "max_input_length",
                "model_seqlen", "damp_percent", "damp_auto_increment", "mse", "static_groups",
                "true_sequential", "act_group_aware", "cache_block_outputs", "pad_token_id"});
  // What computed with it afterwards, and where it came from.
  group.ignore({"backend", "disable_exllama", "exllama_config", "use_cuda_fp16", "use_exllama", "lm_head",
                "meta", "model_file_base_name", "model_name_or_path"});
  one_of_texts(group, "method", {"gptq"});
  one_of_texts(group, "pack_dtype", {"int32"});
  refuse_set(group, {"adapter", "awq_gemm_checkpoint", "is_marlin_format", "rotation"});
  read_exceptions(group);
  read_bits(group, "bits", {2, 3, 4, 8}, std::nullopt, storage);
  read_group_size(group, 128, storage);
  storage.any_order = group.boolean_or("desc_act", false);
  storage.middle_zeros =
      group.boolean_or("sym", false);  // if the key is absent, no zero point can contradict the config
  for (const std::string_view key : {"checkpoint_format", "format"}) {
    one_of_texts(group, key, {"gptq", "gptq_v2"});
  }
  const std::string_view layout = group.first_of({"checkpoint_format", "format"});
  storage.zeros_less_one = group.text_or(layout, "gptq") == "gptq";
  storage.rounds_to_factors = true;
  storage.name = fmt::format("GPTQ int{}", *storage.bits);
}

void read_awq_keys(const ConfigReader& group, QuantisedStorage& storage) {
  // How the quantisation was done.
  group.ignore({"act_group_aware", "batch_size", "block_name_to_quantize", "cache_block_outputs",
                "damp_percent", "dataset", "desc_act", "max_input_length", "model_seqlen",
                "module_name_preceding_first_block", "modules_in_block_to_quantize", "sym", "tokenizer",
                "true_sequential"});
  // What computed with it afterwards.
  group.ignore({"do_fuse", "fuse_max_seq_len", "modules_to_fuse", "exllama_config", "meta", "pad_token_id"});
  // llm-awq packs in another way; the others are kernels for the same files.
  one_of_texts(group, "backend", {"autoawq", "auto"});
  for (const std::string_view key : {"version", "format"}) one_of_texts(group, key, {"gemm", "GEMM"});
  if (!group.boolean_or("zero_point", true)) group.refuse("zero_point", "is not supported; expected true");
  read_bits(group, group.first_of({"bits", "w_bit"}), {4}, 4, storage);
  read_group_size(group, 128, storage);
  read_modules(group, {"modules_to_not_convert"}, storage);
  storage.rounds_to_factors = true;
}

void read_bitsandbytes_keys(const ConfigReader& group, QuantisedStorage& storage) {
  group.ignore({"bnb_4bit_compute_dtype", "llm_int8_enable_fp32_cpu_offload", "llm_int8_threshold"});
  group.boolean_or("bnb_4bit_use_double_quant", false);  // each weight says so itself
  constexpr std::string_view kFour = "load_in_4bit", kEight = "load_in_8bit";
  // Files have these keys with and without the underscore, with the same meaning.
  const auto says = [&](std::string_view key) {
    const std::string older = fmt::format("_{}", key);
    const bool either = group.boolean_or(key, false), other = group.boolean_or(older, false);
    return either || other;
  };
  const bool four = says(kFour), eight = says(kEight);
  if (four == eight)
    group.refuse(kFour, fmt::format("and {} are both {}; expected one of them to be true", kEight, four));
  one_of_texts(group, "bnb_4bit_quant_storage", {"uint8"});
  refuse_set(group, {"llm_int8_has_fp16_weight"});
  read_modules(group, {"llm_int8_skip_modules"}, storage);
  one_of_texts(group, "bnb_4bit_quant_type", {"fp4", "nf4"});
  if (four) storage.levels = group.text_or("bnb_4bit_quant_type", "fp4");
  storage.name = fmt::format("bitsandbytes {}", four ? storage.levels : "int8");
  std::erase_if(storage.forms,
                [&](const StorageForm* form) { return (form->code == NumberCode::levels) != four; });
}

void read_compressed_keys(const ConfigReader& group, QuantisedStorage& storage) {
  constexpr std::string_view kFormat = "format", kGroups = "config_groups", kMixed = "mixed-precision";
  // About activations and keys, which are not quantised here, and the tool that wrote the file.
  group.ignore({"kv_cache_scheme", "global_compression_ratio", "version"});
  const auto format_of = [&](const ConfigReader& reader) {
    one_of_texts(reader, kFormat,
                 {"float-quantized", "int-quantized", "naive-quantized", "pack-quantized", kMixed});
    const std::string format = reader.text_or(kFormat, "");
    return format == kMixed ? std::string() : format;
  };
  const std::string format_of_all = format_of(group);
  one_of_texts(group, "quantization_status", {"compressed", "frozen"});
  refuse_set(group, {"sparsity_config", "transform_config"});
  read_modules(group, {"ignore"}, storage);
  const ConfigReader groups = group.object(kGroups);
  std::vector<NumberCode> codes;
  for (const std::string& name : groups.keys()) {
    const ConfigReader each = groups.object(name);
    each.ignore({"targets", "input_activations", "output_activations"});
    const std::string own = format_of(each);
    if (!each.has("weights")) continue;
    read_compressed_weights(each.object("weights"), own.empty() ? format_of_all : own, storage, codes);
  }
  if (codes.empty())
    group.refuse(kGroups, "says of no weights how they are stored; expected a group with weights");
  std::erase_if(storage.forms,
                [&](const StorageForm* form) { return std::ranges::find(codes, form->code) == codes.end(); });
  storage.rounds_to_factors = true;
  std::vector<std::string> names;
  for (const StorageForm* form : storage.forms) {
    const bool whole = form->code != NumberCode::fp8;
    names.push_back(whole ? fmt::format("int{} ({})", *storage.bits, form->name) : std::string(form->name));
  }
  storage.name = fmt::format("{}", fmt::join(names, " and "));
}

}  // namespace hooked
