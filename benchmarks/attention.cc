// What do kinds of attention cost that LibTorch's fused kernel does not support, and what does keeping
// patterns cost?
//
// Models of two layers with attention alone and GPT-2-small's widths, so that attention is most of the time.
// `causal` is the fused kernel, with which the others are compared.
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>

#include <cmath>

#include "shapes.h"

namespace {

using hooked::HookedTransformer;
using hooked::ModelConfig;

ModelConfig attention_only() {
  ModelConfig config;
  config.n_layers = 2;
  config.d_model = 768;
  config.n_ctx = 8192;
  config.n_heads = config.n_kv_heads = 12;
  config.d_head = 64;
  config.mlp = hooked::MlpKind::none;
  config.d_vocab = 100;
  config.unembedding = hooked::Unembedding{.d_vocab = config.d_vocab};
  config.attn_scale = 8.0;
  config.positions = hooked::NoPositions{};
  return config;
}

ModelConfig causal() { return attention_only(); }

ModelConfig soft_cap() {
  ModelConfig config = attention_only();
  config.score_soft_cap = 50.0;
  return config;
}

ModelConfig window() {
  ModelConfig config = attention_only();
  config.window = hooked::Window{.size = 256, .layers = {true, true}};
  return config;
}

ModelConfig in_bfloat16(ModelConfig config) {
  config.dtype = at::kBFloat16;
  return config;
}

ModelConfig window_in_bfloat16() { return in_bfloat16(window()); }

ModelConfig sinks() {
  ModelConfig config = attention_only();
  config.n_kv_heads = 3;
  config.attention_sinks = true;
  config.window = hooked::Window{.size = 128, .layers = {true, false}};
  return config;
}

ModelConfig alibi() {
  ModelConfig config = attention_only();
  config.positions = hooked::AlibiPositions{.slopes = hooked::geometric_alibi_slopes(config.n_heads)};
  return config;
}

ModelConfig relative() {
  ModelConfig config = attention_only();
  config.positions = hooked::RelativePositions{};
  return config;
}

// The widths of DeepSeek-V2-Lite.
ModelConfig latent() {
  ModelConfig config = attention_only();
  config.n_heads = config.n_kv_heads = 16;
  config.d_head = 192;
  config.attn_scale = std::sqrt(192.0);
  config.latent = hooked::Latents{.d_kv = 512, .d_shared_key = 64, .d_value = 128};
  config.positions = hooked::RotaryPositions{.dim = 64, .at_end = true};
  return config;
}

ModelConfig alibi_in_bfloat16() { return in_bfloat16(alibi()); }

at::Tensor tokens_for(const benchmark::State& state) {
  return at::randint(0, 100, {state.range(0), state.range(1)}, at::kLong);
}

template <ModelConfig kConfig()>
const HookedTransformer& model() {
  static const HookedTransformer kModel = HookedTransformer::create(kConfig());
  return kModel;
}

template <ModelConfig kConfig()>
void run(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(model<kConfig>().run(tokens, {.logit_positions = {{-1}}}));
}

// In the second half of the rows, a quarter is padding on the left.
template <ModelConfig kConfig()>
void padded(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  at::Tensor mask = at::ones(tokens.sizes(), at::kLong);
  mask.narrow(0, state.range(0) / 2, state.range(0) - state.range(0) / 2)
      .narrow(1, 0, state.range(1) / 4)
      .zero_();
  const hooked::Input input(tokens, {.attention_mask = mask});
  for (auto _ : state) benchmark::DoNotOptimize(model<kConfig>().run(input, {.logit_positions = {{-1}}}));
}

// Tokens that follow 1,024 others, whose keys are remembered.
template <ModelConfig kConfig()>
void after_prefix(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  const auto prefix =
      model<kConfig>().run(at::randint(0, 100, {1, 1024}, at::kLong), {.keep_prefix = true}).prefix;
  const hooked::Input input(tokens, {.prefix = prefix});
  for (auto _ : state) benchmark::DoNotOptimize(model<kConfig>().run(input));
}

// The whole model; attention is one part of it.
void gpt2(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state) benchmark::DoNotOptimize(gpt2_small().run(tokens, {.logit_positions = {{-1}}}));
}

void gpt2_pattern_kept(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(
        gpt2_small().run(tokens, {.capture = hooked::act::pattern, .logit_positions = {{-1}}}));
}

void gpt2_scores_and_pattern_kept(benchmark::State& state) {
  const at::Tensor tokens = tokens_for(state);
  for (auto _ : state)
    benchmark::DoNotOptimize(gpt2_small().run(
        tokens, {.capture = hooked::act::attn_scores | hooked::act::pattern, .logit_positions = {{-1}}}));
}

void longer(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1, 512})->Args({1, 2048})->Unit(benchmark::kMillisecond)->UseRealTime();
}

void watched_sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1, 128})->Args({4, 128})->Args({1, 1024})->Unit(benchmark::kMillisecond)->UseRealTime();
}

void batches(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({8, 64})->Args({4, 512})->Unit(benchmark::kMillisecond)->UseRealTime();
}

void few_tokens(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({1, 1})->Args({16, 1})->Args({4, 32})->Unit(benchmark::kMillisecond)->UseRealTime();
}

BENCHMARK(run<causal>)->Name("causal")->Apply(longer);
BENCHMARK(run<soft_cap>)->Name("soft_cap")->Apply(longer);
BENCHMARK(run<window>)->Name("window")->Apply(longer);
BENCHMARK(run<window_in_bfloat16>)->Name("window_in_bfloat16")->Apply(longer);
BENCHMARK(run<alibi_in_bfloat16>)->Name("alibi_in_bfloat16")->Apply(longer);
BENCHMARK(run<sinks>)->Name("sinks")->Apply(longer);
BENCHMARK(run<alibi>)->Name("alibi")->Apply(longer);
BENCHMARK(run<relative>)->Name("relative")->Apply(longer);
BENCHMARK(run<latent>)->Name("latent")->Apply(longer);
BENCHMARK(padded<causal>)->Name("causal_padded")->Apply(batches);
BENCHMARK(padded<relative>)->Name("relative_padded")->Apply(batches);
BENCHMARK(after_prefix<causal>)->Name("causal_after_prefix")->Apply(few_tokens);
BENCHMARK(after_prefix<window>)->Name("window_after_prefix")->Apply(few_tokens);
BENCHMARK(gpt2)->Apply(watched_sizes);
BENCHMARK(gpt2_pattern_kept)->Apply(watched_sizes);
BENCHMARK(gpt2_scores_and_pattern_kept)->Apply(watched_sizes);

}  // namespace

BENCHMARK_MAIN();
