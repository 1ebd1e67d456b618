#pragma once

#include <optional>
#include <string_view>

#include "families/shared/hf_config.h"

namespace hooked {

/// Defaults of a family's configs.
struct RopeDefaults {
  double theta = 10000.0;
  /// Rotated share of d_head, 0 for no positions; none: the family rotates all of it, and another share is
  /// refused.
  std::optional<double> partial = std::nullopt;
  std::string_view theta_key = "rope_theta";               ///< of configs in the older style
  std::string_view partial_key = "partial_rotary_factor";  ///< of configs in the older style
  bool adjacent_pairs = false;
  /// Default of the family's own key `original_max_position_embeddings`; none: it does not have this key.
  std::optional<double> original_n_ctx = std::nullopt;
  /// The group, a JSON object, for configs that have none.
  std::string_view group = "{}";
  /// Whether the group is for one kind of layer: then the keys outside the groups matter less.
  bool of_one_kind = false;
  /// Whether dimensions are rotated by sections (`mrope_section`), each by another coordinate of a place in
  /// an image or a video. All coordinates of a text token are its position, so sections make no difference.
  bool sections = false;
  /// Whether `dynamic` with an `alpha` means angles of every length by a base that is stretched once
  /// (Hunyuan).
  bool fixed_alpha = false;
  /// Whether the kind `proportional` is known, which rotates a share of the pairs (Gemma 4).
  bool proportional = false;
  /// Whether `su` and `yarn` are names of longrope (Phi 3).
  bool calls_longrope_yarn = false;
};

/// The group that says how a config scales its angles: `rope_scaling` unless it is empty, else
/// `rope_parameters`, as in transformers; `absent`, a JSON object, if a config has neither.
ConfigReader rope_group(const ConfigReader& json, std::string_view absent = "{}");

/// Makes `config` rotary as config.json says: `rope_parameters`, or in the older style `rope_theta` with
/// `rope_scaling` (`rope_type` or `type`). If two keys state one thing, transformers' order applies, and a
/// note names the one without effect if it differs. Throws ConfigError at the key for an unknown kind of
/// scaling, a key that the kind does not have, or a share that rotates an odd number of dimensions.
void read_rope(HfConfig& hf, ModelConfig& config, const RopeDefaults& defaults = {});

/// YaRN's magnitude of queries and keys (Peng et al. 2023), times `weight` if it grows.
double yarn_magnitude(double factor, double weight);

/// Defaults of families whose windowed layers have separate angles.
struct LayeredRopeDefaults {
  double theta = 10000.0;
  double windowed_theta = 10000.0;
  /// The key outside the groups for the theta of a group that has none; empty: there is none.
  std::string_view theta_key = "rope_theta";
  std::string_view windowed_theta_key = {};
  /// For families without an older style: the group of full layers, a JSON object, if a config has none.
  std::string_view full_group = {};
  bool proportional = false;  ///< as in RopeDefaults
};

/// As read_rope for families with one group for full layers and one for windowed ones: `rope_parameters` with
/// `full_attention` and `sliding_attention`, or in the older style keys whose scaling applies to full layers.
/// Windows must have been read.
void read_layered_rope(HfConfig& hf, ModelConfig& config, const LayeredRopeDefaults& defaults);

}  // namespace hooked
