// What does attribution by gradients cost against a plain run? All of it is counted: the run that values come
// from, the run with gradients, and the numbers of every head, sublayer and stream (`nodes`), or of all edges
// (`edges`). `ratio` is over a plain run with the same logit positions, by medians of runs in turn.
//
//   bench_attribution --benchmark_filter='nodes/gpt2_small'
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hooked/analysis/attribution_patching.h"
#include "hooked/analysis/edge_attribution.h"
#include "hooked/analysis/metric.h"
#include "shapes.h"
#include "timing.h"

namespace {

namespace act = hooked::act;

/// Two prompts and what is measured of them.
struct Question {
  const hooked::HookedTransformer& model;
  at::Tensor clean, corrupted;

  hooked::SweepOptions sweep(const hooked::Selection& kept) const {
    return {.from = model.run(clean, {.capture = kept, .output = hooked::Output::none}).cache,
            .into = corrupted,
            .metric = hooked::logit_difference(11, 12)};
  }
};

void nodes(const Question& of) {
  hooked::SweepOptions sweep = of.sweep(act::z | act::resid_pre | act::attn_out | act::mlp_out);
  for (std::int32_t layer = 0; layer < of.model.config().n_layers; ++layer) {
    for (std::int64_t head = 0; head < of.model.config().n_heads; ++head)
      sweep.table.push_back({act::z(layer).head(head)});
    sweep.table.push_back({act::resid_pre(layer)});
    sweep.table.push_back({act::attn_out(layer)});
    sweep.table.push_back({act::mlp_out(layer)});
  }
  benchmark::DoNotOptimize(hooked::attribution_patching(of.model, {.sweep = sweep}));
}

void edges(const Question& of) {
  const hooked::SweepOptions sweep = of.sweep(act::z | act::mlp_out | act::embed | act::pos_embed);
  benchmark::DoNotOptimize(hooked::edge_attribution(of.model, {.sweep = sweep}));
}

void measure(benchmark::State& state, const Question& of,
             const std::function<void(const Question&)>& attribute) {
  const hooked::RunOptions last{.logit_positions = {{-1}}};
  std::vector<double> attributed, plain;
  attribute(of);
  for (auto _ : state) {
    plain.push_back(seconds_of([&] { benchmark::DoNotOptimize(of.model.run(of.corrupted, last)); }));
    attributed.push_back(seconds_of([&] { attribute(of); }));
    state.SetIterationTime(attributed.back());
  }
  state.counters["ratio"] = median(attributed) / median(plain);
}

void register_cases() {
  const std::vector<std::pair<std::string, std::function<void(const Question&)>>> kinds = {{"nodes", nodes},
                                                                                           {"edges", edges}};
  for (const auto& [name, attribute] : kinds) {
    benchmark::RegisterBenchmark(
        (name + "/gpt2_small/float32/1x128").c_str(),
        [attribute = attribute](benchmark::State& state) {
          const hooked::HookedTransformer& model = model_of(shapes::kGpt2Small, at::kFloat);
          const auto draw = [&] { return at::randint(0, model.config().d_vocab, {1, 128}, at::kLong); };
          measure(state, {model, draw(), draw()}, attribute);
        })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
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
