#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hooked/core/axis.h"
#include "hooked/core/export.h"
#include "hooked/hooks/activation_name.h"

namespace HOOKED_EXPORT hooked {

/// Indices on one axis.
struct AxisIndex {
  /// [begin, end); either end may be left open; negative numbers count from the end.
  struct Range {
    std::optional<std::int64_t> begin = std::nullopt;  ///< the first index
    std::optional<std::int64_t> end = std::nullopt;    ///< one past the last index
    bool operator==(const Range&) const = default;
  };
  /// Each row's last real token, according to the run's attention mask; only on position axes.
  struct Last {
    bool operator==(const Last&) const = default;
  };

  /// One index, which drops the axis, or several, which keep it; `last` is one index per row.
  std::variant<std::int64_t, Range, std::vector<std::int64_t>, Last> value;

  /// One index; negative numbers count from the end.
  AxisIndex(std::int64_t one) : value(one) {}  // NOLINT: 3 is an index
  /// The same.
  AxisIndex(int one) : value(std::int64_t{one}) {}  // NOLINT
  /// A range of indices.
  AxisIndex(Range range) : value(range) {}  // NOLINT
  /// These indices, in this order.
  AxisIndex(std::vector<std::int64_t> list) : value(std::move(list)) {}  // NOLINT
  /// Each row's last real token.
  AxisIndex(Last last) : value(last) {}  // NOLINT

  bool operator==(const AxisIndex&) const = default;
  /// As an address spells it after the axis: `6`, `2:5`, `1+4`, `last`.
  std::string to_string() const;
};

/// Indices on some axes of an activation: `[head=6,pos=-1]`.
class AxisIndices {
 public:
  /// Whether no axis is indexed.
  bool empty() const noexcept { return entries_.empty(); }
  /// The indexed axes, in the order in which they were added.
  const std::vector<std::pair<Axis, AxisIndex>>& entries() const& noexcept { return entries_; }
  /// The same for a temporary, as a copy.
  std::vector<std::pair<Axis, AxisIndex>> entries() const&& { return entries_; }
  /// The index on an axis, or null.
  const AxisIndex* find(Axis axis) const& noexcept;
  /// The same for a temporary, as a copy.
  std::optional<AxisIndex> find(Axis axis) const&&;

  /// Throws HookError if the axis already has an index.
  void add(Axis axis, AxisIndex index);

  /// `[head=6,pos=-1]`; empty without indices.
  std::string to_string() const;

  /// Parses the text inside the brackets: `axis=i|i:j|i+j,...|last`. Throws HookError.
  static AxisIndices parse(std::string_view text);

  bool operator==(const AxisIndices&) const = default;

 private:
  std::vector<std::pair<Axis, AxisIndex>> entries_;
};

/// A name with indices on its axes: `act::z(9).head(6).pos(-1)`, `blocks.9.attn.hook_z[head=6,pos=-1]`.
class Address {
 public:
  /// The whole activation of that name.
  Address(ActivationName name) : name_(name) {}  // NOLINT: a name is the address of the whole activation
  /// A full name or the field's shorthand, with or without indices: `blocks.9.attn.hook_z[head=6,pos=-1]`,
  /// `z9[head=6]`. Throws HookError.
  template <std::convertible_to<std::string_view> Text>
  Address(const Text& text) : Address(of_text(std::string_view(text))) {}  // NOLINT: names are texts

  /// The activation.
  ActivationName name() const noexcept { return name_; }
  /// The indices on its axes.
  const AxisIndices& indices() const& noexcept { return indices_; }
  /// The same for a temporary, as a copy.
  AxisIndices indices() const&& { return indices_; }

  /// This address with one more axis indexed. Throws HookError if the site lacks the axis or it already has
  /// an index. `pos` means `query` on scores and patterns; `head` means `kv_head` on keys and values.
  Address at(Axis axis, AxisIndex index) const;

  /// at() on the head axis.
  Address head(AxisIndex index) const { return at(Axis::head, std::move(index)); }
  /// at() on the position axis, which is the query axis on scores and patterns.
  Address pos(AxisIndex index) const { return at(Axis::pos, std::move(index)); }
  /// at() on the query axis.
  Address query(AxisIndex index) const { return at(Axis::query, std::move(index)); }
  /// at() on the key axis.
  Address key(AxisIndex index) const { return at(Axis::key, std::move(index)); }
  /// at() on the batch axis.
  Address row(AxisIndex index) const { return at(Axis::batch, std::move(index)); }
  /// at() on the axis of a dictionary's features.
  Address feature(AxisIndex index) const { return at(Axis::feature, std::move(index)); }
  /// at() on the axis of an MLP's neurons.
  Address neuron(AxisIndex index) const { return at(Axis::d_mlp, std::move(index)); }

  /// The full name and the indices.
  std::string to_string() const { return name_.to_string() + indices_.to_string(); }

  /// Inverse of to_string. Throws HookError.
  static Address parse(std::string_view text);

  bool operator==(const Address&) const = default;

 private:
  static Address of_text(std::string_view text);

  ActivationName name_;
  AxisIndices indices_;
};

}  // namespace hooked
