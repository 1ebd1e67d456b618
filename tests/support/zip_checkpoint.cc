#include "tests/support/zip_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/json.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "io/files/path_text.h"
#include "io/tensors/tensor_file.h"

namespace hooked {

struct ZipCheckpoint::Contents {
  explicit Contents(InputFile opened)
      : file(std::move(opened)), tensors(describe_zip(file, PickledNames::state_dict)) {}

  InputFile file;
  std::unique_ptr<TensorFile> tensors;
  std::vector<std::size_t> by_name;  // indices of the tensors in the order of their names
};

ZipCheckpoint ZipCheckpoint::open(const std::filesystem::path& path) {
  auto contents = std::make_unique<Contents>(InputFile::open(path));
  const auto& all = contents->tensors->tensors();
  contents->by_name.resize(all.size());
  std::iota(contents->by_name.begin(), contents->by_name.end(), std::size_t{0});
  std::sort(contents->by_name.begin(), contents->by_name.end(),
            [&](auto a, auto b) { return all[a].name < all[b].name; });
  return ZipCheckpoint(std::move(contents));
}

ZipCheckpoint::ZipCheckpoint(std::unique_ptr<Contents> contents) noexcept : contents_(std::move(contents)) {}
ZipCheckpoint::ZipCheckpoint(ZipCheckpoint&& other) noexcept = default;
ZipCheckpoint& ZipCheckpoint::operator=(ZipCheckpoint&& other) noexcept = default;
ZipCheckpoint::~ZipCheckpoint() = default;

const std::filesystem::path& ZipCheckpoint::path() const noexcept { return contents_->file.path(); }

const std::vector<TensorInfo>& ZipCheckpoint::tensors() const noexcept {
  return contents_->tensors->tensors();
}

const std::string& ZipCheckpoint::values() const noexcept { return contents_->tensors->values(); }

const std::vector<std::string>& ZipCheckpoint::notes() const noexcept { return contents_->tensors->notes(); }

const TensorInfo* ZipCheckpoint::find(std::string_view name) const noexcept {
  const auto& all = tensors();
  const auto& order = contents_->by_name;
  const auto place =
      std::lower_bound(order.begin(), order.end(), name,
                       [&](auto index, std::string_view wanted) { return all[index].name < wanted; });
  return place == order.end() || all[*place].name != name ? nullptr : &all[*place];
}

std::size_t ZipCheckpoint::index_of(std::string_view name) const {
  if (const auto* info = find(name)) return static_cast<std::size_t>(info - tensors().data());
  std::vector<std::string> names;
  for (const auto& info : tensors()) names.push_back(info.name);
  throw CheckpointError(path_text(path()),
                        fmt::format("tensor '{}' is not in this file of {} tensors; the nearest name is '{}'",
                                    printable(name), names.size(), printable(nearest(name, names))));
}

at::Tensor ZipCheckpoint::read(std::string_view name) const {
  return contents_->tensors->read(contents_->file, index_of(name));
}

at::Tensor ZipCheckpoint::read_rows(std::string_view name, std::int64_t first, std::int64_t count) const {
  return contents_->tensors->read_rows(contents_->file, index_of(name), {.first = first, .count = count});
}

}  // namespace hooked
