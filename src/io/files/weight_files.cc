#include "io/files/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>

#include "io/files/hub_name.h"

namespace hooked {
namespace {

/// The name of one of several files: `m-00002-of-00003.gguf` has the stem `m` and the end `-of-00003.gguf`.
struct SplitName {
  std::string_view stem, end;

  std::string first() const { return fmt::format("{}-00001{}", stem, end); }
};

std::optional<SplitName> split_name(std::string_view name) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (name.size() < kForm.size()) return std::nullopt;
  const std::string_view form = name.substr(name.size() - kForm.size());
  const auto fits = [](char wanted, char got) {
    return wanted == '0' ? got >= '0' && got <= '9' : got == wanted;
  };
  if (!std::ranges::equal(kForm, form, fits)) return std::nullopt;
  constexpr std::size_t kNumber = std::string_view("-00000").size();
  return SplitName{.stem = name.substr(0, name.size() - kForm.size()), .end = form.substr(kNumber)};
}

void add_models(const std::filesystem::path& folder, const std::filesystem::path& below,
                std::set<std::filesystem::path>& models) {
  for (const auto& name : names_in(folder / below)) {
    if (!is_gguf_name(name) || is_folder(folder / below / name)) continue;
    const auto split = split_name(name);
    models.insert(below / (split ? split->first() : name));
  }
}

}  // namespace

bool is_zip_name(std::string_view name) {
  return std::ranges::any_of(kZipEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

bool is_gguf_name(std::string_view name) { return name.ends_with(kGgufEnding); }

bool is_tensor_name(std::string_view name) {
  return name.ends_with(kSafetensorsEnding) || is_gguf_name(name) || is_zip_name(name);
}

std::vector<std::string> tensor_files(const std::filesystem::path& folder) {
  auto names = names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_tensor_name(name); });
  return names;
}

GgufModels gguf_models_in(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  add_models(folder, {}, files);
  for (const auto& name : names_in(folder)) {
    if (is_folder(folder / name)) add_models(folder, name, files);
  }
  auto others = tensor_files(folder);
  std::ranges::copy(tensor_files(folder / kCheckpointsFolder), std::back_inserter(others));
  return {.files = {files.begin(), files.end()}, .only = std::ranges::all_of(others, is_gguf_name)};
}

std::string gguf_pattern(std::string_view name) {
  const auto split = split_name(name);
  return split ? fmt::format("{}-*{}", split->stem, split->end) : std::string(name);
}

std::vector<std::filesystem::path> gguf_files_of(const std::filesystem::path& file) {
  const auto pattern = gguf_pattern(file.filename().native());
  std::vector<std::filesystem::path> files;
  for (const auto& name : tensor_files(file.parent_path())) {
    if (gguf_pattern(name) == pattern) files.push_back(file.parent_path() / name);
  }
  return files;
}

}  // namespace hooked
