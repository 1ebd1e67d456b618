#include "families/storage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/config_reader.h"
#include "families/storage_keys.h"

namespace hooked {
namespace {

constexpr std::string_view kMxfp4Scales[] = {"_scales"};
constexpr std::string_view kFp8Scale[] = {"_scale_inv", "_scale"};
constexpr std::string_view kScale[] = {"_scale"};
constexpr std::string_view kScales[] = {".scales"};
constexpr std::string_view kAbsmax[] = {".weight.absmax"};
constexpr std::string_view kRowMaximum[] = {".SCB"};
constexpr std::string_view kGptqBeside[] = {".qzeros", ".g_idx"};
constexpr std::string_view kAwqBeside[] = {".qzeros"};
constexpr std::string_view kPackedBeside[] = {"_shape", "_zero_point", "_g_idx"};
constexpr std::string_view kIntegersBeside[] = {"_zero_point", "_g_idx"};
constexpr std::string_view kInt8Beside[] = {".weight_format"};
constexpr std::string_view kLevelsBeside[] = {
    ".weight.quant_map", ".weight.nested_absmax", ".weight.nested_quant_map",
    ".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4"};

constexpr StorageForm kFp8Form{
    .code = NumberCode::fp8, .name = "fp8 (e4m3)", .dtype = "F8_E4M3", .factors = kFp8Scale};
constexpr StorageForm kAwqForms[] = {{.code = NumberCode::awq,
                                      .name = "AWQ int4",
                                      .ending = ".qweight",
                                      .dtype = "I32",
                                      .weight = ".weight",
                                      .factors = kScales,
                                      .beside = kAwqBeside}};
constexpr StorageForm kBitsandbytesForms[] = {{.code = NumberCode::levels,
                                               .name = "nf4, fp4",
                                               .ending = ".weight",
                                               .dtype = "U8",
                                               .weight = ".weight",
                                               .factors = kAbsmax,
                                               .beside = kLevelsBeside},
                                              {.code = NumberCode::parts_of_127,
                                               .name = "int8",
                                               .ending = ".weight",
                                               .dtype = "I8",
                                               .weight = ".weight",
                                               .factors = kRowMaximum,
                                               .beside = kInt8Beside}};
constexpr StorageForm kCompressedForms[] = {kFp8Form,
                                            {.code = NumberCode::integers,
                                             .name = "a byte each",
                                             .dtype = "I8",
                                             .factors = kScale,
                                             .beside = kIntegersBeside},
                                            {.code = NumberCode::packed,
                                             .name = "packed",
                                             .ending = "_packed",
                                             .dtype = "I32",
                                             .factors = kScale,
                                             .beside = kPackedBeside}};
constexpr StorageForm kFp8Forms[] = {kFp8Form};
constexpr StorageForm kGptqForms[] = {{.code = NumberCode::gptq,
                                       .name = "GPTQ int2, int3, int4, int8",
                                       .ending = ".qweight",
                                       .dtype = "I32",
                                       .weight = ".weight",
                                       .factors = kScales,
                                       .beside = kGptqBeside}};
constexpr StorageForm kMxfp4Forms[] = {{.code = NumberCode::mxfp4,
                                        .name = "MXFP4",
                                        .ending = "_blocks",
                                        .dtype = "U8",
                                        .factors = kMxfp4Scales}};

constexpr StorageMethod kMethods[] = {
    {.method = "awq", .forms = kAwqForms, .read = read_awq_keys},
    {.method = "bitsandbytes", .forms = kBitsandbytesForms, .read = read_bitsandbytes_keys},
    {.method = "compressed-tensors", .forms = kCompressedForms, .read = read_compressed_keys},
    {.method = "fbgemm_fp8", .forms = kFp8Forms, .read = read_fbgemm_keys},
    {.method = "fp8", .forms = kFp8Forms, .read = read_fp8_keys},
    {.method = "gptq", .forms = kGptqForms, .read = read_gptq_keys},
    {.method = "mxfp4", .forms = kMxfp4Forms, .read = read_mxfp4_keys},
};

constexpr std::string_view kMethod = "quant_method";

std::string expected_storage() {
  std::vector<std::string_view> methods;
  for (const StorageMethod& method : kMethods) methods.push_back(method.method);
  return fmt::format(
      "is not a storage format that this engine reads; expected null, or a group whose {} is {}", kMethod,
      fmt::join(methods, ", "));
}

}  // namespace

std::span<const StorageMethod> storage_methods() { return kMethods; }

std::optional<QuantisedStorage> read_storage(const ConfigReader& config) {
  if (config.is_unset(kQuantisationKey)) return std::nullopt;
  if (!config.holds_object(kQuantisationKey)) config.refuse(kQuantisationKey, expected_storage());
  const ConfigReader group = config.object(kQuantisationKey);
  if (!group.holds_text(kMethod)) config.refuse(kQuantisationKey, expected_storage());
  return read_storage_group(group);
}

QuantisedStorage read_storage_group(const ConfigReader& group) {
  const auto* method = std::ranges::find(kMethods, group.text(kMethod), &StorageMethod::method);
  if (method == std::end(kMethods)) group.refuse(kMethod, expected_storage());
  QuantisedStorage storage{.where = group.where()};
  for (const StorageForm& form : method->forms) storage.forms.push_back(&form);
  storage.name = method->forms.front().name;
  method->read(group, storage);
  group.refuse_unread();
  return storage;
}

}  // namespace hooked
