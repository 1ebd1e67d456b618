// What does picking a token cost, by kind of sampling and size of the vocabulary? `greedy` and `drawn` are
// all that a step does after its logits, with the logarithm of the token's probability.
#include "engine/sampling.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
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

void step(benchmark::State& state, const hooked::SamplingOptions& options) {
  const at::Tensor logits = at::randn({1, state.range(0)}).mul_(4);
  hooked::Sampler sampler(options, at::zeros({1, 1}, at::kLong), {}, state.range(0));
  const hooked::TokenRules none;
  const hooked::RuledTokens rules(none, {{}}, {.stop_tokens = {}, .max_new_tokens = 1});
  for (auto _ : state) benchmark::DoNotOptimize(sampler.pick(logits, rules));
}

void greedy(benchmark::State& state) { step(state, {.greedy = true}); }
void drawn(benchmark::State& state) { step(state, {.temperature = 0.7}); }

void vocabularies(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(50257)->Arg(128256)->Unit(benchmark::kMillisecond);
}

BENCHMARK(top_k)->Apply(vocabularies);
BENCHMARK(top_p)->Apply(vocabularies);
BENCHMARK(min_p)->Apply(vocabularies);
BENCHMARK(greedy)->Apply(vocabularies);
BENCHMARK(drawn)->Apply(vocabularies);

}  // namespace

BENCHMARK_MAIN();
