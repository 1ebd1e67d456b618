#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "hooked/core/export.h"

namespace HOOKED_EXPORT hooked {

struct ModelConfig;

/// Every axis that an activation or a weight can have. The table `axes.inc` says what each counts.
enum class Axis : std::uint8_t {
#define HOOKED_AXIS(axis, ...) axis,
#include "hooked/core/axes.inc"
};

/// One row of the table of axes.
struct AxisRow {
  Axis axis;  ///< the axis that this row describes
  /// Its name in addresses and documents: `"d_head"`. Axes that papers give the same name share it.
  std::string_view name;
  std::string_view counts;  ///< what it counts
};

/// The table, in the order of the enum.
std::span<const AxisRow> axis_table() noexcept;

/// The axis's name in addresses and documents: `"d_head"`.
std::string_view axis_name(Axis axis) noexcept;

/// The first axis with that name, or nothing. For an activation, `axis_on` finds the one that it has.
std::optional<Axis> parse_axis(std::string_view name) noexcept;

/// The size of an axis in a layer of a model; -1 for batch, positions and routed tokens, which depend on the
/// input. Outside layers, or if all layers are alike (ModelConfig::full_heads), `layer` is ignored.
std::int64_t size_of(Axis axis, const ModelConfig& config, std::int64_t layer);

/// Up to five axes by value, in order: the layout of an activation.
class AxisList {
 public:
  /// At most five axes.
  constexpr AxisList(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) axes_[size_++] = axis;
  }

  /// The first axis.
  constexpr const Axis* begin() const& noexcept { return axes_; }
  void begin() const&& = delete;  ///< it would point into a temporary
  /// One past the last axis.
  constexpr const Axis* end() const& noexcept { return axes_ + size_; }
  void end() const&& = delete;  ///< it would point into a temporary
  /// The number of axes.
  constexpr std::size_t size() const noexcept { return size_; }
  /// The axis of dimension `i`, which is below size().
  constexpr Axis operator[](std::size_t i) const { return axes_[i]; }

  /// The dimension of `axis`, or nothing if this layout does not have it.
  constexpr std::optional<std::int64_t> find(Axis axis) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (axes_[i] == axis) return static_cast<std::int64_t>(i);
    }
    return std::nullopt;
  }

 private:
  Axis axes_[5] = {};
  std::size_t size_ = 0;
};

}  // namespace hooked
