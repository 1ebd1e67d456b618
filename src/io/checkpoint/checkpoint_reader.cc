#include "io/checkpoint/checkpoint_reader.h"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <unordered_map>

#include "core/json.h"
#include "core/name_list.h"
#include "core/nearest.h"
#include "hooked/core/error.h"
#include "io/checkpoint/index_agreement.h"
#include "io/checkpoint/model_files.h"
#include "io/checkpoint/shard_index.h"
#include "io/files/hub_name.h"
#include "io/files/open_files.h"
#include "io/files/path_text.h"
#include "io/gguf/gguf_splits.h"
#include "io/tensors/tensor_file.h"

namespace hooked {
namespace {

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

}  // namespace

struct CheckpointReader::Contents {
  /// One file with tensors, closed, and what it said about them.
  struct Shard {
    ClosedFile file;
    std::unique_ptr<const TensorFile> contents;
  };

  /// Tensor `index` of a shard.
  struct TensorPlace {
    std::size_t shard;
    std::size_t index;
  };

  std::filesystem::path folder;
  std::vector<Shard> shards;
  std::vector<TensorPlace> tensors;
  std::vector<std::string> names;
  std::unordered_map<std::string_view, std::size_t> by_name;  // views of `names`
  std::map<std::string, std::string> metadata;
  PlainValue values{PlainValue::Dict()};
  std::vector<std::string> notes;
  std::vector<std::string> missing;              // shards
  std::map<std::string, std::string> misplaced;  // tensors, and why they are not read
  std::string refusal;                           // of a model that lacks them
  std::filesystem::path named_in;                // the file that names them
  std::string fetch;                             // the command that downloads them; empty where none is known
  std::optional<std::uint64_t> stated_bytes;
  std::uint64_t bytes = 0;
  OpenFiles open_files;

  const TensorInfo& info(const TensorPlace& stored) const {
    return shards[stored.shard].contents->tensors()[stored.index];
  }

  void add_file(const std::filesystem::path& path, TensorFormat format,
                PickledNames pickled = PickledNames::state_dict) {
    const auto file = InputFile::open(path);
    auto contents = describe_tensors(file, format, pickled);
    for (std::size_t i = 0; i < contents->tensors().size(); ++i) tensors.push_back({shards.size(), i});
    bytes += contents->bytes();
    metadata.insert(contents->metadata().begin(), contents->metadata().end());
    notes.insert(notes.end(), contents->notes().begin(), contents->notes().end());
    shards.push_back({{path, file.stamp()}, std::move(contents)});
  }

  /// A file that holds everything: the values stored with its tensors are the checkpoint's.
  void add_only_file(const std::filesystem::path& path, TensorFormat format,
                     PickledNames pickled = PickledNames::state_dict) {
    add_file(path, format, pickled);
    values = shards.back().contents->values();
    if (format == TensorFormat::kZip) add_pickle_note(path);
  }

  void add_pickle_note(const std::filesystem::path& path) {
    notes.push_back(
        fmt::format("[{}] is in PyTorch's pickle format; only tensors and plain values were read "
                    "from it, and nothing in it was run",
                    path_text(path)));
  }

  /// Records the missing ones among `all` shards that `file` names.
  void miss(std::vector<std::string> names, const std::filesystem::path& file, std::string_view what,
            const std::vector<std::string>& all) {
    missing = std::move(names);
    if (missing.empty()) return;
    named_in = file;
    const auto folder = file.parent_path();
    const auto files = is_gguf_name(file.native()) ? gguf_split_pattern(all.front()) : std::string();
    fetch = fetch_command(folder, files);
    auto others = tensor_files(folder);
    std::erase_if(others, [&](const std::string& name) { return std::ranges::find(all, name) != all.end(); });
    refusal =
        fmt::format("{} of {} {} are missing: {}; expected them next to {}{}; fetch them {}", missing.size(),
                    all.size(), what, name_list(missing), files.empty() ? "the index" : "this one",
                    others.empty() ? "" : fmt::format(", where other weights are: {}", name_list(others)),
                    how_to_fetch(folder, files));
  }

  void require_whole() const {
    if (!missing.empty()) throw CheckpointError(path_text(named_in), refusal);
  }

  /// All files of the model whose first GGUF file is `first`.
  void add_gguf_files(const std::filesystem::path& first, MissingShards when_missing) {
    add_file(first, TensorFormat::kGguf);
    const auto where = path_text(first);
    const auto all = gguf_split_names(first.filename().native(), *shards.front().contents->gguf(), where);
    if (all.size() > CheckpointLimits::kShards) {
      throw CheckpointError(where,
                            fmt::format("metadata 'split.count' is too large; expected at most {}, got {}",
                                        CheckpointLimits::kShards, all.size()));
    }
    miss(missing_among(all, first.parent_path()), first, "files of the model", all);
    if (when_missing == MissingShards::refused) require_whole();
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (std::ranges::find(missing, all[i]) != missing.end()) continue;
      const auto path = first.parent_path() / all[i];
      add_file(path, TensorFormat::kGguf);
      check_gguf_split(*shards.back().contents->gguf(), i, all.size(), path_text(path));
    }
    check_tensors_of_splits();
  }

