#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/checkpoint/shard_index.h"

namespace hooked {

/// A tensor, and which of the index's shards holds it.
using HeldTensor = std::pair<std::string_view, std::size_t>;

/// What to do with the tensors that shards hold.
struct IndexAgreement {
  std::set<HeldTensor> left_out;                 ///< that are not read; views of the names given
  std::map<std::string, std::string> misplaced;  ///< no copy of them is read; a sentence about each
  std::vector<std::string> notes;                ///< what a user should know, a sentence for each kind
};

/// Note [Index and shards]
/// The index alone says which copy of a tensor is meant. A tensor is read from the shard that the index
/// names, and from no other. A tensor that the index does not name is read from the only shard that has it.
/// Other disagreements may concern nobody, so they are notes here, and errors for callers that need those
/// tensors.
///
/// `where` names the index file in notes.
IndexAgreement compare_with_index(const ShardIndex& index, const std::vector<HeldTensor>& held,
                                  std::string_view where);

}  // namespace hooked
