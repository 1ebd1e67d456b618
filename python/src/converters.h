#pragma once

// The forms in which Python gives what C++ functions take (Note [Arguments]).

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "hooked/hooked.h"
#include "python/src/declared.h"

// Note [Arguments]
// Where C++ converts what it is given (a text to an address, one edit to a list), so does Python: a function
// takes a Like<T>, or a Given<T> for an option that may be left out. Converter<T> lists the forms of a T.
// What a conversion throws is thrown when the function takes the value: nanobind's casters must not throw.

namespace hooked::python {

namespace nb = nanobind;

/// The tensor of a torch.Tensor, sharing its memory and its place in autograd's graph; nothing for anything
/// else.
std::optional<at::Tensor> tensor_of(nb::handle object) noexcept;
/// The torch.Tensor of a tensor; None for an undefined one. Needs the GIL.
nb::object object_of(const at::Tensor& tensor);
/// Whether it is a list or a tuple.
inline bool is_list(nb::handle source) {
  return nb::isinstance<nb::list>(source) || nb::isinstance<nb::tuple>(source);
}
/// What Python calls the type of an object, for errors.
std::string python_type(nb::handle object);

/// What long work calls between its steps.
using ProgressFunction = std::function<bool(const SweepProgress&)>;
using HarvestProgressFunction = std::function<bool(const HarvestProgress&)>;
/// A metric of any part of a run.
using ScoreFunction = Metric::Function;

/// Throws KeyboardInterrupt, or what another signal's handler raised. Needs the GIL.
void heed_signals();
/// A bar and the signals, where an option's progress is shown by nothing else.
void put_progress(ProgressFunction& option);
void put_progress(HarvestProgressFunction& option);
void put_progress(Progress& option);
/// Of options inside options, too.
template <typename T>
void put_progress(T& option) {
  if constexpr (requires { option.progress; }) put_progress(option.progress);
}

/// A BaseException that is not an Exception, such as KeyboardInterrupt: ends the work wherever it is raised.
/// Not a std::exception, so that nothing takes it for a number that could not be computed.
struct Interruption {
  std::exception_ptr cause;
};

/// A Python function that returns a tensor, for any thread without the GIL. `who` returns it, in errors.
template <typename... Arguments>
std::function<at::Tensor(Arguments...)> tensor_function(nb::handle function, const char* who) {
  auto held = std::make_shared<nb::detail::pyfunc_wrapper>(function.ptr());
  return [held, who](Arguments... given) -> at::Tensor {
    const nb::gil_scoped_acquire gil;
    try {
      const nb::object returned = nb::handle(held->f)(given...);
      auto tensor = tensor_of(returned);
      if (tensor) return *std::move(tensor);
      throw ShapeError(who, "the function returned " + python_type(returned) + "; expected a torch.Tensor");
    } catch (nb::python_error& error) {
      if (error.matches(PyExc_Exception)) throw;
      throw Interruption{std::current_exception()};
    }
  };
}

/// What a model reads. Several texts become ids, padded to one length, once it is known which model.
class ModelInput {
 public:
  ModelInput(Input input) : given_(std::move(input)) {}                     // NOLINT
  ModelInput(std::vector<std::string> texts) : given_(std::move(texts)) {}  // NOLINT

  Input of(const HookedTransformer& model, PaddingSide padding = PaddingSide::right) const {
    const auto* texts = std::get_if<std::vector<std::string>>(&given_);
    return texts != nullptr ? model.to_token_batch(*texts, {.padding_side = padding})
                            : std::get<Input>(given_);
  }

