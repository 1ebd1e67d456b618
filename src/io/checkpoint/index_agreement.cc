#include "io/checkpoint/index_agreement.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "core/name_list.h"

namespace hooked {

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
