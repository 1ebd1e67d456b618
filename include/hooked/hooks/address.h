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

/// Places on one axis.
struct AxisIndex {
  /// [begin, end); either end may be left open, negative numbers count from the end.
  struct Range {
    std::optional<std::int64_t> begin = std::nullopt;
    std::optional<std::int64_t> end = std::nullopt;
    bool operator==(const Range&) const = default;
  };
  /// Each row's last real token, by the run's attention mask; only on the position axes.
  struct Last {
    bool operator==(const Last&) const = default;
  };

  std::variant<std::int64_t, Range, std::vector<std::int64_t>, Last> value;

  AxisIndex(std::int64_t one) : value(one) {}                            // NOLINT: 3 is an index
  AxisIndex(int one) : value(std::int64_t{one}) {}                       // NOLINT
  AxisIndex(Range range) : value(range) {}                               // NOLINT
  AxisIndex(std::vector<std::int64_t> list) : value(std::move(list)) {}  // NOLINT
  AxisIndex(Last last) : value(last) {}                                  // NOLINT

  bool operator==(const AxisIndex&) const = default;
  std::string to_string() const;
};

/// Indices on some axes of an activation: `[head=6,pos=-1]`.
class AxisIndices {
 public:
  bool empty() const noexcept { return entries_.empty(); }
  const std::vector<std::pair<Axis, AxisIndex>>& entries() const noexcept { return entries_; }
  const AxisIndex* find(Axis axis) const noexcept;

  /// Throws HookError when the axis is indexed already.
  void add(Axis axis, AxisIndex index);

  /// `[head=6,pos=-1]`, or nothing when there are none.
  std::string to_string() const;

  /// Parses what stands between the brackets: `axis=i|i:j|i+j,...|last`. Throws HookError.
  static AxisIndices parse(std::string_view text);

  bool operator==(const AxisIndices&) const = default;

 private:
  std::vector<std::pair<Axis, AxisIndex>> entries_;
};

/// A name with indices on its axes: `act::z(9).head(6).pos(-1)`, `blocks.9.attn.hook_z[head=6,pos=-1]`.
class Address {
 public:
  Address(ActivationName name) : name_(name) {}  // NOLINT: a name is the address of the whole activation
  /// A full name or the field's shorthand, with or without indices: `blocks.9.attn.hook_z[head=6,pos=-1]`,
  /// `z9[head=6]`. Throws HookError.
  template <std::convertible_to<std::string_view> Text>
  Address(const Text& text) : Address(of_text(std::string_view(text))) {}  // NOLINT: names are texts

  const ActivationName& name() const noexcept { return name_; }
  const AxisIndices& indices() const noexcept { return indices_; }

  /// This address with one more axis indexed. Throws HookError when the site does not have the axis or it is
  /// indexed already. `pos` means `query` on scores and patterns; `head` means `kv_head` on keys and values.
  Address at(Axis axis, AxisIndex index) const;

  Address head(AxisIndex index) const { return at(Axis::head, std::move(index)); }
  Address pos(AxisIndex index) const { return at(Axis::pos, std::move(index)); }
  Address query(AxisIndex index) const { return at(Axis::query, std::move(index)); }
  Address key(AxisIndex index) const { return at(Axis::key, std::move(index)); }
  Address row(AxisIndex index) const { return at(Axis::batch, std::move(index)); }
  Address neuron(AxisIndex index) const { return at(Axis::d_mlp, std::move(index)); }

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
