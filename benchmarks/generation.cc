// What does a new token cost, and what do capturing and steering add to it?
//
// Times are those of 32 steps after a prompt of 32 tokens; the prompt's own run is not counted. `latents`
// are steps of latent attention after the number of tokens in the first argument, in float32 and bfloat16,
// with what is cached of a token in all layers; `keys_and_values` is the same with an edit of a value, which
// the steps do not reach but which makes keys and values be cached.
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>

#include <chrono>
#include <ctime>

#include "shapes.h"

namespace {

namespace act = hooked::act;

constexpr std::int64_t kPrompt = 32;
constexpr std::int64_t kSteps = 32;

void generate(benchmark::State& state, const hooked::HookedTransformer& model, const at::Tensor& prompt,
              hooked::GenerateOptions options) {
  using Clock = std::chrono::steady_clock;
  options.max_new_tokens = kSteps + 1;
  options.sampling.greedy = true;
  double processor_seconds = 0;
  for (auto _ : state) {
    Clock::time_point begin;
    std::clock_t processor_begin = 0;
    bool begun = false;
    options.on_tokens = [&](const at::Tensor&) {
      if (!begun) {
        begin = Clock::now();
        processor_begin = std::clock();
      }
      begun = true;
      return true;
    };
    benchmark::DoNotOptimize(model.generate(prompt, options));
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    processor_seconds += static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC;
  }
  state.SetItemsProcessed(state.iterations() * kSteps * prompt.size(0));
  state.counters["processor_ms_a_step"] =
      1000 * processor_seconds / static_cast<double>(state.iterations() * kSteps);
}

void generate(benchmark::State& state, const hooked::GenerateOptions& options) {
  const auto vocabulary = gpt2_small().config().d_vocab;
  generate(state, gpt2_small(), at::randint(0, vocabulary, {state.range(0), kPrompt}, at::kLong), options);
}

void plain(benchmark::State& state) { generate(state, {}); }
void residual_stream(benchmark::State& state) { generate(state, {.capture = act::resid_post}); }
void every_default_point(benchmark::State& state) { generate(state, {.capture = act::defaults}); }
void one_steering_edit(benchmark::State& state) {
  generate(state, {.edits = {hooked::add(act::resid_post(6), 0.1)}});
}

void behind(benchmark::State& state, const std::vector<hooked::Edit>& edits) {
  const auto& model = model_of(shapes::kLatent, state.range(1) == 0 ? at::kFloat : at::kBFloat16);
  const at::Tensor prompt = at::randint(0, model.config().d_vocab, {1, state.range(0)}, at::kLong);
  generate(state, model, prompt, {.edits = edits});
  const auto kept = model.run(prompt, {.edits = edits, .output = hooked::Output::none, .keep_prefix = true});
  state.counters["bytes_of_a_token"] = static_cast<double>(kept.prefix->bytes() / state.range(0));
}

void latents(benchmark::State& state) { behind(state, {}); }
void keys_and_values(benchmark::State& state) {
  std::vector<hooked::Edit> edits;
  for (int layer = 0; layer < config_of(shapes::kLatent).n_layers; ++layer) {
    edits.push_back(hooked::scale(act::v(layer).pos(0), 0.5));
  }
  behind(state, edits);
}

void lengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgsProduct({{512, 2048, 4096}, {0, 1}})
      ->ArgNames({"past", "bfloat16"})
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime();
}

void rows(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond)->UseManualTime();
}

BENCHMARK(plain)->Apply(rows);
BENCHMARK(residual_stream)->Apply(rows);
BENCHMARK(every_default_point)->Apply(rows);
BENCHMARK(one_steering_edit)->Apply(rows);
BENCHMARK(latents)->Apply(lengths);
BENCHMARK(keys_and_values)->Apply(lengths);

}  // namespace

BENCHMARK_MAIN();
