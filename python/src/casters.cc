#include "python/src/casters.h"

#include <fmt/format.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

namespace hooked::python {
namespace {

nb::object torch() { return nb::module_::import_("torch"); }

// The number of arguments that a Python callable takes by position, at most `most`.
std::size_t arguments_of(nb::handle function, std::size_t most) {
  return nb::cast<std::size_t>(
      nb::module_::import_("hooked._callables").attr("positional_arguments")(function, most));
}

// A hook's function, called with as many of its three arguments as it takes.
HookFunction hook_function(nb::object function) {
  const std::size_t arguments = arguments_of(function, 3);
  auto held = std::make_shared<nb::detail::pyfunc_wrapper>(function.ptr());
  return [held, arguments](const at::Tensor& value, const ActivationName& name,
                           const HookStep& step) -> std::optional<at::Tensor> {
    const nb::gil_scoped_acquire gil;
    const nb::handle function(held->f);
    const nb::object tensor = object_of(value);
    const nb::object returned = arguments == 1   ? function(tensor)
                                : arguments == 2 ? function(tensor, name)
                                                 : function(tensor, name, step);
    if (returned.is_none()) return std::nullopt;
    auto replaced = tensor_of(returned);
    if (!replaced) {
      throw HookError(name.to_string(),
                      fmt::format("a hook returned {}; expected a torch.Tensor, or None to leave "
                                  "the activation as it is",
                                  python_type(returned)));
    }
    return replaced;
  };
}

template <typename T, typename... Kinds>
bool from_one_of(nb::handle source, std::optional<T>& value) {
  const auto take = [&]<typename Kind>() {
    if (!nb::isinstance<Kind>(source)) return false;
    value.emplace(nb::cast<const Kind&>(source));
    return true;
  };
  return (take.template operator()<Kinds>() || ...);
}

}  // namespace

std::optional<at::Tensor> tensor_of(nb::handle object) noexcept {
  if (!THPVariable_Check(object.ptr())) return std::nullopt;
  return THPVariable_Unpack(object.ptr());
}

nb::object object_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nb::none();
  return nb::steal(THPVariable_Wrap(tensor));
}

nb::object object_of(const AxisIndex& index) {
  if (const auto* one = std::get_if<std::int64_t>(&index.value)) return nb::cast(*one);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&index.value)) return nb::cast(*list);
  if (const auto* range = std::get_if<AxisIndex::Range>(&index.value)) {
    return nb::module_::import_("builtins").attr("slice")(nb::cast(range->begin), nb::cast(range->end));
  }
  return nb::str("last");
}

