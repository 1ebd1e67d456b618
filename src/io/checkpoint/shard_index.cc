#include "io/checkpoint/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "core/json.h"
#include "core/name_list.h"
#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "io/checkpoint/checkpoint_reader.h"
#include "io/files/path_text.h"

namespace hooked {
namespace {

/// Why `name` is not a plain file name, or empty. Judged by its characters alone: hub caches are symbolic
/// links that lead out of the folder, so resolving the path could not tell a good one from a bad one.
std::string_view bad_file_name(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (name == "." || name == "..") return "it names a folder";
  if (name.find_first_of("/\\") != std::string_view::npos) return "it has a folder separator";
  if (name.find(':') != std::string_view::npos) return "it has a colon, as drives and streams do";
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::any_of(name.begin(), name.end(), control)) return "it has a control character";
  if (name.size() > 255) return "it is longer than 255 bytes";
  return {};
}

class IndexParser {
 public:
  explicit IndexParser(std::string where) : where_(std::move(where)) {}

  ShardIndex parse(const Json& document) {
    if (!document.is_object()) refuse("the index", "an object", document);
    const auto map = document.find("weight_map");
    if (map == document.end()) {
      throw CheckpointError(where_,
                            "'weight_map' is missing; expected an object of tensor names and file names");
    }
    if (!map->is_object()) refuse("'weight_map'", "an object of tensor names and file names", *map);
    if (map->empty()) throw CheckpointError(where_, "'weight_map' is empty; expected at least one tensor");
    for (const auto& [tensor, shard] : map->items()) add(tensor, shard);
    std::ranges::sort(index_.entries, {}, &ShardIndex::Entry::tensor);

    const auto metadata = document.find("metadata");
    if (metadata != document.end() && metadata->is_object()) {
      const auto total = metadata->find("total_size");
      if (total != metadata->end() && total->is_number_unsigned())
        index_.total_bytes = total->get<std::uint64_t>();
    }
    return std::move(index_);
  }

 private:
  void add(const std::string& tensor, const Json& shard) {
    if (!shard.is_string()) {
      refuse(fmt::format("weight_map '{}'", printable(tensor)), "a file name", shard);
    }
    const auto& name = shard.get_ref<const std::string&>();
    const auto [place, added] = positions_.emplace(name, index_.shards.size());
    if (added) {
      const auto reason = bad_file_name(name);
      if (!reason.empty()) {
        throw CheckpointError(
            where_, fmt::format("weight_map '{}': '{}' is not a plain file name: {}; expected the name of "
                                "a file in the same folder",
                                printable(tensor), printable(name), reason));
      }
      if (index_.shards.size() == CheckpointLimits::kShards) {
        throw CheckpointError(where_,
                              fmt::format("'weight_map' names too many files; expected at most {}, got more",
                                          CheckpointLimits::kShards));
      }
      index_.shards.push_back(name);
    }
    index_.entries.push_back({tensor, place->second});
  }

  [[noreturn]] void refuse(std::string_view what, std::string_view wanted, const Json& got) const {
    throw CheckpointError(where_, fmt::format("{} has the wrong type; expected {}, got {} {}", what, wanted,
                                              got.type_name(), printable(got.dump().substr(0, 48))));
  }

  std::string where_;
  ShardIndex index_;
  std::unordered_map<std::string, std::size_t> positions_;
};

}  // namespace

ShardIndex ShardIndex::without(const std::vector<std::string>& left_out) const {
  ShardIndex rest;
  const std::set<std::string_view> without(left_out.begin(), left_out.end());
  std::vector<std::optional<std::size_t>> places(shards.size());  // in `rest`
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (without.contains(shards[i])) continue;
    places[i] = rest.shards.size();
    rest.shards.push_back(shards[i]);
  }
  for (const auto& entry : entries) {
    if (places[entry.shard]) rest.entries.push_back({entry.tensor, *places[entry.shard]});
  }
  return rest;
}

const ShardIndex::Entry* ShardIndex::find(std::string_view tensor) const noexcept {
  const auto place = std::ranges::lower_bound(entries, tensor, {}, &Entry::tensor);
  return place == entries.end() || place->tensor != tensor ? nullptr : &*place;
}

ShardIndex read_shard_index(const std::filesystem::path& path) {
  const auto where = path_text(path);
  const auto text = read_text_file(path, CheckpointLimits::kIndexBytes);
  try {
    return IndexParser(where).parse(parse_json(text, {.bytes = CheckpointLimits::kIndexBytes, .depth = 64}));
  } catch (const std::invalid_argument& error) {
    throw CheckpointError(where, error.what());
  }
}

IndexAgreement compare_with_index(const ShardIndex& index, const std::vector<HeldTensor>& held,
                                  std::string_view where) {
  IndexAgreement result;
  std::map<std::string_view, std::vector<std::size_t>> holders;  // shards, by tensor
  for (const auto& [name, shard] : held) holders[name].push_back(shard);
  std::vector<std::string> copies, unlisted, absent;
  const auto misplace = [&](std::string_view name, const std::string& reason) {
    absent.push_back(reason);
    result.misplaced.emplace(name, reason);
  };
  for (const auto& [name, shards] : holders) {
    const auto* entry = index.find(name);
    const std::string shown = fmt::format("'{}'", printable(name));
    if (entry == nullptr && shards.size() == 1) {
      unlisted.push_back(fmt::format("{} in {}", shown, index.shards[shards.front()]));
      continue;
    }
    const bool where_named = entry != nullptr && std::ranges::find(shards, entry->shard) != shards.end();
    for (const std::size_t shard : shards) {
      if (where_named && shard == entry->shard) continue;
      result.left_out.emplace(name, shard);
      if (where_named) copies.push_back(fmt::format("{} in {}", shown, index.shards[shard]));
    }
    if (entry == nullptr)
      misplace(name, fmt::format("{} is in {} shards and not in the index", shown, shards.size()));
  }
  for (const auto& [tensor, shard] : index.entries) {
    const auto found = holders.find(tensor);
    const bool there = found != holders.end();
    if (there && std::ranges::find(found->second, shard) != found->second.end()) continue;
    misplace(tensor,
             fmt::format("'{}' is not in {}, where the index says{}", printable(tensor), index.shards[shard],
                         there ? fmt::format(", but in {}", index.shards[found->second.front()]) : ""));
  }
  const auto note = [&](const std::vector<std::string>& names, std::string_view what) {
    if (!names.empty())
      result.notes.push_back(fmt::format("[{}] {} {}: {}", where, names.size(), what, name_list(names)));
  };
  note(absent, "tensors are not where the index says, so that none of them is read");
  note(copies, "copies of tensors in other shards than the index names were not read");
  note(unlisted, "tensors of the shards are not in the index");
  return result;
}

}  // namespace hooked
