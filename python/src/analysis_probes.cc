// Linear fits, probes and directions of activations.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

namespace {

// Where options inside options say nothing, a bar and the signals.
ProbeOptions shown(ProbeOptions options) {
  if (!options.at.progress) put_progress(options.at.progress);
  return options;
}

void bind_fits(nb::module_& module) {
  bind_struct<LinearFit>(module)
      .def("scores", &LinearFit::scores, nb::arg("x"), ReleaseGil(), documentation("LinearFit::scores"))
      .def("classes_of", &LinearFit::classes_of, nb::arg("x"), ReleaseGil(),
           documentation("LinearFit::classes_of"));
  const auto fit = [&]<typename Options>(
                       const char* name, const char* fitted_to,
                       LinearFit (*function)(const at::Tensor&, const at::Tensor&, const Options&)) {
    define(
        module, name, name,
        [function](const at::Tensor& x, const at::Tensor& to, Options options) {
          return function(x, to, options);
        },
        nb::arg("x"), nb::arg(fitted_to));
  };
  fit("ridge_regression", "targets", &ridge_regression);
  fit("ridge_classifier", "labels", &ridge_classifier);
  fit("logistic_regression", "labels", &logistic_regression);
  bind_result<Components>(module);
  const auto plain = [&](const char* name, auto function, auto... arguments) {
    define_plain(module, name, name, function, nb::arg(arguments)...);
  };
  plain("mean_difference", &mean_difference, "x", "labels");
  plain("separating_features", &separating_features, "x", "labels", "count");
  plain("principal_components", &principal_components, "x", "count");
  plain("contrast_components", &contrast_components, "positive", "negative", "count");
  plain("contrast_mean", &contrast_mean, "positive", "negative");
}

void bind_probe(nb::module_& module) {
  bind_struct<ProbeFacts>(module);
  nb::class_<Probe> probe = bind_struct<Probe>(module);
  probe.def("direction", &Probe::direction, nb::arg("output") = 0, documentation("Probe::direction"))
      .def(
          "steer",
          [](const Probe& self, const HookedTransformer& model, double by, std::int64_t output,
             Given<Address> where) {
            return where.given() ? self.steer(model, by, output, where.take())
                                 : self.steer(model, by, output);
          },
          nb::arg("model"), nb::arg("by"), nb::arg("output") = 0, nb::arg("where") = nb::none(),
          documentation("Probe::steer"))
      .def(
          "project_out",
          [](const Probe& self, const HookedTransformer& model, Given<Address> where) {
            return where.given() ? self.project_out(model, where.take()) : self.project_out(model);
          },
          nb::arg("model"), nb::arg("where") = nb::none(), documentation("Probe::project_out"))
      .def(
          "measure",
          [](const Probe& self, Like<Position> position, std::int64_t output) {
            return self.measure(position.take(), output);
          },
          nb::arg("position") = "last", nb::arg("output") = 0, documentation("Probe::measure"))
      .def(
          "score",
          [](const Probe& self, Like<Position> position, std::int64_t output) {
            return self.score(position.take(), output);
          },
          nb::arg("position") = "last", nb::arg("output") = 0, documentation("Probe::score"))
      .def("require_fits", &Probe::require_fits, nb::arg("model"), documentation("Probe::require_fits"))
      .def("assigned_to", &Probe::assigned_to, nb::arg("model"), documentation("Probe::assigned_to"))
      .def(
          "save",
          [](const Probe& self, const std::filesystem::path& file, Like<Overwrite> overwrite) {
            self.save(file, overwrite.take());
          },
          nb::arg("file"), nb::arg("overwrite") = "ours", ReleaseGil(), documentation("Probe::save"))
      .def_static(
          "require_can_save",
          [](const std::filesystem::path& file, Like<Overwrite> overwrite) {
            Probe::require_can_save(file, overwrite.take());
          },
          nb::arg("file"), nb::arg("overwrite") = "ours", documentation("Probe::require_can_save"))
      .def_static("load", &Probe::load, nb::arg("file"), ReleaseGil(), documentation("Probe::load"));
}

void bind_probe_fits(nb::module_& module) {
  bind_enum<ProbeMethod>(module);
  bind_struct<DirectionOptions>(module);
  bind_result<ProbeReport>(module);
  // Before the inputs, which take anything and then say what is wrong with it.
  define(
      module, "fit_probes", "fit_probes",
      [](const HookedTransformer& model, const ActivationCache& cache, const at::Tensor& labels,
         ProbeOptions options) { return fit_probes(model, cache, labels, shown(std::move(options))); },
      nb::arg("model"), nb::arg("cache"), nb::arg("labels"));
  define(
      module, "fit_probes", "fit_probes",
      [](const HookedTransformer& model, Like<ModelInput> input, const at::Tensor& labels,
         ProbeOptions options) {
        return fit_probes(model, input.take().of(model), labels, shown(std::move(options)));
      },
      nb::arg("model"), nb::arg("input"), nb::arg("labels"));
  bind_result<ComponentReport>(module);
  define(
      module, "fit_components", "fit_components",
      [](const HookedTransformer& model, Like<ModelInput> input, std::int64_t count,
         DirectionOptions options) { return fit_components(model, input.take().of(model), count, options); },
      nb::arg("model"), nb::arg("input"), nb::arg("count"));
  bind_result<ContrastReport>(module);
  define(
      module, "contrast_directions", "contrast_directions",
      [](const HookedTransformer& model, Like<ModelInput> positive, Like<ModelInput> negative,
         std::int64_t count, DirectionOptions options) {
        return contrast_directions(model, positive.take().of(model), negative.take().of(model), count,
                                   options);
      },
      nb::arg("model"), nb::arg("positive"), nb::arg("negative"), nb::arg("count") = 1);
}

}  // namespace

void bind_analysis_probes(nb::module_& module) {
  bind_fits(module);
  bind_probe(module);
  bind_probe_fits(module);
}

}  // namespace hooked::python
