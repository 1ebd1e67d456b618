// Positions, answers and pairs of prompts.
#include "python/src/bind.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_positions(nb::module_& module) {
  nb::class_<Position>(module, "Position", documentation("Position"))
      .def(
          "__init__", [](Position* self, Like<Position> place) { new (self) Position(place.take()); },
          nb::arg("place"))
      .def(nb::init<std::string, std::vector<std::int64_t>>(), nb::arg("name"), nb::arg("columns"))
      .def_static("last", &Position::last, documentation("Position::last"))
      .def("label", &Position::label, documentation("Position::label"))
      .def("columns", &Position::columns, nb::arg("rows"), nb::arg("tokens"),
           documentation("Position::columns"))
      .def("column_in", &Position::column_in, nb::arg("row"), nb::arg("rows"), nb::arg("tokens"),
           documentation("Position::column_in"))
      .def("of_rows", &Position::of_rows, nb::arg("rows"), documentation("Position::of_rows"))
      .def("column", &Position::column, documentation("Position::column"))
      .def("named_columns", &Position::named_columns, documentation("Position::named_columns"))
      .def("is_last", &Position::is_last, documentation("Position::is_last"))
      .def("__repr__", [](const Position& self) { return "Position(" + self.label() + ")"; })
      .def("__eq__", [](const Position& self, const Position& other) { return self == other; })
      .def(
          "__eq__", [](const Position&, nb::handle) { return false; }, nb::arg().none());
}

void bind_answers(nb::module_& module) {
  nb::class_<Answers>(module, "Answers", documentation("Answers"))
      .def(
          "__init__", [](Answers* self, Like<Answers> answer) { new (self) Answers(answer.take()); },
          nb::arg("answer"))
      .def_static("any_of", &Answers::any_of, nb::arg("tokens"), documentation("Answers::any_of"))
      .def_static("by_row", &Answers::by_row, nb::arg("tokens"), documentation("Answers::by_row"))
      .def_static("sets_by_row", &Answers::sets_by_row, nb::arg("sets"),
                  nb::arg("texts") = std::vector<std::vector<std::string>>(),
                  documentation("Answers::sets_by_row"))
      .def_static("texts_by_row", &Answers::texts_by_row, nb::arg("texts"),
                  documentation("Answers::texts_by_row"))
      .def("in_", &Answers::in, nb::arg("model"), documentation("Answers::in_"))
      .def("texts", &Answers::texts, documentation("Answers::texts"))
      .def("rows", &Answers::rows, documentation("Answers::rows"))
      .def(
          "of_row", [](const Answers& self, std::int64_t row) { return self.of_row(row); }, nb::arg("row"),
          documentation("Answers::of_row"))
      .def("of_rows", &Answers::of_rows, nb::arg("rows"), documentation("Answers::of_rows"))
      .def("require_fit", &Answers::require_fit, nb::arg("rows"), nb::arg("vocab"), nb::arg("where"),
           documentation("Answers::require_fit"))
      .def("__eq__", [](const Answers& self, const Answers& other) { return self == other; })
      .def(
          "__eq__", [](const Answers&, nb::handle) { return false; }, nb::arg().none());
}

void bind_pairs(nb::module_& module) {
  bind_struct<PlaceOfPair>(module);
  bind_struct<PromptPair>(module);
  nb::class_<PromptPairs> pairs(module, "PromptPairs", documentation("PromptPairs"));
  define(
      pairs, "__init__", "PromptPairs",
      [](PromptPairs* self, const HookedTransformer& model, Like<std::vector<PromptPair>> given,
         PromptPairOptions options) { new (self) PromptPairs(model, given.take(), options); },
      nb::arg("model"), nb::arg("pairs"));
  StaticScope scope{pairs};
  define(
      scope, "load", "PromptPairs::load",
      [](const HookedTransformer& model, const std::filesystem::path& file, PromptPairOptions options) {
        return PromptPairs::load(model, file, options);
      },
      nb::arg("model"), nb::arg("file"));
  const auto fact = [&](const char* name, auto function) {
    pairs.def_prop_ro(name, function, documentation(std::string("PromptPairs::") + name));
  };
  fact("pairs", [](const PromptPairs& self) { return self.pairs(); });
  fact("clean", [](const PromptPairs& self) { return self.clean(); });
  fact("corrupted", [](const PromptPairs& self) { return self.corrupted(); });
  fact("size", &PromptPairs::size);
  pairs.def("__len__", &PromptPairs::size)
      .def("answers", &PromptPairs::answers, documentation("PromptPairs::answers"))
      .def("against", &PromptPairs::against, documentation("PromptPairs::against"))
      .def("place_names", &PromptPairs::place_names, documentation("PromptPairs::place_names"))
      .def("clean_place", &PromptPairs::clean_place, nb::arg("name"),
           documentation("PromptPairs::clean_place"))
      .def("corrupted_place", &PromptPairs::corrupted_place, nb::arg("name"),
           documentation("PromptPairs::corrupted_place"))
      .def("require_same_columns", &PromptPairs::require_same_columns, nb::arg("what"),
           documentation("PromptPairs::require_same_columns"));
  define_plain(module, "read_prompt_pairs", "read_prompt_pairs", &read_prompt_pairs, nb::arg("file"));
  define_plain(
      module, "write_prompt_pairs", "write_prompt_pairs",
      [](const std::filesystem::path& file, Like<std::vector<PromptPair>> given, Like<Overwrite> overwrite) {
        write_prompt_pairs(file, given.take(), overwrite.take());
      },
      nb::arg("file"), nb::arg("pairs"), nb::arg("overwrite") = "ours");
}

void bind_place_spelling(nb::module_& module) {
  bind_result<OtherSpelling>(module);
  define_plain(module, "other_spelling", "other_spelling", &other_spelling, nb::arg("model"),
               nb::arg("text"));
  define(
      module, "spelling_notes", "spelling_notes",
      [](const HookedTransformer& model, Like<ModelInput> input, Like<Metrics> metric, RunOptions options) {
        return spelling_notes(model, input.take().of(model), metric.take(), options);
      },
      nb::arg("model"), nb::arg("input"), nb::arg("metric"));
}

}  // namespace

void bind_analysis_places(nb::module_& module) {
  bind_positions(module);
  bind_answers(module);
  bind_pairs(module);
  bind_place_spelling(module);
}

}  // namespace hooked::python
