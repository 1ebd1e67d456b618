#include "hooked/core/axis.h"

#include <algorithm>

#include "hooked/core/model_config.h"

namespace hooked {
namespace {

constexpr AxisRow kAxes[] = {
#define HOOKED_AXIS(axis, written, size, counts) {Axis::axis, written, counts},
#include "hooked/core/axes.inc"
};

constexpr std::int64_t of_input = -1;

// A size of a part that the model may lack.
template <class Optional, class Part>
std::int64_t of(const Optional& part, std::int64_t Part::*size) {
  return part ? (*part).*size : 0;
}

// The number of norms for the queries or keys of that many heads.
std::int64_t norms_of(const ModelConfig& config, std::int64_t heads) {
  return config.qk_norm && config.qk_norm->span == QkNorm::whole_projection ? 1 : heads;
}

// Entries of the weight of the norm of a layer's queries or keys, for that many heads.
std::int64_t norm_width(const ModelConfig& config, std::int64_t layer, std::int64_t heads) {
  const std::int64_t d_head = config.head_width(layer);
  return config.qk_norm && config.qk_norm->span == QkNorm::per_head ? d_head : heads * d_head;
}

}  // namespace

std::span<const AxisRow> axis_table() noexcept { return kAxes; }

std::string_view axis_name(Axis axis) noexcept { return kAxes[static_cast<std::size_t>(axis)].name; }

std::optional<Axis> parse_axis(std::string_view name) noexcept {
  for (const AxisRow& row : kAxes) {
    if (row.name == name) return row.axis;
  }
  return std::nullopt;
}

std::int64_t size_of(Axis axis, const ModelConfig& c, std::int64_t layer) {
  const std::int64_t l = std::max<std::int64_t>(0, layer);

  switch (axis) {
#define HOOKED_AXIS(axis, written, size, counts) \
  case Axis::axis:                               \
    return size;
#include "hooked/core/axes.inc"
  }
  return of_input;
}

}  // namespace hooked
