// What hooks and edits are, and what runs keep.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

using Operand = std::variant<double, at::Tensor>;

template <typename Make>
void bind_edit(nb::module_& module, const char* name, const char* operand, Make make) {
  module.def(
      name,
      [make](Like<EditTarget> target, Operand value) {
        return std::visit([&](auto&& v) { return make(target.take(), std::move(v)); }, std::move(value));
      },
      nb::arg("target"), nb::arg(operand), documentation(name));
}

void bind_edits(nb::module_& module) {
  bind_enum<EditKind>(module);
  nb::class_<Edit>(module, "Edit", documentation("Edit"))
      .def_prop_ro(
          "where", [](const Edit& self) { return self.target.where; }, documentation("EditTarget::where"))
      .def_prop_ro(
          "indices", [](const Edit& self) { return self.target.indices.to_string(); },
          documentation("EditTarget::indices"))
      .def_ro("kind", &Edit::kind, documentation("Edit::kind"))
      .def_ro("value", &Edit::value, documentation("Edit::value"));
  module.def(
      "zero", [](Like<EditTarget> target) { return zero(target.take()); }, nb::arg("target"),
      documentation("zero"));
  bind_edit(module, "set", "value",
            [](EditTarget target, auto value) { return set(std::move(target), std::move(value)); });
  bind_edit(module, "add", "value",
            [](EditTarget target, auto value) { return add(std::move(target), std::move(value)); });
  bind_edit(module, "scale", "factor",
            [](EditTarget target, auto factor) { return scale(std::move(target), std::move(factor)); });
  module.def(
      "project_out",
      [](Like<EditTarget> target, at::Tensor direction) {
        return project_out(target.take(), std::move(direction));
      },
      nb::arg("target"), nb::arg("direction"), documentation("project_out"));
  module.def(
      "replace",
      [](const act::BlockSite& site, const ActivationCache& source) { return replace(site, source); },
      nb::arg("site"), nb::arg("source"), documentation("replace"));
  module.def(
      "replace",
      [](Like<Address> address, const ActivationCache& source) { return replace(address.take(), source); },
      nb::arg("address"), nb::arg("source"));
}

void bind_hooks(nb::module_& module) {
  bind_enum<HookDirection>(module);
  nb::class_<HookStep>(module, "HookStep", documentation("HookStep"))
      .def_ro("first_column", &HookStep::first_column, documentation("HookStep::first_column"))
      .def_ro("new_tokens", &HookStep::new_tokens, documentation("HookStep::new_tokens"))
      .def_ro("mask", &HookStep::mask, documentation("HookStep::mask"));
  nb::class_<Hook>(module, "Hook", documentation("Hook"))
      .def(
          "__init__",
          [](Hook* self, nb::object where, nb::object function, nb::object direction) {
            std::optional<Hook> hook;
            if (!Converter<Hook>::apply(nb::make_tuple(where, function, direction), hook))
              throw nb::type_error("expected a selection of activations and a function");
            new (self) Hook(*std::move(hook));
          },
          nb::arg("where"), nb::arg("function"), nb::arg("direction") = "forward",
          nb::sig(
              "def __init__(self, where: hooked.typing.SelectionLike, function: hooked.typing.HookFunction, "
              "direction: HookDirection | str = 'forward') -> None"))
      .def_ro("where", &Hook::where, documentation("Hook::where"))
      .def_ro("direction", &Hook::direction, documentation("Hook::direction"));
}

AxisList axis_list(const std::vector<Axis>& axes) {
  const auto at = [&](std::size_t i) { return axes[i]; };
  switch (axes.size()) {
    case 0:
      return {};
    case 1:
      return {at(0)};
    case 2:
      return {at(0), at(1)};
    case 3:
      return {at(0), at(1), at(2)};
    case 4:
      return {at(0), at(1), at(2), at(3)};
    case 5:
      return {at(0), at(1), at(2), at(3), at(4)};
    default:
      throw ShapeError("axes", std::to_string(axes.size()) + " axes were given; expected at most 5");
  }
}

