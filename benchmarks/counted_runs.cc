// A few fixed small runs for scripts/instruction_counts.py, which counts their instructions with callgrind:
// one call of hooked_counted_region each, after the same run has been made twice. Prints what it was made
// with, then the runs' names in that order.
//
//   bench_counted_runs examples/toy_model
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <fmt/format.h>
#include <hooked/hooked.h>

#include <cstdio>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

// Callgrind starts and stops at its entry and exit, by this name; so it must stay a call.
extern "C" __attribute__((noinline, noclone)) void hooked_counted_region(const std::function<void()>& run) {
  run();
  asm volatile("");  // no tail call
}

namespace {

namespace act = hooked::act;

std::vector<std::pair<const char*, std::function<void()>>> counted_runs(
    const hooked::HookedTransformer& model) {
  const at::Tensor tokens = (at::arange(16, at::kLong) * 7 + 3) % model.config().d_vocab;
  return {
      {"plain run, 1 x 16", [=] { model.run(tokens); }},
      {"all default points and an edit, 1 x 16",
       [=] { model.run_with_cache(tokens, act::defaults, {.edits = {hooked::zero(act::z(1).head(3))}}); }},
      {"8 new tokens, keeping the stream", [=] {
         model.generate(tokens, {.max_new_tokens = 8,
                                 .sampling = {.greedy = true},
                                 .stop = {.tokens = std::vector<std::int64_t>()},
                                 .capture = act::resid_post});
       }}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: bench_counted_runs MODEL\n");
    return 2;
  }
  try {
    at::set_num_threads(1);
    fmt::print("compiler {}, LibTorch {}\n", __VERSION__, hooked::libtorch_version());
    const auto model = hooked::HookedTransformer::load(argv[1]);
    for (const auto& [name, run] : counted_runs(model)) {
      run();
      run();
      hooked_counted_region(run);
      fmt::print("{}\n", name);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
