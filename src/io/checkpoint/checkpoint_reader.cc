#include "io/checkpoint/checkpoint_reader.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>

#include "core/json.h"
#include "core/name_list.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "io/checkpoint/model_files.h"
#include "io/checkpoint/shard_index.h"
#include "io/files/hub_name.h"
#include "io/files/path_text.h"
#include "io/files/weight_files.h"
#include "io/gguf/gguf_splits.h"

namespace hooked {
namespace {

constexpr std::size_t kOpenFiles = 16;

/// Those of the files that are absent or are dangling links, in their order.
std::vector<std::string> missing_among(const std::vector<std::string>& names,
                                       const std::filesystem::path& folder) {
  std::vector<std::string> missing;
  for (const auto& name : names) {
    std::error_code ignored;
    const auto type = std::filesystem::status(folder / name, ignored).type();
    if (type == std::filesystem::file_type::not_found) missing.push_back(name);
  }
  return missing;
}

[[noreturn]] void throw_no_format(const std::filesystem::path& file) {
  throw CheckpointError(path_text(file),
                        fmt::format("neither the file's name nor its first bytes say its format; expected a "
                                    "file that ends in {}, {}, {}",
                                    kSafetensorsEnding, kGgufEnding, fmt::join(kZipEndings, ", ")));
}

}  // namespace

CheckpointReader CheckpointReader::open(const std::filesystem::path& folder, MissingShards when_missing) {
  std::error_code reason;
  if (!std::filesystem::is_directory(folder, reason)) {
    throw IoError(path_text(folder),
                  fmt::format("cannot be read as a model; expected a folder, got {}",
                              reason ? reason.message() : std::string("a file; give the folder it is in")));
  }
  CheckpointReader reader(folder);
  auto [file, notes] = choose_model_file(folder);
  reader.notes_ = std::move(notes);
  if (file.holds == ModelFile::Holds::kIndex) {
    reader.add_shards(folder / file.name, file.format, when_missing);
  } else {
    reader.add_only_file(folder / file.name, file.format);
  }
  reader.index_names();
  return reader;
}

CheckpointReader CheckpointReader::open_file(const std::filesystem::path& file, MissingShards when_missing,
                                             PickledNames pickled) {
  CheckpointReader reader(file.parent_path());
  const auto format = format_of(file);
  if (!format) throw_no_format(file);
  if (*format == TensorFormat::kGguf) {
    reader.add_gguf_files(file, when_missing);
  } else {
    reader.add_only_file(file, *format, pickled);
  }
  reader.index_names();
  return reader;
}

const TensorInfo& CheckpointReader::info(const TensorPlace& stored) const {
  return shards_[stored.shard].contents->tensors()[stored.index];
}

void CheckpointReader::add_file(const std::filesystem::path& path, TensorFormat format,
                                PickledNames pickled) {
  const auto file = InputFile::open(path);
  auto contents = describe_tensors(file, format, pickled);
  for (std::size_t i = 0; i < contents->tensors().size(); ++i) tensors_.push_back({shards_.size(), i});
  bytes_ += contents->bytes();
  metadata_.insert(contents->metadata().begin(), contents->metadata().end());
  notes_.insert(notes_.end(), contents->notes().begin(), contents->notes().end());
  shards_.push_back({path, file.stamp(), std::move(contents)});
}

/// A file that holds everything: the values stored with its tensors are the checkpoint's.
void CheckpointReader::add_only_file(const std::filesystem::path& path, TensorFormat format,
                                     PickledNames pickled) {
  add_file(path, format, pickled);
  values_ = shards_.back().contents->values();
  if (format == TensorFormat::kZip) add_pickle_note(path);
}

void CheckpointReader::add_pickle_note(const std::filesystem::path& path) {
  notes_.push_back(
      fmt::format("[{}] is in PyTorch's pickle format; only tensors and plain values were read "
                  "from it, and nothing in it was run",
                  path_text(path)));
}

/// Records the missing ones among `all` shards that `file` names.
void CheckpointReader::miss(std::vector<std::string> names, const std::filesystem::path& file,
                            std::string_view what, const std::vector<std::string>& all) {
  missing_ = std::move(names);
  if (missing_.empty()) return;
  named_in_ = file;
  const auto folder = file.parent_path();
  const auto files = is_gguf_name(file.native()) ? gguf_pattern(all.front()) : std::string();
  fetch_ = fetch_command(folder, files);
  auto others = tensor_files(folder);
  std::erase_if(others, [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); });
  refusal_ =
      fmt::format("{} of {} {} are missing: {}; expected them next to {}{}; fetch them {}", missing_.size(),
                  all.size(), what, name_list(missing_), files.empty() ? "the index" : "this one",
                  others.empty() ? "" : fmt::format(", where other weights are: {}", name_list(others)),
                  how_to_fetch(folder, files));
}

