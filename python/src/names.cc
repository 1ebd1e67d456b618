// Names of activations: sites, addresses, selections and the words of `act`.
#include <nanobind/operators.h>

#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

Selection selected(Like<Selection>& where) { return where.take(); }

template <typename Kind>
nb::class_<Kind> bind_kind(nb::module_& act, const char* name) {
  nb::class_<Kind> kind(act, name, documentation(std::string("act::") + name));
  kind.def("__or__",
           [](const Kind& self, Like<Selection> other) { return Selection(self) | selected(other); })
      .def("__ror__",
           [](const Kind& self, Like<Selection> other) { return selected(other) | Selection(self); });
  if constexpr (requires(Kind k) { k.site; }) {
    kind.def_prop_ro("word", [](const Kind& self) { return std::string(row(self.site).word); })
        .def("__repr__", [](const Kind& self) { return "act." + std::string(row(self.site).word); });
  }
  return kind;
}

void bind_act(nb::module_& module) {
  nb::module_ act = module.def_submodule("act", documentation("act"));
  bind_kind<act::BlockSite>(act, "BlockSite")
      .def("__call__", &act::BlockSite::operator(), nb::arg("layer"))
      .def("encoder", &act::BlockSite::encoder, nb::arg("layer"), documentation("act::BlockSite::encoder"))
      .def("decoder", &act::BlockSite::decoder, nb::arg("layer"), documentation("act::BlockSite::decoder"));
  bind_kind<act::ExpertSite>(act, "ExpertSite")
      .def("__call__", &act::ExpertSite::operator(), nb::arg("layer"), nb::arg("expert"));
  bind_kind<act::ModelSite>(act, "ModelSite");
  bind_kind<act::DictionarySite>(act, "DictionarySite")
      .def(
          "__call__", [](const act::DictionarySite& self, Like<Address> place) { return self(place.take()); },
          nb::arg("place"));
  bind_kind<act::Defaults>(act, "Defaults").def("__repr__", [](nb::handle) { return "act.defaults"; });
  bind_kind<act::Everything>(act, "Everything").def("__repr__", [](nb::handle) { return "act.everything"; });
  act.attr("defaults") = act::defaults;
  act.attr("everything") = act::everything;
#define HOOKED_SITE(kind, word, ...) act.attr(#word) = act::word;
#define HOOKED_NORM(kind, word, ...)            \
  act.attr(#word "_scale") = act::word##_scale; \
  act.attr(#word "_normalized") = act::word##_normalized;
#include "hooked/hooks/sites.inc"
}

void bind_address(nb::module_& module) {
  nb::class_<Address> address(module, "Address", documentation("Address"));
  address
      .def(
          "__init__", [](Address* self, Like<Address> text) { new (self) Address(text.take()); },
          nb::arg("text"))
      .def_static("parse", &Address::parse, nb::arg("text"), documentation("Address::parse"))
      .def_prop_ro("name", &Address::name, documentation("Address::name"))
      .def_prop_ro(
          "indices",
          [](const Address& self) {
            nb::dict indices;
            for (const auto& [axis, index] : self.indices().entries())
              indices[nb::cast(axis)] = object_of(index);
            return indices;
          },
          nb::sig("def indices(self) -> dict[str, hooked.typing.IndexLike]"),
          documentation("Address::indices"))
      .def(
          "at",
          [](const Address& self, Like<Axis> axis, Like<AxisIndex> index) {
            return self.at(axis.take(), index.take());
          },
          nb::arg("axis"), nb::arg("index"), documentation("Address::at"))
      .def("__str__", &Address::to_string)
      .def("__repr__", [](const Address& self) { return "Address('" + self.to_string() + "')"; })
      .def("__eq__", [](const Address& self, const Address& other) { return self == other; })
      .def(
          "__eq__", [](const Address&, nb::handle) { return false; }, nb::arg().none())
      .def("__hash__", [](const Address& self) { return std::hash<std::string>()(self.to_string()); })
      .def("__or__",
           [](const Address& self, Like<Selection> other) { return Selection(self) | selected(other); });
  const auto index_on = [&](const char* name, Axis axis) {
    address.def(
        name, [axis](const Address& self, Like<AxisIndex> index) { return self.at(axis, index.take()); },
        nb::arg("index"), documentation(std::string("Address::") + name));
  };
  index_on("head", Axis::head);
  index_on("pos", Axis::pos);
  index_on("query", Axis::query);
  index_on("key", Axis::key);
  index_on("row", Axis::batch);
  index_on("feature", Axis::feature);
  index_on("neuron", Axis::d_mlp);
}

std::vector<Axis> axes_of(const SiteRow& row) { return {row.axes.begin(), row.axes.end()}; }

void bind_tables(nb::module_& module) {
  nb::class_<AxisRow>(module, "AxisRow", documentation("AxisRow"))
      .def_ro("axis", &AxisRow::axis, documentation("AxisRow::axis"))
      .def_ro("name", &AxisRow::name, documentation("AxisRow::name"))
      .def_ro("counts", &AxisRow::counts, documentation("AxisRow::counts"));
  module.def(
      "axis_table", [] { return std::vector<AxisRow>(axis_table().begin(), axis_table().end()); },
      documentation("axis_table"));
  module.def(
      "size_of",
      [](Like<Axis> axis, const ModelConfig& config, std::int64_t layer) {
        return size_of(axis.take(), config, layer);
      },
      nb::arg("axis"), nb::arg("config"), nb::arg("layer") = 0, documentation("size_of"));
  bind_enum<SiteScope>(module);
  bind_result<SiteSteps>(module);
  nb::class_<SiteRow> site(module, "SiteRow", documentation("SiteRow"));
  const auto column = [&](const char* name, auto member) {
    site.def_ro(name, member, documentation(std::string("SiteRow::") + name));
  };
  column("scope", &SiteRow::scope);
  column("stack", &SiteRow::stack);
  column("path", &SiteRow::path);
  column("word", &SiteRow::word);
  column("wide", &SiteRow::wide);
  column("changes_plan", &SiteRow::changes_plan);
  column("integers", &SiteRow::integers);
  column("asked_rows", &SiteRow::asked_rows);
  column("unseen", &SiteRow::unseen);
  column("changed_by", &SiteRow::changed_by);
  column("part", &SiteRow::part);
  column("holds", &SiteRow::holds);
  site.def_prop_ro("axes", &axes_of, documentation("SiteRow::axes"))
      .def("exists", &SiteRow::exists, nb::arg("config"), nb::arg("layer"), documentation("SiteRow::exists"))
      .def("__repr__", [](const SiteRow& self) { return "SiteRow of act." + std::string(self.word); });
  module.def(
      "site_table", [] { return std::vector<SiteRow>(site_table().begin(), site_table().end()); },
      documentation("site_table"));
  module.def(
      "row",
      [](const std::string& word) {
        for (const SiteRow& each : site_table()) {
          if (each.word == word) return each;  // words inside dictionaries are no shorthand
        }
        return row(from_shorthand(word, 0).site);
      },
      nb::arg("word"), documentation("row"));
}

void bind_spelling(nb::module_& module) {
  module.def(
      "from_shorthand",
      [](const std::string& name, std::optional<std::int32_t> layer, const std::string& layer_type) {
        return from_shorthand(name, layer, layer_type);
      },
      nb::arg("name"), nb::arg("layer") = nb::none(), nb::arg("layer_type") = "",
      documentation("from_shorthand"));
  module.def("activation_names", &activation_names, nb::arg("config"), documentation("activation_names"));
  module.def(
      "counts_source",
      [](Like<ActivationName> name, Like<Axis> axis) { return counts_source(name.take(), axis.take()); },
      nb::arg("name"), nb::arg("axis"), documentation("counts_source"));
  module.def("glob_matches", &glob_matches, nb::arg("pattern"), nb::arg("text"),
             documentation("glob_matches"));
}

}  // namespace

void bind_names(nb::module_& module) {
  bind_enum<Stack>(module);
  nb::class_<ActivationName>(module, "ActivationName", documentation("ActivationName"))
      .def(
          "__init__",
          [](ActivationName* self, Like<ActivationName> text) { new (self) ActivationName(text.take()); },
          nb::arg("text"))
      .def_static("parse", &ActivationName::parse, nb::arg("text"), documentation("ActivationName::parse"))
      .def_static("try_parse", &ActivationName::try_parse, nb::arg("text"),
                  documentation("ActivationName::try_parse"))
      .def_prop_ro(
          "word", [](const ActivationName& self) { return std::string(row(self.site).word); },
          documentation("SiteRow::word"))
      .def_ro("stack", &ActivationName::stack, documentation("ActivationName::stack"))
      .def_ro("layer", &ActivationName::layer, documentation("ActivationName::layer"))
      .def_ro("expert", &ActivationName::expert, documentation("ActivationName::expert"))
      .def_prop_ro(
          "host",
          [](const ActivationName& self) -> std::optional<std::string> {
            if (!self.host) return std::nullopt;
            return std::string(row(*self.host).word);
          },
          documentation("ActivationName::host"))
      .def_prop_ro("place", &ActivationName::place, documentation("ActivationName::place"))
      .def_prop_ro("scope", &ActivationName::scope, documentation("ActivationName::scope"))
      .def_prop_ro(
          "axes",
          [](const ActivationName& self) {
            std::vector<Axis> axes;
            for (const Axis axis : row(self.site).axes) axes.push_back(axis);
            return axes;
          },
          documentation("SiteRow::axes"))
      .def("__str__", &ActivationName::to_string)
      .def("__repr__",
           [](const ActivationName& self) { return "ActivationName('" + self.to_string() + "')"; })
      .def("__eq__", [](const ActivationName& self, const ActivationName& other) { return self == other; })
      .def("__eq__",
           [](const ActivationName& self, const std::string& other) { return self.to_string() == other; })
      .def(
          "__eq__", [](const ActivationName&, nb::handle) { return false; }, nb::arg().none())
      .def("__hash__", [](const ActivationName& self) { return nb::hash(nb::str(self.to_string().c_str())); })
      .def("__lt__", [](const ActivationName& self, const ActivationName& other) { return self < other; });
  bind_address(module);
  nb::class_<Selection>(module, "Selection", documentation("Selection"))
      .def(
          "__init__", [](Selection* self, Like<Selection> where) { new (self) Selection(where.take()); },
          nb::arg("where"))
      .def_static("matching", &Selection::matching, nb::arg("predicate"),
                  documentation("Selection::matching"))
      .def_prop_ro("empty", &Selection::empty, documentation("Selection::empty"))
      .def("__or__", [](const Selection& self, Like<Selection> other) { return self | selected(other); })
      .def("__ror__", [](const Selection& self, Like<Selection> other) { return selected(other) | self; });
  bind_act(module);
  bind_tables(module);
  bind_spelling(module);
}

}  // namespace hooked::python
