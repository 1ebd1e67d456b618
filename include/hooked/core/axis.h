#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace hooked {

/// The glossary: every axis that an activation or a weight can have.
enum class Axis : std::uint8_t {
  batch,       ///< rows of the token tensor
  pos,         ///< a token's place in its row
  query,       ///< the place that attends
  key,         ///< the place attended to
  head,        ///< attention head
  kv_head,     ///< key/value head (fewer than `head` under grouped-query attention)
  d_head,      ///< width of a head
  d_model,     ///< width of the residual stream
  d_mlp,       ///< neurons of an MLP
  layer,       ///< transformer block
  expert,      ///< expert of a mixture
  rank,        ///< place among the chosen top-k experts
  routed,      ///< tokens routed to one expert (its size depends on the data)
  rotary_dim,  ///< the part of a head that rotary positions turn
  latent,      ///< width of a latent of latent attention
  vocab,       ///< vocabulary entry
  one,         ///< a kept axis of size one
};

/// The axis's name as it is written in addresses and documents: `"d_head"`.
std::string_view axis_name(Axis axis) noexcept;

/// The axis of that name, or nothing.
std::optional<Axis> parse_axis(std::string_view name) noexcept;

/// Up to five axes by value, in order: the layout of an activation.
class AxisList {
 public:
  constexpr AxisList(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) axes_[size_++] = axis;
  }

  constexpr const Axis* begin() const noexcept { return axes_; }
  constexpr const Axis* end() const noexcept { return axes_ + size_; }
  constexpr std::size_t size() const noexcept { return size_; }
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
