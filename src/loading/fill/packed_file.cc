#include "loading/fill/packed_file.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "io/files/path_text.h"
#include "io/safetensors/safetensors_format.h"
#include "models/transformer/parameter_memory.h"
#include "models/transformer/transformer.h"

namespace hooked {
namespace {

// Increased with every change to the memory layout of parameters, or to the set of parameters.
constexpr const char* kLayout = "1";
constexpr const char* kLayoutKey = "hooked_packed_layout";
constexpr const char* kStorageKey = "hooked_packed_storage";
constexpr const char* kDtypeKey = "hooked_packed_dtype";

using Parameters = std::vector<Parameter>;

std::string shape_and_dtype(at::ScalarType dtype, at::IntArrayRef shape) {
  return fmt::format("{} {}", dtype_text(dtype), shape_text(shape));
}

// Throws unless the file's tensors are these parameters.
void check_tensors(const std::map<std::string, TensorInfo>& stored, const Parameters& parameters,
                   std::string_view where) {
  std::vector<std::string> wrong;
  std::size_t found = 0;
  for (const auto& [name, parameter] : parameters) {
    const auto place = stored.find(name);
    if (place == stored.end()) {
      wrong.push_back(name + " (missing)");
      continue;
    }
    ++found;
    const TensorInfo& info = place->second;
    if (info.dtype == parameter.scalar_type() && parameter.sizes() == at::IntArrayRef(info.shape)) continue;
    wrong.push_back(fmt::format("{} ({} instead of {})", name, shape_and_dtype(info.dtype, info.shape),
                                shape_and_dtype(parameter.scalar_type(), parameter.sizes())));
  }
  if (found < stored.size()) {
    for (const auto& [name, info] : stored) {
      const bool known = std::ranges::any_of(
          parameters, [&name = name](const auto& parameter) { return parameter.first == name; });
      if (!known) wrong.push_back(name + " (unknown)");
    }
  }
  if (wrong.empty()) return;
  throw CheckpointError(
      where, fmt::format("{} packed tensors are not those of the model in config.json; expected both as they "
                         "were saved together, got: {}; save the model again",
                         wrong.size(), name_list(wrong)));
}

struct Form {
  Storage storage;
  at::ScalarType dtype;
};

Form form_of(const CheckpointReader& reader) {
  const auto value = [&](const char* key) {
    const auto found = reader.metadata().find(key);
    return found == reader.metadata().end() ? std::string() : found->second;
  };
  const auto refuse = [&](const char* what, const char* key, const std::string& expected) {
    throw CheckpointError(
        path_text(reader.folder()),
        fmt::format("the weights are packed in {} '{}'; expected {}; save the model again with "
                    "this version of hooked, from the checkpoint that it was made of",
                    what, printable(value(key)), expected));
  };
  if (value(kLayoutKey) != kLayout) refuse("layout", kLayoutKey, kLayout);
  const auto storage = parse_storage(value(kStorageKey));
  if (!storage) {
    refuse("storage", kStorageKey,
           fmt::format("{}, {} or {}", storage_name(Storage::plain), storage_name(Storage::narrow_blocks),
                       storage_name(Storage::wide_blocks)));
  }
  const auto dtype = parse_float_dtype(value(kDtypeKey));
  if (!dtype) refuse("dtype", kDtypeKey, "float32, float64, float16 or bfloat16");
  return {*storage, *dtype};
}

}  // namespace

const ModelConfig& config_of_packed(const IdentifiedModel& identified) {
  if (identified.family.model_type == native_family().model_type) return identified.read.config;
  throw CheckpointError(identified.family.model_type,
                        "packed weights are next to another model's config.json; expected the one that was "
                        "saved with them; put it back or save the model again");
}

bool is_packed(const CheckpointReader& reader) { return reader.metadata().contains(kLayoutKey); }

std::shared_ptr<LoadedModel> map_packed(const CheckpointReader& reader, const ModelConfig& config) {
  const Form form = form_of(reader);
  if (reader.names().empty()) {
    throw CheckpointError(path_text(reader.folder()),
                          "the packed file holds no tensors; expected a model's; save the model again");
  }
  const auto file =
      std::make_shared<const InputFile>(InputFile::open(reader.file_of(reader.names().front())));
  const SafetensorsHeader header = read_safetensors_header(*file);
  const std::string where = path_text(file->path());
  ModelConfig as_stored = config;
  as_stored.dtype = form.dtype;
  as_stored.validate();
  const auto model = std::make_shared<LoadedModel>(std::move(as_stored), c10::Device(at::kCPU), form.storage);
  std::map<std::string, TensorInfo> stored;
  for (const TensorInfo& info : header.tensors) stored.emplace(info.name, info);
  const Parameters parameters = parameters_as_they_lie(*model->graph);
  check_tensors(stored, parameters, where);
  const at::NoGradGuard no_grad;
  const std::shared_ptr<const std::byte> bytes = file->map();
  for (const auto& [name, parameter] : parameters) {
    if (parameter.numel() == 0) continue;
    const std::uint64_t begin = stored.at(name).begin;
    if (begin % kParameterAlignment == 0) {
      settle(parameter, bytes, begin);
    } else {
      std::memcpy(parameter.mutable_data_ptr(), bytes.get() + begin, parameter.nbytes());
    }
  }
  model->mapped = file;
  return model;
}

SourceTensors source_tensors(const std::shared_ptr<const LoadedModel>& model,
                             const std::filesystem::path& where) {
  SourceTensors all;
  for (const WeightSlot& slot : model->slots()) {
    all[slot.name] = {.shape = slot.view.sizes(),
                      .dtype = slot.view.dtype(),
                      .dtype_name = std::string(dtype_text(slot.view.dtype())),
                      .where = path_text(where),
                      .read =
                          [model, view = slot.view] {
                            const at::NoGradGuard no_grad;
                            return view.read();
                          },
                      .read_elements = nullptr};
  }
  return all;
}

void write_packed(AtomicFile& file, const LoadedModel& model, const Progress& progress) {
  assert(model.device.is_cpu());
  Parameters parameters = parameters_as_they_lie(*model.graph);
  std::ranges::stable_sort(parameters, {}, [](const auto& parameter) {
    return parameter.second.nbytes() % kParameterAlignment != 0;
  });
  write_safetensors(file, parameters,
                    {.metadata = {{kLayoutKey, kLayout},
                                  {kStorageKey, std::string(storage_name(model.storage))},
                                  {kDtypeKey, std::string(dtype_text(model.config.dtype))}},
                     .progress = progress,
                     .alignment = kParameterAlignment});
}

}  // namespace hooked
