// Metrics.
#include "python/src/bind.h"
#include "python/src/metric_input.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_metric_input(nb::module_& module) {
  nb::class_<MetricRun> input(module, "MetricInput", documentation("MetricInput"));
  const auto member = [&](const char* name, auto at) {
    input.def_ro(name, at, documentation(std::string("MetricInput::") + name));
  };
  member("logits", &MetricRun::logits);
  member("logit_tokens", &MetricRun::logit_tokens);
  member("cache", &MetricRun::cache);
  member("columns", &MetricRun::columns);
  member("real", &MetricRun::real);
  member("tokens", &MetricRun::tokens);
  member("first_column", &MetricRun::first_column);
  member("rows", &MetricRun::rows);
  member("answers", &MetricRun::answers);
}

void bind_metric(nb::module_& module) {
  nb::class_<Metric> metric(module, "Metric", documentation("Metric"));
  bind_struct<Metric::Definition>(metric, "Definition");
  metric
      .def(
          "__init__",
          [](Metric* self, nb::object function, Like<std::vector<Position>> positions, std::string name) {
            if (PyCallable_Check(function.ptr()) == 0)
              throw nb::type_error("[Metric] expected a function of logits, or a Metric.Definition");
            new (self) Metric(tensor_function<const at::Tensor&>(function, "metric"), positions.take(),
                              std::move(name));
          },
          nb::arg("function"), nb::arg("positions") = nb::make_tuple("last"), nb::arg("name") = "metric",
          nb::sig("def __init__(self, function: collections.abc.Callable[[torch.Tensor], torch.Tensor], positions: "
                  "collections.abc.Sequence[hooked.typing.PositionLike] = ('last',), name: str = 'metric') -> None"))
      .def_static(
          "of_activations",
          [](Like<Selection> activations, nb::object function, std::string name) {
            return Metric::of_activations(
                activations.take(), tensor_function<const ActivationCache&>(function, "metric"),
                std::move(name));
          },
          nb::arg("activations"), nb::arg("function"), nb::arg("name"),
          nb::sig("def of_activations(activations: hooked.typing.SelectionLike, function: "
                  "collections.abc.Callable[[ActivationCache], torch.Tensor], name: str) -> Metric"),
          documentation("Metric::of_activations"))
      .def_static(
          "of", [](Like<Metric::Definition> definition) { return Metric(definition.take()); },
          nb::arg("definition"), documentation("Metric::Metric"))
      .def_prop_ro(
          "name", [](const Metric& self) { return self.name(); }, documentation("Metric::name"))
      .def_prop_ro(
          "definition", [](const Metric& self) { return self.definition(); },
          documentation("Metric::definition"))
      .def(
          "on",
          [](const Metric& self, const HookedTransformer& model, Like<ModelInput> input) {
            return self.on(model, input.take().of(model));
          },
          nb::arg("model"), nb::arg("input"), ReleaseGil(), documentation("Metric::on"))
      .def(
          "__call__", [](const Metric& self, const at::Tensor& logits) { return self(logits); },
          nb::arg("logits"), ReleaseGil(), documentation("Metric::operator()"))
      .def("__repr__", [](const Metric& self) { return "Metric('" + self.name() + "')"; });
  define(
      metric, "score", "Metric::score",
      [](const Metric& self, const HookedTransformer& model, Like<ModelInput> input, RunOptions options) {
        return self.score(model, input.take().of(model), options);
      },
      nb::arg("model"), nb::arg("input"));
}

