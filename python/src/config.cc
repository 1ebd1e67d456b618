// The config of a model and its parts, processing, and where a model is.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_activation(nb::module_& module) {
  bind_enum<Activation::Kind>(module, "ActivationKind");
  nb::class_<Activation>(module, "Activation", documentation("Activation"))
      .def(
          "__init__", [](Activation* self, Like<Activation> name) { new (self) Activation(name.take()); },
          nb::arg("name"))
      .def_static("swish_with", &Activation::swish_with, nb::arg("beta"),
                  documentation("Activation::swish_with"))
      .def_prop_ro("kind", &Activation::kind, documentation("Activation::kind"))
      .def_prop_ro("beta", &Activation::beta, documentation("Activation::beta"))
      .def("__eq__", [](const Activation& self, const Activation& other) { return self == other; })
      .def("__eq__",
           [](const Activation& self, const std::string& name) { return self == parse_activation(name); })
      .def(
          "__eq__", [](const Activation&, nb::handle) { return false; }, nb::arg().none())
      .def("__hash__",
           [](const Activation& self) { return std::hash<std::string_view>()(activation_name(self)); })
      .def("__deepcopy__", [](const Activation& self, nb::handle) { return Activation(self); })
      .def("__reduce__",
           [](nb::handle self) {
             const auto& value = nb::cast<const Activation&>(self);
             if (value == Activation(value.kind())) {
               return nb::make_tuple(self.type(), nb::make_tuple(std::string(activation_name(value))));
             }
             const nb::object call = nb::module_::import_("operator").attr("methodcaller");
             return nb::make_tuple(call("swish_with", value.beta()), nb::make_tuple(self.type()));
           })
      .def("__str__", [](const Activation& self) { return std::string(activation_name(self)); })
      .def("__repr__", [](const Activation& self) {
        const std::string name(activation_name(self));
        return self == Activation(self.kind()) ? "'" + name + "'"
                                               : "Activation.swish_with(" + std::to_string(self.beta()) + ")";
      });
}

void bind_config_parts(nb::module_& module) {
  bind_struct<Encoder>(module);
  bind_struct<NoPositions>(module);
  bind_struct<LearnedPositions>(module);
  bind_struct<ShortformerPositions>(module);
  bind_struct<NoScaling>(module);
  bind_struct<LinearScaling>(module);
  bind_struct<Llama3Scaling>(module);
  bind_struct<YarnScaling>(module);
  bind_struct<DynamicScaling>(module);
  bind_struct<LongropeScaling>(module);
  bind_struct<RotaryPositions>(module);
  bind_struct<AlibiPositions>(module);
  bind_struct<RelativePositions>(module);
  bind_enum<QkNorm::Span>(module, "QkNormSpan");
  bind_struct<QkNorm>(module);
  bind_struct<QueryGrowth>(module);
  bind_struct<FullHeads>(module);
  bind_struct<SharedKeys>(module);
  bind_struct<LayerInput>(module);
  bind_struct<Latents>(module);
  bind_enum<Window::Kind>(module, "WindowKind");
  bind_struct<Window>(module);
  bind_struct<ShortConvolution>(module);
  bind_struct<DeltaNet>(module).def_prop_ro("d_qkv", &DeltaNet::d_qkv, documentation("DeltaNet::d_qkv"));
  bind_enum<RouterKind>(module);
  bind_enum<GroupScore>(module);
  bind_struct<Experts>(module);
  bind_enum<KeptInFloat32>(module);
  bind_struct<LeastDtypes>(module);
  bind_struct<Unembedding>(module);
  module.def("depends_on_length", &depends_on_length, nb::arg("scaling"), documentation("depends_on_length"));
}

// What a config says about the model as a whole.
void bind_whole(nb::class_<ModelConfig>& config) {
  const auto whole = [&](const char* name, auto function) {
    config.def_prop_ro(name, function, documentation(std::string("ModelConfig::") + name));
  };
#define WHOLE(name) whole(#name, [](const ModelConfig& self) { return self.name(); })
  WHOLE(stream_dtype);
  WHOLE(has_encoder);
  WHOLE(n_encoder_layers);
  WHOLE(main_stack);
  WHOLE(attends_everywhere);
  WHOLE(layers_with_keys);
  WHOLE(learned_positions);
  WHOLE(shortformer);
  WHOLE(has_pos_embed);
  WHOLE(summed_embedding);
  WHOLE(grouped_query);
  WHOLE(norms_stream);
  WHOLE(changes_stream);
  WHOLE(latent_attention);
  WHOLE(query_latent);
  WHOLE(own_key_dim);
  WHOLE(has_mlp);
  WHOLE(n_experts);
  WHOLE(some_dense_mlp);
  WHOLE(parallel);
  WHOLE(has_unembedding);
  WHOLE(d_vocab_out);
  WHOLE(tied_unembedding);
  WHOLE(logits_centred);
  WHOLE(has_mlm_head);
#undef WHOLE
}

