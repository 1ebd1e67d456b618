// Pages and reports.
#include <fmt/format.h>

#include "core/replaced.h"
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {

namespace {

/// A page inside a notebook's page, whose styles and scripts neither reaches.
std::string in_a_frame(const Page& page) {
  return "<iframe title=\"hooked\" style=\"width:100%;height:640px;border:0\" srcdoc=\"" +
         replaced(page.html(), {{'&', "&amp;"}, {'"', "&quot;"}}) + "\"></iframe>";
}

void bind_figures(nb::class_<Page>& page) {
  const auto adds = [&](const char* name, auto function, auto... arguments) {
    page.def(name, function, arguments..., ReleaseGil(), documentation(std::string("Page::") + name));
  };
  adds(
      "begin", [](Page& self, Like<PageSection> section) { self.begin(section.take()); }, nb::arg("section"));
  adds("add_note", &Page::add_note, nb::arg("note"));
  adds("add_text", &Page::add_text, nb::arg("text"));
  adds("add_tokens", &Page::add_tokens, nb::arg("values"));
  adds("add_next", &Page::add_next, nb::arg("logits"), nb::arg("top_k") = 10);
  adds("add_lens", &Page::add_lens, nb::arg("lens"));
  adds(
      "add_attention", [](Page& self, const ActivationCache& cache) { self.add_attention(cache); },
      nb::arg("cache"));
  adds("add_heat_map", &Page::add_heat_map, nb::arg("grid"));
  adds("add_bars", &Page::add_bars, nb::arg("grid"));
  adds("add_picture", &Page::add_picture, nb::arg("svg"));
  define(
      page, "add_features", "Page::add_features",
      [](Page& self, const ActivationCache& cache, Like<Address> features, std::int64_t top_k,
         const FeatureExamples& examples,
         FiringOptions which) { self.add_features(cache, features.take(), which, top_k, examples); },
      nb::arg("cache"), nb::arg("features"), nb::arg("top_k") = 5, nb::arg("examples") = FeatureExamples());
}

}  // namespace

void bind_pages(nb::module_& module) {
  bind_struct<SectionCode>(module);
  bind_struct<PageSection>(module);
  nb::class_<Page> page(module, "Page", documentation("Page"));
  define(
      page, "__init__", "Page",
      [](Page* self, const HookedTransformer& model, const ActivationCache& cache, PageOptions options) {
        new (self) Page(model, cache, options);
      },
      nb::arg("model"), nb::arg("cache"));
  bind_figures(page);
  page.def("sections", &Page::sections, documentation("Page::sections"))
      .def("html", &Page::html, ReleaseGil(), documentation("Page::html"))
      .def("_repr_html_", &in_a_frame)
      .def(
          "save",
          [](const Page& self, const std::filesystem::path& file, Like<Overwrite> overwrite) {
            self.save(file, overwrite.take());
          },
          nb::arg("file"), nb::kw_only(), nb::arg("overwrite") = "ours", documentation("Page::save"))
      .def_static(
          "require_can_save",
          [](const std::filesystem::path& file, Like<Overwrite> overwrite) {
            Page::require_can_save(file, overwrite.take());
          },
          nb::arg("file"), nb::kw_only(), nb::arg("overwrite") = "ours",
          documentation("Page::require_can_save"))
      .def("__repr__",
           [](const Page& self) { return fmt::format("Page of {} sections", self.sections().size()); });
  define(
      module, "report", "report",
      [](const HookedTransformer& model, Like<Prompt> prompt, ReportOptions options) {
        return report(model, prompt.take(), options);
      },
      nb::arg("model"), nb::arg("prompt"));
}

}  // namespace hooked::python
