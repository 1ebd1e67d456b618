// HookedTransformer.
#include "python/src/bind.h"
#include "python/src/module.h"
#include "python/src/text.h"

namespace hooked::python {
namespace {

using Model = nb::class_<HookedTransformer>;

std::string of_model(const char* name) { return std::string("HookedTransformer::") + name; }

// Ctrl-C ends a generation between two tokens.
void heed_between_tokens(GenerateOptions& options) {
  if (options.on_text || options.on_tokens) return;  // Python code, which heeds them itself
  options.on_tokens = [](const at::Tensor&) {
    const nb::gil_scoped_acquire gil;
    heed_signals();
  };
  options.on_tokens.repeatable = true;
}

void bind_origins(Model& model) {
  StaticScope scope{model};
  define(
      scope, "load", of_model("load"),
      [](const std::string& name, bool download, LoadOptions options) {
        if (!download) return HookedTransformer::load(name, options);
        std::string found;
        {
          const nb::gil_scoped_acquire gil;
          found = nb::cast<std::string>(nb::module_::import_("hooked._download").attr("fetched")(name));
        }
        return HookedTransformer::load(found, options);
      },
      nb::arg("model"), nb::kw_only(), nb::arg("download") = false);
  define(
      scope, "from_state_dict", of_model("from_state_dict"),
      [](StateDict weights, const ModelConfig& config, LoadOptions options) {
        return HookedTransformer::from_state_dict(std::move(weights), config, options);
      },
      nb::arg("state_dict"), nb::arg("config"));
  define(
      scope, "create", of_model("create"),
      [](const ModelConfig& config, CreateOptions options) {
        return HookedTransformer::create(config, options);
      },
      nb::arg("config"));
  model.def(
      "__init__",
      [](HookedTransformer* self, const HookedTransformer& other) { new (self) HookedTransformer(other); },
      nb::arg("other"));
  // The weights never change, so that another handle is as good as another model.
  model.def("__copy__", [](const HookedTransformer& self) { return HookedTransformer(self); })
      .def("__deepcopy__", [](const HookedTransformer& self, nb::handle) { return HookedTransformer(self); })
      .def(
          "__reduce__",
          [](const HookedTransformer&) {
            throw nb::type_error(
                "[HookedTransformer] a model is not pickled; expected the name of its folder; save it with "
                "model.save(folder), and load it where it is needed");
          },
          nb::sig("def __reduce__(self) -> str"));
  model.def("__repr__", [](const HookedTransformer& self) {
    return "HookedTransformer " + self.identity()->text() + ", " + std::to_string(self.config().n_layers) +
           " layers, d_model " + std::to_string(self.config().d_model);
  });
}

void bind_facts(Model& model) {
  const auto fact = [&](const char* name, auto function) {
    model.def_prop_ro(name, function, documentation(of_model(name)));
  };
  fact("notes", [](const HookedTransformer& self) { return self.notes(); });
  fact("processing", [](const HookedTransformer& self) { return self.processing(); });
  fact("ignored_keys", [](const HookedTransformer& self) { return self.ignored_keys(); });
  fact("family", [](const HookedTransformer& self) { return self.family(); });
  fact("identity", [](const HookedTransformer& self) { return *self.identity(); });
  fact("provenance", [](const HookedTransformer& self) { return self.provenance(); });
  fact("device", [](const HookedTransformer& self) { return self.device(); });
  fact("placement", [](const HookedTransformer& self) { return self.placement(); });
  fact("dtype", [](const HookedTransformer& self) { return self.dtype(); });
  fact("weight_storage", [](const HookedTransformer& self) { return self.weight_storage(); });
  fact("names", [](const HookedTransformer& self) { return self.names(); });
  fact("dictionaries", &HookedTransformer::dictionaries);
  fact("weights", [](const HookedTransformer& self) { return self.weights(); });
  fact("has_tokenizer", [](const HookedTransformer& self) { return self.has_tokenizer(); });
  fact("tokenizer", [](const HookedTransformer& self) { return self.tokenizer(); });
  unchanging(
      model, "config", of_model("config"), [](const HookedTransformer& self) { return self.config(); },
      "[config] a model never changes; expected a config of its own; change copy.copy(model.config), and "
      "give it to HookedTransformer.create or from_state_dict");
  model
      .def(
          "hooks", [](const HookedTransformer& self) { return std::vector<Hook>(self.hooks()); },
          documentation(of_model("hooks")))
      .def("trim", &HookedTransformer::trim, documentation(of_model("trim")))
      .def("state_dict", &HookedTransformer::state_dict, ReleaseGil(), documentation(of_model("state_dict")));
  define(
      model, "save", of_model("save"),
      [](const HookedTransformer& self, const std::filesystem::path& folder, SaveOptions options) {
        self.save(folder, options);
      },
      nb::arg("folder"));
  model.def_static(
      "require_can_save",
      [](const std::string& name, const std::filesystem::path& folder) {
        HookedTransformer::require_can_save(name, folder);
      },
      nb::arg("model"), nb::arg("folder"), documentation(of_model("require_can_save")));
}

void bind_texts(Model& model) {
  define(model, "tokens_around", of_model("tokens_around"),
         [](const HookedTransformer& self, TextOptions options) { return self.tokens_around(options); });
  define(
      model, "to_tokens", of_model("to_tokens"),
      [](const HookedTransformer& self, const std::string& text, TextOptions options) {
        return self.to_tokens(text, options);
      },
      nb::arg("text"));
  define(
      model, "to_token_batch", of_model("to_token_batch"),
      [](const HookedTransformer& self, const std::vector<std::string>& texts, TextOptions options) {
        return self.to_token_batch(texts, options);
      },
      nb::arg("texts"));
  define(
      model, "to_pieces", of_model("to_pieces"),
      [](const HookedTransformer& self, const std::string& text, TextOptions options) {
        return self.to_pieces(text, options);
      },
      nb::arg("text"));
  define_chat(model, "to_chat_tokens", of_model("to_chat_tokens"), &HookedTransformer::to_chat_tokens);
  model.def("to_token", &HookedTransformer::to_token, nb::arg("text"), documentation(of_model("to_token")))
      .def("to_string", &HookedTransformer::to_string, nb::arg("ids"), documentation(of_model("to_string")))
      .def("to_str_tokens", &HookedTransformer::to_str_tokens, nb::arg("ids"),
           documentation(of_model("to_str_tokens")));
}

void bind_running(Model& model) {
  define(
      model, "run", of_model("run"),
      [](const HookedTransformer& self, Like<ModelInput> input, RunOptions options) {
        return self.run(input.take().of(self), options);
      },
      nb::arg("input"));
  define(
      model, "run_with_cache", of_model("run_with_cache"),
      [](const HookedTransformer& self, Like<ModelInput> input, Given<Selection> names,
         RunOptions options) -> RunResult {
        return self.run_with_cache(input.take().of(self),
                                   names.given() ? names.take() : Selection(act::defaults), options);
      },
      nb::arg("input"), nb::arg("names") = nb::none());
  model.def(
      "__call__",
      [](const HookedTransformer& self, Like<ModelInput> input) { return self(input.take().of(self)); },
      nb::arg("input"), ReleaseGil(), documentation(of_model("operator()")));
}

void bind_generation(Model& model) {
  define(
      model, "generate", of_model("generate"),
      [](const HookedTransformer& self, Like<ModelInput> prompt, GenerateOptions options) {
        heed_between_tokens(options);
        return self.generate(prompt.take().of(self, PaddingSide::left), options);
      },
      nb::arg("prompt"));
  SignatureText text("generate_text");
  text.add_self();
  text.add("prompt", type_text<Like<ModelInput>>(), {});
  add_options<GenerateOptions>(text);
  model.def(
      "generate_text",
      [](nb::handle self, nb::handle prompt, nb::kwargs options) {
        return nb::module_::import_("hooked._generation").attr("TextStream")(self, prompt, options);
      },
      nb::arg("prompt"), nb::arg("options"), nb::sig(text.returning("hooked._generation.TextStream").c_str()),
      "The text of a continuation as an iterator of pieces, while it is generated in a thread of its own. "
      "Closing\nthe iterator, or leaving a loop over it, ends the generation; `result` is what generate() "
      "returns. Takes what\ngenerate() takes.");
}

void bind_attaching(Model& model) {
  model.def(
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
      documentation(of_model("hook")));
  define(
      model, "with_dictionary", of_model("with_dictionary"),
      [](const HookedTransformer& self, const Dictionary& dictionary, DictionaryPlace place) {
        return self.with_dictionary(dictionary, place);
      },
      nb::arg("dictionary"));
  define_plain(
      model, "with_dictionaries", of_model("with_dictionaries"),
      [](const HookedTransformer& self, const DictionarySet& set, bool with_error) {
        return self.with_dictionaries(set, with_error);
      },
      nb::arg("set"), nb::arg("with_error") = false);
  define_plain(
      model, "without_dictionary", of_model("without_dictionary"),
      [](const HookedTransformer& self, Like<ActivationName> place) {
        return self.without_dictionary(place.take());
      },
      nb::arg("place"));
}

}  // namespace

void bind_model(nb::module_& module) {
  nb::class_<HookHandle>(module, "HookHandle", documentation("HookHandle"))
      .def("remove", &HookHandle::remove, documentation("HookHandle::remove"))
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> HookHandle"))
      .def(
          "__exit__", [](HookHandle& self, nb::args) { self.remove(); },
          nb::sig("def __exit__(self, *args: typing.Any) -> None"));
  Model model(module, "HookedTransformer", nb::dynamic_attr(), documentation("HookedTransformer"));
  bind_origins(model);
  bind_facts(model);
  bind_texts(model);
  bind_running(model);
  bind_generation(model);
  bind_attaching(model);
  define(
      module, "continuation_log_probs", "continuation_log_probs",
      [](const HookedTransformer& of, Like<ModelInput> prompt, const at::Tensor& continuation,
         RunOptions options) {
        return continuation_log_probs(of, prompt.take().of(of, PaddingSide::left), continuation, options);
      },
      nb::arg("model"), nb::arg("prompt"), nb::arg("continuation"));
  define_plain(
      module, "replicate", "replicate",
      [](const HookedTransformer& of, Like<DeviceNames> devices) { return replicate(of, devices.take()); },
      nb::arg("model"), nb::arg("devices"));
}

}  // namespace hooked::python
