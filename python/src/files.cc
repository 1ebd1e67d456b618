// Model folders, the hub cache, files of tensors, and descriptions of models that are not loaded.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_hub(nb::module_& module) {
  bind_struct<HubCache>(module);
  bind_result<CachedModel>(module).def_prop_ro("path", &CachedModel::path,
                                               documentation("CachedModel::path"));
  module.def("hub_cache", &hub_cache, documentation("hub_cache"));
  module.def(
      "cached_models",
      [](Given<HubCache> cache) { return cached_models(cache.given() ? cache.take() : hub_cache()); },
      nb::arg("cache") = nb::none(), documentation("cached_models"));
  define_plain(module, "stored_bytes", "stored_bytes", &stored_bytes, nb::arg("model"));
  module.def(
      "locate_model", [](const std::string& id) { return locate_model(id); }, nb::arg("id"),
      documentation("locate_model"));
  module.def("folder_of_model", &folder_of_model, nb::arg("model"), documentation("folder_of_model"));
  module.def("revision_of_model", &revision_of_model, nb::arg("model"), documentation("revision_of_model"));
  module.def("require_not_read", &require_not_read, nb::arg("file"), nb::arg("read"),
             documentation("require_not_read"));
}

void bind_safetensors(nb::module_& module) {
  bind_result<TensorInfo>(module).def_prop_ro("bytes", &TensorInfo::bytes,
                                              documentation("TensorInfo::bytes"));
  nb::class_<SafetensorsFile>(module, "SafetensorsFile", documentation("SafetensorsFile"))
      .def_static("open", &SafetensorsFile::open, nb::arg("path"), documentation("SafetensorsFile::open"))
      .def_prop_ro(
          "path", [](const SafetensorsFile& self) { return self.path(); },
          documentation("SafetensorsFile::path"))
      .def_prop_ro(
          "tensors", [](const SafetensorsFile& self) { return self.tensors(); },
          documentation("SafetensorsFile::tensors"))
      .def_prop_ro(
          "metadata", [](const SafetensorsFile& self) { return self.metadata(); },
          documentation("SafetensorsFile::metadata"))
      .def(
          "find",
          [](const SafetensorsFile& self, const std::string& name) {
            const TensorInfo* found = self.find(name);
            return found == nullptr ? std::nullopt : std::optional(*found);
          },
          nb::arg("name"), documentation("SafetensorsFile::find"))
      .def(
          "read", [](const SafetensorsFile& self, const std::string& name) { return self.read(name); },
          nb::arg("name"), ReleaseGil(), documentation("SafetensorsFile::read"));
  define_plain(module, "load_safetensors", "load_safetensors", &load_safetensors, nb::arg("path"));
  define(
      module, "save_safetensors", "save_safetensors",
      [](const std::filesystem::path& path, std::map<std::string, at::Tensor> tensors,
         SafetensorsOptions options) {
        save_safetensors(path, {tensors.begin(), tensors.end()}, options);
      },
      nb::arg("path"), nb::arg("tensors"));
  module.def("read_provenance", &read_provenance, nb::arg("file"), documentation("read_provenance"));
  module.def("read_axes", &read_axes, nb::arg("file"), documentation("read_axes"));
  module.def("to_metadata", &to_metadata, nb::arg("provenance"), nb::arg("axes"),
             documentation("to_metadata"));
}

void bind_descriptions(nb::module_& module) {
  bind_result<StoredTensors>(module);
  bind_result<UnreadPart>(module);
  bind_result<AdapterDescription>(module);
  bind_result<ModelDescription>(module);
  bind_result<ModelOutline>(module);
  define(
      module, "describe", "describe",
      [](const std::string& model, LoadOptions options) { return describe(model, options); },
      nb::arg("model"));
  const auto of_model = [&](const char* name, auto function) {
    define_plain(
        module, name, name, [function](const std::string& model) { return function(model); },
        nb::arg("model"));
  };
  of_model("outline", &outline);
  of_model("named_model_type", &named_model_type);
  of_model("load_tokenizer", &load_tokenizer);
  of_model("files_read", &files_read);
}

}  // namespace

void bind_files(nb::module_& module) {
  bind_hub(module);
  bind_safetensors(module);
  bind_descriptions(module);
}

}  // namespace hooked::python
