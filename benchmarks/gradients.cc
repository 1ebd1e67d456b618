// What does a run with gradients cost against a plain run over the same rows? Attribution patching: gradients
// of one position's logits at the stream before every layer, or at the usual points. The time is that of the
// gradient run; `ratio` is that over a plain run of the same tokens, `ratio_to_one_row` over one of the first
// row only, both by medians of runs in turn.
//
//   bench_gradients --benchmark_filter='attribution/gpt2_small'
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shapes.h"
#include "timing.h"

namespace {

namespace act = hooked::act;

double page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt);
}

void gradients(benchmark::State& state, const hooked::HookedTransformer& model, const at::Tensor& tokens,
               const hooked::Selection& points) {
  const hooked::RunOptions options{
      .capture = points,
      .logit_positions = {{-1}},
      .gradients =
          hooked::GradientRequest{.of = points, .metric = {[](const at::Tensor& logits) {
                                                  const at::Tensor last = logits.select(1, -1);
                                                  return (last.select(-1, 11) - last.select(-1, 12)).sum();
                                                }}}};
  const at::Tensor row = tokens.narrow(0, 0, 1);
  std::vector<double> with, plain, one_row;
  double faults = 0;
  const auto run = [&] { benchmark::DoNotOptimize(model.run(tokens, options)); };
  run();
  for (auto _ : state) {
    one_row.push_back(seconds_of([&] { benchmark::DoNotOptimize(model.run(row)); }));
    plain.push_back(seconds_of([&] { benchmark::DoNotOptimize(model.run(tokens)); }));
    const double before = page_faults();
    with.push_back(seconds_of(run));
    faults += page_faults() - before;
    state.SetIterationTime(with.back());
  }
  state.counters["ratio"] = median(with) / median(plain);
  state.counters["ratio_to_one_row"] = median(with) / median(one_row);
  state.counters["page_faults"] = benchmark::Counter(faults, benchmark::Counter::kAvgIterations);
}

void register_cases() {
  const std::vector<std::pair<std::string, hooked::Selection>> questions = {{"attribution", act::resid_pre},
                                                                            {"defaults", act::defaults}};
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {{1, 128}, {2, 16}, {2, 128}};
  for (const Shape& shape : {shapes::kGpt2Small, shapes::kLlama}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      for (const auto& [question, points] : questions) {
        for (const auto& [rows, columns] : sizes) {
          const auto name = question + "/" + shape.name + "/" +
                            (dtype == at::kFloat ? "float32" : "bfloat16") + "/" + std::to_string(rows) +
                            "x" + std::to_string(columns);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [=, points = points, rows = rows, columns = columns](benchmark::State& state) {
                const hooked::HookedTransformer& model = model_of(shape, dtype);
                gradients(state, model, at::randint(0, model.config().d_vocab, {rows, columns}, at::kLong),
                          points);
              })
              ->UseManualTime()
              ->Unit(benchmark::kMillisecond);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_cases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
