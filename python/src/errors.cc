#include <nanobind/nanobind.h>

#include "python/src/casters.h"
#include "python/src/declared.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

// The Python classes by the C++ ones, the base first.
struct ErrorClass {
  bool (*is)(const Error* error);
  nb::object python;
};

std::vector<ErrorClass>& classes() {
  static auto* made = new std::vector<ErrorClass>();  // never destroyed: the interpreter may be gone by then
  return *made;
}

template <typename Thrown>
void add(nb::module_& module, const char* name, nb::handle base) {
  nb::dict members;
  members["__doc__"] = documentation(name);
  members["__module__"] = "hooked";
  members["where"] = "";
  members["message"] = "";
  const nb::object type =
      nb::handle(reinterpret_cast<PyObject*>(&PyType_Type))(name, nb::make_tuple(base), members);
  module.attr(name) = type;
  const auto is = [](const Error* error) { return dynamic_cast<const Thrown*>(error) != nullptr; };
  classes().push_back({is, type});
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Interruption& interruption) {
    try {
      std::rethrow_exception(interruption.cause);
    } catch (nb::python_error& error) {
      error.restore();
    }
  } catch (const Error& error) {
    const ErrorClass* fitting = &classes().front();
    for (const ErrorClass& known : classes()) {
      if (known.is(&error)) fitting = &known;
    }
    const nb::object value = fitting->python(error.what());
    value.attr("where") = error.where();
    value.attr("message") = std::string(error.message());
    PyErr_SetObject(fitting->python.ptr(), value.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  add<Error>(module, "Error", PyExc_RuntimeError);
  const nb::object root = classes().front().python;
  add<CheckpointError>(module, "CheckpointError", root);
  add<ConfigError>(module, "ConfigError", root);
  add<ShapeError>(module, "ShapeError", root);
  add<HookError>(module, "HookError", root);
  add<TokenizerError>(module, "TokenizerError", root);
  add<IoError>(module, "IoError", root);
  add<MemoryError>(module, "MemoryError", root);
  nb::register_exception_translator(translate);
}

}  // namespace hooked::python
