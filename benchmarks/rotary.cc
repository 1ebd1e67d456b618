// What does turning queries cost, in one pass of ours and by LibTorch's operators, beside a copy?
#include "models/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>

namespace {

/// Queries of 12 heads and a row of tokens, as long as the case says, in float32 or (1) bfloat16.
struct Queries {
  explicit Queries(const benchmark::State& state)
      : dtype(state.range(1) == 0 ? at::kFloat : at::kBFloat16),
        x(at::randn({1, state.range(0), 12, 64}).to(dtype)),
        angles{at::randn({1, state.range(0), 1, 32}).to(dtype),
               at::randn({1, state.range(0), 1, 32}).to(dtype)},
        out(at::empty_like(x)) {}

  at::ScalarType dtype;
  at::Tensor x;
  hooked::RotaryAngles angles;
  at::Tensor out;
  hooked::RotaryPositions rotary = {};
};

void one_pass(benchmark::State& state) {
  const Queries q(state);
  for (auto _ : state) hooked::rotate_into(q.out, q.x, q.angles, q.rotary);
}

void operators(benchmark::State& state) {
  const Queries q(state);
  for (auto _ : state) benchmark::DoNotOptimize(hooked::rotate(q.x, q.angles, q.rotary));
}

void copy(benchmark::State& state) {
  const Queries q(state);
  for (auto _ : state) q.out.copy_(q.x);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{1, 16, 128, 1024}, {0, 1}})
      ->ArgNames({"tokens", "bfloat16"})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK(one_pass)->Apply(sizes);
BENCHMARK(operators)->Apply(sizes);
BENCHMARK(copy)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