  /// Every tensor must be present exactly once.
  void check_tensors_of_splits() const {
    const auto all = static_cast<std::int64_t>(tensors.size());
    const std::int64_t wanted =
        find_integer(*shards.front().contents->gguf(), "split.tensors.count").value_or(all);
    if (shards.size() > 1 && missing.empty() && wanted != all) {
      throw CheckpointError(
          path_text(shards.front().file.path),
          fmt::format("the files do not hold the tensors of the model; expected {} (metadata "
                      "'split.tensors.count'), got {}; fetch them again",
                      wanted, all));
    }
    std::unordered_map<std::string_view, std::size_t> holders;
    for (const auto& stored : tensors) {
      const auto [holder, added] = holders.emplace(info(stored).name, stored.shard);
      if (added) continue;
      throw CheckpointError(
          path_text(shards[stored.shard].file.path),
          fmt::format("tensor '{}' is also in '{}'; expected it once", printable(info(stored).name),
                      path_text(shards[holder->second].file.path)));
    }
  }

  void add_shards(const std::filesystem::path& index_file, TensorFormat format, MissingShards when_missing) {
    auto index = read_shard_index(index_file);
    const auto named = index.shards;
    stated_bytes = index.total_bytes;
    miss(missing_among(index.shards, folder), index_file, "shards", index.shards);
    if (when_missing == MissingShards::refused) require_whole();
    if (!missing.empty()) index = index.without(missing);
    for (const auto& shard : index.shards) add_file(folder / shard, format);
    const auto where = path_text(index_file);
    // Some pickle writers counted tensors that share memory once, others counted each.
    std::uint64_t separately = 0;
    for (const auto& stored : tensors) separately += info(stored).bytes();
    settle(index, index_file);
    if (index.total_bytes && *index.total_bytes != bytes && *index.total_bytes != separately) {
      notes.push_back(fmt::format("[{}] metadata.total_size is {} bytes, but the shards hold {}", where,
                                  *index.total_bytes, bytes));
    }
    const auto unused = unused_shards(folder, format, named);
    if (!unused.empty()) {
      notes.push_back(
          fmt::format("[{}] the folder has shards that the index does not name and that were not read: {}",
                      where, name_list(unused)));
    }
    if (format == TensorFormat::kZip) add_pickle_note(index_file);
  }

  /// Leaves out the shards' tensors that are not read.
  void settle(const ShardIndex& index, const std::filesystem::path& index_file) {
    std::vector<HeldTensor> held;
    for (const auto& stored : tensors) held.push_back({info(stored).name, stored.shard});
    IndexAgreement agreement = compare_with_index(index, held, path_text(index_file));
    std::erase_if(tensors, [&](const TensorPlace& stored) {
      return agreement.left_out.contains({info(stored).name, stored.shard});
    });
    misplaced = std::move(agreement.misplaced);
    notes.insert(notes.end(), agreement.notes.begin(), agreement.notes.end());
  }

  void index_names() {
    names.reserve(tensors.size());
    for (const auto& stored : tensors) names.push_back(info(stored).name);
    for (std::size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], i);
  }

  const TensorPlace& at(std::string_view name) const {
    const auto place = by_name.find(name);
    if (place != by_name.end()) return tensors[place->second];
    const auto near = nearest(name, names);
    throw CheckpointError(
        path_text(folder),
        fmt::format("tensor '{}' is not among the {} tensors of this checkpoint{}", printable(name),
                    names.size(), near.empty() ? "" : fmt::format("; the nearest is '{}'", printable(near))));
  }

  std::shared_ptr<const InputFile> opened(const TensorPlace& stored) {
    return open_files.get(stored.shard, shards[stored.shard].file);
  }
};

CheckpointReader CheckpointReader::open(const std::filesystem::path& folder, MissingShards when_missing) {
  std::error_code reason;
  if (!std::filesystem::is_directory(folder, reason)) {
    throw IoError(path_text(folder),
                  fmt::format("cannot be read as a model; expected a folder, got {}",
                              reason ? reason.message() : std::string("a file; give the folder it is in")));
  }
  auto contents = std::make_unique<Contents>();
  contents->folder = folder;
  auto [file, notes] = choose_model_file(folder);
  contents->notes = std::move(notes);
  if (file.holds == ModelFile::Holds::kIndex) {
    contents->add_shards(folder / file.name, file.format, when_missing);
  } else {
    contents->add_only_file(folder / file.name, file.format);
  }
  contents->index_names();
  return CheckpointReader(std::move(contents));
}

