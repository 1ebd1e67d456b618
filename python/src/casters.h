#pragma once

// How values cross between Python and C++: tensors as they are, and for the rest each form that Converter<T>
// knows.

#include "python/src/converters.h"

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    auto tensor = hooked::python::tensor_of(source);
    if (!tensor) return false;
    value = *std::move(tensor);
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return hooked::python::object_of(tensor).release();
  }
};

template <>
struct type_caster<at::ScalarType> {
  NB_TYPE_CASTER(at::ScalarType, const_name("torch.dtype"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept;
  static handle from_cpp(at::ScalarType dtype, rv_policy, cleanup_list*) noexcept;
};

template <>
struct type_caster<c10::Device> {
  NB_TYPE_CASTER(c10::Device, const_name("torch.device"))

  type_caster() : value(c10::kCPU) {}
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept;
  static handle from_cpp(const c10::Device& device, rv_policy, cleanup_list*) noexcept;
};

template <>
struct type_caster<hooked::AxisIndex> {
  NB_TYPE_CASTER(hooked::AxisIndex, const_name("hooked.typing.IndexLike"))

  type_caster() : value(0) {}
  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept;
  static handle from_cpp(const hooked::AxisIndex& index, rv_policy, cleanup_list*) noexcept {
    return hooked::python::object_of(index).release();
  }
};

template <typename T>
struct type_caster<hooked::OneOrMore<T>> : list_caster<hooked::OneOrMore<T>, T> {};

// Axes are their names.
template <>
struct type_caster<hooked::Axis> {
  NB_TYPE_CASTER(hooked::Axis, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept;
  static handle from_cpp(hooked::Axis axis, rv_policy, cleanup_list*) noexcept;
};

/// The name of an argument's type in signatures and stubs.
template <typename T>
struct like_name {
  static constexpr auto Name = make_caster<T>::Name;
};
template <typename Value>
struct like_name<hooked::GenerateCallback<Value>> {
  static constexpr auto Name =
      const_name("collections.abc.Callable[[") + make_caster<Value>::Name + const_name("], bool | None]");
};
// Enums are also given as texts, structs as dicts.
template <typename T>
requires(std::is_enum_v<T>&& requires { hooked::python::Enumerators<T>::list; }) struct like_name<T> {
  static constexpr auto Name = make_caster<T>::Name + const_name(" | str");
};
template <typename T>
requires requires { hooked::python::Fields<T>::type; }
struct like_name<T> {
  static constexpr auto Name = make_caster<T>::Name + const_name(" | dict[str, typing.Any]");
};
template <typename T>
struct like_name<std::optional<T>> {
  static constexpr auto Name = like_name<T>::Name;
};
template <typename T>
requires(!std::is_arithmetic_v<T>) struct like_name<std::vector<T>> {
  static constexpr auto Name = const_name("collections.abc.Sequence[") + like_name<T>::Name + const_name("]");
};
template <typename T>
requires(!std::is_arithmetic_v<T>) struct like_name<std::map<std::string, T>> {
  static constexpr auto Name =
      const_name("collections.abc.Mapping[str, ") + like_name<T>::Name + const_name("]");
};
template <typename T>
struct like_name<hooked::OneOrMore<T>> {
  static constexpr auto Name = union_name(like_name<T>::Name, like_name<std::vector<T>>::Name);
};
#define HOOKED_LIKE(type, text)                                     \
  template <>                                                       \
  struct like_name<hooked::type> {                                  \
    static constexpr auto Name = const_name("hooked.typing." text); \
  };
HOOKED_LIKE(python::ModelInput, "InputLike")
HOOKED_LIKE(Activation, "ActivationLike")
HOOKED_LIKE(ActivationName, "NameLike")
HOOKED_LIKE(Address, "AddressLike")
HOOKED_LIKE(EditTarget, "EditTargetLike")
HOOKED_LIKE(Selection, "SelectionLike")
HOOKED_LIKE(Hook, "HookLike")
HOOKED_LIKE(Hooks, "HooksLike")
HOOKED_LIKE(Edits, "EditsLike")
HOOKED_LIKE(Input, "OneInputLike")
HOOKED_LIKE(LogitMetric, "LogitMetricLike")
HOOKED_LIKE(DeviceNames, "DevicesLike")
HOOKED_LIKE(Answers, "AnswersLike")
HOOKED_LIKE(CircuitEdge, "CircuitEdgeLike")
HOOKED_LIKE(FeatureIntervention, "FeatureInterventionLike")
HOOKED_LIKE(GraphDirection, "GraphDirectionLike")
HOOKED_LIKE(GraphEdge, "GraphEdgeLike")
HOOKED_LIKE(GraphFeatures, "GraphFeaturesLike")
HOOKED_LIKE(GridAxis, "GridAxisLike")
HOOKED_LIKE(HeadPlace, "HeadPlaceLike")
HOOKED_LIKE(Metric, "MetricLike")
HOOKED_LIKE(PatchingPreset, "PresetLike")
HOOKED_LIKE(PatchSource, "PatchSourceLike")
HOOKED_LIKE(PlaceOfPair, "PlaceOfPairLike")
HOOKED_LIKE(Position, "PositionLike")
HOOKED_LIKE(Progress, "LoadProgressLike")
HOOKED_LIKE(python::ProgressFunction, "ProgressLike")
HOOKED_LIKE(python::HarvestProgressFunction, "HarvestProgressLike")
HOOKED_LIKE(RunMetric, "RunMetricLike")
HOOKED_LIKE(python::ScoreFunction, "ScoreFunction")
HOOKED_LIKE(SweptAxis, "SweptAxisLike")
HOOKED_LIKE(SweptPlace, "SweptPlaceLike")
HOOKED_LIKE(SweptSite, "SweptSiteLike")
#undef HOOKED_LIKE

template <typename T>
struct type_caster<hooked::python::Like<T>> {
  NB_TYPE_CASTER(hooked::python::Like<T>, like_name<T>::Name)

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept { return value.convert(source); }
};

template <typename T>
struct type_caster<hooked::python::Given<T>> {
  NB_TYPE_CASTER(hooked::python::Given<T>, like_name<T>::Name)

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    return source.is_none() || value.convert(source);
  }
};

}  // namespace nanobind::detail
