// What runs take and return.
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
      .def_prop_ro("first_column", &Input::first_column, documentation("Input::first_column"))
      .def_prop_ro("main_tokens", &Input::main_tokens, documentation("Input::main_tokens"))
      .def_prop_ro("main_mask", &Input::main_mask, documentation("Input::main_mask"))
      .def_prop_ro("last_columns", &Input::last_columns, documentation("Input::last_columns"))
      .def_prop_ro("last_encoder_columns", &Input::last_encoder_columns,
                   documentation("Input::last_encoder_columns"))
      .def_prop_ro("feeds_encoder", &Input::feeds_encoder, documentation("Input::feeds_encoder"))
      .def("with_decoder_start", &Input::with_decoder_start, nb::arg("config"),
           documentation("Input::with_decoder_start"));
  const auto detail = [&](const char* name, auto member) {
    input.def_ro(name, member, documentation(std::string("InputDetails::") + name));
  };
  detail("token_types", &Input::token_types);
  detail("decoder", &Input::decoder);
  detail("prefix", &Input::prefix);
  detail("start", &Input::start);
  detail("first_columns", &Input::first_columns);
  StaticScope scope{input};
  define(
      scope, "start_at_layer", "Input::start_at_layer",
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
          nb::arg("function"), nb::arg("positions") = std::vector<std::int64_t>())
      .def_prop_ro(
          "positions", [](const LogitMetric& self) { return self.positions(); },
          documentation("LogitMetric::positions"))
      .def("__call__", &LogitMetric::operator(), nb::arg("logits"), ReleaseGil(),
           documentation("LogitMetric::operator()"));
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

// Functions of logits and of their losses.
void bind_losses(nb::module_& module) {
  define_plain(module, "token_log_probs", "token_log_probs", &token_log_probs, nb::arg("logits"),
               nb::arg("tokens"));
  define_plain(
      module, "next_token_loss", "next_token_loss",
      [](const at::Tensor& logits, const at::Tensor& tokens, std::optional<at::Tensor> real,
         Like<LossReduction> reduction) {
        return next_token_loss(logits, tokens, real.value_or(at::Tensor()), reduction.take());
      },
      nb::arg("logits"), nb::arg("tokens"), nb::arg("real") = nb::none(), nb::arg("reduction") = "mean");
  define_plain(
      module, "reduced_loss", "reduced_loss",
      [](const at::Tensor& losses, std::optional<at::Tensor> real, Like<LossReduction> reduction) {
        return reduced_loss(losses, real.value_or(at::Tensor()), reduction.take());
      },
      nb::arg("losses"), nb::arg("real"), nb::arg("reduction"));
  define(
      module, "sampling_logits", "sampling_logits",
      [](const at::Tensor& logits, std::optional<at::Tensor> occurred, SamplingOptions options) {
        return sampling_logits(logits, occurred.value_or(at::Tensor()), options);
      },
      nb::arg("logits"), nb::arg("occurred") = nb::none());
}

}  // namespace

void bind_runs(nb::module_& module) {
  bind_inputs(module);
  bind_results(module);
  bind_losses(module);
}

}  // namespace hooked::python
