// Patching: sources, sweeps, ablation and paths.
#include "python/src/analysis.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_sources(nb::module_& module) {
  bind_enum<MeanOver>(module);
  nb::class_<PatchSource>(module, "PatchSource", documentation("PatchSource"))
      .def(nb::init<ActivationCache>(), nb::arg("run"))
      .def_static("run", &PatchSource::run, nb::arg("run"), nb::arg("name"),
                  documentation("PatchSource::run"))
      .def_static("zero", &PatchSource::zero, documentation("PatchSource::zero"))
      .def_static(
          "value",
          [](std::variant<double, at::Tensor> value) {
            return std::visit([](auto&& one) { return PatchSource::value(std::move(one)); },
                              std::move(value));
          },
          nb::arg("value"), documentation("PatchSource::value"))
      .def_static(
          "mean",
          [](ActivationCache data, Like<MeanOver> over) {
            return PatchSource::mean(std::move(data), over.take());
          },
          nb::arg("data"), nb::arg("over"), documentation("PatchSource::mean"))
      .def_static("resampled", &PatchSource::resampled, nb::arg("data"), nb::arg("seed"),
                  documentation("PatchSource::resampled"))
      .def_static(
          "mixture",
          [](Like<PatchSource> one, Like<PatchSource> other, double share) {
            return PatchSource::mixture(one.take(), other.take(), share);
          },
          nb::arg("one"), nb::arg("other"), nb::arg("share"), documentation("PatchSource::mixture"))
      .def_prop_ro(
          "description", [](const PatchSource& self) { return self.description(); },
          documentation("PatchSource::description"))
      .def("__repr__", [](const PatchSource& self) { return "PatchSource(" + self.description() + ")"; });
}

void bind_patched_places(nb::module_& module) {
  nb::class_<SweptSite>(module, "SweptSite", documentation("SweptSite"))
      .def(
          "__init__", [](SweptSite* self, Like<SweptSite> site) { new (self) SweptSite(site.take()); },
          nb::arg("site"))
      .def("__repr__",
           [](const SweptSite& self) { return "SweptSite(act." + std::string(row(self.site).word) + ")"; });
  nb::class_<SweptPlace>(module, "SweptPlace", documentation("SweptPlace"))
      .def(
          "__init__", [](SweptPlace* self, Like<SweptPlace> place) { new (self) SweptPlace(place.take()); },
          nb::arg("place"))
      .def(
          "__init__",
          [](SweptPlace* self, Like<Position> into, Like<Position> from) {
            new (self) SweptPlace(into.take(), from.take());
          },
          nb::arg("into"), nb::arg("from_"))
      .def_ro("into", &SweptPlace::into, documentation("SweptPlace::into"))
      .def_ro("from_", &SweptPlace::from, documentation("SweptPlace::from_"));
  nb::class_<SweptAxis>(module, "SweptAxis", documentation("SweptAxis"))
      .def(
          "__init__",
          [](SweptAxis* self, Like<Axis> axis, Like<std::vector<SweptPlace>> places) {
            new (self) SweptAxis(axis.take(), places.take());
          },
          nb::arg("axis"), nb::arg("places") = nb::tuple())
      .def_ro("axis", &SweptAxis::axis, documentation("SweptAxis::axis"))
      .def_ro("places", &SweptAxis::places, documentation("SweptAxis::places"));
}

void bind_presets(nb::module_& module) {
  nb::class_<PresetPart>(module, "PresetPart", documentation("PresetPart"))
      .def_ro("label", &PresetPart::label, documentation("PresetPart::label"))
      .def_prop_ro(
          "site", [](const PresetPart& self) { return std::string(row(self.site).word); },
          documentation("PresetPart::site"));
  nb::class_<PatchingPreset>(module, "PatchingPreset", documentation("PatchingPreset"))
      .def_ro("name", &PatchingPreset::name, documentation("PatchingPreset::name"))
      .def_ro("also", &PatchingPreset::also, documentation("PatchingPreset::also"))
      .def_prop_ro(
          "over",
          [](const PatchingPreset& self) { return std::vector<Axis>(self.over.begin(), self.over.end()); },
          documentation("PatchingPreset::over"))
      .def_prop_ro(
          "parts",
          [](const PatchingPreset& self) {
            return std::vector<PresetPart>(self.parts.begin(), self.parts.end());
          },
          documentation("PatchingPreset::parts"))
      .def_ro("patches", &PatchingPreset::patches, documentation("PatchingPreset::patches"))
      .def("__repr__",
           [](const PatchingPreset& self) { return "PatchingPreset('" + std::string(self.name) + "')"; });
  module.def(
      "patching_presets",
      [] {
        const auto all = patching_presets();
        return std::vector<PatchingPreset>(all.begin(), all.end());
      },
      documentation("patching_presets"));
  module.def(
      "patching_preset", [](const std::string& name) { return patching_preset(name); }, nb::arg("name"),
      documentation("patching_preset"));
}

void bind_sweeps(nb::module_& module) {
  bind_result<SweepProgress>(module);
  bind_struct<SweepOptions>(module);
  bind_result<FailedCell>(module);
  bind_result<SweepReport>(module);
  of_model<SweepOptions, Grid>(module, "sweep", &sweep);
  of_preset<SweepOptions, Grid>(module, "sweep", &sweep);
  of_model<SweepOptions, SweepReport>(module, "sweep_report", &sweep_report);
  of_preset<SweepOptions, SweepReport>(module, "sweep_report", &sweep_report);
  define_plain(module, "require_can_keep", "require_can_keep", &require_can_keep, nb::arg("partial"));
  define_plain(
      module, "scores", "scores",
      [](const HookedTransformer& model, Like<ModelInput> input, Like<Metrics> metric) {
        return scores(model, input.take().of(model), metric.take());
      },
      nb::arg("model"), nb::arg("input"), nb::arg("metric"));
}

}  // namespace

void bind_analysis_patching(nb::module_& module) {
  bind_sources(module);
  bind_patched_places(module);
  bind_presets(module);
  bind_sweeps(module);
  bind_result<ModelPart>(module);
  define_plain(module, "model_parts", "model_parts", &model_parts, nb::arg("model"));
  define_plain(
      module, "parts_besides", "parts_besides",
      [](const HookedTransformer& model, Like<std::vector<Address>> parts) {
        return parts_besides(model, parts.take());
      },
      nb::arg("model"), nb::arg("parts"));
  of_model(module, "ablate", &ablate);
  of_model(module, "ablate_report", &ablate_report);
  bind_enum<HeadInput>(module);
  bind_struct<HeadPlace>(module);
  of_model(module, "direct_path", &direct_path);
  of_model(module, "direct_path_report", &direct_path_report);
  bind_enum<PathThrough>(module);
  bind_enum<PathCells>(module);
  of_model(module, "path_patching", &path_patching);
  of_model(module, "path_patching_report", &path_patching_report);
}

}  // namespace hooked::python
