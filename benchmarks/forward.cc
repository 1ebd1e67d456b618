// How long does a run take, by the model's shape, the dtype and the size of the input, and in uses that a
// loop over one size does not see: alternating sizes, caches that stay alive, padded rows, another edit in
// each row?
//
//   bench_forward --benchmark_filter='kept_caches/llama'
#include <ATen/ops/arange.h>
#include <ATen/ops/randint.h>
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "shapes.h"

namespace {

namespace act = hooked::act;

/// Rows and columns of an input.
using Size = std::pair<std::int64_t, std::int64_t>;

/// One line of the results.
struct Case {
  const hooked::HookedTransformer& model;
  Size size;

  at::Tensor tokens() const { return tokens(size); }
  at::Tensor tokens(const Size& of) const {
    return at::randint(0, model.config().d_vocab, {of.first, of.second}, at::kLong);
  }
};

double page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_minflt);
}

/// Times `run` after one warm-up, and counts the pages that it faults in.
template <typename F>
void measure(benchmark::State& state, const F& run) {
  run();
  const double before = page_faults();
  for (auto _ : state) run();
  state.counters["page_faults"] =
      benchmark::Counter(page_faults() - before, benchmark::Counter::kAvgIterations);
}

void plain(benchmark::State& state, const Case& c) {
  const at::Tensor tokens = c.tokens();
  measure(state, [&] { benchmark::DoNotOptimize(c.model.run(tokens)); });
}

void last_logits(benchmark::State& state, const Case& c) {
  const at::Tensor tokens = c.tokens();
  measure(state, [&] { benchmark::DoNotOptimize(c.model.run(tokens, {.logit_positions = {{-1}}})); });
}

void dropped_caches(benchmark::State& state, const Case& c) {
  const at::Tensor tokens = c.tokens();
  measure(state, [&] { benchmark::DoNotOptimize(c.model.run_with_cache(tokens)); });
  // The contents of a cache, and what it can compute.
  const hooked::CachedRun run = c.model.run_with_cache(tokens);
  double values = 0;
  for (const auto& entry : run.cache) values += static_cast<double>(entry.held.nbytes());
  state.counters["held_MB"] = static_cast<double>(run.cache.bytes()) / 1e6;
  state.counters["values_MB"] = values / 1e6;
}

// The last few runs' caches stay alive, as in a script that collects them: their memory cannot be used
// again.
void kept_caches(benchmark::State& state, const Case& c) {
  constexpr std::size_t kKept = 8;
  const at::Tensor tokens = c.tokens();
  std::deque<hooked::CachedRun> kept;
  measure(state, [&] {
    kept.push_back(c.model.run_with_cache(tokens));
    if (kept.size() > kKept) kept.pop_front();
  });
}

// Four sizes in turn; the time is that of all four.
void alternating_sizes(benchmark::State& state, const Case& c) {
  std::vector<at::Tensor> inputs;
  for (const Size& size : {Size{1, 16}, {4, 128}, {1, 100}, {2, 64}}) inputs.push_back(c.tokens(size));
  measure(state, [&] {
    for (const at::Tensor& tokens : inputs)
      benchmark::DoNotOptimize(c.model.run_with_cache(tokens, act::resid_post));
  });
}

// Rows of different lengths, padded on the left; every default point is kept.
void padded_rows(benchmark::State& state, const Case& c) {
  const auto [rows, columns] = c.size;
  const at::Tensor padding = at::arange(rows, at::kLong) * (columns / 2) / rows;  // [batch], columns
  const at::Tensor mask = at::arange(columns, at::kLong).unsqueeze(0) >= padding.unsqueeze(1);
  const hooked::Input input(c.tokens(), {.attention_mask = mask});
  measure(state, [&] { benchmark::DoNotOptimize(c.model.run_with_cache(input)); });
}

// Compare with last_logits of the same size.
void edit_per_row(benchmark::State& state, const Case& c) {
  const at::Tensor tokens = c.tokens();
  hooked::RunOptions options{.logit_positions = {{-1}}};
  for (std::int64_t row = 0; row < c.size.first; ++row) {
    options.edits.push_back(
        hooked::add(act::resid_pre(6).at(hooked::Axis::batch, row), 0.001 * static_cast<double>(row)));
  }
  measure(state, [&] { benchmark::DoNotOptimize(c.model.run(tokens, options)); });
}

/// A question and the sizes it is asked for.
struct Question {
  const char* name;
  void (*ask)(benchmark::State& state, const Case& c);
  std::vector<Size> sizes;
};

const std::vector<Question>& questions() {
  static const std::vector<Question> kQuestions = {
      {"plain", plain, {{1, 1}, {1, 16}, {1, 128}, {4, 128}, {1, 1024}, {1, 4096}}},
      {"last_logits", last_logits, {{1, 128}, {1, 1024}, {256, 16}}},
      {"dropped_caches", dropped_caches, {{1, 16}, {1, 128}, {4, 128}, {1, 1024}}},
      {"kept_caches", kept_caches, {{1, 16}, {1, 128}, {4, 128}}},
      {"alternating_sizes", alternating_sizes, {{0, 0}}},
      {"padded_rows", padded_rows, {{8, 128}}},
      {"edit_per_row", edit_per_row, {{256, 16}}}};
  return kQuestions;
}

// The model is made when its first case runs.
void add(const Question& question, const Shape& shape, at::ScalarType dtype, const Size& size) {
  const std::string name =
      std::string(question.name) + "/" + shape.name + "/" + c10::toString(dtype) +
      (size.first == 0 ? "" : "/" + std::to_string(size.first) + "x" + std::to_string(size.second));
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 question.ask(state, {model_of(shape, dtype), size});
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  for (const Question& question : questions()) {
    for (const Shape& shape : shapes::kAll) {
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        for (const Size& size : question.sizes) {
          if (size.second <= config_of(shape).n_ctx) add(question, shape, dtype, size);
        }
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
