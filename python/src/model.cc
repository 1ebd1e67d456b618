// HookedTransformer, and what its runs take and return.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_inputs(nb::module_& module) {
  bind_struct<DecoderInput>(module);
  nb::class_<StartAtLayer>(module, "StartAtLayer", documentation("StartAtLayer"))
      .def(
          "__init__",
          [](StartAtLayer* self, std::int64_t layer, at::Tensor residual, std::optional<at::Tensor> tokens) {
            new (self) StartAtLayer{layer, std::move(residual), tokens.value_or(at::Tensor())};
          },
          nb::arg("layer"), nb::arg("residual"), nb::arg("tokens") = nb::none())
      .def_ro("layer", &StartAtLayer::layer, documentation("StartAtLayer::layer"))
      .def_ro("residual", &StartAtLayer::residual, documentation("StartAtLayer::residual"))
      .def_ro("tokens", &StartAtLayer::tokens, documentation("StartAtLayer::tokens"));
  nb::class_<Prefix>(module, "Prefix", documentation("Prefix"))
      .def_prop_ro("batch", &Prefix::batch, documentation("Prefix::batch"))
      .def_prop_ro("length", &Prefix::length, documentation("Prefix::length"))
      .def_prop_ro("bytes", &Prefix::bytes, documentation("Prefix::bytes"))
      .def("first", &Prefix::first, nb::arg("columns"), documentation("Prefix::first"));
  nb::class_<Input> input(module, "Input", documentation("Input"));
  define(
      input, "__init__", "Input",
      [](Input* self, Like<Input> given, InputDetails details) {
        Input made = given.take();
        static_cast<InputDetails&>(made) = std::move(details);
        new (self) Input(std::move(made));
      },
      nb::arg("given"));
  input.def_ro("tokens", &Input::tokens, documentation("Input::tokens"))
      .def_ro("text", &Input::text, documentation("Input::text"))
      .def_ro("attention_mask", &Input::attention_mask, documentation("InputDetails::attention_mask"))
      .def_prop_ro("batch", &Input::batch, documentation("Input::batch"))
      .def_prop_ro("length", &Input::length, documentation("Input::length"))
      .def_prop_ro("first_column", &Input::first_column, documentation("Input::first_column"));
  StaticScope<nb::class_<Input>> starts{input};
  define(
      starts, "start_at_layer", "Input::start_at_layer",
      [](std::int64_t layer, at::Tensor residual, InputDetails details) {
        return Input::start_at_layer(layer, std::move(residual), std::move(details));
      },
      nb::arg("layer"), nb::arg("residual"));
}

void bind_results(nb::module_& module) {
  bind_enum<Output>(module);
  bind_enum<LossReduction>(module);
  bind_enum<StopReason>(module);
  bind_struct<KeepOptions>(module);
  bind_struct<LossOptions>(module);
  nb::class_<LogitMetric>(module, "LogitMetric", documentation("LogitMetric"))
      .def(
          "__init__",
          [](LogitMetric* self, std::function<at::Tensor(const at::Tensor&)> function,
             std::vector<std::int64_t> positions) {
            new (self) LogitMetric(std::move(function), std::move(positions));
          },
          nb::arg("function"), nb::arg("positions") = std::vector<std::int64_t>());
  bind_struct<RunMetric>(module);
  bind_struct<GradientRequest>(module);
  bind_struct<SamplingOptions>(module);
  bind_struct<StopOptions>(module);
  bind_result<NotFinite>(module).def("__str__", &NotFinite::text);
  bind_result<GenerateResult>(module);
  nb::class_<RunResult> result(module, "RunResult", documentation("RunResult"));
  result.def_ro("cache", &RunResult::cache, documentation("RunResult::cache"))
      .def_ro("gradients", &RunResult::gradients, documentation("RunResult::gradients"))
      .def_ro("prefix", &RunResult::prefix, documentation("RunResult::prefix"))
      .def_ro("notes", &RunResult::notes, documentation("RunResult::notes"))
      .def_prop_ro(
          "logits", [](const RunResult& self) { return at::Tensor(self.logits()); },
          documentation("RunResult::logits"))
      .def_prop_ro(
          "logit_positions", [](const RunResult& self) { return self.logit_positions(); },
          documentation("RunResult::logit_positions"))
      .def_prop_ro(
          "logit_tokens", [](const RunResult& self) { return self.logit_tokens(); },
          documentation("RunResult::logit_tokens"))
      .def_prop_ro(
          "loss", [](const RunResult& self) { return at::Tensor(self.loss()); },
          documentation("RunResult::loss"))
      .def_prop_ro(
          "residual", [](const RunResult& self) { return at::Tensor(self.residual()); },
          documentation("RunResult::residual"))
      .def_prop_ro(
          "metric", [](const RunResult& self) { return at::Tensor(self.metric()); },
          documentation("RunResult::metric"))
      .def_prop_ro("output", &RunResult::output, documentation("RunResult::output"))
      .def("not_finite", &RunResult::not_finite, ReleaseGil(), documentation("RunResult::not_finite"))
      .def("to", &RunResult::to, nb::arg("device"), ReleaseGil(), documentation("RunResult::to"))
      .def(
          "__iter__",
          [](const RunResult& self) {
            return nb::iter(nb::make_tuple(at::Tensor(self.logits()), self.cache));
          },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"));
}

}  // namespace

