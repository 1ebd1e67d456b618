#pragma once

// The forms in which Python gives the features, edges and changes of graphs (Note [Arguments]): tuples, and
// transcoders as a list or a set.

#include <optional>

#include "python/src/bind.h"

namespace hooked::python {

template <>
struct Converter<GraphFeatures> {
  static bool apply(nb::handle source, std::optional<GraphFeatures>& value);
};

}  // namespace hooked::python

namespace nanobind::detail {

template <>
struct like_name<hooked::FeatureIntervention> {
  static constexpr auto Name = const_name("hooked.typing.FeatureInterventionLike");
};
template <>
struct like_name<hooked::GraphDirection> {
  static constexpr auto Name = const_name("hooked.typing.GraphDirectionLike");
};
template <>
struct like_name<hooked::GraphEdge> {
  static constexpr auto Name = const_name("hooked.typing.GraphEdgeLike");
};
template <>
struct like_name<hooked::GraphFeatures> {
  static constexpr auto Name = const_name("hooked.typing.GraphFeaturesLike");
};

}  // namespace nanobind::detail
