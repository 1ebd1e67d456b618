#include "hooked/analysis/node_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/figures/axis.h"
#include "analysis/figures/svg.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

// Pixels.
constexpr double kNodeFont = 10;
constexpr double kNodeHeight = 16;   // the height of a node
constexpr double kNodesApart = 4;    // between the nodes of a place
constexpr double kWidestPlace = 96;  // then the nodes of a place take another line
constexpr double kLeastPlace = 26;
constexpr double kBetweenRows = 34;  // room for links
constexpr std::size_t kShownText = 12;

// With more nodes, links are not highlighted by pointing at a node: each takes a rule of the style sheet.
constexpr std::size_t kMostHighlights = 500;

constexpr const char* kLinksLight = R"(.node-links .node rect{fill:#eef1f4;stroke:#6b7580}
.node-links .node.faint rect{fill:none;stroke-dasharray:3 2}
.node-links .node text{font-size:10px;text-anchor:middle}
.node-links .node:hover rect,.node-links .node:focus rect{stroke-width:2.5}
.node-links .link{fill:none;pointer-events:stroke}
.node-links .up{stroke:#2166ac}
.node-links .down{stroke:#b2182b}
.node-links .link:hover{stroke-opacity:1}
.node-links .band{fill:#6b7580;opacity:.07}
)";
constexpr const char* kLinksDark = R"(.node-links .node rect{fill:#262b31;stroke:#98a2ad}
.node-links .node.faint rect{fill:none}
.node-links .up{stroke:#66a8de}
.node-links .down{stroke:#f79b7c}
)";

/// Where a node is drawn.
struct Box {
  double x = 0, y = 0, width = 0;  // of its middle

  double foot() const { return y + kNodeHeight / 2; }
  double head() const { return y - kNodeHeight / 2; }
};

/// Draws one figure; holds what the parts of the picture need of each other.
class LinkDrawing {
 public:
  explicit LinkDrawing(const NodeLinks& figure) : figure_(figure), boxes_(figure.nodes.size()) {
    for (std::size_t i = 0; i < figure.nodes.size(); ++i) {
      boxes_[i].width = std::max(kNodeHeight, text_width(words(i), kNodeFont) + 10);
      order_.push_back(i);
    }
    std::ranges::stable_sort(
        order_, {}, [&](std::size_t i) { return std::pair(figure_.nodes[i].row, figure_.nodes[i].column); });
    place();
  }

  std::string svg() {
    draw_rows();
    draw_links();
    for (std::size_t i = 0; i < boxes_.size(); ++i) draw_node(i);
    return picture_page({.css_class = "node-links",
                         .title = figure_.title,
                         .unit = unit(),
                         .rules = rules(),
                         .body = body_,
                         .right = right_,
                         .bottom = bottom_});
  }

 private:
  std::string words(std::size_t node) const {
    return shortened(visible_label(figure_.nodes[node].text), kShownText);
  }

  /// The lines of each place: nodes next to each other, as many as fit.
  void place() {
    std::vector<double> widths(figure_.columns.size(), kLeastPlace),
        heights(figure_.rows.size(), kNodeHeight);
    for (std::size_t i = 0; i < figure_.columns.size(); ++i)
      widths[i] = std::max(widths[i], std::min(60.0, text_width(column_words(i), kNodeFont) + 8));
    const auto row_of = [&](std::size_t i) { return static_cast<std::size_t>(figure_.nodes[i].row); };
    const auto column_of = [&](std::size_t i) { return static_cast<std::size_t>(figure_.nodes[i].column); };
    std::vector<double> lines(boxes_.size(), 0), offsets(boxes_.size(), 0), lengths(boxes_.size(), 0);
    for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      const std::size_t row = row_of(order_[begin]), column = column_of(order_[begin]);
      double line = 0, x = 0;
      std::size_t line_begin = begin;
      const auto end_line = [&](std::size_t until) {
        for (std::size_t k = line_begin; k < until; ++k) lengths[order_[k]] = x - kNodesApart;
        widths[column] = std::max(widths[column], x - kNodesApart);
      };
      for (end = begin; end < order_.size() && row_of(order_[end]) == row && column_of(order_[end]) == column;
           ++end) {
        const std::size_t node = order_[end];
        if (x > 0 && x + boxes_[node].width > kWidestPlace) {
          end_line(end);
          line_begin = end;
          x = 0;
          ++line;
        }
        lines[node] = line;
        offsets[node] = x;
        x += boxes_[node].width + kNodesApart;
      }
      end_line(end);
      heights[row] = std::max(heights[row], (line + 1) * (kNodeHeight + kNodesApart) - kNodesApart);
    }
    double label = 0;
    for (const std::string& row : figure_.rows)
      label = std::max(label, text_width(visible_label(row), kPictureFont));
    left_ = kPictureMargin + std::ceil(label) + 12;
    double x = left_;
    for (const double width : widths) {
      centres_.push_back(x + width / 2);
      x += width + 14;
    }
    right_ = x;
    double y = kPictureHeader + 6;
    tops_.resize(heights.size());
    heights_ = heights;
    for (std::size_t row = heights.size(); row-- > 0;) {
      tops_[row] = y;
      y += heights[row] + kBetweenRows;
    }
    bottom_ = y - kBetweenRows + 8;
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      boxes_[i].x = centres_[column_of(i)] - lengths[i] / 2 + offsets[i] + boxes_[i].width / 2;
      boxes_[i].y = tops_[row_of(i)] + lines[i] * (kNodeHeight + kNodesApart) + kNodeHeight / 2;
    }
  }

  std::string column_words(std::size_t column) const {
    return shortened(visible_label(figure_.columns[column]), kShownText);
  }

  void draw_rows() {
    for (std::size_t row = 0; row < figure_.rows.size(); ++row) {
      body_ +=
          svg_element("rect class=\"band\"", left_ - 6, tops_[row] - 5, right_ - left_, heights_[row] + 10);
      body_ += "/>";
      body_ +=
          svg_text(left_ - 12, tops_[row] + heights_[row] / 2 + 4, "end", visible_label(figure_.rows[row]));
    }
    if (figure_.columns.empty()) return;
    for (std::size_t column = 0; column < figure_.columns.size(); ++column)
      body_ += svg_text(centres_[column], bottom_ + 10, "middle unit", column_words(column));
    body_ += svg_text(left_ - 12, bottom_ + 10, "end unit", figure_.column_name);
    bottom_ += 14;
  }

  void draw_links() {
    std::vector<const NodeLink*> links;
    for (const NodeLink& link : figure_.links) links.push_back(&link);
    std::ranges::stable_sort(links, {}, [](const NodeLink* link) { return std::abs(link->weight); });
    const double most = links.empty() ? 1 : std::max(std::abs(links.back()->weight), 1e-300);
    for (const NodeLink* link : links) {
      const double share = std::abs(link->weight) / most;
      const Box &from = boxes_[static_cast<std::size_t>(link->source)],
                &to = boxes_[static_cast<std::size_t>(link->target)];
      const double bend = std::max(12.0, (from.head() - to.foot()) / 2);
      body_ += fmt::format(
          "<path class=\"link {}\" data-source=\"{}\" data-target=\"{}\" stroke-width=\"{:.2f}\" "
          "stroke-opacity=\"{:.2f}\" d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\">"
          "<title>{} to {}: {}</title></path>\n",
          link->weight < 0 ? "down" : "up", link->source, link->target, 0.6 + 3.4 * share,
          0.25 + 0.65 * share, from.x, from.head(), from.x, from.head() - bend, to.x, to.foot() + bend, to.x,
          to.foot(), xml_text(says(link->source)), xml_text(says(link->target)),
          readable_number(link->weight));
    }
  }

  const std::string& says(std::int64_t node) const {
    return figure_.nodes[static_cast<std::size_t>(node)].says;
  }

  void draw_node(std::size_t i) {
    const Box& box = boxes_[i];
    body_ += fmt::format("<g class=\"node{}\" data-node=\"{}\" tabindex=\"0\"><title>{}</title>",
                         figure_.nodes[i].faint ? " faint" : "", i, xml_text(figure_.nodes[i].says));
    body_ += svg_element("rect rx=\"4\"", box.x - box.width / 2, box.head(), box.width, kNodeHeight) + "/>";
    body_ += svg_text(box.x, box.y + kNodeFont * 0.36, "", words(i)) + "</g>\n";
  }

  std::string unit() const {
    const std::string colours = "blue raises, red lowers; wider is stronger";
    return figure_.unit.empty() ? colours : figure_.unit + ": " + colours;
  }

  PictureRules rules() const {
    PictureRules rules{.light = kLinksLight, .dark = kLinksDark};
    if (figure_.nodes.size() > kMostHighlights) return rules;
    std::vector<bool> linked(figure_.nodes.size());
    for (const NodeLink& link : figure_.links) {
      linked[static_cast<std::size_t>(link.source)] = true;
      linked[static_cast<std::size_t>(link.target)] = true;
    }
    for (std::size_t i = 0; i < linked.size(); ++i) {
      if (linked[i])
        rules.light += fmt::format(
            ".node-links:has([data-node=\"{0}\"]:is(:hover,:focus)) "
            ".link:not([data-source=\"{0}\"],[data-target=\"{0}\"]){{stroke-opacity:.04}}\n",
            i);
    }
    return rules;
  }

  const NodeLinks& figure_;
  std::vector<Box> boxes_;
  std::vector<std::size_t> order_;  // nodes by place
  std::vector<double> centres_, tops_, heights_;
  double left_ = 0, right_ = 0, bottom_ = 0;
  std::string body_;
};

void require_there(const NodeLinks& figure) {
  const std::int64_t rows = std::ssize(figure.rows), columns = std::ssize(figure.columns),
                     nodes = std::ssize(figure.nodes);
  for (std::int64_t i = 0; i < nodes; ++i) {
    const LinkedNode& node = figure.nodes[static_cast<std::size_t>(i)];
    if (node.row < 0 || node.row >= rows || node.column < 0 || node.column >= columns)
      throw ShapeError("nodes and links",
                       fmt::format("node {} is at row {}, column {}; expected one of {} rows and {} columns",
                                   i, node.row, node.column, rows, columns));
  }
  for (const NodeLink& link : figure.links) {
    if (std::min(link.source, link.target) < 0 || std::max(link.source, link.target) >= nodes)
      throw ShapeError("nodes and links", fmt::format("a link goes from node {} to node {}; expected 0 to {}",
                                                      link.source, link.target, nodes - 1));
  }
}

}  // namespace

std::string node_link_svg(const NodeLinks& figure) {
  require_there(figure);
  return LinkDrawing(figure).svg();
}

}  // namespace hooked
