// Circuits from weights alone: factored matrices, composition, virtual weights, directions.
#include "python/src/analysis.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_factored_matrix(nb::module_& module) {
  bind_result<SingularValues>(module);
  nb::class_<FactoredMatrix> matrix(module, "FactoredMatrix", documentation("FactoredMatrix"));
  matrix.def(nb::init<at::Tensor, at::Tensor>(), nb::arg("A"), nb::arg("B"));
  const auto fact = [&](const char* name, auto function) {
    matrix.def_prop_ro(name, function, documentation(std::string("FactoredMatrix::") + name));
  };
  fact("A", [](const FactoredMatrix& self) { return at::Tensor(self.A()); });
  fact("B", [](const FactoredMatrix& self) { return at::Tensor(self.B()); });
  fact("AB", &FactoredMatrix::AB);
  fact("BA", &FactoredMatrix::BA);
  fact("sizes", &FactoredMatrix::sizes);
  fact("inner", &FactoredMatrix::inner);
  const auto method = [&](const char* name, auto function, const auto&... named) {
    matrix.def(name, function, named..., ReleaseGil(),
               documentation(std::string("FactoredMatrix::") + name));
  };
  method("t", &FactoredMatrix::t);
  method("svd", &FactoredMatrix::svd);
  method("eigenvalues", &FactoredMatrix::eigenvalues);
  method("norm", &FactoredMatrix::norm);
  method("make_even", &FactoredMatrix::make_even);
  method("collapse_l", &FactoredMatrix::collapse_l);
  method("collapse_r", &FactoredMatrix::collapse_r);
  method("unsqueeze", &FactoredMatrix::unsqueeze, nb::arg("axis"));
  method("rows", &FactoredMatrix::rows, nb::arg("begin"), nb::arg("end"));
  method("columns", &FactoredMatrix::columns, nb::arg("begin"), nb::arg("end"));
  method("row", &FactoredMatrix::row, nb::arg("index"));
  method("column", &FactoredMatrix::column, nb::arg("index"));
  method("at", &FactoredMatrix::at, nb::arg("row"), nb::arg("column"));
  method("mv", &FactoredMatrix::mv, nb::arg("vector"));
  method("vm", &FactoredMatrix::vm, nb::arg("vector"));
  matrix
      .def("__getitem__", &FactoredMatrix::operator[], nb::arg("index"), ReleaseGil(),
           documentation("FactoredMatrix::operator[]"))
      .def("__mul__", [](const FactoredMatrix& self, double factor) { return self * factor; })
      .def("__rmul__", [](const FactoredMatrix& self, double factor) { return self * factor; })
      .def("__repr__", [](const FactoredMatrix& self) {
        return "FactoredMatrix of " + shape_text(self.sizes()) + ", inner " + std::to_string(self.inner());
      });
}

template <typename Left, typename Right>
FactoredMatrix product(const Left& left, const Right& right) {
  return matmul(left, right);
}

void bind_products(nb::module_& module) {
  const auto matrix = nb::borrow<nb::class_<FactoredMatrix>>(module.attr("FactoredMatrix"));
  auto operators = matrix;
  operators.def("__matmul__", &product<FactoredMatrix, FactoredMatrix>, ReleaseGil())
      .def("__matmul__", &product<FactoredMatrix, at::Tensor>, ReleaseGil())
      .def(
          "__rmatmul__",
          [](const FactoredMatrix& right, const at::Tensor& left) { return matmul(left, right); },
          ReleaseGil());
  const auto function = [&](auto make) {
    define_plain(module, "matmul", "matmul", make, nb::arg("left"), nb::arg("right"));
  };
  function(&product<FactoredMatrix, FactoredMatrix>);
  function(&product<FactoredMatrix, at::Tensor>);
  function(&product<at::Tensor, FactoredMatrix>);
}

void bind_head_circuits(nb::module_& module) {
  bind_struct<CircuitOptions>(module);
  of_model(module, "ov_circuits", &ov_circuits);
  of_model(module, "qk_circuits", &qk_circuits);
  bind_result<CompositionScores>(module);
  define(
      module, "composition_scores", "composition_scores",
      [](const HookedTransformer& model, Like<HeadInput> input, CompositionOptions options) {
        return composition_scores(model, input.take(), options);
      },
      nb::arg("model"), nb::arg("input"));
  bind_result<CopyingScores>(module);
  of_model(module, "copying_scores", &copying_scores);
}

