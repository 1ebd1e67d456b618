#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/strings/flat_map.h"

namespace hooked::text {

/// A set of strings with values: one walk finds all of them that are a prefix of a text.
class PieceTrie {
 public:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;

  /// Adds a nonempty string with a value of 0 or more; a later one replaces an earlier one.
  void add(std::string_view piece, std::int32_t value) {
    auto node = kRoot;
    for (std::size_t i = 0; i < piece.size(); ++i) {
      auto& child = children_[key(node, piece[i])];
      if (child.node == 0) child.node = nodes_++;
      if (i + 1 == piece.size()) child.value = value;
      node = child.node;
    }
  }

  /// Whether nothing has been added.
  bool empty() const noexcept { return nodes_ == 1; }

  /// The node reached from `from` by `bytes`, or nothing.
  std::optional<Node> walk(std::string_view bytes, Node from = kRoot) const noexcept {
    for (const auto byte : bytes) {
      const auto* child = children_.find(key(from, byte));
      if (!child) return std::nullopt;
      from = child->node;
    }
    return from;
  }

  /// Calls `visit(length, value)` for each string that is a prefix of `text`, from `from` on, shortest first.
  template <class Visit>
  void for_each_prefix(std::string_view text, Visit&& visit, Node from = kRoot) const {
    auto node = from;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto* child = children_.find(key(node, text[i]));
      if (!child) return;
      node = child->node;
      if (child->value >= 0) visit(i + 1, child->value);
    }
  }

 private:
  struct Child {
    Node node = 0;
    std::int32_t value = -1;  // of the string that ends here
  };

  static std::uint64_t key(Node node, char byte) noexcept {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }

  FlatMap<Child> children_;
  Node nodes_ = 1;
};

}  // namespace hooked::text
