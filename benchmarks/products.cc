// How fast is a layer's product, and its gradient, with weights stored as the engine stores them, against
// LibTorch's with plain weights?
//
// Arguments: rows, inputs, outputs. Weights are cold: products take turns on copies that no cache holds
// together.

#include <ATen/ops/addmm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <benchmark/benchmark.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "models/storage/matrix.h"
#include "models/storage/product.h"
#include "models/storage/workspace.h"

namespace {

constexpr std::int64_t kColdBytes = std::int64_t{160} << 20;

enum class Weights { ours, plain, unembedding };

struct Layer {
  Layer(const benchmark::State& state, at::ScalarType dtype, Weights weights)
      : x(at::randn({state.range(0), state.range(1)}).to(dtype)),
        bias(at::randn({state.range(2)}).to(dtype)),
        out(at::zeros({state.range(0), state.range(2)}, dtype)) {
    const std::int64_t in = state.range(1), outs = state.range(2);
    const std::int64_t bytes = in * outs * static_cast<std::int64_t>(at::elementSize(dtype));
    const at::Tensor numbers = at::randn({outs, in}).to(dtype);
    for (std::int64_t made = 0; made < kColdBytes || made == 0; made += bytes) {
      matrices.emplace_back(outs, in,
                            hooked::Matrix::Groups{.out = weights == Weights::ours ? outs : 1, .in = in},
                            at::TensorOptions(dtype),
                            weights == Weights::ours ? hooked::Storage::fastest : hooked::Storage::plain);
      matrices.back().as_out_in().write(numbers);
      rows.push_back(weights == Weights::unembedding ? matrices.back().plain().contiguous() : at::Tensor());
    }
  }

  at::Tensor x, bias, out;
  std::vector<hooked::Matrix> matrices;
  std::vector<at::Tensor> rows;  ///< the same by rows
};

void report(benchmark::State& state, const Layer& layer) {
  const auto products = static_cast<double>(state.iterations());
  state.counters["GB_weights"] =
      benchmark::Counter(products * static_cast<double>(layer.matrices.front().stored().nbytes()) / 1e9,
                         benchmark::Counter::kIsRate);
  state.counters["GFLOP"] =
      benchmark::Counter(products * 2e-9 * static_cast<double>(layer.x.numel() * layer.out.size(1)),
                         benchmark::Counter::kIsRate);
}

void ours(benchmark::State& state, at::ScalarType dtype) {
  Layer layer(state, dtype, Weights::ours);
  std::size_t turn = 0;
  for (auto _ : state)
    layer.matrices[turn++ % layer.matrices.size()].multiply_into(layer.out, layer.x, layer.bias);
  report(state, layer);
}

// The product of a backward pass: rows of outputs times the matrix itself.
void ours_back(benchmark::State& state, at::ScalarType dtype) {
  Layer layer(state, dtype, Weights::ours);
  const hooked::Workspace memory;
  std::size_t turn = 0;
  for (auto _ : state)
    layer.matrices[turn++ % layer.matrices.size()].multiply_back_into(layer.x, layer.out, memory);
  report(state, layer);
}

// LibTorch's on the plain matrix in the layout it was kept in before.
void libtorch(benchmark::State& state, at::ScalarType dtype) {
  Layer layer(state, dtype, Weights::plain);
  std::size_t turn = 0;
  for (auto _ : state) {
    const at::Tensor weight = layer.matrices[turn++ % layer.matrices.size()].plain();
    at::addmm_out(layer.out, layer.bias, layer.x, weight.t());
  }
  report(state, layer);
}

void unembedding(benchmark::State& state, at::ScalarType dtype) {
  Layer layer(state, dtype, Weights::unembedding);
  layer.out = layer.out.to(at::kFloat);
  std::size_t turn = 0;
  for (auto _ : state)
    hooked::sums_into(layer.out, layer.x, layer.rows[turn++ % layer.rows.size()], layer.bias);
  report(state, layer);
}

void layers(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "in", "out"})->UseRealTime();
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 128, 512}) {
    for (const auto& [in, out] : {std::pair{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}}) {
      benchmark->Args({rows, in, out});
    }
  }
}

void vocabulary(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"rows", "in", "out"})->UseRealTime();
  for (const std::int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 512}) benchmark->Args({rows, 768, 50257});
}

BENCHMARK_CAPTURE(ours, float32, at::kFloat)->Apply(layers);
BENCHMARK_CAPTURE(ours_back, float32, at::kFloat)->Apply(layers);
BENCHMARK_CAPTURE(libtorch, float32, at::kFloat)->Apply(layers);
BENCHMARK_CAPTURE(ours, bfloat16, at::kBFloat16)->Apply(layers);
BENCHMARK_CAPTURE(ours_back, bfloat16, at::kBFloat16)->Apply(layers);
BENCHMARK_CAPTURE(libtorch, bfloat16, at::kBFloat16)->Apply(layers);
BENCHMARK_CAPTURE(unembedding, float32, at::kFloat)->Apply(vocabulary);
BENCHMARK_CAPTURE(unembedding, bfloat16, at::kBFloat16)->Apply(vocabulary);

}  // namespace

BENCHMARK_MAIN();
