#include "hooked/io/checkpoint_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <system_error>
#include <unordered_map>

#include "core/json.h"
#include "hooked/core/error.h"
#include "hooked/core/nearest.h"
#include "io/path_text.h"
#include "io/safetensors_index.h"

namespace hooked {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::array<std::string_view, 2> kPickleFiles = {"pytorch_model.bin",
                                                          "pytorch_model.bin.index.json"};

/// Tensor data of at most this many files is held open, whatever the number of shards.
constexpr std::size_t kOpenFiles = 16;

/// At most this many names stand in one message.
constexpr std::size_t kListed = 20;

/// True when something of that name is there, also a link that leads nowhere: opening it says what is wrong
/// with it.
bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

std::string listed(const std::vector<std::string>& items) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(items.size(), kListed); ++i) shown.push_back(printable(items[i]));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     items.size() > kListed ? fmt::format(" and {} more", items.size() - kListed) : "");
}

/// Names of the folder's files that end in `ending`, sorted.
std::vector<std::string> files_ending(const std::filesystem::path& folder, std::string_view ending) {
  std::vector<std::string> names;
  std::error_code stopped;
  for (std::filesystem::directory_iterator at(folder, stopped), end; !stopped && at != end;
       at.increment(stopped)) {
    auto name = at->path().filename().native();
    if (name.ends_with(ending)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// One file with tensors, closed. It is opened again for its data, and must then be the file whose header was
/// read.
struct Shard {
  std::filesystem::path path;
  FileStamp stamp;
};

/// The files whose data was read last, held open.
class OpenFiles {
 public:
  /// The shard's file, shared with other threads that read from it. Throws IoError.
  std::shared_ptr<const InputFile> get(std::size_t index, const Shard& shard) {
    const std::lock_guard lock(mutex_);
    for (const auto& [open_index, file] : open_) {
      if (open_index == index) return file;
    }
    auto file = std::make_shared<const InputFile>(InputFile::open(shard.path));
    if (file->stamp() != shard.stamp) {
      throw IoError(
          path_text(shard.path),
          fmt::format("was changed after its header was read; expected {} bytes as then, got {} bytes "
                      "or a later file; load it again",
                      shard.stamp.bytes, file->size()));
    }
    if (open_.size() == kOpenFiles) open_.erase(open_.begin());
    open_.emplace_back(index, file);
    return file;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::size_t, std::shared_ptr<const InputFile>>> open_;
};

struct StoredTensor {
  TensorInfo info;
  std::size_t shard;
};

/// Refuses a folder without a file to read, saying what was looked for and what is there instead.
[[noreturn]] void throw_no_model(const std::filesystem::path& folder) {
  const auto looked_for = fmt::format("expected {} or {}", kSingleFile, kIndexFile);
  for (const auto name : kPickleFiles) {
    if (!is_there(folder / name)) continue;
    throw CheckpointError(
        path_text(folder),
        fmt::format("the folder has no safetensors file; {}, got only {}, which this version does not "
                    "read; convert it to safetensors",
                    looked_for, name));
  }
  const auto others = files_ending(folder, ".safetensors");
  throw CheckpointError(path_text(folder), fmt::format("the folder has no model file; {}, got {}", looked_for,
                                                       others.empty() ? "no .safetensors file at all"
                                                                      : "only " + listed(others)));
}

/// Refuses a folder where shards that the index names are absent, listing all of them.
void check_present(const SafetensorsIndex& index, const std::filesystem::path& folder) {
  std::vector<std::string> missing;
  for (const auto& shard : index.shards) {
    if (!is_there(folder / shard)) missing.push_back(shard);
  }
  if (missing.empty()) return;
  throw CheckpointError(
      path_text(folder / kIndexFile),
      fmt::format("{} of {} shards are missing: {}; expected them beside the index; fetch them again",
                  missing.size(), index.shards.size(), listed(missing)));
}

}  // namespace

struct CheckpointReader::Contents {
  std::filesystem::path folder;
  std::vector<Shard> shards;
  std::vector<StoredTensor> tensors;
  std::vector<std::string> names;
  std::unordered_map<std::string_view, std::size_t> by_name;  // views of `names`
  std::map<std::string, std::string> metadata;
  std::vector<std::string> notes;
  std::uint64_t bytes = 0;
  OpenFiles open_files;

  void add_file(const std::filesystem::path& path) {
    const auto file = SafetensorsFile::open(path);
    for (const auto& info : file.tensors()) {
      bytes += info.bytes();
      tensors.push_back({info, shards.size()});
    }
    metadata.insert(file.metadata().begin(), file.metadata().end());
    shards.push_back({path, file.file().stamp()});
  }

  void add_shards(const SafetensorsIndex& index) {
    check_present(index, folder);
    for (const auto& shard : index.shards) add_file(folder / shard);
    check_agreement(index);
    const auto where = path_text(folder / kIndexFile);
    if (index.total_bytes && *index.total_bytes != bytes) {
      notes.push_back(fmt::format("[{}] metadata.total_size is {} bytes, but the shards hold {}", where,
                                  *index.total_bytes, bytes));
    }
    auto unused = files_ending(folder, ".safetensors");
    std::erase_if(unused, [&](const std::string& name) {
      return !name.starts_with("model-") ||
             std::find(index.shards.begin(), index.shards.end(), name) != index.shards.end();
    });
    if (!unused.empty()) {
      notes.push_back(
          fmt::format("[{}] the folder has shards that the index does not name and that were not read: {}",
                      where, listed(unused)));
    }
  }

  /// Every tensor must lie in the one shard that the index names: otherwise two programs see two different
  /// models.
  void check_agreement(const SafetensorsIndex& index) const {
    std::vector<std::string> wrong;
    std::vector<bool> found(index.entries.size());
    for (const auto& [info, shard] : tensors) {
      const auto* entry = index.find(info.name);
      const auto& holder = index.shards[shard];
      if (entry == nullptr) {
        wrong.push_back(fmt::format("'{}' is in {} but not in the index", info.name, holder));
      } else if (entry->shard != shard) {
        wrong.push_back(fmt::format("'{}' is in {} but the index says {}", info.name, holder,
                                    index.shards[entry->shard]));
      } else {
        found[static_cast<std::size_t>(entry - index.entries.data())] = true;
      }
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto& [tensor, shard] = index.entries[i];
      if (!found[i]) wrong.push_back(fmt::format("'{}' is not in {}", tensor, index.shards[shard]));
    }
    if (wrong.empty()) return;
    throw CheckpointError(
        path_text(folder / kIndexFile),
        fmt::format("index and shards disagree about {} tensors; expected each in exactly the shard "
                    "that the index names, got: {}",
                    wrong.size(), listed(wrong)));
  }

  void index_names() {
    names.reserve(tensors.size());
    for (const auto& stored : tensors) names.push_back(stored.info.name);
    for (std::size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], i);
  }

  const StoredTensor& at(std::string_view name) const {
    const auto place = by_name.find(name);
    if (place != by_name.end()) return tensors[place->second];
    const auto near = nearest(name, names);
    throw CheckpointError(
        path_text(folder),
        fmt::format("tensor '{}' is not among the {} tensors of this checkpoint{}", printable(name),
                    names.size(), near.empty() ? "" : fmt::format("; the nearest is '{}'", printable(near))));
  }
};

CheckpointReader CheckpointReader::open(const std::filesystem::path& folder) {
  std::error_code reason;
  if (!std::filesystem::is_directory(folder, reason)) {
    throw IoError(path_text(folder),
                  fmt::format("cannot be read as a model; expected a folder, got {}",
                              reason ? reason.message() : std::string("a file; give the folder it is in")));
  }
  auto contents = std::make_unique<Contents>();
  contents->folder = folder;
  if (is_there(folder / kSingleFile)) {
    contents->add_file(folder / kSingleFile);
    if (is_there(folder / kIndexFile)) {
      contents->notes.push_back(fmt::format("[{}] has both {} and {}; the first was read", path_text(folder),
                                            kSingleFile, kIndexFile));
    }
  } else if (is_there(folder / kIndexFile)) {
    contents->add_shards(read_safetensors_index(folder / kIndexFile));
  } else {
    throw_no_model(folder);
  }
  contents->index_names();
  return CheckpointReader(std::move(contents));
}

CheckpointReader::CheckpointReader(std::unique_ptr<Contents> contents) noexcept
    : contents_(std::move(contents)) {}
CheckpointReader::CheckpointReader(CheckpointReader&& other) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&& other) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

const std::filesystem::path& CheckpointReader::folder() const noexcept { return contents_->folder; }

const std::vector<std::string>& CheckpointReader::names() const noexcept { return contents_->names; }

bool CheckpointReader::contains(std::string_view name) const noexcept {
  return contents_->by_name.contains(name);
}

const TensorInfo& CheckpointReader::info(std::string_view name) const { return contents_->at(name).info; }

const std::filesystem::path& CheckpointReader::file_of(std::string_view name) const {
  return contents_->shards[contents_->at(name).shard].path;
}

at::Tensor CheckpointReader::read(std::string_view name) const {
  const auto& [info, shard] = contents_->at(name);
  return read_safetensor(*contents_->open_files.get(shard, contents_->shards[shard]), info);
}

std::uint64_t CheckpointReader::bytes() const noexcept { return contents_->bytes; }

const std::map<std::string, std::string>& CheckpointReader::metadata() const noexcept {
  return contents_->metadata;
}

const std::vector<std::string>& CheckpointReader::notes() const noexcept { return contents_->notes; }

}  // namespace hooked
