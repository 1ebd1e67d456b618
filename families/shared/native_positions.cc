#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/model_config_fields.h"
#include "families/shared/native_keys.h"

namespace hooked {
namespace {

RopeScaling read_scaling(const NativeSource& in) {
  const bool llama3 = in.top.boolean_or("use_NTK_by_parts_rope", false);
  const bool yarn = in.top.boolean_or("use_yarn_rope", false);
  const bool linear = in.top.number_or("rotary_scaling_factor", 1.0) != 1.0;
  const auto dynamic = in.hooked.object_if("dynamic_rope");
  const auto longrope = in.hooked.object_if("longrope");
  const bool rounded = in.hooked.boolean_or("yarn_truncate", in.top.boolean_or("yarn_truncate", true));
  if (llama3 + yarn + linear + dynamic.has_value() + longrope.has_value() > 1) {
    in.top.refuse(yarn     ? "use_yarn_rope"
                  : llama3 ? "use_NTK_by_parts_rope"
                           : "rotary_scaling_factor",
                  "is set together with another rotary scaling; expected only one of use_NTK_by_parts_rope, "
                  "use_yarn_rope, rotary_scaling_factor, hooked.dynamic_rope and hooked.longrope");
  }
  // Required numbers; the others are used if the file has them.
  if (dynamic) {
    return DynamicScaling{.factor = dynamic->number("factor"),
                          .original_n_ctx = dynamic->number("original_n_ctx")};
  }
  if (longrope) {
    return LongropeScaling{.short_factors = longrope->numbers("short_factors"),
                           .long_factors = longrope->numbers("long_factors"),
                           .original_n_ctx = longrope->number("original_n_ctx")};
  }
  if (llama3) return Llama3Scaling{.factor = 8.0};
  if (yarn) return YarnScaling{.original_n_ctx = 4096.0, .truncate = rounded};
  if (linear) return LinearScaling{};
  return NoScaling{};
}

// The base on windowed layers. TransformerLens scales those under llama3 and plain yarn, but not under linear
// scaling; in ModelConfig they are scaled exactly if they do not have their own base.
std::optional<double> read_local_base(const NativeSource& in, const ModelConfig& c,
                                      const RopeScaling& scaling) {
  const bool stretched = !std::holds_alternative<NoScaling>(scaling);
  const bool global_only = in.top.boolean_or("yarn_global_attn_only", false);
  const bool scaled = in.hooked.boolean_or(
      "scale_windowed_rope", std::holds_alternative<Llama3Scaling>(scaling) ||
                                 (std::holds_alternative<YarnScaling>(scaling) && !global_only));
  std::optional<double> base;
  if (in.top.has("rotary_base_local")) base = in.top.number("rotary_base_local");
  if (!c.window) return std::nullopt;
  if (base && scaled && stretched) {
    in.top.refuse("rotary_base_local",
                  fmt::format("is not supported together with {} scaling of the windowed layers; "
                              "expected hooked.scale_windowed_rope = false, or no local base",
                              word_of(scaling)));
  }
  if (!base && !scaled && stretched) base = in.top.number_or("rotary_base", 10000.0);
  return base;
}

}  // namespace

void read_native_positions(const NativeSource& in, ModelConfig& c) {
  constexpr std::string_view kKey = "positional_embedding_type";
  const auto word = in.top.text_or(kKey, "standard");
  // TransformerLens's dumps have its rotary fields for every kind of positions; they only matter for rotary.
  RopeScaling scaling = read_scaling(in);
  const std::optional<double> local_base = read_local_base(in, c, scaling);
  if (word == "none") {
    c.positions = NoPositions{};
  } else if (word == "standard") {
    c.positions = LearnedPositions{};
  } else if (word == "shortformer") {
    c.positions = ShortformerPositions{};
  } else if (word == "rotary") {
    c.positions = RotaryPositions{
        .dim = in.top.integer_or("rotary_dim", 0), .local_base = local_base, .scaling = std::move(scaling)};
  } else if (word == "alibi") {
    const bool usual = c.n_heads >= 1 && c.n_heads <= kMaxHeads;
    c.positions = AlibiPositions{.slopes = usual ? geometric_alibi_slopes(c.n_heads) : std::vector<double>()};
  } else if (word == "relative_positional_bias") {
    c.positions = RelativePositions{};
  } else {
    in.top.refuse(kKey, fmt::format("is not supported; expected one of {}", fmt::join(kPositionWords, ", ")));
  }
}

}  // namespace hooked
