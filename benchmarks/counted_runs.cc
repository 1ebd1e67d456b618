// A few fixed small runs for scripts/run_counts.py, which counts their instructions with callgrind:
// one call of hooked_counted_region each, after the same run has been made twice. Prints what it was made
// with, then a line for each run in that order: its name, the bytes of tensors that it allocates, the
// operators of LibTorch that it calls, and how many pages it meets for the first time, with tabs between.
//
//   bench_counted_runs examples/toy_model
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/record_function.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <hooked/hooked.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

// Callgrind starts and stops at its entry and exit, by this name; so it must stay a call.
extern "C" __attribute__((noinline, noclone)) void hooked_counted_region(const std::function<void()>& run) {
  run();
  asm volatile("");  // no tail call
}

namespace {

namespace act = hooked::act;

std::int64_t bytes_allocated = 0, operators_called = 0;  // by the only thread

// Memory of tensors, counted.
class CountedMemory final : public c10::Allocator {
 public:
  at::DataPtr allocate(std::size_t bytes) override {
    bytes_allocated += static_cast<std::int64_t>(bytes);
    return memory_->allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return memory_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    memory_->copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* memory_ = c10::GetDefaultCPUAllocator();
};

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction&) {
  ++operators_called;
  return nullptr;
}

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

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
    CountedMemory memory;
    c10::SetCPUAllocator(&memory, /*priority=*/1);
    at::set_num_threads(1);
    fmt::print("compiler {}, LibTorch {}\n", __VERSION__, hooked::libtorch_version());
    const auto model = hooked::HookedTransformer::load(argv[1]);
    for (const auto& [name, run] : counted_runs(model)) {
      run();
      run();
      const std::int64_t bytes = bytes_allocated, faults = page_faults();
      hooked_counted_region(run);
      const std::int64_t bytes_of_run = bytes_allocated - bytes, faults_of_run = page_faults() - faults;
      const auto counting = at::addGlobalCallback(
          at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
      operators_called = 0;
      run();
      at::removeCallback(counting);
      fmt::print("{}\t{}\t{}\t{}\n", name, bytes_of_run, operators_called, faults_of_run);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