std::string python_type(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

bool Converter<ActivationName>::apply(nb::handle source, std::optional<ActivationName>& value) {
  std::optional<Address> address;
  if (!Converter<Address>::apply(source, address)) return false;
  if (!address->indices().empty())
    throw HookError(address->to_string(), "an activation's name has no indices; expected the name alone");
  value = address->name();
  return true;
}

bool Converter<Address>::apply(nb::handle source, std::optional<Address>& value) {
  if (from_one_of<Address, Address, ActivationName>(source, value)) return true;
  if (nb::isinstance<act::ModelSite>(source)) {
    value = nb::cast<act::ModelSite>(source);
  } else if (nb::isinstance<nb::str>(source)) {
    value = Address(nb::cast<std::string>(source));
  } else if (nb::isinstance<nb::tuple>(source)) {
    const nb::tuple parts = nb::borrow<nb::tuple>(source);
    const std::size_t size = nb::len(parts);
    if (size < 1 || size > 3 || !nb::isinstance<nb::str>(parts[0])) return false;
    std::optional<std::int32_t> layer;
    if (size > 1 && !parts[1].is_none()) layer = nb::cast<std::int32_t>(parts[1]);
    value = Address(from_shorthand(nb::cast<std::string>(parts[0]), layer,
                                   size > 2 ? nb::cast<std::string>(parts[2]) : std::string()));
  } else {
    return false;
  }
  return true;
}

bool Converter<EditTarget>::apply(nb::handle source, std::optional<EditTarget>& value) {
  if (from_one_of<EditTarget, act::BlockSite, act::ExpertSite, act::DictionarySite>(source, value))
    return true;
  if (nb::isinstance<nb::str>(source)) {
    value = EditTarget::parse(nb::cast<std::string>(source));
    return true;
  }
  std::optional<Address> address;
  if (Converter<Address>::apply(source, address)) {
    value = EditTarget(*address);
    return true;
  }
  std::optional<Selection> where;
  if (!Converter<Selection>::apply(source, where)) return false;
  value = EditTarget(*std::move(where), AxisIndices());
  return true;
}

bool Converter<Selection>::apply(nb::handle source, std::optional<Selection>& value) {
  if (from_one_of<Selection, Selection, act::BlockSite, act::ExpertSite, act::ModelSite, act::DictionarySite,
                  act::Defaults, act::Everything, ActivationName, Address>(source, value))
    return true;
  if (nb::isinstance<nb::str>(source)) {
    value = Selection(nb::cast<std::string>(source));
    return true;
  }
  if (nb::isinstance<nb::tuple>(source) && nb::len(source) > 1 && nb::isinstance<nb::int_>(source[1])) {
    std::optional<Address> address;
    if (!Converter<Address>::apply(source, address)) return false;
    value = Selection(*address);
    return true;
  }
  if (is_list(source)) {
    Selection all;
    for (nb::handle item : source) {
      std::optional<Selection> one;
      if (!apply(item, one)) return false;
      all = all | *one;
    }
    value = std::move(all);
    return true;
  }
  if (PyCallable_Check(source.ptr()) != 0) {
    value = Selection::matching(nb::cast<Selection::Predicate>(source));
    return true;
  }
  return false;
}

bool Converter<AxisIndex>::apply(nb::handle source, std::optional<AxisIndex>& value) {
  if (nb::isinstance<nb::int_>(source)) {
    value = AxisIndex(nb::cast<std::int64_t>(source));
  } else if (nb::isinstance<nb::slice>(source)) {
    if (!source.attr("step").is_none())
      throw HookError("index", "a range with a step is not an index; expected slice(begin, end) or a list");
    value = AxisIndex(AxisIndex::Range{nb::cast<std::optional<std::int64_t>>(source.attr("start")),
                                       nb::cast<std::optional<std::int64_t>>(source.attr("stop"))});
  } else if (nb::isinstance<nb::str>(source)) {
    const auto text = nb::cast<std::string>(source);
    value = *AxisIndices::parse("pos=" + text).find(Axis::pos);
  } else if (is_list(source) || nb::isinstance(source, nb::module_::import_("builtins").attr("range"))) {
    value = AxisIndex(nb::cast<std::vector<std::int64_t>>(nb::list(nb::borrow(source))));
  } else {
    return false;
  }
  return true;
}

bool Converter<Axis>::apply(nb::handle source, std::optional<Axis>& value) {
  if (!nb::isinstance<nb::str>(source)) return false;
  const auto name = nb::cast<std::string>(source);
  value = parse_axis(name);
  if (value) return true;
  std::string known;
  for (const AxisRow& row : axis_table()) known += (known.empty() ? "" : ", ") + std::string(row.name);
  throw HookError("axis", fmt::format("'{}' is not an axis; expected one of {}", name, known));
}

bool Converter<Hook>::apply(nb::handle source, std::optional<Hook>& value) {
  if (from_one_of<Hook, Hook>(source, value)) return true;
  if (!nb::isinstance<nb::tuple>(source)) return false;
  const nb::tuple parts = nb::borrow<nb::tuple>(source);
  const std::size_t size = nb::len(parts);
  if (size < 2 || size > 3 || PyCallable_Check(parts[1].ptr()) == 0) return false;
  std::optional<Selection> where;
  std::optional<HookDirection> direction = HookDirection::forward;
  if (!Converter<Selection>::apply(parts[0], where)) return false;
  if (size > 2 && !Converter<HookDirection>::apply(parts[2], direction)) return false;
  value.emplace(*std::move(where), hook_function(nb::borrow(parts[1])), *direction);
  return true;
}

bool Converter<Edits>::apply(nb::handle source, std::optional<Edits>& value) {
  Edits edits;
  if (nb::isinstance<Edit>(source)) {
    edits.push_back(nb::cast<const Edit&>(source));
  } else if (is_list(source)) {
    // replace() of a site gives a list, which may be one of several.
    for (nb::handle item : source) {
      std::optional<Edits> some;
      if (!apply(item, some)) return false;
      edits.insert(edits.end(), some->begin(), some->end());
    }
  } else {
    return false;
  }
  value = std::move(edits);
  return true;
}

bool Converter<Input>::apply(nb::handle source, std::optional<Input>& value) {
  if (from_one_of<Input, Input>(source, value)) return true;
  if (nb::isinstance<nb::str>(source)) {
    value.emplace(nb::cast<std::string>(source));
    return true;
  }
  if (auto ids = tensor_of(source)) {
    value.emplace(*std::move(ids));
    return true;
  }
  if (!is_list(source) && !nb::hasattr(source, "__array__")) {
    throw nb::type_error(fmt::format("[input] a model cannot read this; expected a text, token ids (a "
                                     "torch.Tensor, a list, an array) or an Input, got {}",
                                     python_type(source))
                             .c_str());
  }
  const nb::object ids = torch().attr("as_tensor")(source);
  value.emplace(tensor_of(ids).value());
  return true;
}

bool Converter<ModelInput>::apply(nb::handle source, std::optional<ModelInput>& value) {
  if (is_list(source) && nb::len(source) > 0 && nb::isinstance<nb::str>(source[0])) {
    std::vector<std::string> texts;
    if (!nb::try_cast(source, texts))
      throw nb::type_error(
          "[input] the list holds more than texts; expected texts alone, or token ids alone");
    value.emplace(std::move(texts));
    return true;
  }
  std::optional<Input> one;
  if (!Converter<Input>::apply(source, one)) return false;
  value.emplace(*std::move(one));
  return true;
}

bool Converter<Activation>::apply(nb::handle source, std::optional<Activation>& value) {
  if (from_one_of<Activation, Activation>(source, value)) return true;
  if (nb::isinstance<Activation::Kind>(source)) {
    value = nb::cast<Activation::Kind>(source);
    return true;
  }
  if (!nb::isinstance<nb::str>(source)) return false;
  const auto name = nb::cast<std::string>(source);
  value = parse_activation(name);
  if (value) return true;
  std::string known;
  for (const auto& [text, kind] : Enumerators<Activation::Kind>::list)
    known += (known.empty() ? "" : ", ") + std::string(activation_name(kind));
  throw ConfigError("activation", fmt::format("'{}' is not known; expected one of {}", name, known));
}

bool Converter<LogitMetric>::apply(nb::handle source, std::optional<LogitMetric>& value) {
  if (from_one_of<LogitMetric, LogitMetric>(source, value)) return true;
  if (nb::isinstance<Metric>(source)) {
    value.emplace(nb::cast<const Metric&>(source));
    return true;
  }
  if (nb::isinstance<BoundMetric>(source)) {
    value.emplace(nb::cast<const BoundMetric&>(source));
    return true;
  }
  if (PyCallable_Check(source.ptr()) == 0) return false;
  value.emplace(tensor_function<const at::Tensor&>(source, "metric"));
  return true;
}

bool Converter<DeviceNames>::apply(nb::handle source, std::optional<DeviceNames>& value) {
  std::vector<std::string> names;
  if (is_list(source)) {
    for (nb::handle name : source) names.push_back(nb::cast<std::string>(nb::str(name)));
    value.emplace(std::move(names));
  } else {
    value.emplace(nb::cast<std::string>(nb::str(source)));
  }
  return true;
}

}  // namespace hooked::python

