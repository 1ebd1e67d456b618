// What does watching cost? A plain run beside one that keeps every default point, one observer, one edit.
//
// The kept cache lives until the end of the timed region, as it does for a user who reads it.
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>

#include "gpt2_small.h"

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

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1, 16})->Args({1, 128})->Args({4, 128})->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(plain)->Apply(sizes);
BENCHMARK(every_default_point)->Apply(sizes);
BENCHMARK(residual_stream)->Apply(sizes);
BENCHMARK(one_observer)->Apply(sizes);
BENCHMARK(one_edit)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
