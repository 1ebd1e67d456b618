#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "hooked/core/axis.h"
#include "hooked/core/block_place.h"
#include "hooked/core/model_config.h"

namespace hooked {

/// A kind of activation point. With a layer it is an ActivationName.
enum class Site : std::uint8_t {
  tokens,
  token_embed,
  position_embed,
  token_type_embed,
  embed_ln_scale,
  embed_ln_normalized,
  embed,
  pos_embed,
  full_embed,
  resid_pre,
  attn_in,
  q_input,
  k_input,
  v_input,
  ln1_scale,
  ln1_normalized,
  q_latent_norm_scale,
  q_latent_norm_normalized,
  q_latent,
  kv_latent_norm_scale,
  kv_latent_norm_normalized,
  kv_latent,
  k_shared,
  q,
  k,
  v,
  q_norm_scale,
  q_norm_normalized,
  k_norm_scale,
  k_norm_normalized,
  rot_q,
  rot_k,
  relative_bias,
  attn_scores,
  pattern,
  z,
  result,
  ln1_post_scale,
  ln1_post_normalized,
  attn_out,
  resid_mid,
  cross_attn_in,
  cross_q,
  cross_k,
  cross_v,
  cross_attn_scores,
  cross_pattern,
  cross_z,
  cross_result,
  cross_attn_out,
  resid_mid_cross,
  mlp_in,
  ln2_scale,
  ln2_normalized,
  ln3_scale,
  ln3_normalized,
  mlp_pre,
  mlp_pre_linear,
  mlp_mid,
  mlp_ln_scale,
  mlp_ln_normalized,
  mlp_post,
  expert_weights,
  expert_indices,
  expert_gate,
  expert_pre,
  expert_post,
  shared_pre,
  shared_pre_linear,
  shared_post,
  shared_weight,
  ln2_post_scale,
  ln2_post_normalized,
  mlp_out,
  resid_post,
  normalized_resid_post,
  encoder_final_ln_scale,
  encoder_final_ln_normalized,
  ln_final_scale,
  ln_final_normalized,
  decoder_final_ln_scale,
  decoder_final_ln_normalized,
  mlm_head_ln_scale,
  mlm_head_ln_normalized,
  unembed_in,
  unembed_out,
};

/// What kind of module path a site stands on.
enum class SiteScope : std::uint8_t {
  entry,         ///< before the first block
  block,         ///< once in each block
  encoder_exit,  ///< after the encoder's last block
  exit,          ///< after the last block
};

/// One row of the table of sites: everything that is known about an activation point.
struct SiteRow {
  Site site;
  SiteScope scope;
  /// Path in the module graph; `{stack}`, `{layer}` and `{expert}` stand for the name's parts.
  std::string_view path;
  /// The word the `act::` factories and the field's shorthand use: `pattern`, `resid_pre`.
  std::string_view word;
  AxisList axes;
  bool wide;          ///< only on request, not in the default set (DESIGN 9.3)
  bool changes_plan;  ///< watching it makes the run take another (equal up to rounding) path
  /// Whether a model has the point; `layer` counts for sites of scope block, and is -1 for the others.
  bool (*exists)(const ModelConfig&, std::int64_t layer);
  std::string_view when;  ///< when it exists, in words: for errors and documents
  std::string_view what;  ///< what it holds
  bool integers = false;  ///< ids (int64): no gradients, edits only set and replace
};

/// The table, in the order in which the points of a pre-norm block fire.
std::span<const SiteRow> site_table() noexcept;

/// The row of a site.
const SiteRow& row(Site site) noexcept;

/// Whether each expert of a layer has a point of this site; then a name has an expert.
inline bool per_expert(const SiteRow& row) noexcept { return row.axes.find(Axis::routed).has_value(); }

/// The one stack whose blocks have points of this site, or nothing where those of any stack do.
inline std::optional<Stack> own_stack(const SiteRow& row) noexcept {
  if (row.path.starts_with("decoder.{")) return Stack::decoder;
  return std::nullopt;
}

/// The axis of `site` that `axis` means there: itself, or the one that is written alike (`d_value` is written
/// `d_head`), or `query` for `pos` and `kv_head` for `head` on sites that have those instead. Nothing when
/// the site has none of them.
std::optional<Axis> axis_on(Site site, Axis axis) noexcept;

}  // namespace hooked