void CheckpointReader::require_whole() const {
  if (!missing_.empty()) throw CheckpointError(path_text(named_in_), refusal_);
}

/// All files of the model whose first GGUF file is `first`.
void CheckpointReader::add_gguf_files(const std::filesystem::path& first, MissingShards when_missing) {
  add_file(first, TensorFormat::kGguf);
  const auto where = path_text(first);
  const auto all = gguf_split_names(first.filename().native(), *shards_.front().contents->gguf(), where);
  if (all.size() > CheckpointLimits::kShards) {
    throw CheckpointError(where,
                          fmt::format("metadata 'split.count' is too large; expected at most {}, got {}",
                                      CheckpointLimits::kShards, all.size()));
  }
  miss(missing_among(all, first.parent_path()), first, "files of the model", all);
  if (when_missing == MissingShards::refused) require_whole();
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (std::ranges::find(missing_, all[i]) != missing_.end()) continue;
    const auto path = first.parent_path() / all[i];
    add_file(path, TensorFormat::kGguf);
    check_gguf_split(*shards_.back().contents->gguf(), i, all.size(), path_text(path));
  }
  check_tensors_of_splits();
}

/// Every tensor must be present exactly once.
void CheckpointReader::check_tensors_of_splits() const {
  const auto all = static_cast<std::int64_t>(tensors_.size());
  const std::int64_t wanted =
      find_integer(*shards_.front().contents->gguf(), "split.tensors.count").value_or(all);
  if (shards_.size() > 1 && missing_.empty() && wanted != all) {
    throw CheckpointError(path_text(shards_.front().path),
                          fmt::format("the files do not hold the tensors of the model; expected {} (metadata "
                                      "'split.tensors.count'), got {}; fetch them again",
                                      wanted, all));
  }
  std::unordered_map<std::string_view, std::size_t> holders;
  for (const auto& stored : tensors_) {
    const auto [holder, added] = holders.emplace(info(stored).name, stored.shard);
    if (added) continue;
    throw CheckpointError(path_text(shards_[stored.shard].path),
                          fmt::format("tensor '{}' is also in '{}'; expected it once",
                                      printable(info(stored).name), path_text(shards_[holder->second].path)));
  }
}

void CheckpointReader::add_shards(const std::filesystem::path& index_file, TensorFormat format,
                                  MissingShards when_missing) {
  auto index = read_shard_index(index_file);
  const auto named = index.shards;
  stated_bytes_ = index.total_bytes;
  miss(missing_among(index.shards, folder_), index_file, "shards", index.shards);
  if (when_missing == MissingShards::refused) require_whole();
  if (!missing_.empty()) index = index.without(missing_);
  for (const auto& shard : index.shards) add_file(folder_ / shard, format);
  const auto where = path_text(index_file);
  // Some pickle writers counted tensors that share memory once, others counted each.
  std::uint64_t separately = 0;
  for (const auto& stored : tensors_) separately += info(stored).bytes();
  settle(index, index_file);
  if (index.total_bytes && *index.total_bytes != bytes_ && *index.total_bytes != separately) {
    notes_.push_back(fmt::format("[{}] metadata.total_size is {} bytes, but the shards hold {}", where,
                                 *index.total_bytes, bytes_));
  }
  const auto unused = unused_shards(folder_, format, named);
  if (!unused.empty()) {
    notes_.push_back(
        fmt::format("[{}] the folder has shards that the index does not name and that were not read: {}",
                    where, name_list(unused)));
  }
  if (format == TensorFormat::kZip) add_pickle_note(index_file);
}

/// Leaves out the shards' tensors that are not read.
void CheckpointReader::settle(const ShardIndex& index, const std::filesystem::path& index_file) {
  std::vector<HeldTensor> held;
  for (const auto& stored : tensors_) held.push_back({info(stored).name, stored.shard});
  IndexAgreement agreement = compare_with_index(index, held, path_text(index_file));
  std::erase_if(tensors_, [&](const TensorPlace& stored) {
    return agreement.left_out.contains({info(stored).name, stored.shard});
  });
  misplaced_ = std::move(agreement.misplaced);
  notes_.insert(notes_.end(), agreement.notes.begin(), agreement.notes.end());
}

void CheckpointReader::index_names() {
  names_.reserve(tensors_.size());
  for (const auto& stored : tensors_) names_.push_back(info(stored).name);
  for (std::size_t i = 0; i < names_.size(); ++i) by_name_.emplace(names_[i], i);
}

auto CheckpointReader::at(std::string_view name) const -> const TensorPlace& {
  const auto place = by_name_.find(name);
  if (place != by_name_.end()) return tensors_[place->second];
  throw CheckpointError(
      path_text(folder_),
      fmt::format("tensor '{}' is not among the {} tensors of this checkpoint{}", printable(name),
                  names_.size(), printable(nearest_text("; the nearest is '{}'", name, names_))));
}

