#include "io/checkpoint/model_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

using Holds = ModelFile::Holds;

/// A name under which folders keep a model.
struct KnownFile {
  std::string_view name;
  TensorFormat format;
  Holds holds;
};

/// The first one that exists is read.
constexpr std::array<KnownFile, 10> kKnownFiles = {{
    {"model.safetensors", TensorFormat::kSafetensors, Holds::kTensors},
    {"model.safetensors.index.json", TensorFormat::kSafetensors, Holds::kIndex},
    {kPackedFile, TensorFormat::kSafetensors, Holds::kTensors},
    {"pytorch_model.bin", TensorFormat::kZip, Holds::kTensors},
    {"pytorch_model.bin.index.json", TensorFormat::kZip, Holds::kIndex},
    {"final.pth", TensorFormat::kZip, Holds::kTensors},  // TransformerLens
    {"ckpt.pt", TensorFormat::kZip, Holds::kTensors},    // nanoGPT
    {"model.pt", TensorFormat::kZip, Holds::kTensors},
    {"model.pth", TensorFormat::kZip, Holds::kTensors},
    {"pytorch_model.pt", TensorFormat::kZip, Holds::kTensors},
}};

/// Names of the folder's files that a training script may have left, sorted.
std::vector<std::string> script_files(const std::filesystem::path& folder) {
  auto names = tensor_files(folder);
  std::erase_if(names,
                [](const std::string& name) { return !name.ends_with(".pt") && !name.ends_with(".pth"); });
  return names;
}

/// The file that a training script left under its own name, if there is no doubt which one it is.
std::optional<ModelFile> only_checkpoint(const std::filesystem::path& folder) {
  const auto file = [](const std::filesystem::path& name) {
    return ModelFile{name, TensorFormat::kZip, Holds::kTensors};
  };
  const auto here = script_files(folder);
  if (here.size() == 1) return file(here.front());
  auto finals = here;
  std::erase_if(finals, [](const std::string& name) { return !name.ends_with("final.pth"); });
  if (finals.size() == 1) return file(finals.front());
  if (!here.empty()) return std::nullopt;
  const auto below = script_files(folder / kCheckpointsFolder);
  if (below.empty()) return std::nullopt;
  if (below.size() == 1) return file(std::filesystem::path(kCheckpointsFolder) / below.front());
  throw CheckpointError(
      path_text(folder),
      fmt::format(
          "the folder has no final checkpoint and {} in {}/: {}; expected one; give the path of the one "
          "to read instead of the folder",
          below.size(), kCheckpointsFolder, name_list(below)));
}

/// What the first bytes of a file say. A safetensors file begins with the length of its header, eight bytes,
/// and the header, a JSON object.
std::optional<TensorFormat> format_by_bytes(const InputFile& file) {
  constexpr std::size_t kLength = 8;
  std::array<unsigned char, kLength + 1> first{};
  if (file.size() < first.size()) return std::nullopt;
  file.read(0, std::as_writable_bytes(std::span(first)));
  const auto begins = [&](std::string_view magic) {
    return std::equal(magic.begin(), magic.end(), first.begin(), [](char wanted, unsigned char got) {
      return static_cast<unsigned char>(wanted) == got;
    });
  };
  if (begins("GGUF")) return TensorFormat::kGguf;
  if (begins("PK\x03\x04")) return TensorFormat::kZip;
  std::uint64_t length = 0;
  for (std::size_t i = kLength; i-- > 0;) length = length << 8 | first[i];
  const bool header = first[kLength] == '{' && length <= file.size() - kLength;
  return header ? std::optional(TensorFormat::kSafetensors) : std::nullopt;
}

/// What to do about a folder of a hub cache that has no weights; empty for other folders.
std::string what_is_known_of(const std::filesystem::path& folder) {
  if (name_of_snapshot(folder)) return fmt::format("; fetch them {}", how_to_fetch(folder));
  const auto name = name_of_folder(folder.filename().native());
  if (!name || !is_there(folder / "snapshots")) return {};
  return fmt::format(
      "; the hub cache keeps all revisions of '{0}' there: give '{0}', or one of its snapshots",
      name->model());
}

