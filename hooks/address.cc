#include "hooked/hooks/address.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "core/index_text.h"
#include "core/nearest.h"
#include "core/overloaded.h"
#include "hooked/core/error.h"

namespace hooked {
namespace {

AxisIndex parse_index(std::string_view text, std::string_view whole) {
  if (const auto places = read_index(text)) return places->as<AxisIndex>();
  throw HookError(whole, fmt::format("'{}' is not an index; expected {}", text, kIndexForms));
}

// The names of all axes, each once, and words that people use for some of them.
std::string axis_meant_by(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kOthersWords[] = {
      {"position", "pos"}, {"token", "pos"}, {"row", "batch"}, {"neuron", "d_mlp"}};
  for (const auto& [others, own] : kOthersWords) {
    if (word == others || word == std::string(others) + 's')
      return fmt::format("there is no axis '{}'; it is written '{}'", word, own);
  }
  std::vector<std::string> names;
  for (const AxisRow& row : axis_table()) names.emplace_back(row.name);
  return fmt::format("there is no axis '{}'{}", word, nearest_text("; the nearest is '{}'", word, names));
}

}  // namespace

std::string AxisIndex::to_string() const {
  return std::visit(Overloaded{
                        [](std::int64_t one) { return fmt::format("{}", one); },
                        [](const Range& range) {
                          return fmt::format("{}:{}", range.begin ? fmt::format("{}", *range.begin) : "",
                                             range.end ? fmt::format("{}", *range.end) : "");
                        },
                        [](const std::vector<std::int64_t>& list) {
                          // A list of one is written as a range so that reading it back keeps the axis.
                          if (list.size() == 1 && list[0] == -1) return std::string("-1:");
                          return list.size() == 1 ? fmt::format("{}:{}", list[0], list[0] + 1)
                                                  : fmt::format("{}", fmt::join(list, "+"));
                        },
                        [](Last) { return std::string("last"); },
                    },
                    value);
}

const AxisIndex* AxisIndices::find(Axis axis) const& noexcept {
  const auto entry =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == axis; });
  return entry == entries_.end() ? nullptr : &entry->second;
}

std::optional<AxisIndex> AxisIndices::find(Axis axis) const&& {
  const AxisIndex* found = find(axis);
  return found ? std::optional(*found) : std::nullopt;
}

void AxisIndices::add(Axis axis, AxisIndex index) {
  if (find(axis) != nullptr) {
    throw HookError(axis_name(axis), "this axis is indexed twice; expected at most one index per axis");
  }
  entries_.emplace_back(axis, std::move(index));
}

std::string AxisIndices::to_string() const {
  if (entries_.empty()) return {};
  std::string text;
  for (const auto& [axis, index] : entries_) {
    text += fmt::format("{}{}={}", text.empty() ? "[" : ",", axis_name(axis), index.to_string());
  }
  return text + "]";
}

AxisIndices AxisIndices::parse(std::string_view text) {
  AxisIndices indices;
  const std::string_view whole = text;
  while (true) {
    const auto comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    const auto equals = entry.find('=');
    const std::string_view word = entry.substr(0, equals);
    const auto axis = parse_axis(word);
    if (equals == std::string_view::npos || !axis) {
      const std::string what =
          equals == std::string_view::npos ? fmt::format("'{}' is not an index", entry) : axis_meant_by(word);
      throw HookError(whole, fmt::format("{}; expected axis=i|i:j|i+j|last with an axis such as batch, pos, "
                                         "query, key, head or d_mlp",
                                         what));
    }
    indices.add(*axis, parse_index(entry.substr(equals + 1), whole));
    if (comma == std::string_view::npos) return indices;
    text.remove_prefix(comma + 1);
  }
}

Address Address::at(Axis axis, AxisIndex index) const {
  const auto meant = axis_on(name_.site, axis);
  if (!meant) {
    std::vector<std::string_view> axes;
    for (const Axis present : hooked::row(name_.site).axes) axes.push_back(axis_name(present));
    throw HookError(name_.to_string(), fmt::format("this activation has no axis '{}'; expected one of [{}]",
                                                   axis_name(axis), fmt::join(axes, ", ")));
  }
  Address address = *this;
  address.indices_.add(*meant, std::move(index));
  return address;
}

namespace {

// A name as `read_name` reads it, followed by its indices.
Address read_address(std::string_view text,
                     const std::function<ActivationName(std::string_view)>& read_name) {
  const auto bracket = text.find('[');
  if (bracket == std::string_view::npos) return read_name(text);
  if (text.back() != ']') throw HookError(text, "the indices are not closed; expected name[axis=index,...]");
  Address address = read_name(text.substr(0, bracket));
  const auto indices = AxisIndices::parse(text.substr(bracket + 1, text.size() - bracket - 2));
  for (const auto& [axis, index] : indices.entries()) address = address.at(axis, index);
  return address;
}

}  // namespace

Address Address::parse(std::string_view text) { return read_address(text, ActivationName::parse); }

Address Address::of_text(std::string_view text) {
  return read_address(text, [](std::string_view name) {
    return name.find('.') == std::string_view::npos ? from_shorthand(name) : ActivationName::parse(name);
  });
}

}  // namespace hooked
