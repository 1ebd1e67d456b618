// What does picking a token cost, by kind of sampling and size of the vocabulary?
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

#include "hooked/engine/generate_options.h"

namespace {

void pick(benchmark::State& state, const hooked::SamplingOptions& options) {
  const at::Tensor logits = at::randn({1, state.range(0)}).mul_(4);
  for (auto _ : state) benchmark::DoNotOptimize(hooked::sampling_logits(logits, {}, options));
}

void top_k(benchmark::State& state) { pick(state, {.top_k = 50}); }
void top_p(benchmark::State& state) { pick(state, {.top_p = 0.9}); }
void min_p(benchmark::State& state) { pick(state, {.min_p = 0.1}); }

void vocabularies(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(50257)->Arg(128256)->Unit(benchmark::kMillisecond);
}

BENCHMARK(top_k)->Apply(vocabularies);
BENCHMARK(top_p)->Apply(vocabularies);
BENCHMARK(min_p)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
