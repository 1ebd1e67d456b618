// What runs show: lenses, attention heads and repetition.
#include "python/src/analysis.h"
#include "python/src/module.h"

namespace hooked::python {
namespace {

void bind_lens(nb::module_& module) {
  nb::class_<LensMaps> maps = bind_struct<LensMaps>(module);
  bind_struct<LensMaps::Map>(maps, "Map")
      .def(
          "__call__", [](const LensMaps::Map& self, const at::Tensor& x) { return self(x); }, nb::arg("x"),
          documentation("LensMaps::Map::operator()"));
  maps.def_static("load", &LensMaps::load, nb::arg("file_or_folder"), ReleaseGil(),
                  documentation("LensMaps::load"));
  nb::class_<LogitLensRow> row = bind_result<LogitLensRow>(module);
  bind_result<LogitLensRow::Prediction>(row, "Prediction");
  row.def("__str__", &printed<LogitLensRow>);
  bind_result<LogitLens>(module).def("__str__", &printed<LogitLens>);
  of_cache(module, "logit_lens", &logit_lens);
}

void bind_head_score_table(nb::module_& module) {
  nb::enum_<HeadScore> score(module, "HeadScore", documentation("HeadScore"));
  for (const HeadScoreRow& row : head_score_rows())
    score.value(std::string(row.name).c_str(), row.score, std::string(row.says).c_str());
  bind_enum<HeadScoreKind>(module);
  bind_result<HeadScoreRow>(module);
  module.def(
      "head_score_rows",
      [] {
        const auto rows = head_score_rows();
        return std::vector<HeadScoreRow>(rows.begin(), rows.end());
      },
      documentation("head_score_rows"));
  module.def(
      "head_score_row", [](Like<HeadScore> score) { return head_score_row(score.take()); }, nb::arg("score"),
      documentation("head_score_row"));
}

void bind_heads(nb::module_& module) {
  bind_head_score_table(module);
  bind_enum<HeadMeasure>(module);
  bind_enum<HeadRows>(module);
  bind_struct<HeadScoreOptions>(module);
  define(
      module, "head_scores", "head_scores",
      [](const ActivationCache& cache, const at::Tensor& pattern, HeadScoreOptions options) {
        return head_scores(cache, pattern, options);
      },
      nb::arg("cache"), nb::arg("pattern"));
  define(
      module, "head_scores", "head_scores",
      [](const ActivationCache& cache, Like<HeadScore> score, HeadScoreOptions options) {
        return head_scores(cache, score.take(), options);
      },
      nb::arg("cache"), nb::arg("score"));
  bind_result<HeadRunsReport>(module);
  define(
      module, "head_scores_report", "head_scores_report",
      [](const HookedTransformer& model, Like<ModelInput> input, HeadRunsOptions options) {
        return head_scores_report(model, input.take().of(model), options);
      },
      nb::arg("model"), nb::arg("input"));
  define_plain(
      module, "attention_grid", "attention_grid",
      [](const HookedTransformer& model, const ActivationCache& cache, Like<Address> attention) {
        return attention_grid(model, cache, attention.take());
      },
      nb::arg("model"), nb::arg("cache"), nb::arg("attention"));
}

void bind_repetition(nb::module_& module) {
  bind_struct<RepeatedTokensOptions>(module);
  define(module, "repeated_random_tokens", "repeated_random_tokens",
         [](RepeatedTokensOptions options) { return repeated_random_tokens(options); });
  define_plain(
      module, "repeated_random_tokens", "repeated_random_tokens",
      [](const RepeatedTokensOptions& options) { return repeated_random_tokens(options); },
      nb::arg("options"));
  define_plain(module, "repeated_tokens_of", "repeated_tokens_of", &repeated_tokens_of, nb::arg("model"));
  bind_result<RepetitionScores>(module);
  define(
      module, "repetition_scores", "repetition_scores",
      [](const HookedTransformer& model, Like<RepeatedTokensOptions> options,
         Given<ProgressFunction> progress, RunOptions run) {
        ProgressFunction shown;
        put_progress(shown);
        progress.put(shown);
        return repetition_scores(model, options.take(), run, shown);
      },
      nb::arg("model"), nb::arg("options"), nb::kw_only(), nb::arg("progress") = nb::none());
}

}  // namespace

void bind_analysis_reading(nb::module_& module) {
  bind_lens(module);
  bind_heads(module);
  bind_repetition(module);
}

}  // namespace hooked::python
