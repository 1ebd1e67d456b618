#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

/// A node of a picture of nodes and links.
struct LinkedNode {
  std::string text;         ///< written in the node; may be empty
  std::string says;         ///< shown when one points at it
  std::int64_t row = 0;     ///< counted from below
  std::int64_t column = 0;  ///< counted from the left
  bool faint = false;       ///< drawn without a fill, as an error is, which nothing explains

  bool operator==(const LinkedNode&) const = default;
};

/// A link of such a picture.
struct NodeLink {
  std::int64_t source = 0;  ///< the number of a node
  std::int64_t target = 0;  ///< the number of a node
  double weight = 1;        ///< its sign is the colour of the line, its size the width

  bool operator==(const NodeLink&) const = default;
};

/// Nodes by row and column, such as layer and token, and the links between them. A value.
struct NodeLinks {
  std::string title = {};                 ///< what is shown
  std::string unit = {};                  ///< of the weights
  std::string column_name = {};           ///< what columns are: `pos`
  std::vector<std::string> rows = {};     ///< labels, from below
  std::vector<std::string> columns = {};  ///< labels, from the left
  std::vector<LinkedNode> nodes = {};     ///< in any order; nodes of one place stand next to each other
  std::vector<NodeLink> links = {};       ///< in any order; the strongest are drawn last

  bool operator==(const NodeLinks&) const = default;
};

/// A self-contained SVG picture without scripts, whose colours follow the reader's light or dark scheme.
/// Pointing at a node or a link shows what it is. Throws ShapeError for a node outside the rows and columns,
/// and for a link of a missing node.
std::string node_link_svg(const NodeLinks& figure);

}  // namespace hooked
