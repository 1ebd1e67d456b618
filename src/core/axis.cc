#include "hooked/core/axis.h"

#include <array>
#include <utility>

namespace hooked {
namespace {

constexpr std::array<std::string_view, 17> kAxisNames = {
    "batch", "pos",    "query", "key",    "head",       "kv_head", "d_head", "d_model", "d_mlp",
    "layer", "expert", "rank",  "routed", "rotary_dim", "latent",  "vocab",  "one",
};

}  // namespace

std::string_view axis_name(Axis axis) noexcept { return kAxisNames[static_cast<std::size_t>(axis)]; }

std::optional<Axis> parse_axis(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kAxisNames.size(); ++i) {
    if (kAxisNames[i] == name) return static_cast<Axis>(i);
  }
  return std::nullopt;
}

}  // namespace hooked
