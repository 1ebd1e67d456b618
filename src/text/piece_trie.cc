#include "text/piece_trie.h"

namespace hooked {

void PieceTrie::add(std::string_view piece, std::int32_t value) {
  auto node = kRoot;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    auto& child = children_[key(node, piece[i])];
    if (child.node == 0) child.node = nodes_++;
    if (i + 1 == piece.size()) child.value = value;
    node = child.node;
  }
}

std::optional<PieceTrie::Node> PieceTrie::walk(std::string_view bytes, Node from) const noexcept {
  for (const auto byte : bytes) {
    const auto* child = children_.find(key(from, byte));
    if (!child) return std::nullopt;
    from = child->node;
  }
  return from;
}

}  // namespace hooked