// What it says about a layer.
void bind_layers(nb::class_<ModelConfig>& config) {
  const auto checked_layer = [](const ModelConfig& self, std::int64_t layer) {
    if (layer >= 0 && layer < self.n_layers) return layer;
    throw ConfigError(
        "layer", std::to_string(layer) + " is no layer; expected 0 to " + std::to_string(self.n_layers - 1));
  };
#define LAYER(name)                                                  \
  config.def(                                                        \
      #name,                                                         \
      [checked_layer](const ModelConfig& self, std::int64_t layer) { \
        return self.name(checked_layer(self, layer));                \
      },                                                             \
      nb::arg("layer"), documentation("ModelConfig::" #name))
  LAYER(convolves);
  LAYER(recurs);
  LAYER(attends);
  LAYER(mixer);
  LAYER(shares_keys);
  LAYER(makes_keys);
  LAYER(key_layer);
  LAYER(lends_keys);
  LAYER(windowed);
  LAYER(head_width);
  LAYER(kv_heads);
  LAYER(heads_per_kv);
  LAYER(holds_relative);
  LAYER(rotates);
  LAYER(grows_queries);
  LAYER(norms_heads);
  LAYER(norm_place_in);
  LAYER(norms_inputs);
  LAYER(norms_outputs);
  LAYER(reads_through_ln1);
  LAYER(rotary_dim);
  LAYER(value_dim);
  LAYER(mlp_width);
  LAYER(mixture);
  LAYER(dense_mlp);
#undef LAYER
}

void bind_model_config(nb::module_& module) {
  bind_enum<NormKind>(module);
  bind_enum<NormPlace>(module);
  bind_enum<BlockLayout>(module);
  bind_enum<MlpKind>(module);
  bind_enum<AttentionDirection>(module);
  bind_activation(module);
  bind_config_parts(module);
  bind_struct<BlockPlace>(module).def_prop_ro("path", &BlockPlace::path, documentation("BlockPlace::path"));
  auto config = bind_struct<ModelConfig>(module);
  bind_whole(config);
  bind_layers(config);
  config
      .def(
          "dtype_of",
          [](const ModelConfig& self, Like<KeptInFloat32> kept) { return self.dtype_of(kept.take()); },
          nb::arg("kept"), documentation("ModelConfig::dtype_of"))
      .def(
          "bidirectional",
          [](const ModelConfig& self, Like<Stack> stack) { return self.bidirectional(stack.take()); },
          nb::arg("stack"), documentation("ModelConfig::bidirectional"))
      .def("last_start", &ModelConfig::last_start, nb::arg("layer"), nb::arg("end_layer"),
           documentation("ModelConfig::last_start"))
      .def("blocks", &ModelConfig::blocks, documentation("ModelConfig::blocks"))
      .def("parameter_count", &ModelConfig::parameter_count, documentation("ModelConfig::parameter_count"))
      .def("validate", &ModelConfig::validate, documentation("ModelConfig::validate"))
      .def(
          "to_dict",
          [](const ModelConfig& self) {
            return nb::module_::import_("json").attr("loads")(config_json(self));
          },
          nb::sig("def to_dict(self) -> dict[str, typing.Any]"), documentation("config_json"))
      .def_static(
          "from_dict",
          [](nb::handle config) { return nb::module_::import_("hooked._config").attr("from_dict")(config); },
          nb::arg("config"),
          nb::sig("def from_dict(config: collections.abc.Mapping[str, typing.Any]) -> ModelConfig"),
          documentation("read_model_config"));
  module.def("without_unembedding", &without_unembedding, nb::arg("config"),
             documentation("without_unembedding"));
  module.def("encoder_alone", &encoder_alone, nb::arg("config"), documentation("encoder_alone"));
  module.def("geometric_alibi_slopes", &geometric_alibi_slopes, nb::arg("n_heads"),
             documentation("geometric_alibi_slopes"));
  module.def("config_json", &config_json, nb::arg("config"), documentation("config_json"));
  module.def(
      "read_model_config", [](const std::string& model) { return read_model_config(model); },
      nb::arg("model"), documentation("read_model_config"));
}

void bind_processing(nb::module_& module) {
  bind_enum<ProcessingStep>(module);
  nb::class_<WeightProcessing>(module, "WeightProcessing", documentation("WeightProcessing"))
      .def(nb::init<>())
      .def_static("all_that_apply", &WeightProcessing::all_that_apply,
                  documentation("WeightProcessing::all_that_apply"))
      .def_static("none", &WeightProcessing::none, documentation("WeightProcessing::none"))
      .def_static(
          "only",
          [](Like<std::vector<ProcessingStep>> steps) { return WeightProcessing::only(steps.take()); },
          nb::arg("steps"), documentation("WeightProcessing::only"))
      .def(
          "without",
          [](const WeightProcessing& self, Like<ProcessingStep> step) { return self.without(step.take()); },
          nb::arg("step"), documentation("WeightProcessing::without"))
      .def(
          "wants",
          [](const WeightProcessing& self, Like<ProcessingStep> step) { return self.wants(step.take()); },
          nb::arg("step"), documentation("WeightProcessing::wants"))
      .def_prop_ro("insists", &WeightProcessing::insists, documentation("WeightProcessing::insists"))
      .def("__eq__", [](const WeightProcessing& a, const WeightProcessing& b) { return a == b; })
      .def(
          "__eq__", [](const WeightProcessing&, nb::handle) { return false; }, nb::arg().none());
  bind_result<StepReport>(module);
  bind_result<ProcessedWeights>(module);
  module.def("plan_processing", &plan_processing, nb::arg("config"),
             nb::arg("processing") = WeightProcessing(), documentation("plan_processing"));
  define_plain(
      module, "process_weights", "process_weights",
      [](StateDict weights, const ModelConfig& config, const WeightProcessing& processing) {
        return process_weights(std::move(weights), config, processing);
      },
      nb::arg("weights"), nb::arg("config"), nb::arg("processing") = WeightProcessing());
}

void bind_placement(nb::module_& module) {
  nb::class_<Placement>(module, "Placement", documentation("Placement"))
      .def_prop_ro("entry", &Placement::entry, documentation("Placement::entry"))
      .def_prop_ro("exit", &Placement::exit, documentation("Placement::exit"))
      .def(
          "of", [](const Placement& self, Like<BlockPlace> block) { return self.of(block.take()); },
          nb::arg("block"), documentation("Placement::of"))
      .def_prop_ro("last_encoder_layer", &Placement::last_encoder_layer,
                   documentation("Placement::last_encoder_layer"))
      .def_prop_ro("spread", &Placement::spread, documentation("Placement::spread"))
      .def_prop_ro("devices", &Placement::devices, documentation("Placement::devices"))
      .def("__str__", &Placement::text, documentation("Placement::text"));
  bind_enum<KernelSet>(module);
  module.def("kernel_sets", &kernel_sets, documentation("kernel_sets"));
  module.def("kernel_set", &kernel_set, documentation("kernel_set"));
}

void bind_part_table(nb::module_& module) {
  nb::enum_<Part> part(module, "Part", documentation("Part"));
#define PART(name, ...) part.value(#name, Part::name);
#include "hooked/core/parts.inc"
  module.def(
      "has",
      [](const ModelConfig& config, Part part, Like<BlockPlace> block) {
        return has(config, part, block.take());
      },
      nb::arg("config"), nb::arg("part"), nb::arg("block"), documentation("has"));
  module.def("has_anywhere", &has_anywhere, nb::arg("config"), nb::arg("part"),
             documentation("has_anywhere"));
  module.def("when_there", &when_there, nb::arg("part"), documentation("when_there"));
  module.def("words_of", &words_of, nb::arg("part"), documentation("words_of"));
}

}  // namespace

void bind_config(nb::module_& module) {
  bind_model_config(module);
  bind_processing(module);
  bind_placement(module);
  bind_part_table(module);
  bind_enum<InitMode>(module);
  bind_enum<WeightStorage>(module);
  module.def("version", &version, documentation("version"));
  module.def("libtorch_version", &libtorch_version, documentation("libtorch_version"));
}

}  // namespace hooked::python