/// The folder's files of tensors; if it has none, those of its subfolders.
std::vector<std::string> tensor_files_below(const std::filesystem::path& folder) {
  auto files = tensor_files(folder);
  if (!files.empty()) return files;
  for (const auto& name : names_in(folder)) {
    for (const auto& file : tensor_files(folder / name)) files.push_back(fmt::format("{}/{}", name, file));
  }
  return files;
}

/// A folder that diffusers saved holds no model, but a folder for each model of a pipeline.
void require_no_pipeline(const std::filesystem::path& folder) {
  if (!is_there(folder / "model_index.json")) return;
  std::vector<std::string> models;
  for (const auto& name : names_in(folder)) {
    if (is_there(folder / name / "config.json") && !tensor_files(folder / name).empty())
      models.push_back(path_text(folder / name));
  }
  throw CheckpointError(
      path_text(folder),
      fmt::format(
          "is a pipeline of diffusers, not a model; expected the folder of one of its language models, "
          "such as its text encoder, got {}",
          models.empty() ? "no folder of a model in it" : "only " + name_list(models)));
}

[[noreturn]] void throw_no_model(const std::filesystem::path& folder) {
  require_no_pipeline(folder);
  std::vector<std::string_view> wanted;
  for (const auto& file : kKnownFiles) wanted.push_back(file.name);
  const auto last = wanted.back();
  wanted.pop_back();
  const auto others = tensor_files_below(folder);
  throw CheckpointError(
      path_text(folder),
      fmt::format("the folder has no model file; expected {} or {}, got {}", fmt::join(wanted, ", "), last,
                  others.empty() ? "no file of tensors at all" + what_is_known_of(folder)
                                 : "only " + name_list(others) + "; give the path of the one to read"));
}

}  // namespace

ModelFileChoice choose_model_file(const std::filesystem::path& folder) {
  std::vector<KnownFile> present;
  for (const auto& file : kKnownFiles) {
    if (is_there(folder / file.name)) present.push_back(file);
  }
  if (present.empty()) {
    auto only = only_checkpoint(folder);
    if (!only) throw_no_model(folder);
    return {.file = std::move(*only), .notes = {}};
  }
  const auto& [name, format, holds] = present.front();
  ModelFileChoice choice{.file = {name, format, holds}, .notes = {}};
  if (present.size() > 1) {
    std::vector<std::string_view> names;
    for (const auto& file : present) names.push_back(file.name);
    choice.notes.push_back(fmt::format("[{}] has {}{}; the first was read", path_text(folder),
                                       names.size() == 2 ? "both " : "", fmt::join(names, " and ")));
  }
  return choice;
}

bool has_model_file(const std::filesystem::path& folder) {
  return std::ranges::any_of(kKnownFiles,
                             [&](const KnownFile& file) { return is_there(folder / file.name); });
}

std::optional<TensorFormat> format_of(const std::filesystem::path& file) {
  const std::string_view name = file.native();
  if (name.ends_with(kSafetensorsEnding)) return TensorFormat::kSafetensors;
  if (is_gguf_name(name)) return TensorFormat::kGguf;
  if (is_zip_name(name)) return TensorFormat::kZip;
  std::error_code ignored;
  return std::filesystem::is_regular_file(file, ignored) ? format_by_bytes(InputFile::open(file))
                                                         : std::nullopt;
}

std::vector<std::string> unused_shards(const std::filesystem::path& folder, TensorFormat format,
                                       const std::vector<std::string>& used) {
  const auto safetensors = format == TensorFormat::kSafetensors;
  auto names = tensor_files(folder);
  std::erase_if(names, [&](const std::string& name) {
    return !name.starts_with(safetensors ? "model-" : "pytorch_model-") ||
           name.ends_with(".safetensors") != safetensors ||
           std::find(used.begin(), used.end(), name) != used.end();
  });
  return names;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

}  // namespace hooked
