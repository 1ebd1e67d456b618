// What does watching cost? A plain run against one that keeps every default point, one observer, one edit.
//
// The kept cache lives until the end of the timed region, as it does for a user who reads it.
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <vector>

#include "shapes.h"

namespace {

namespace act = hooked::act;

at::Tensor tokens_for(const benchmark::State& state) {
  return at::randint(0, gpt2_small().config().d_vocab, {state.range(0), state.range(1)}, at::kLong);
}

void plain(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run(tokens));
}

void every_default_point(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run_with_cache(tokens));
}

void residual_stream(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run_with_cache(tokens, act::resid_post));
}

void one_observer(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        gpt2_small().run_with_hooks(tokens, {hooked::Hook(act::resid_post(6), [](const at::Tensor&) {})}));
  }
}

void one_edit(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(gpt2_small().run(tokens, {.edits = {hooked::zero(act::z(6).head(3))}}));
  }
}

// Each head's output in the stream's coordinates, which a plain run does not compute.
void head_results(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run_with_cache(tokens, act::result));
}

// One head reads another query input in every layer.
void split_inputs_edited(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  std::vector<hooked::Edit> edits;
  for (int layer = 0; layer < 12; ++layer) edits.push_back(hooked::scale(act::q_input(layer).head(3), 0.5));
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run(tokens, {.edits = edits}));
}

// A short run after a long one that left its memory, with the pages that it faults in.
void short_after_long(benchmark::State& state) {
  const at::Tensor longer = at::randint(0, gpt2_small().config().d_vocab, {1, 1024}, at::kLong);
  const at::Tensor tokens = tokens_for(state);
  gpt2_small().run(longer);
  gpt2_small().run(tokens);
  const auto faults = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_minflt);
  };
  const double before = faults();
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run(tokens));
  state.counters["page_faults"] = benchmark::Counter(faults() - before, benchmark::Counter::kAvgIterations);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1, 16})->Args({1, 128})->Args({4, 128})->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(plain)->Apply(sizes);
BENCHMARK(every_default_point)->Apply(sizes);
BENCHMARK(residual_stream)->Apply(sizes);
BENCHMARK(one_observer)->Apply(sizes);
BENCHMARK(one_edit)->Apply(sizes);
BENCHMARK(head_results)->Apply(sizes);
BENCHMARK(split_inputs_edited)->Apply(sizes);
BENCHMARK(short_after_long)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
