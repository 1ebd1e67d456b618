// The weights of a model by the papers' names, and models that are trained.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

template <typename... Arguments>
using Weight = at::Tensor (WeightView::*)(Arguments...) const;

// A weight of the model, of a layer, or of a part of a layer: one function of Python.
class WeightFunction {
 public:
  WeightFunction(nb::class_<WeightView>& view, const char* name) : view_(view), name_(name) {}

  template <typename... Arguments, typename... Named>
  WeightFunction& with(Weight<Arguments...> weight, Named... named) {
    view_.def(
        name_, [weight](const WeightView& self, Arguments... at) { return (self.*weight)(at...); },
        nb::arg(named)..., ReleaseGil(), documentation(std::string("WeightView::") + name_));
    return *this;
  }

 private:
  nb::class_<WeightView>& view_;
  const char* name_;
};

void bind_matrices(nb::class_<WeightView>& view) {
  const auto named = [&](const char* name) { return WeightFunction(view, name); };
#define WHOLE(name) named(#name).with<>(&WeightView::name)
#define LAYER(name) named(#name).with<std::int64_t>(&WeightView::name, "layer")
#define ALL_OR_LAYER(name) \
  named(#name).with<>(&WeightView::name).with<std::int64_t>(&WeightView::name, "layer")
#define OR_PART(name, part)                           \
  named(#name)                                        \
      .with<>(&WeightView::name)                      \
      .with<std::int64_t>(&WeightView::name, "layer") \
      .with<std::int64_t, std::int64_t>(&WeightView::name, "layer", part)
  WHOLE(W_E);
  WHOLE(W_pos);
  WHOLE(W_token_type);
  WHOLE(W_U);
  WHOLE(b_U);
  WHOLE(W_mlm);
  WHOLE(b_mlm);
  OR_PART(W_Q, "head");
  OR_PART(W_K, "head");
  OR_PART(W_V, "head");
  OR_PART(W_O, "head");
  ALL_OR_LAYER(b_Q);
  ALL_OR_LAYER(b_K);
  ALL_OR_LAYER(b_V);
  ALL_OR_LAYER(b_O);
  LAYER(W_DQ);
  LAYER(W_UQ);
  LAYER(W_DKV);
  LAYER(W_UK);
  LAYER(W_UV);
  LAYER(W_KR);
  OR_PART(W_in, "expert");
  OR_PART(W_gate, "expert");
  OR_PART(W_out, "expert");
  ALL_OR_LAYER(b_in);
  ALL_OR_LAYER(b_out);
  LAYER(W_router);
  LAYER(W_in_shared);
  LAYER(W_gate_shared);
  LAYER(W_out_shared);
#undef WHOLE
#undef LAYER
#undef ALL_OR_LAYER
#undef OR_PART
}

void bind_trainable(nb::module_& module) {
  nb::class_<TrainableTransformer> model(module, "TrainableTransformer",
                                         documentation("TrainableTransformer"));
  StaticScope scope{model};
  define(
      scope, "create", "TrainableTransformer::create",
      [](const ModelConfig& config, CreateOptions options) {
        return TrainableTransformer::create(config, options);
      },
      nb::arg("config"));
  model
      .def_static(
          "from_model", [](const HookedTransformer& model) { return TrainableTransformer::from(model); },
          nb::arg("model"), ReleaseGil(), documentation("TrainableTransformer::from_"))
      .def_prop_ro(
          "config", [](const TrainableTransformer& self) { return self.config(); },
          documentation("TrainableTransformer::config"))
      .def("named_parameters", &TrainableTransformer::named_parameters,
           documentation("TrainableTransformer::named_parameters"))
      .def("parameters", &TrainableTransformer::parameters, documentation("TrainableTransformer::parameters"))
      .def(
          "forward",
          [](const TrainableTransformer& self, Like<Input> input) { return self.forward(input.take()); },
          nb::arg("input"), ReleaseGil(), documentation("TrainableTransformer::forward"))
      .def(
          "__call__",
          [](const TrainableTransformer& self, Like<Input> input) { return self.forward(input.take()); },
          nb::arg("input"), ReleaseGil(), documentation("TrainableTransformer::forward"))
      .def(
          "loss", [](const TrainableTransformer& self, Like<Input> input) { return self.loss(input.take()); },
          nb::arg("input"), ReleaseGil(), documentation("TrainableTransformer::loss"))
      .def("freeze", &TrainableTransformer::freeze, ReleaseGil(),
           documentation("TrainableTransformer::freeze"));
}

}  // namespace

void bind_weights(nb::module_& module) {
  bind_result<NormWeights>(module).def(
      "__iter__", [](const NormWeights& self) { return nb::iter(nb::make_tuple(self.w, self.b)); },
      nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"));
  nb::class_<WeightView> view(module, "WeightView", documentation("WeightView"));
  view.def_prop_ro("encoder", &WeightView::encoder, documentation("WeightView::encoder"))
      .def_prop_ro("cross_attention", &WeightView::cross_attention,
                   documentation("WeightView::cross_attention"))
      .def(
          "__getitem__", [](const WeightView& self, const std::string& name) { return self[name]; },
          nb::arg("name"), ReleaseGil(), documentation("WeightView::operator[]"))
      .def("ln1", &WeightView::ln1, nb::arg("layer"), documentation("WeightView::ln1"))
      .def("ln2", &WeightView::ln2, nb::arg("layer"), documentation("WeightView::ln2"))
      .def("ln3", &WeightView::ln3, nb::arg("layer"), documentation("WeightView::ln3"))
      .def("ln_final", &WeightView::ln_final, documentation("WeightView::ln_final"));
  bind_matrices(view);
  bind_trainable(module);
}

}  // namespace hooked::python
