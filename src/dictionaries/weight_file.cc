#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/name_list.h"
#include "dictionaries/dictionary_plan.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "io/files/path_text.h"
#include "io/files/weight_files.h"
#include "io/tensors/npz_tensors.h"
#include "io/tensors/tensor_file.h"

namespace hooked {
namespace {

std::unique_ptr<TensorFile> describe(const InputFile& file) {
  const std::string name = file.path().filename().native();
  if (name.ends_with(kNpzEnding)) return describe_npz(file);
  if (name.ends_with(kSafetensorsEnding)) return describe_tensors(file, TensorFormat::kSafetensors);
  if (is_zip_name(name)) return describe_tensors(file, TensorFormat::kZip);
  throw CheckpointError(
      path_text(file.path()),
      "the name does not say what kind of tensors the file has; expected .safetensors, .npz, .pt, "
      ".pth, .ckpt or .bin, got another ending");
}

}  // namespace

struct WeightFile::Open {
  explicit Open(const std::filesystem::path& path) : file(InputFile::open(path)), tensors(describe(file)) {
    taken.resize(tensors->tensors().size());
  }

  InputFile file;
  std::unique_ptr<TensorFile> tensors;
  std::vector<bool> taken;
};

WeightFile::WeightFile(const std::filesystem::path& path) : open_(std::make_shared<Open>(path)) {}

const std::filesystem::path& WeightFile::path() const& noexcept { return open_->file.path(); }
const std::string& WeightFile::values() const& noexcept { return open_->tensors->values(); }
std::uint64_t WeightFile::bytes() const { return open_->tensors->bytes(); }

bool WeightFile::has(std::string_view name) const {
  return std::ranges::any_of(open_->tensors->tensors(),
                             [&](const TensorInfo& info) { return info.name == name; });
}

std::size_t WeightFile::index_of(std::string_view name) const {
  const auto& tensors = open_->tensors->tensors();
  const auto found = std::ranges::find(tensors, name, &TensorInfo::name);
  if (found == tensors.end()) {
    std::vector<std::string> names;
    for (const TensorInfo& info : tensors) names.push_back(info.name);
    std::ranges::sort(names);
    throw CheckpointError(path_text(path()), fmt::format("a tensor is missing; expected '{}', got only {}",
                                                         name, names.empty() ? "none" : name_list(names)));
  }
  const auto index = static_cast<std::size_t>(found - tensors.begin());
  open_->taken[index] = true;
  return index;
}

StoredWeight WeightFile::take(std::string_view name) {
  const std::size_t index = index_of(name);
  const TensorInfo& info = open_->tensors->tensors()[index];
  return {.shape = info.shape,
          .dtype = info.dtype,
          .where = fmt::format("{}: tensor '{}'", path_text(path()), printable(name)),
          .read = [open = open_, index] { return open->tensors->read(open->file, index); }};
}

StoredWeight WeightFile::take_any(const std::vector<std::string_view>& names) {
  const auto found = std::ranges::find_if(names, [&](std::string_view name) { return has(name); });
  return take(found == names.end() ? names.front() : *found);
}

StoredWeight WeightFile::take_row(std::string_view name, std::int64_t i) {
  StoredWeight weight = take(name);
  if (weight.shape.empty() || i >= weight.shape.front()) {
    throw CheckpointError(weight.where,
                          fmt::format("it has no index {} of its first axis; expected more, got {}", i,
                                      shape_text(weight.shape)));
  }
  weight.shape.erase(weight.shape.begin());
  weight.read = [open = open_, index = index_of(name), i] {
    return open->tensors->read_rows(open->file, index, {i, 1}).squeeze(0);
  };
  return weight;
}

void WeightFile::ignore(std::string_view name) {
  if (has(name)) static_cast<void>(index_of(name));
}

std::vector<std::string> WeightFile::unread() const {
  std::vector<std::string> names;
  const auto& tensors = open_->tensors->tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!open_->taken[i]) names.push_back(tensors[i].name);
  }
  std::ranges::sort(names);
  return names;
}

StoredWeight transposed(StoredWeight weight) {
  if (weight.shape.size() != 2) {
    throw CheckpointError(weight.where, fmt::format("the tensor is no matrix; expected two axes, got {}",
                                                    shape_text(weight.shape)));
  }
  std::vector<std::int64_t> shape = {weight.shape[1], weight.shape[0]};
  return changed(std::move(weight), std::move(shape), [](const at::Tensor& x) { return x.t(); });
}

StoredWeight changed(StoredWeight weight, std::vector<std::int64_t> shape,
                     std::function<at::Tensor(const at::Tensor&)> change) {
  weight.shape = std::move(shape);
  weight.read = [read = std::move(weight.read), change = std::move(change)] { return change(read()); };
  return weight;
}

StoredWeight times(StoredWeight weight, double factor) {
  if (factor == 1.0) return weight;
  std::vector<std::int64_t> shape = weight.shape;
  return changed(std::move(weight), std::move(shape),
                 [factor](const at::Tensor& x) { return x.to(at::kDouble) * factor; });
}

StoredWeight filled(std::vector<std::int64_t> shape, double value, at::ScalarType dtype) {
  return {.shape = shape, .dtype = dtype, .where = "a weight that is not stored", .read = [shape, value] {
            return at::full(shape, value, at::TensorOptions().dtype(at::kDouble));
          }};
}

void DictionaryPlan::add_file(const WeightFile& file) {
  files.push_back(file.path());
  stored_bytes += file.bytes();
  if (const auto unread = file.unread(); !unread.empty())
    config.notes.push_back(
        fmt::format("[{}] has tensors that are not read: {}", path_text(file.path()), name_list(unread)));
}

}  // namespace hooked