namespace nanobind::detail {

bool type_caster<at::ScalarType>::from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
  if (!THPDtype_Check(source.ptr())) return false;
  value = reinterpret_cast<THPDtype*>(source.ptr())->scalar_type;
  return true;
}

handle type_caster<at::ScalarType>::from_cpp(at::ScalarType dtype, rv_policy, cleanup_list*) noexcept {
  return borrow(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype))).release();
}

bool type_caster<c10::Device>::from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
  try {
    value = c10::Device(cast<std::string>(str(source)));
    return true;
  } catch (...) {
    return false;
  }
}

handle type_caster<c10::Device>::from_cpp(const c10::Device& device, rv_policy, cleanup_list*) noexcept {
  try {
    return module_::import_("torch").attr("device")(device.str()).release();
  } catch (...) {
    return {};
  }
}

bool type_caster<hooked::AxisIndex>::from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
  try {
    std::optional<hooked::AxisIndex> index;
    if (!hooked::python::Converter<hooked::AxisIndex>::apply(source, index)) return false;
    value = *std::move(index);
    return true;
  } catch (...) {
    return false;
  }
}

bool type_caster<hooked::Axis>::from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
  try {
    std::optional<hooked::Axis> axis;
    if (!hooked::python::Converter<hooked::Axis>::apply(source, axis)) return false;
    value = *axis;
    return true;
  } catch (...) {
    return false;
  }
}

handle type_caster<hooked::Axis>::from_cpp(hooked::Axis axis, rv_policy, cleanup_list*) noexcept {
  const std::string_view name = hooked::axis_name(axis);
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

}  // namespace nanobind::detail
