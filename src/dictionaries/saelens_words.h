#pragma once

#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include "hooked/dictionaries/dictionary_config.h"

namespace hooked {

/// What SAELens 6 calls a composition of parts.
struct SaeLensArchitecture {
  std::string_view name;
  CodeActivation activation;
  bool transcodes = false;
  bool skips = false;
};

inline constexpr std::array<SaeLensArchitecture, 10> kSaeLensArchitectures = {{
    {"standard", CodeActivation::relu},
    {"gated", CodeActivation::gated},
    {"topk", CodeActivation::top_k},
    {"abstopk", CodeActivation::abs_top_k},
    {"jumprelu", CodeActivation::jump_relu},
    {"matching_pursuit", CodeActivation::matching_pursuit},
    {"transcoder", CodeActivation::relu, true},
    {"skip_transcoder", CodeActivation::relu, true, true},
    {"jumprelu_transcoder", CodeActivation::jump_relu, true},
    {"jumprelu_skip_transcoder", CodeActivation::jump_relu, true, true},
}};

/// Whether a version of SAELens is one whose configs are not those of version 6: a lower one, or none.
inline bool is_before_version_6(std::string_view version) {
  int major = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), major);
  return error != std::errc() || major < 6;
}

/// What SAELens 6 calls a norm of inputs.
struct SaeLensNorm {
  std::string_view name;
  InputNorm norm;
};

inline constexpr std::array<SaeLensNorm, 5> kSaeLensNorms = {{
    {"none", InputNorm::none},
    {"layer_norm", InputNorm::layer_norm},
    {"constant_norm_rescale", InputNorm::constant_norm},
    {"expected_average_only_in", InputNorm::expected_average},
    {"covariance_whitening", InputNorm::whitening},
}};

}  // namespace hooked
