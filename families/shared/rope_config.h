#pragma once

#include <optional>
#include <string_view>

#include "families/shared/hf_config.h"

namespace hooked {

/// What a family's configs mean where they say nothing.
struct RopeDefaults {
  double theta = 10000.0;
  /// Turned share of d_head, 0 for no positions; none: the family turns all of it, and another share is
  /// refused.
  std::optional<double> partial = std::nullopt;
  std::string_view theta_key = "rope_theta";               ///< of configs in the older style
  std::string_view partial_key = "partial_rotary_factor";  ///< of configs in the older style
  bool adjacent_pairs = false;
  /// Of the family's own key `original_max_position_embeddings`; none: it has no such key.
  std::optional<double> original_n_ctx = std::nullopt;
  /// The group, a JSON object, of configs that have none.
  std::string_view group = "{}";
  /// Whether the group is that of one kind of layers: then the keys beside the groups say less.
  bool of_one_kind = false;
  /// Whether dimensions are turned by sections (`mrope_section`), each by another coordinate of a place in an
  /// image or a video. All coordinates of a token of text are its position, so that sections say nothing.
  bool sections = false;
  /// Whether `dynamic` with an `alpha` means angles of every length by a base that is stretched once
  /// (Hunyuan).
  bool fixed_alpha = false;
  /// Whether the kind `proportional` is known, of which a share of the pairs is turned (Gemma 4).
  bool proportional = false;
  /// Whether `su` and `yarn` are names of longrope (Phi 3).
  bool calls_longrope_yarn = false;
};

/// The group that says how a config scales its angles: `rope_scaling` unless it is empty, else
/// `rope_parameters`, as transformers takes them; `absent`, a JSON object, where a config has neither.
ConfigReader rope_group(const ConfigReader& json, std::string_view absent = "{}");

/// Makes `config` rotary as config.json says: `rope_parameters`, or in the older style `rope_theta` with
/// `rope_scaling` (`rope_type` or `type`). Where two keys say one thing, transformers' order holds, and a
/// note names the one without effect if it says something else. Throws ConfigError at the key for an unknown
/// kind of scaling, a key that the kind does not have, or a share that turns an odd number of dimensions.
void read_rope(HfConfig& hf, ModelConfig& config, const RopeDefaults& defaults = {});

/// The magnitude that YaRN gives queries and keys (Peng et al. 2023), times `weight` where it grows.
double yarn_magnitude(double factor, double weight);

/// What families mean whose windowed layers have angles of their own.
struct LayeredRopeDefaults {
  double theta = 10000.0;
  double windowed_theta = 10000.0;
  /// Where a group has no theta, it is that of these keys beside the groups; empty: there is none.
  std::string_view theta_key = "rope_theta";
  std::string_view windowed_theta_key = {};
  /// Of families that know no older style: the group of full layers, a JSON object, where a config has none.
  std::string_view full_group = {};
  bool proportional = false;  ///< as RopeDefaults has it
};

/// As read_rope for families with one group for full layers and one for windowed ones: `rope_parameters` with
/// `full_attention` and `sliding_attention`, or in the older style keys whose scaling holds for full layers.
/// Windows must have been read.
void read_layered_rope(HfConfig& hf, ModelConfig& config, const LayeredRopeDefaults& defaults);

}  // namespace hooked
