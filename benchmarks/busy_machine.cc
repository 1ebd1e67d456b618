// How long single runs and steps take, one after another: benchmarks/busy_machine.py starts this alone,
// next to another busy process, and twice at once. GPT-2-small's shape in float32. Prints a line for each
// question: its name, and the median and the longest in milliseconds, with tabs between.
//
//   bench_busy_machine [runs] [steps]
#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "benchmarks/shapes.h"
#include "benchmarks/timing.h"

namespace {

at::Tensor tokens(std::int64_t count) { return at::arange(count, at::kLong).unsqueeze(0); }

void print(const char* question, const std::vector<double>& seconds) {
  fmt::print("{}\t{:.2f}\t{:.2f}\n", question, 1e3 * median(seconds),
             1e3 * *std::ranges::max_element(seconds));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 30, steps = argc > 2 ? std::atoi(argv[2]) : 200;
  const hooked::HookedTransformer& model = gpt2_small();
  for (const std::int64_t count : {std::int64_t{16}, std::int64_t{128}}) {
    std::vector<double> seconds;
    model.run(tokens(count));
    for (int i = 0; i < runs; ++i) seconds.push_back(seconds_of([&] { model.run(tokens(count)); }));
    print(count == 16 ? "a run of 1 x 16" : "a run of 1 x 128", seconds);
  }
  std::vector<double> seconds;
  auto before = std::chrono::steady_clock::now();
  hooked::GenerateOptions options;
  options.max_new_tokens = steps;
  options.on_tokens = [&](const at::Tensor&) {
    const auto now = std::chrono::steady_clock::now();
    seconds.push_back(std::chrono::duration<double>(now - std::exchange(before, now)).count());
  };
  model.generate(tokens(16), options);
  seconds.erase(seconds.begin());  // with the prompt
  print("a step", seconds);
}
