// Dictionaries: sparse autoencoders and transcoders, what they compute and where they stand.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

using DictionaryClass = nb::class_<Dictionary>;

std::string of_dictionary(const char* name) { return std::string("Dictionary::") + name; }

void bind_dictionary_parts(nb::module_& module) {
  bind_enum<CodeActivation>(module);
  bind_enum<InputNorm>(module);
  bind_enum<DecoderNorms>(module);
  bind_struct<ExcludedTokens>(module);
  bind_struct<DictionaryBasis>(module);
  bind_struct<DictionaryConfig>(module);
  bind_struct<DictionaryWeights>(module);
  bind_struct<SparseCodes>(module).def("dense", &SparseCodes::dense, ReleaseGil(),
                                       documentation("SparseCodes::dense"));
  module.def(
      "architecture_text", [](Like<DictionaryConfig> config) { return architecture_text(config.take()); },
      nb::arg("config"), documentation("architecture_text"));
}

void bind_files_of(DictionaryClass& dictionary) {
  StaticScope scope{dictionary};
  define(
      scope, "load", of_dictionary("load"),
      [](const std::string& path, DictionaryOptions options) { return Dictionary::load(path, options); },
      nb::arg("path"));
  define_plain(dictionary, "save", of_dictionary("save"), &Dictionary::save, nb::arg("folder"));
}

void bind_computing(DictionaryClass& dictionary) {
  const auto computes = [&](const char* name, auto function, auto... arguments) {
    define_plain(dictionary, name, of_dictionary(name), function, nb::arg(arguments)...);
  };
  computes("encode", &Dictionary::encode, "x");
  computes("decode", &Dictionary::decode, "codes", "x");
  computes("reconstruct", &Dictionary::reconstruct, "x");
  computes("encode_sparse", &Dictionary::encode_sparse, "x");
  computes(
      "decode_sparse",
      [](const Dictionary& self, Like<SparseCodes> codes, const at::Tensor& x) {
        return self.decode_sparse(codes.take(), x);
      },
      "codes", "x");
  computes("input_of", &Dictionary::input_of, "x");
  computes("preactivations", &Dictionary::preactivations, "input");
  // A dictionary without pre-activations returned None for them.
  define_plain(
      dictionary, "activations", of_dictionary("activations"),
      [](const Dictionary& self, const std::optional<at::Tensor>& preactivations, const at::Tensor& input) {
        return self.activations(preactivations.value_or(at::Tensor()), input);
      },
      nb::arg("preactivations").none(), nb::arg("input"));
  computes("reconstruction", &Dictionary::reconstruction, "codes", "input");
  computes("output_of", &Dictionary::output_of, "reconstruction", "input", "x");
  computes("decoder_norms", &Dictionary::decoder_norms);
  computes("with_unit_decoder", &Dictionary::with_unit_decoder);
}

void bind_dictionary(nb::module_& module) {
  DictionaryClass dictionary(module, "Dictionary", documentation("Dictionary"));
  dictionary
      .def(
          "__init__",
          [](Dictionary* self, Like<DictionaryConfig> config, Like<DictionaryWeights> weights) {
            new (self) Dictionary(config.take(), weights.take());
          },
          nb::arg("config"), nb::arg("weights"), documentation("Dictionary::Dictionary"))
      // The weights never change, so that another handle is as good as another dictionary.
      .def("__copy__", [](const Dictionary& self) { return Dictionary(self); })
      .def("__deepcopy__", [](const Dictionary& self, nb::handle) { return Dictionary(self); })
      .def_prop_ro("has_preactivations", &Dictionary::has_preactivations,
                   documentation(of_dictionary("has_preactivations")))
      .def("__repr__", [](const Dictionary& self) {
        const DictionaryConfig& config = self.config();
        return "Dictionary of " + std::to_string(config.features) + " features, " +
               architecture_text(config) + (config.input.empty() ? "" : ", of " + config.input);
      });
  unchanging(
      dictionary, "config", of_dictionary("config"), [](const Dictionary& self) { return self.config(); },
      "[config] a dictionary never changes; expected a config of its own; change copy.copy(sae.config), and "
      "give it to Dictionary");
  unchanging(
      dictionary, "weights", of_dictionary("weights"), [](const Dictionary& self) { return self.weights(); },
      "[weights] a dictionary never changes; expected weights of its own; change copy.copy(sae.weights), and "
      "give them to Dictionary");
  bind_files_of(dictionary);
  bind_computing(dictionary);
}

void bind_set(nb::module_& module) {
  nb::class_<DictionarySet> set(module, "DictionarySet", documentation("DictionarySet"));
  set.def(nb::init<std::vector<Dictionary>, std::string>(), nb::arg("members"), nb::arg("scan") = "",
          documentation("DictionarySet::DictionarySet"));
  StaticScope scope{set};
  define(
      scope, "load", "DictionarySet::load",
      [](const std::string& path, DictionaryOptions options) { return DictionarySet::load(path, options); },
      nb::arg("path"));
  const auto fact = [&](const char* name, auto function) {
    set.def_prop_ro(name, function, documentation(std::string("DictionarySet::") + name));
  };
  fact("members", [](const DictionarySet& self) { return self.members(); });
  fact("layers", &DictionarySet::layers);
  fact("crosses_layers", &DictionarySet::crosses_layers);
  fact("scan", [](const DictionarySet& self) { return self.scan(); });
  set.def("at", &DictionarySet::at, nb::arg("layer"), documentation("DictionarySet::at"));
  define_plain(set, "decoder", "DictionarySet::decoder", &DictionarySet::decoder, nb::arg("source"),
               nb::arg("target"));
  define_plain(
      set, "decode", "DictionarySet::decode",
      [](const DictionarySet& self, std::int64_t target, Like<std::vector<std::optional<at::Tensor>>> codes,
         const at::Tensor& x) {
        const auto given = codes.take();
        std::vector<at::Tensor> known;
        for (const auto& of_layer : given) known.push_back(of_layer.value_or(at::Tensor()));
        return self.decode(target, known, x);
      },
      nb::arg("target"), nb::arg("codes"), nb::arg("x"),
      nb::sig("def decode(self, target: int, codes: collections.abc.Sequence[torch.Tensor | None], "
              "x: torch.Tensor) -> torch.Tensor"));
}

void bind_feature_places(nb::module_& module) {
  bind_result<StandingDictionary>(module);
  define(
      module, "steps_that_change", "steps_that_change",
      [](const Dictionary& dictionary, DictionaryPlace place) {
        return steps_that_change(dictionary, place);
      },
      nb::arg("dictionary"));
  bind_result<DictionaryDescription>(module);
  define_plain(
      module, "describe_dictionary", "describe_dictionary",
      [](const std::string& path) { return describe_dictionary(path); }, nb::arg("path"));
  define_plain(
      module, "is_dictionary", "is_dictionary", [](const std::string& path) { return is_dictionary(path); },
      nb::arg("path"));
}

}  // namespace

void bind_dictionaries(nb::module_& module) {
  bind_dictionary_parts(module);
  bind_dictionary(module);
  bind_set(module);
  bind_feature_places(module);
}

}  // namespace hooked::python