 private:
  std::variant<Input, std::vector<std::string>> given_;
};

/// The forms in which Python gives a T. Fills `value` and returns true, or returns false for anything else;
/// throws what a form of the right type refuses.
template <typename T>
struct Converter {
  static bool apply(nb::handle source, std::optional<T>& value) {
    if constexpr (std::is_enum_v<T> && requires { Enumerators<T>::list; }) {
      if (nb::isinstance<nb::str>(source)) {
        value = enumerator_named<T>(nb::cast<std::string>(source));
        return true;
      }
    }
    if constexpr (requires { Fields<T>::type; }) {
      if (nb::isinstance<nb::dict>(source)) {
        value = nb::cast<T>(nb::type<T>()(**nb::borrow<nb::dict>(source)));
        return true;
      }
      if (required_members < T >> 1 && nb::isinstance<nb::tuple>(source)) {
        value = nb::cast<T>(nb::type<T>()(*nb::borrow<nb::tuple>(source)));
        return true;
      }
    }
    try {
      value = nb::cast<T>(source);
      return true;
    } catch (const std::bad_cast&) {
      return false;
    }
  }
};

// What C++ converts to an optional or a list, Python does, too.
template <typename T>
struct Converter<std::optional<T>> {
  static bool apply(nb::handle source, std::optional<std::optional<T>>& value) {
    std::optional<T> one;
    if (!source.is_none() && !Converter<T>::apply(source, one)) return false;
    value = std::move(one);
    return true;
  }
};
template <typename List, typename T>
bool convert_list(nb::handle source, std::optional<List>& value) {
  if (!is_list(source)) return false;
  List list;
  for (nb::handle item : source) {
    std::optional<T> one;
    if (!Converter<T>::apply(item, one)) return false;
    list.push_back(*std::move(one));
  }
  value = std::move(list);
  return true;
}
template <typename T>
requires(!std::is_arithmetic_v<T>) struct Converter<std::vector<T>> {
  static bool apply(nb::handle source, std::optional<std::vector<T>>& value) {
    return convert_list<std::vector<T>, T>(source, value);
  }
};
template <typename T>
requires(!std::is_arithmetic_v<T>) struct Converter<std::map<std::string, T>> {
  static bool apply(nb::handle source, std::optional<std::map<std::string, T>>& value) {
    if (!nb::isinstance<nb::dict>(source)) return false;
    std::map<std::string, T> made;
    for (const auto& [name, item] : nb::borrow<nb::dict>(source)) {
      std::optional<T> one;
      if (!nb::isinstance<nb::str>(name) || !Converter<T>::apply(item, one)) return false;
      made.emplace(nb::cast<std::string>(name), *std::move(one));
    }
    value = std::move(made);
    return true;
  }
};
template <typename T>
struct Converter<OneOrMore<T>> {
  static bool apply(nb::handle source, std::optional<OneOrMore<T>>& value) {
    std::optional<T> one;
    if (Converter<T>::apply(source, one)) {
      value.emplace();
      value->push_back(*std::move(one));
      return true;
    }
    return convert_list<OneOrMore<T>, T>(source, value);
  }
};

// A callback of a generation: its function, with None meaning to go on. Signals are looked at between tokens.
template <typename Value>
struct Converter<GenerateCallback<Value>> {
  static bool apply(nb::handle source, std::optional<GenerateCallback<Value>>& value) {
    if (PyCallable_Check(source.ptr()) == 0) return false;
    value.emplace([call = nb::cast<std::function<nb::object(Value)>>(source)](Value given) {
      const nb::gil_scoped_acquire gil;
      const nb::object answer = call(given);
      return answer.is_none() || nb::cast<bool>(answer);
    });
    return true;
  }
};

#define HOOKED_CONVERTER(type)                                        \
  template <>                                                         \
  struct Converter<type> {                                            \
    static bool apply(nb::handle source, std::optional<type>& value); \
  };
HOOKED_CONVERTER(ActivationName)
HOOKED_CONVERTER(Address)
HOOKED_CONVERTER(EditTarget)
HOOKED_CONVERTER(Selection)
HOOKED_CONVERTER(AxisIndex)
HOOKED_CONVERTER(Axis)
HOOKED_CONVERTER(Hook)
HOOKED_CONVERTER(Edits)
HOOKED_CONVERTER(Input)
HOOKED_CONVERTER(ModelInput)
HOOKED_CONVERTER(Activation)
HOOKED_CONVERTER(LogitMetric)
HOOKED_CONVERTER(DeviceNames)
HOOKED_CONVERTER(GraphFeatures)
HOOKED_CONVERTER(Answers)
HOOKED_CONVERTER(Metric)
HOOKED_CONVERTER(PatchingPreset)
HOOKED_CONVERTER(PatchSource)
HOOKED_CONVERTER(Position)
HOOKED_CONVERTER(Progress)
HOOKED_CONVERTER(ProgressFunction)
HOOKED_CONVERTER(HarvestProgressFunction)
HOOKED_CONVERTER(RunMetric)
HOOKED_CONVERTER(ScoreFunction)
HOOKED_CONVERTER(SweptAxis)
HOOKED_CONVERTER(SweptPlace)
HOOKED_CONVERTER(SweptSite)
#undef HOOKED_CONVERTER

/// The value of AxisIndex in Python: a number, a slice, a list or "last".
nb::object object_of(const AxisIndex& index);

/// An argument in any of its forms.
template <typename T>
class Like {
 public:
  /// The value; throws what its conversion threw.
  T take() {
    if (failure_) std::rethrow_exception(failure_);
    return *std::move(value_);
  }
  /// Whether it was given at all.
  bool given() const { return failure_ || value_; }

  bool convert(nb::handle source) noexcept {
    try {
      return Converter<T>::apply(source, value_);
    } catch (...) {
      failure_ = std::current_exception();
      return true;
    }
  }

 private:
  std::optional<T> value_;
  std::exception_ptr failure_;
};

/// The same for an option: None, or nothing given, leaves it at its default.
template <typename T>
class Given : public Like<T> {
 public:
  /// Sets the option if it was given.
  void put(T& option) {
    if (this->given()) option = this->take();
  }
};

}  // namespace hooked::python