CheckpointReader CheckpointReader::open_file(const std::filesystem::path& file, MissingShards when_missing,
                                             PickledNames pickled) {
  auto contents = std::make_unique<Contents>();
  contents->folder = file.parent_path();
  const auto format = format_of(file);
  if (format == TensorFormat::kGguf) {
    contents->add_gguf_files(file, when_missing);
  } else {
    contents->add_only_file(file, format, pickled);
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

const TensorInfo& CheckpointReader::info(std::string_view name) const {
  return contents_->info(contents_->at(name));
}

const std::filesystem::path& CheckpointReader::file_of(std::string_view name) const {
  return contents_->shards[contents_->at(name).shard].file.path;
}

at::Tensor CheckpointReader::read(std::string_view name) const {
  const auto& stored = contents_->at(name);
  return contents_->shards[stored.shard].contents->read(*contents_->opened(stored), stored.index);
}

at::Tensor CheckpointReader::read_rows(std::string_view name, std::int64_t first, std::int64_t count) const {
  const auto& stored = contents_->at(name);
  return contents_->shards[stored.shard].contents->read_rows(*contents_->opened(stored), stored.index,
                                                             {.first = first, .count = count});
}

bool CheckpointReader::in_order(std::string_view name) const {
  const auto& stored = contents_->at(name);
  return contents_->shards[stored.shard].contents->in_order(stored.index);
}

void CheckpointReader::read_elements(std::string_view name, std::int64_t first,
                                     const at::Tensor& into) const {
  const auto& stored = contents_->at(name);
  const auto& shard = contents_->shards[stored.shard];
  const auto& info = contents_->info(stored);
  std::int64_t all = 1;
  for (const auto size : info.shape) all *= size;
  const bool fits = shard.contents->in_order(stored.index) && into.scalar_type() == info.dtype &&
                    into.is_cpu() && into.is_contiguous() && first >= 0 && first <= all &&
                    into.numel() <= all - first;
  if (!fits) {
    throw CheckpointError(
        path_text(shard.file.path),
        fmt::format("tensor '{}' does not have these elements in order; expected some of {} "
                    "of {} for contiguous memory of that dtype, got {} of {} from {} on",
                    printable(name), all, info.dtype_name, into.numel(), c10::toString(into.scalar_type()),
                    first));
  }
  shard.contents->read_elements(*contents_->opened(stored), stored.index, first, into);
}

bool CheckpointReader::has_bytes(std::string_view name) const {
  const auto& stored = contents_->at(name);
  return contents_->shards[stored.shard].contents->begin_of_bytes(stored.index).has_value();
}

void CheckpointReader::read_bytes(std::string_view name, std::uint64_t first,
                                  std::span<std::byte> into) const {
  const auto& stored = contents_->at(name);
  const auto& shard = contents_->shards[stored.shard];
  const auto begin = shard.contents->begin_of_bytes(stored.index);
  const std::uint64_t all = contents_->info(stored).bytes();
  if (!begin || first > all || into.size() > all - first) {
    throw CheckpointError(
        path_text(shard.file.path),
        fmt::format("tensor '{}' does not have these bytes in order; expected some of {}, got {} "
                    "from {} on",
                    printable(name), begin ? all : 0, into.size(), first));
  }
  if (!into.empty()) contents_->opened(stored)->read(*begin + first, into);
}

std::vector<std::filesystem::path> CheckpointReader::files() const {
  std::vector<std::filesystem::path> all;
  for (const auto& shard : contents_->shards) all.push_back(shard.file.path);
  return all;
}

const std::vector<std::string>& CheckpointReader::missing_shards() const noexcept {
  return contents_->missing;
}

const std::string& CheckpointReader::fetch() const noexcept { return contents_->fetch; }

void CheckpointReader::require_whole() const { contents_->require_whole(); }

const std::map<std::string, std::string>& CheckpointReader::misplaced() const noexcept {
  return contents_->misplaced;
}

std::optional<std::uint64_t> CheckpointReader::stated_bytes() const noexcept {
  return contents_->stated_bytes;
}

std::uint64_t CheckpointReader::bytes() const noexcept { return contents_->bytes; }

const GgufMetadata* CheckpointReader::gguf() const noexcept {
  return contents_->shards.empty() ? nullptr : contents_->shards.front().contents->gguf();
}

const std::filesystem::path& CheckpointReader::gguf_file() const noexcept {
  return contents_->shards.front().file.path;
}

const std::map<std::string, std::string>& CheckpointReader::metadata() const noexcept {
  return contents_->metadata;
}

const PlainValue& CheckpointReader::values() const noexcept { return contents_->values; }

const std::vector<std::string>& CheckpointReader::notes() const noexcept { return contents_->notes; }

}  // namespace hooked
