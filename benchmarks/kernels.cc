// What does one pass of ours cost against LibTorch's operators, and against a copy: tanh-GELU, norms with all
// that their points show, the rotation of queries, and the sum of the outputs of a mixture's experts?
//
//   bench_kernels --benchmark_filter='rotary'
//
// Widths are those of GPT-2-small, on one thread.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <benchmark/benchmark.h>

#include <algorithm>

#include "models/mlp/expert_rows.h"
#include "models/ops/activations.h"
#include "models/ops/norm_rows.h"
#include "models/sequence/rotary.h"
#include "models/storage/workspace.h"

namespace {

/// The case's number of tokens, in float32 or (1) bfloat16.
struct Rows {
  Rows(const benchmark::State& state, std::int64_t width)
      : dtype(state.range(1) == 0 ? at::kFloat : at::kBFloat16),
        x(at::randn({state.range(0), width}).to(dtype)),
        out(at::empty_like(x)) {}

  at::ScalarType dtype;
  at::Tensor x, out;
};

void gelu_ours(benchmark::State& state) {
  Rows rows(state, 3072);
  for (auto _ : state) hooked::ops::gelu_tanh_into(rows.out, rows.x);
}

void gelu_libtorch(benchmark::State& state) {
  Rows rows(state, 3072);
  for (auto _ : state) at::gelu_out(rows.out, rows.x, "tanh");
}

void gelu_copy(benchmark::State& state) {
  const Rows rows(state, 3072);
  for (auto _ : state) rows.out.copy_(rows.x);
}

struct Normed : Rows {
  explicit Normed(const benchmark::State& state)
      : Rows(state, 768),
        weight(at::randn({768}).to(dtype)),
        bias(at::randn({768}).to(dtype)),
        scale(at::empty({state.range(0), 1})),
        normalized(at::empty_like(x)) {}

  at::Tensor weight, bias, scale, normalized;
};

// Scale, normalized rows and weighted rows, as a watched norm shows them.
void layer_norm_ours(benchmark::State& state) {
  const Normed n(state);
  for (auto _ : state)
    hooked::norm_rows_into({.weighted = n.out, .normalized = n.normalized, .scale = n.scale}, n.x,
                           {.centred = true, .eps = 1e-5, .weight = n.weight, .bias = n.bias});
}

// The weighted rows alone, with mean and scale besides.
void layer_norm_libtorch(benchmark::State& state) {
  const Normed n(state);
  for (auto _ : state) benchmark::DoNotOptimize(at::native_layer_norm(n.x, {768}, n.weight, n.bias, 1e-5));
}

void rms_norm_ours(benchmark::State& state) {
  const Normed n(state);
  for (auto _ : state)
    hooked::norm_rows_into({.weighted = n.out, .normalized = n.normalized, .scale = n.scale}, n.x,
                           {.centred = false, .eps = 1e-5, .weight = n.weight});
}

void rms_norm_libtorch(benchmark::State& state) {
  const Normed n(state);
  for (auto _ : state) {
    const at::Tensor x = n.x.to(at::kFloat);
    const at::Tensor scale = (x.square().mean({-1}, true) + 1e-5).sqrt();
    benchmark::DoNotOptimize((x / scale).to(n.dtype) * n.weight);
  }
}

void norm_copy(benchmark::State& state) {
  const Rows rows(state, 768);
  for (auto _ : state) rows.out.copy_(rows.x);
}

/// Queries of 12 heads.
struct Queries : Rows {
  explicit Queries(const benchmark::State& state) : Rows(state, 768) {
    const auto angle = [&] { return at::randn({1, state.range(0), 1, 32}).to(dtype); };
    x = x.view({1, -1, 12, 64});
    out = out.view({1, -1, 12, 64});
    angles = {angle(), angle()};
  }

  hooked::RotaryAngles angles;
  hooked::RotaryPositions rotary = {};
};

void rotary_ours(benchmark::State& state) {
  const Queries q(state);
  for (auto _ : state) hooked::rotate_into(q.out, q.x, q.angles, q.rotary);
}

void rotary_libtorch(benchmark::State& state) {
  const Queries q(state);
  for (auto _ : state) benchmark::DoNotOptimize(hooked::rotate(q.x, q.angles, q.rotary));
}

/// The outputs of 4 of 32 experts for each token.
struct Experts : Rows {
  explicit Experts(const benchmark::State& state) : Rows(state, 768) {
    const std::int64_t tokens = x.size(0), of_an_expert = std::max<std::int64_t>(tokens / 8, 1);
    rows = {.tokens = tokens,
            .ranks = 4,
            .d_model = 768,
            .places = at::randperm(4 * tokens, at::kLong),
            .written = {}};
    for (std::int64_t first = 0; first < 4 * tokens; first += of_an_expert) {
      rows.written.push_back(at::randn({of_an_expert, 768}).to(dtype));
    }
    weights = at::rand({tokens, 4}).to(dtype);
  }

  hooked::ExpertRows rows;
  at::Tensor weights;
};

void experts_ours(benchmark::State& state) {
  const Experts e(state);
  const hooked::Workspace workspace;
  for (auto _ : state) benchmark::DoNotOptimize(hooked::weighted_sum(e.rows, e.weights, {&workspace}));
}

void experts_libtorch(benchmark::State& state) {
  const Experts e(state);
  for (auto _ : state) benchmark::DoNotOptimize(hooked::weighted_sum(e.rows, e.weights, {nullptr}));
}

void cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{1, 16, 128, 1024}, {0, 1}})
      ->ArgNames({"tokens", "bfloat16"})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK(gelu_ours)->Apply(cases);
BENCHMARK(gelu_libtorch)->Apply(cases);
BENCHMARK(gelu_copy)->Apply(cases);
BENCHMARK(layer_norm_ours)->Apply(cases);
BENCHMARK(layer_norm_libtorch)->Apply(cases);
BENCHMARK(rms_norm_ours)->Apply(cases);
BENCHMARK(rms_norm_libtorch)->Apply(cases);
BENCHMARK(norm_copy)->Apply(cases);
BENCHMARK(rotary_ours)->Apply(cases);
BENCHMARK(rotary_libtorch)->Apply(cases);
BENCHMARK(experts_ours)->Apply(cases);
BENCHMARK(experts_libtorch)->Apply(cases);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  at::set_num_threads(1);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