void bind_model(nb::module_& module) {
  bind_inputs(module);
  bind_results(module);
  nb::class_<HookHandle>(module, "HookHandle", documentation("HookHandle"))
      .def("remove", &HookHandle::remove, documentation("HookHandle::remove"))
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> HookHandle"))
      .def(
          "__exit__", [](HookHandle& self, nb::args) { self.remove(); },
          nb::sig("def __exit__(self, *args: typing.Any) -> None"));

  nb::class_<HookedTransformer> model(module, "HookedTransformer", nb::dynamic_attr(),
                                      documentation("HookedTransformer"));
  model.def(
      "__init__",
      [](HookedTransformer* self, const HookedTransformer& other) { new (self) HookedTransformer(other); },
      nb::arg("other"));
  model.def("__copy__", [](const HookedTransformer& self) { return HookedTransformer(self); })
      .def("trim", &HookedTransformer::trim, documentation("HookedTransformer::trim"))
      .def_prop_ro(
          "notes", [](const HookedTransformer& self) { return self.notes(); },
          documentation("HookedTransformer::notes"))
      .def_prop_ro(
          "processing", [](const HookedTransformer& self) { return self.processing(); },
          documentation("HookedTransformer::processing"))
      .def_prop_ro(
          "ignored_keys", [](const HookedTransformer& self) { return self.ignored_keys(); },
          documentation("HookedTransformer::ignored_keys"))
      .def_prop_ro(
          "family", [](const HookedTransformer& self) { return self.family(); },
          documentation("HookedTransformer::family"))
      .def_prop_ro(
          "identity", [](const HookedTransformer& self) { return *self.identity(); },
          documentation("HookedTransformer::identity"))
      .def_prop_ro("provenance", &HookedTransformer::provenance,
                   documentation("HookedTransformer::provenance"))
      .def_prop_ro("device", &HookedTransformer::device, documentation("HookedTransformer::device"))
      .def_prop_ro("dtype", &HookedTransformer::dtype, documentation("HookedTransformer::dtype"))
      .def_prop_ro(
          "names", [](const HookedTransformer& self) { return self.names(); },
          documentation("HookedTransformer::names"))
      .def("state_dict", &HookedTransformer::state_dict, ReleaseGil(),
           documentation("HookedTransformer::state_dict"))
      .def(
          "__call__", [](const HookedTransformer& self, Like<Input> input) { return self(input.take()); },
          nb::arg("input"), ReleaseGil(), documentation("HookedTransformer::operator()"))
      .def(
          "hook",
          [](HookedTransformer& self, Like<Selection> where, nb::object function, nb::object direction) {
            std::optional<Hook> hook;
            if (!Converter<Hook>::apply(nb::make_tuple(Selection(where.take()), function, direction), hook))
              throw nb::type_error("expected a selection of activations and a function");
            return self.hook(std::move(hook->where), std::move(hook->function), hook->direction);
          },
          nb::arg("where"), nb::arg("function"), nb::arg("direction") = "forward",
          nb::sig("def hook(self, where: hooked.typing.SelectionLike, function: hooked.typing.HookFunction, "
                  "direction: HookDirection | str = 'forward') -> HookHandle"),
          documentation("HookedTransformer::hook"));

  const auto static_with = [&]<typename Function>(const char* name, Function function, const auto&... named) {
    StaticScope scope{model};
    define(scope, name, std::string("HookedTransformer::") + name, function, named...);
  };
  static_with(
      "load",
      [](const std::string& model, LoadOptions options) { return HookedTransformer::load(model, options); },
      nb::arg("model"));
  static_with(
      "from_state_dict",
      [](StateDict weights, const ModelConfig& config, LoadOptions options) {
        return HookedTransformer::from_state_dict(std::move(weights), config, options);
      },
      nb::arg("weights"), nb::arg("config"));
  static_with(
      "create",
      [](const ModelConfig& config, CreateOptions options) {
        return HookedTransformer::create(config, options);
      },
      nb::arg("config"));
  define(
      model, "run", "HookedTransformer::run",
      [](const HookedTransformer& self, Like<Input> input, RunOptions options) {
        return self.run(input.take(), options);
      },
      nb::arg("input"));
  define(
      model, "run_with_cache", "HookedTransformer::run_with_cache",
      [](const HookedTransformer& self, Like<Input> input, Given<Selection> capture,
         RunOptions options) -> RunResult {
        return self.run_with_cache(input.take(), capture.given() ? capture.take() : Selection(act::defaults),
                                   options);
      },
      nb::arg("input"), nb::arg("names") = nb::none());
  define(
      model, "generate", "HookedTransformer::generate",
      [](const HookedTransformer& self, Like<Input> prompt, GenerateOptions options) {
        return self.generate(prompt.take(), options);
      },
      nb::arg("prompt"));
}

}  // namespace hooked::python
