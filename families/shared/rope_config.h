#pragma once

#include <optional>
#include <string_view>

#include "families/shared/hf_config.h"

namespace hooked {

/// What a family's configs mean where they say nothing.
struct RopeDefaults {
  double theta = 10000.0;
  /// Turned share of d_head; none: the family turns all of it, and another share is refused.
  std::optional<double> partial = std::nullopt;
  std::string_view theta_key = "rope_theta";               ///< of configs in the older style
  std::string_view partial_key = "partial_rotary_factor";  ///< of configs in the older style
  bool adjacent_pairs = false;
  /// Of the family's own key `original_max_position_embeddings`, which then holds whatever a scaling's group
  /// says; none: only the group has it.
  std::optional<double> original_n_ctx = std::nullopt;
  /// Whether dimensions are turned by sections (`mrope_section`), each by another coordinate of a place in an
  /// image or a video. All coordinates of a token of text are its position, so that sections say nothing.
  bool sections = false;
  /// Whether `dynamic` with an `alpha` means angles of every length by a base that is stretched once
  /// (Hunyuan).
  bool fixed_alpha = false;
  /// Whether the kind `proportional` is known, of which a share of the pairs is turned (Gemma 4).
  bool proportional = false;
};

/// Makes `config` rotary as config.json says: `rope_parameters`, or in the older style `rope_theta` with
/// `rope_scaling` (`rope_type` or `type`). Throws ConfigError at the key for an unknown kind of scaling, a
/// key that the kind does not have, or a share that turns an odd number of dimensions.
void read_rope(HfConfig& hf, ModelConfig& config, const RopeDefaults& defaults = {});

/// The magnitude that YaRN gives queries and keys (Peng et al. 2023), times `weight` where it grows.
double yarn_magnitude(double factor, double weight);

/// What families mean whose windowed layers have angles of their own.
struct LayeredRopeDefaults {
  double theta = 10000.0;
  double windowed_theta = 10000.0;
  std::string_view windowed_theta_key = {};  ///< of configs in the older style, empty if they have none
  /// Of families that know no older style: the group of full layers, a JSON object, where a config has none.
  std::string_view full_group = {};
  bool proportional = false;  ///< as RopeDefaults has it
};

/// As read_rope for families with one group for full layers and one for windowed ones: `rope_parameters` with
/// `full_attention` and `sliding_attention`, or in the older style keys whose scaling holds for full layers.
/// Windows must have been read.
void read_layered_rope(HfConfig& hf, ModelConfig& config, const LayeredRopeDefaults& defaults);

}  // namespace hooked
