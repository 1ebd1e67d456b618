#include "loading/load/read_from.h"

#include <string>

#include "hooked/io/model_folder.h"
#include "hooked/loading/describe.h"
#include "hooked/text/tokenizer.h"
#include "loading/load/identify.h"

namespace hooked {
namespace {

void add(const std::filesystem::path& place, const CheckpointReader& reader, ReadFrom& from) {
  const auto folder = std::filesystem::absolute(folder_of_model(place));
  from.folders.push_back(folder);
  for (const auto& file : reader.files()) from.files.push_back(std::filesystem::absolute(file));
  for (const char* name : {"config.json", "generation_config.json", "adapter_config.json",
                           "model.safetensors.index.json", "pytorch_model.bin.index.json"})
    from.files.push_back(folder / name);
  for (const std::string_view name : Tokenizer::file_names()) from.files.push_back(folder / name);
}

}  // namespace

ReadFrom model_read_from(std::string_view model) {
  const auto located = locate_model(model);
  const auto adapter = read_adapter(located);
  const auto place = adapter ? adapter->base_place : located;
  return model_read_from(place, open_checkpoint(place, MissingShards::left_out),
                         adapter ? &*adapter : nullptr);
}

std::vector<std::filesystem::path> files_read(std::string_view model) { return model_read_from(model).files; }

ReadFrom model_read_from(const std::filesystem::path& place, const CheckpointReader& reader,
                         const Adapter* adapter) {
  ReadFrom from;
  add(place, reader, from);
  if (adapter != nullptr) add(adapter->folder, adapter->reader, from);
  return from;
}

}  // namespace hooked
