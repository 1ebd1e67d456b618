#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "analysis/stream/stream_graph.h"

namespace hooked {

/// All edges that a model may have, by numbers on the axes of edge_attribution.
class EdgeSpace {
 public:
  explicit EdgeSpace(const HookedTransformer& model);

  const StreamGraph& graph() const noexcept { return graph_; }
  const std::vector<std::string>& writers() const noexcept { return graph_.writer_axis.labels; }
  const std::vector<std::string>& readers() const noexcept { return graph_.reader_axis.labels; }
  /// The writers that a reader feeds: a head, an MLP, the heads that share a key; none for the logits.
  const std::vector<std::int64_t>& owners(std::int64_t reader) const {
    return owners_[static_cast<std::size_t>(reader)];
  }
  bool is_behind(std::int64_t reader, std::int64_t writer) const;
  bool is_embedding(std::int64_t writer) const { return embeddings_.contains(writer); }

 private:
  StreamGraph graph_;
  std::set<std::int64_t> embeddings_;
  std::vector<std::vector<std::int64_t>> owners_;
};

}  // namespace hooked