void bind_full_circuits(nb::module_& module) {
  bind_enum<CircuitEnd>(module);
  define(
      module, "full_qk_circuit", "full_qk_circuit",
      [](const HookedTransformer& model, Like<HeadPlace> head, FullQkOptions options) {
        return full_qk_circuit(model, head.take(), options);
      },
      nb::arg("model"), nb::arg("head"));
  define(
      module, "full_ov_circuit", "full_ov_circuit",
      [](const HookedTransformer& model, Like<HeadPlace> head, Like<CircuitEnd> from,
         CircuitOptions options) { return full_ov_circuit(model, head.take(), from.take(), options); },
      nb::arg("model"), nb::arg("head"), nb::arg("from_") = "token");
  define(
      module, "qk_circuits_at", "qk_circuits_at",
      [](const HookedTransformer& model, Like<HeadPlace> head, std::vector<std::int64_t> distances,
         QkAtOptions options) { return qk_circuits_at(model, head.take(), distances, options); },
      nb::arg("model"), nb::arg("head"), nb::arg("distances"));
  of_model(module, "position_biases", &position_biases);
}

void bind_virtual_weights(nb::module_& module) {
  bind_enum<StreamMatrix>(module);
  bind_struct<StreamPart>(module)
      .def("writes", &StreamPart::writes, documentation("StreamPart::writes"))
      .def("text", &StreamPart::text, documentation("StreamPart::text"));
  define(
      module, "stream_matrix", "stream_matrix",
      [](const HookedTransformer& model, Like<StreamPart> part, CircuitOptions options) {
        return stream_matrix(model, part.take(), options);
      },
      nb::arg("model"), nb::arg("part"));
  define(
      module, "virtual_weights", "virtual_weights",
      [](const HookedTransformer& model, Like<StreamPart> writer, Like<StreamPart> reader,
         CircuitOptions options) { return virtual_weights(model, writer.take(), reader.take(), options); },
      nb::arg("model"), nb::arg("writer"), nb::arg("reader"));
  define_plain(module, "composition", "composition", &composition, nb::arg("left"), nb::arg("right"));
  bind_result<SubspaceOverlap>(module);
  define_plain(
      module, "subspace_overlap", "subspace_overlap",
      [](const at::Tensor& written, const at::Tensor& read) { return subspace_overlap(written, read); },
      nb::arg("written"), nb::arg("read"));
  define(
      module, "subspace_overlap", "subspace_overlap",
      [](const HookedTransformer& model, Like<StreamPart> writer, Like<StreamPart> reader,
         CircuitOptions options) { return subspace_overlap(model, writer.take(), reader.take(), options); },
      nb::arg("model"), nb::arg("writer"), nb::arg("reader"));
}

void bind_directions(nb::module_& module) {
  bind_enum<SingularOf>(module);
  nb::class_<SingularTokens> tokens = bind_result<SingularTokens>(module);
  bind_result<SingularTokens::Token>(tokens, "Token");
  bind_result<SingularDirections>(module).def("__str__", &printed<SingularDirections>);
  of_model(module, "singular_directions", &singular_directions);
  bind_result<Superposition>(module);
  define_plain(module, "superposition", "superposition", &superposition, nb::arg("directions"));
  define_plain(module, "welch_bound", "welch_bound", &welch_bound, nb::arg("features"), nb::arg("d"));
  define_plain(module, "pairwise_cosines", "pairwise_cosines", &pairwise_cosines, nb::arg("directions"));
  bind_result<ExpectedInterference>(module);
  define(
      module, "expected_interference", "expected_interference",
      [](const at::Tensor& directions, FeatureActivity activity) {
        return expected_interference(directions, activity);
      },
      nb::arg("directions"));
}

}  // namespace

void bind_analysis_weights(nb::module_& module) {
  bind_factored_matrix(module);
  bind_products(module);
  bind_head_circuits(module);
  bind_full_circuits(module);
  bind_virtual_weights(module);
  bind_directions(module);
}

}  // namespace hooked::python
