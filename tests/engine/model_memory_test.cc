// The host's memory runs out at each allocation of a run in turn. (A device's: tests/device/memory_test.cc.)
#include "engine/model_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>

#include "hooked/engine/hooked_transformer.h"
#include "tests/support/compare.h"
#include "tests/support/goldens.h"
#include "tests/support/test.h"

namespace hooked::model_memory_test {
namespace {

/// While it lives, the `k`-th piece of LibTorch's host memory after begin() cannot be allocated.
class FailingHost final : public c10::Allocator {
 public:
  FailingHost() { c10::SetCPUAllocator(this, kPriority); }
  ~FailingHost() override { c10::SetCPUAllocator(usual_, kPriority); }
  FailingHost(const FailingHost&) = delete;
  FailingHost& operator=(const FailingHost&) = delete;

  void begin(std::int64_t k) {
    asked_ = 0;
    fails_at_ = k;
  }
  /// Ends the failing; returns whether an allocation failed.
  bool end() { return asked_ >= fails_at_.exchange(kNever); }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (++asked_ == fails_at_) {
      TORCH_CHECK(false, "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", bytes,
                  " bytes.");
    }
    return usual_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    usual_->copy_data(to, from, bytes);
  }

 private:
  static constexpr std::uint8_t kPriority = 100;
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  c10::Allocator* const usual_ = c10::GetCPUAllocator();
  std::atomic<std::int64_t> asked_ = 0, fails_at_ = kNever;
};

struct Asked {
  const char* name;
  NamedTensors (*values)(const HookedTransformer& model, const at::Tensor& tokens);
};

NamedTensors of_run(const RunResult& result) {
  NamedTensors all = by_name(result.cache);
  for (const auto& [name, value] : by_name(result.gradients)) all["grad." + name] = value;
  all["logits"] = result.logits();
  return all;
}
NamedTensors cached(const HookedTransformer& model, const at::Tensor& tokens) {
  return of_run(model.run(tokens, {.capture = act::everything}));
}
NamedTensors edited(const HookedTransformer& model, const at::Tensor& tokens) {
  return of_run(model.run(tokens, {.edits = {scale(act::z(0).head(0), 0.5), add(act::resid_post(0), 1.0)}}));
}
NamedTensors gradients(const HookedTransformer& model, const at::Tensor& tokens) {
  const LogitMetric metric = [](const at::Tensor& logits) { return logits.square().mean(); };
  return of_run(model.run(tokens, {.gradients = GradientRequest{act::resid_pre, metric}}));
}
NamedTensors generated(const HookedTransformer& model, const at::Tensor& tokens) {
  return {
      {"log_probs", model
                        .generate(tokens.narrow(1, 0, 3), {.max_new_tokens = 3,
                                                           .sampling = {.greedy = true},
                                                           .stop = {.tokens = std::vector<std::int64_t>()}})
                        .log_probs}};
}

constexpr std::array kAsked = {Asked{"cached", cached}, Asked{"edited", edited},
                               Asked{"gradients", gradients}, Asked{"generated", generated}};

class HostMemoryRunsOut : public testing::TestWithParam<Asked> {};

TEST_P(HostMemoryRunsOut, AtEveryAllocation) {
  const GoldenRun golden = read_golden(golden_case("gpt2"));
  const auto model = HookedTransformer::load(golden_case("gpt2").folder().string());
  const NamedTensors expected = GetParam().values(model, golden.tokens);
  FailingHost host;
  std::int64_t k = 0;
  for (bool all = false; !all;) {
    host.begin(++k);
    try {
      GetParam().values(model, golden.tokens);
      all = !host.end();
      EXPECT_TRUE(all) << "there was no memory, and no error";
    } catch (const MemoryError& error) {
      host.end();
      EXPECT_THAT(error.what(), HasSubstr("the host's memory ran out; expected room for another"));
    }
    ASSERT_TRUE(agree(GetParam().values(model, golden.tokens), expected, {.tolerance = 0}))
        << "after allocation " << k;
  }
  EXPECT_GT(k, 20) << "allocations";
}

INSTANTIATE_TEST_SUITE_P(Asked, HostMemoryRunsOut, testing::ValuesIn(kAsked), named);

// Memory runs out when the first token was reported, and is there once idle memory was freed.
TEST(GenerationOutOfMemory, StartsAgainIfItsCallbackMayBeCalledAgain) {
  const GoldenRun golden = read_golden(golden_case("gpt2"));
  const auto model = HookedTransformer::load(golden_case("gpt2").folder().string());
  FailingHost host;
  for (const bool repeatable : {true, false}) {
    model.run(golden.tokens.narrow(1, 0, 4).repeat({512, 1}));  // leaves idle memory
    int calls = 0;
    GenerateOptions options{.max_new_tokens = 3, .stop = {.tokens = std::vector<std::int64_t>()}};
    options.on_tokens = [&](const at::Tensor&) {
      if (++calls == 1) host.begin(1);
    };
    options.on_tokens.repeatable = repeatable;
    const auto generate = [&] { return model.generate(golden.tokens.narrow(1, 0, 3), options); };
    if (!repeatable) {
      EXPECT_THROW(generate(), MemoryError);
      EXPECT_EQ(calls, 1);
      host.end();
      continue;
    }
    const GenerateResult result = generate();
    EXPECT_TRUE(host.end()) << "nothing was allocated after the first token";
    EXPECT_EQ(calls, 4);
    options.on_tokens = nullptr;
    EXPECT_TRUE(at::equal(result.tokens, generate().tokens));
  }
}

}  // namespace
}  // namespace hooked::model_memory_test
