// What does a new token cost, and what do capturing and steering add to it?
//
// Times are those of 32 steps behind a prompt of 32 tokens; the prompt's own run is not counted.
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>

#include <chrono>

#include "shapes.h"

namespace {

namespace act = hooked::act;

constexpr std::int64_t kPrompt = 32;
constexpr std::int64_t kSteps = 32;

void generate(benchmark::State& state, hooked::GenerateOptions options) {
  using Clock = std::chrono::steady_clock;
  const at::Tensor prompt =
      at::randint(0, gpt2_small().config().d_vocab, {state.range(0), kPrompt}, at::kLong);
  options.max_new_tokens = kSteps + 1;
  options.sampling.greedy = true;
  for (auto _ : state) {
    Clock::time_point begin;
    bool begun = false;
    options.on_tokens = [&](const at::Tensor&) {
      if (!begun) begin = Clock::now();
      begun = true;
      return true;
    };
    benchmark::DoNotOptimize(gpt2_small().generate(prompt, options));
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  state.SetItemsProcessed(state.iterations() * kSteps * state.range(0));
}

void plain(benchmark::State& state) { generate(state, {}); }
void residual_stream(benchmark::State& state) { generate(state, {.capture = act::resid_post}); }
void every_default_point(benchmark::State& state) { generate(state, {.capture = act::defaults}); }
void one_steering_edit(benchmark::State& state) {
  generate(state, {.edits = {hooked::add(act::resid_post(6), 0.1)}});
}

void rows(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond)->UseManualTime();
}

BENCHMARK(plain)->Apply(rows);
BENCHMARK(residual_stream)->Apply(rows);
BENCHMARK(every_default_point)->Apply(rows);
BENCHMARK(one_steering_edit)->Apply(rows);

}  // namespace

BENCHMARK_MAIN();