void bind_bound_metric(nb::module_& module) {
  nb::class_<BoundMetric> metric(module, "BoundMetric", documentation("BoundMetric"));
  metric
      .def_prop_ro(
          "logit_positions", [](const BoundMetric& self) { return self.logit_positions(); },
          documentation("BoundMetric::logit_positions"))
      .def_prop_ro(
          "logit_tokens", [](const BoundMetric& self) { return self.logit_tokens(); },
          documentation("BoundMetric::logit_tokens"))
      .def_prop_ro(
          "metric", [](const BoundMetric& self) { return self.metric(); },
          documentation("BoundMetric::metric"))
      .def_prop_ro("rows", &BoundMetric::rows, documentation("BoundMetric::rows"))
      .def(
          "__call__", [](const BoundMetric& self, const RunResult& run) { return self(run); }, nb::arg("run"),
          ReleaseGil(), documentation("BoundMetric::operator()"))
      .def(
          "__call__",
          [](const BoundMetric& self, const at::Tensor& logits, const ActivationCache& cache) {
            return self(logits, cache);
          },
          nb::arg("logits"), nb::arg("cache") = ActivationCache(), ReleaseGil())
      .def("logits_of", &BoundMetric::logits_of, nb::arg("run"), ReleaseGil(),
           documentation("BoundMetric::logits_of"))
      .def("of_rows", &BoundMetric::of_rows, nb::arg("rows"), documentation("BoundMetric::of_rows"))
      .def("of_row", &BoundMetric::of_row, nb::arg("row"), documentation("BoundMetric::of_row"));
  define(metric, "needs", "BoundMetric::needs",
         [](const BoundMetric& self, RunOptions options) { return self.needs(std::move(options)); });
}

using OfAnswer = Metric (*)(Answers, Position);
using OfReference = Metric (*)(at::Tensor, std::vector<Position>);

void bind_ready_metrics(nb::module_& module) {
  const std::pair<const char*, OfAnswer> by_answer[] = {{"logit", &logit},
                                                        {"probability", &probability},
                                                        {"log_probability", &log_probability},
                                                        {"rank", &rank},
                                                        {"top1", &top1}};
  for (const auto& [name, make] : by_answer) {
    module.def(
        name,
        [make = make](Like<Answers> answer, Like<Position> position) {
          return make(answer.take(), position.take());
        },
        nb::arg("answer"), nb::arg("position") = "last", documentation(name));
  }
  module.def(
      "logit_difference",
      [](Like<Answers> answer, Like<Answers> against, Like<Position> position) {
        return logit_difference(answer.take(), against.take(), position.take());
      },
      nb::arg("answer"), nb::arg("against"), nb::arg("position") = "last", documentation("logit_difference"));
  module.def("loss", &loss, documentation("loss"));
  const std::pair<const char*, OfReference> by_reference[] = {{"kl_divergence", &kl_divergence},
                                                              {"js_divergence", &js_divergence}};
  for (const auto& [name, make] : by_reference) {
    module.def(
        name,
        [make = make](at::Tensor reference, Like<std::vector<Position>> positions) {
          return make(std::move(reference), positions.take());
        },
        nb::arg("reference"), nb::arg("positions") = nb::make_tuple("last"), documentation(name));
  }
  module.def(
      "attention",
      [](Like<Address> head, Like<Position> query, Like<Position> key) {
        return attention(head.take(), query.take(), key.take());
      },
      nb::arg("head"), nb::arg("query"), nb::arg("key"), documentation("attention"));
  module.def(
      "projection",
      [](Like<Address> activation, at::Tensor direction, Like<Position> position) {
        return projection(activation.take(), std::move(direction), position.take());
      },
      nb::arg("activation"), nb::arg("direction"), nb::arg("position") = "last", documentation("projection"));
  define(
      module, "logits_at", "logits_at",
      [](const HookedTransformer& model, Like<ModelInput> input, Like<std::vector<Position>> positions,
         RunOptions options) { return logits_at(model, input.take().of(model), positions.take(), options); },
      nb::arg("model"), nb::arg("input"), nb::arg("positions") = nb::make_tuple("last"));
}

}  // namespace

void bind_analysis_metrics(nb::module_& module) {
  bind_struct<RunOptions>(module);
  bind_metric_input(module);
  bind_metric(module);
  bind_bound_metric(module);
  bind_ready_metrics(module);
}

}  // namespace hooked::python