std::shared_ptr<const InputFile> CheckpointReader::opened(const TensorPlace& stored) const {
  const std::lock_guard lock(open_files_->mutex);
  auto& files = open_files_->files;
  for (const auto& [shard, file] : files) {
    if (shard == stored.shard) return file;
  }
  const auto& [path, stamp, contents] = shards_[stored.shard];
  auto file = std::make_shared<const InputFile>(InputFile::open(path));
  if (file->stamp() != stamp) {
    throw IoError(
        path_text(path),
        fmt::format("was changed after its header was read; expected {} bytes as then, got {} bytes "
                    "or a later file; load it again",
                    stamp.bytes, file->size()));
  }
  if (files.size() == kOpenFiles) files.erase(files.begin());
  files.emplace_back(stored.shard, file);
  return file;
}

const TensorInfo& CheckpointReader::info(std::string_view name) const { return info(at(name)); }

const std::filesystem::path& CheckpointReader::file_of(std::string_view name) const {
  return shards_[at(name).shard].path;
}

at::Tensor CheckpointReader::read(std::string_view name) const {
  const auto& stored = at(name);
  return shards_[stored.shard].contents->read(*opened(stored), stored.index);
}

at::Tensor CheckpointReader::read_rows(std::string_view name, std::int64_t first, std::int64_t count) const {
  const auto& stored = at(name);
  return shards_[stored.shard].contents->read_rows(*opened(stored), stored.index,
                                                   {.first = first, .count = count});
}

bool CheckpointReader::in_order(std::string_view name) const {
  const auto& stored = at(name);
  return shards_[stored.shard].contents->in_order(stored.index);
}

void CheckpointReader::read_elements(std::string_view name, std::int64_t first,
                                     const at::Tensor& into) const {
  const auto& stored = at(name);
  const auto& shard = shards_[stored.shard];
  const TensorInfo& info = this->info(stored);
  std::int64_t all = 1;
  for (const auto size : info.shape) all *= size;
  const bool fits = shard.contents->in_order(stored.index) && into.scalar_type() == info.dtype &&
                    into.is_cpu() && into.is_contiguous() && first >= 0 && first <= all &&
                    into.numel() <= all - first;
  if (!fits) {
    throw CheckpointError(
        path_text(shard.path),
        fmt::format("tensor '{}' does not have these elements in order; expected some of {} "
                    "of {} for contiguous memory of that dtype, got {} of {} from {} on",
                    printable(name), all, info.dtype_name, into.numel(), c10::toString(into.scalar_type()),
                    first));
  }
  shard.contents->read_elements(*opened(stored), stored.index, first, into);
}

const CodedForm* CheckpointReader::form_of(std::string_view name) const {
  const auto& stored = at(name);
  return shards_[stored.shard].contents->form(stored.index);
}

void CheckpointReader::read_codes(std::string_view name, std::int64_t first,
                                  std::span<CodedBlock> into) const {
  const auto& stored = at(name);
  const auto& shard = shards_[stored.shard];
  const CodedForm* const form = shard.contents->form(stored.index);
  const std::int64_t blocks =
      form == nullptr ? 0 : c10::multiply_integers(info(stored).shape) / std::int64_t{form->block};
  if (first < 0 || first > blocks || static_cast<std::int64_t>(into.size()) > blocks - first) {
    throw CheckpointError(
        path_text(shard.path),
        fmt::format("tensor '{}' does not have these blocks; expected some of {}, got {} from {} on",
                    printable(name), blocks, into.size(), first));
  }
  shard.contents->read_codes(*opened(stored), stored.index, first, into);
}

bool CheckpointReader::has_bytes(std::string_view name) const {
  const auto& stored = at(name);
  return shards_[stored.shard].contents->begin_of_bytes(stored.index).has_value();
}

void CheckpointReader::read_bytes(std::string_view name, std::uint64_t first,
                                  std::span<std::byte> into) const {
  const auto& stored = at(name);
  const auto& shard = shards_[stored.shard];
  const auto begin = shard.contents->begin_of_bytes(stored.index);
  const std::uint64_t all = info(stored).bytes();
  if (!begin || first > all || into.size() > all - first) {
    throw CheckpointError(
        path_text(shard.path),
        fmt::format("tensor '{}' does not have these bytes in order; expected some of {}, got {} "
                    "from {} on",
                    printable(name), begin ? all : 0, into.size(), first));
  }
  if (!into.empty()) opened(stored)->read(*begin + first, into);
}

std::vector<std::filesystem::path> CheckpointReader::files() const {
  std::vector<std::filesystem::path> all;
  for (const auto& shard : shards_) all.push_back(shard.path);
  return all;
}

}  // namespace hooked