void bind_cache(nb::module_& module) {
  nb::class_<TokenColumns>(module, "TokenColumns", documentation("TokenColumns"))
      .def_ro("first", &TokenColumns::first, documentation("TokenColumns::first"))
      .def_ro("end", &TokenColumns::end, documentation("TokenColumns::end"))
      .def_ro("mask", &TokenColumns::mask, documentation("TokenColumns::mask"))
      .def_ro("ids", &TokenColumns::ids, documentation("TokenColumns::ids"))
      .def_ro("prefix_mask", &TokenColumns::prefix_mask, documentation("TokenColumns::prefix_mask"))
      .def("last", &TokenColumns::last, nb::arg("batch"), documentation("TokenColumns::last"))
      .def("is_padding", &TokenColumns::is_padding, nb::arg("row"), nb::arg("position"),
           documentation("TokenColumns::is_padding"))
      .def("rows_with_token", &TokenColumns::rows_with_token, nb::arg("position"),
           documentation("TokenColumns::rows_with_token"));
  nb::class_<ModelIdentity>(module, "ModelIdentity", documentation("ModelIdentity"))
      .def_ro("name", &ModelIdentity::name, documentation("ModelIdentity::name"))
      .def_ro("fingerprint", &ModelIdentity::fingerprint, documentation("ModelIdentity::fingerprint"))
      .def("__str__", &ModelIdentity::text)
      .def("__eq__", [](const ModelIdentity& a, const ModelIdentity& b) { return a == b; });
  bind_enum<Overwrite>(module);
  bind_struct<Provenance>(module);
  nb::class_<TensorBeside>(module, "TensorBeside", documentation("TensorBeside"))
      .def(
          "__init__",
          [](TensorBeside* self, std::string name, at::Tensor value, Like<std::vector<Axis>> axes) {
            new (self) TensorBeside{std::move(name), std::move(value), axis_list(axes.take())};
          },
          nb::arg("name"), nb::arg("value"), nb::arg("axes") = nb::tuple())
      .def_prop_ro(
          "axes",
          [](const TensorBeside& self) { return std::vector<Axis>(self.axes.begin(), self.axes.end()); },
          documentation("TensorBeside::axes"))
      .def_ro("name", &TensorBeside::name, documentation("TensorBeside::name"))
      .def_ro("value", &TensorBeside::value, documentation("TensorBeside::value"));
  bind_struct<SaveCacheOptions>(module);
  nb::class_<ActivationCache> cache(module, "ActivationCache", documentation("ActivationCache"));
  cache.def(nb::init<>())
      .def(
          "__getitem__",
          [](const ActivationCache& self, Like<Address> address) { return self[address.take()]; },
          nb::arg("address"), ReleaseGil(), documentation("ActivationCache::operator[]"))
      .def(
          "__contains__",
          [](const ActivationCache& self, Like<ActivationName> name) {
            try {
              return self.contains(name.take());
            } catch (const HookError&) {
              return false;  // no name at all
            }
          },
          nb::arg("name"), documentation("ActivationCache::contains"))
      .def(
          "__contains__", [](const ActivationCache&, nb::handle) { return false; }, nb::arg().none())
      .def("__len__", &ActivationCache::size)
      .def(
          "__iter__", [](nb::handle self) { return nb::iter(self.attr("keys")()); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[str]"))
      .def(
          "keys",
          [](const ActivationCache& self) {
            std::vector<std::string> names;
            for (const auto& entry : self) names.push_back(entry.name.to_string());
            return names;
          },
          documentation("ActivationCache::names"))
      .def("names", &ActivationCache::names, documentation("ActivationCache::names"))
      .def(
          "values",
          [](const ActivationCache& self) {
            std::vector<at::Tensor> values;
            for (const auto& entry : self) values.push_back(entry.value());
            return values;
          },
          ReleaseGil())
      .def(
          "items",
          [](const ActivationCache& self) {
            std::vector<std::pair<std::string, at::Tensor>> items;
            for (const auto& entry : self) items.emplace_back(entry.name.to_string(), entry.value());
            return items;
          },
          ReleaseGil())
      .def(
          "positions",
          [](const ActivationCache& self, Like<ActivationName> name) {
            return self.entry(name.take()).positions;
          },
          nb::arg("name"), documentation("ActivationCache::Entry::positions"))
      .def(
          "row_positions",
          [](const ActivationCache& self, Like<ActivationName> name) {
            return self.entry(name.take()).row_positions;
          },
          nb::arg("name"), documentation("ActivationCache::Entry::row_positions"))
      .def("n_layers", &ActivationCache::n_layers, nb::arg("of") = Stack::none,
           documentation("ActivationCache::n_layers"))
      .def(
          "tokens", [](const ActivationCache& self, Stack of) { return self.tokens(of); },
          nb::arg("of") = Stack::none, documentation("ActivationCache::tokens"))
      .def_prop_ro(
          "model",
          [](const ActivationCache& self) -> std::optional<ModelIdentity> {
            return self.model() ? std::optional(*self.model()) : std::nullopt;
          },
          documentation("ActivationCache::model"))
      .def(
          "assigned_to",
          [](const ActivationCache& self, const HookedTransformer& model) { return self.assigned_to(model); },
          nb::arg("model"), documentation("ActivationCache::assigned_to"))
      .def("bytes", &ActivationCache::bytes, documentation("ActivationCache::bytes"))
      .def("stack", &ActivationCache::stack, nb::arg("site"), nb::arg("of") = Stack::none, ReleaseGil(),
           documentation("ActivationCache::stack"))
      .def("row", &ActivationCache::row, nb::arg("index"), documentation("ActivationCache::row"))
      .def("to", &ActivationCache::to, nb::arg("device"), ReleaseGil(), documentation("ActivationCache::to"))
      .def_static("join", &ActivationCache::join, nb::arg("stretches"), ReleaseGil(),
                  documentation("ActivationCache::join"))
      .def_static("load", &ActivationCache::load, nb::arg("file"), ReleaseGil(),
                  documentation("ActivationCache::load"))
      .def_static("require_can_save", &ActivationCache::require_can_save, nb::arg("file"),
                  nb::arg("overwrite") = Overwrite::ours, documentation("ActivationCache::require_can_save"))
      .def("__repr__", [](const ActivationCache& self) {
        return "ActivationCache of " + std::to_string(self.size()) + " activations";
      });
  define(
      cache, "save", "ActivationCache::save",
      [](const ActivationCache& self, const std::filesystem::path& file, SaveCacheOptions options) {
        self.save(file, options);
      },
      nb::arg("file"));
  nb::module_::import_("collections.abc").attr("Mapping").attr("register")(cache);
}

}  // namespace

void bind_values(nb::module_& module) {
  bind_hooks(module);
  bind_cache(module);
  bind_edits(module);
}

}  // namespace hooked::python
