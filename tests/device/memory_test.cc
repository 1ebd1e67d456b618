// Memory that runs out on a device: wherever it does, a MemoryError says so, nothing of the work is kept, and
// the next one gives its usual results, to the last bit. On the strict device, whose memory runs out where
// the test says so.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "hooked/analysis/direct_path.h"
#include "hooked/analysis/score_attribution.h"
#include "hooked/analysis/sweep.h"
#include "hooked/core/error.h"
#include "hooked/engine/continuation.h"
#include "hooked/engine/trainable_transformer.h"
#include "loading/fill/loaded_model.h"
#include "tests/device/checks.h"
#include "tests/device/suite_cases.h"
#include "tests/support/strict_device/limits.h"
#include "tests/support/thrown_by.h"

namespace hooked::device_tests::memory_test {
namespace {

using strict::bytes_in_use;
using strict::FailingAllocation;
using strict::RunsOut;

const Comparison kExact{.tolerance = 0};

// Threads for gradients release what they held a moment after the error came.
testing::AssertionResult holds_again(std::int64_t bytes) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (bytes_in_use() != bytes && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (bytes_in_use() == bytes) return testing::AssertionSuccess();
  return testing::AssertionFailure() << bytes_in_use() - bytes << " bytes are kept";
}

// The allocations that fail, if work has many of them: each, or in the ordinary suite some.
std::int64_t some_allocations() { return all_checkpoints() ? 1 : 11; }

/// A model and what its runs read.
class MemoryRunsOut : public testing::Test {
 protected:
  explicit MemoryRunsOut(const char* checkpoint = "llama")
      : golden_(read_golden(golden_case(checkpoint))),
        model_(HookedTransformer::load(golden_case(checkpoint).folder().string(),
                                       {.device = "strict", .dtype = at::kDouble})) {}

  void let_recordings_go() const {
    model_.loaded()->recordings->release();
    model_.loaded()->key_rooms->release();
  }

  const GoldenRun golden_;
  const HookedTransformer model_;
  const Subject s_{model_, golden_};
};

/// How the results are read: values that are computed when they are read take memory of their own.
using Read = std::function<NamedTensors()>;

Read read_of(RunResult result) {
  return [result = std::move(result)] { return all_of(result); };
}

/// What a kind of work reads besides the golden run's tokens.
struct Given {
  const Subject& s;
  std::vector<Edit> edits;
  std::optional<Prefix> prefix;
  at::Tensor first, rest;  ///< the tokens in two parts
};

/// One call of the engine's.
struct Asked {
  const char* name;
  Read (*call)(const Given& given);
};

at::Tensor metric(const at::Tensor& logits) { return logits.square().mean(); }

Read asked(const Given& g, const Input& input, RunOptions options) {
  options.eager = true;  // recordings have tests of their own below
  return read_of(g.s.model.run(input, options));
}

Read plain(const Given& g) { return asked(g, g.s.input(), {}); }
Read cached(const Given& g) { return asked(g, g.s.input(), {.capture = act::everything}); }
Read cached_on_the_host(const Given& g) {
  return asked(g, g.s.input(), {.capture = act::defaults, .keep = {.device = "cpu"}});
}
Read edited(const Given& g) { return asked(g, g.s.input(), {.edits = g.edits, .capture = act::resid_post}); }
Read hooked_by_functions(const Given& g) {
  return asked(g, g.s.input(), {.hooks = {Hook(act::z, [](const at::Tensor& z) { return z * 0.5; })}});
}
Read loss(const Given& g) { return asked(g, g.s.input(), {.output = Output::loss}); }
Read gradients(const Given& g) {
  return asked(g, g.s.input(), {.gradients = GradientRequest{act::resid_pre, LogitMetric(metric)}});
}
Read prefix_kept(const Given& g) { return asked(g, g.first, {.keep_prefix = true}); }
Read prefix_read(const Given& g) {
  return asked(g, {g.rest, {.prefix = g.prefix}}, {.capture = act::defaults});
}
Read generated(const Given& g) {
  const auto made = g.s.model.generate(g.first, {.max_new_tokens = 3,
                                                 .sampling = {.greedy = true},
                                                 .stop = {.tokens = std::vector<std::int64_t>()},
                                                 .capture = act::resid_post,
                                                 .eager = true});
  return [made] {
    NamedTensors all = by_name(made.cache);
    all["log_probs"] = made.log_probs;
    return all;
  };
}
Read continued(const Given& g) {
  const at::Tensor log_probs = continuation_log_probs(g.s.model, g.first, g.rest, {.eager = true});
  return [log_probs] { return NamedTensors{{"log_probs", log_probs}}; };
}

constexpr std::array kAsked = {
    Asked{"plain", plain},
    Asked{"cached", cached},
    Asked{"cached_on_the_host", cached_on_the_host},
    Asked{"edited", edited},
    Asked{"hooked_by_functions", hooked_by_functions},
    Asked{"loss", loss},
    Asked{"gradients", gradients},
    Asked{"prefix_kept", prefix_kept},
    Asked{"prefix_read", prefix_read},
    Asked{"generated", generated},
    Asked{"continued", continued},
};

class MemoryRunsOutIn : public MemoryRunsOut, public testing::WithParamInterface<Asked> {
 protected:
  Given given() const {
    const at::Tensor first = golden_.tokens.narrow(1, 0, 3);
    const at::Tensor rest = golden_.tokens.narrow(1, 3, golden_.tokens.size(1) - 3);
    const at::Tensor direction = s_.random({s_.config().d_model}, 3);
    return {s_,
            {add(act::resid_post(0), direction), scale(act::z(0).head(0), 0.5),
             project_out(act::resid_pre(1), direction)},
            model_.run(first, {.keep_prefix = true}).prefix,
            first,
            rest};
  }
};

TEST_P(MemoryRunsOutIn, AtEveryAllocation) {
  const Given given = this->given();
  const NamedTensors expected = GetParam().call(given)();
  const std::int64_t before = bytes_in_use();
  std::int64_t k = 1;
  for (bool all = false; !all; ++k) {
    SCOPED_TRACE(testing::Message() << "allocation " << k);
    {
      // Every other time memory is available again afterwards.
      const FailingAllocation failing(k, k % 2 == 0 ? RunsOut::once : RunsOut::for_good);
      try {
        GetParam().call(given);
        all = !failing.failed();
        EXPECT_TRUE(all) << "there was no memory, and no error";
      } catch (const MemoryError&) {
      }
    }
    ASSERT_TRUE(holds_again(before));
    ASSERT_TRUE(agree(GetParam().call(given)(), expected, kExact)) << "the next one";
    ASSERT_TRUE(holds_again(before));
  }
  EXPECT_GT(k, 20) << "allocations";
}

INSTANTIATE_TEST_SUITE_P(Asked, MemoryRunsOutIn, testing::ValuesIn(kAsked),
                         [](const auto& info) { return info.param.name; });

// Runs of one kind: computed, recorded, replayed.
TEST_F(MemoryRunsOut, WhileRunsAreRecorded) {
  const auto run = [&](std::int64_t shift, bool eager) {
    Input input = s_.input();
    input.tokens = (input.tokens + shift) % s_.config().d_vocab;
    return model_.run(input, {.capture = act::defaults, .eager = eager});
  };
  std::vector<NamedTensors> expected;
  for (std::int64_t shift = 0; shift < 4; ++shift) expected.push_back(all_of(run(shift, true)));
  const std::int64_t before = bytes_in_use();
  for (const RunsOut runs_out : {RunsOut::once, RunsOut::for_good}) {
    bool all = false;
    int errors = 0, unrecorded = 0;
    for (std::int64_t k = 1; !all; k += some_allocations()) {
      SCOPED_TRACE(testing::Message() << "allocation " << k);
      std::vector<std::optional<RunResult>> results(4);
      {
        const FailingAllocation failing(k, runs_out);
        for (std::int64_t shift = 0; shift < 4; ++shift) {
          try {
            results[static_cast<std::size_t>(shift)] = run(shift, false);
          } catch (const MemoryError&) {
            ++errors;
          }
        }
        all = !failing.failed();
      }
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (!results[i]) continue;
        ASSERT_TRUE(agree(all_of(*results[i]), expected[i], kExact)) << "run " << i;
        for (const std::string& note : results[i]->notes) {
          ++unrecorded;
          EXPECT_THAT(note, testing::HasSubstr("no memory"));
        }
      }
      results.clear();
      let_recordings_go();
      ASSERT_TRUE(holds_again(before));
    }
    EXPECT_GT(errors, 0);
    EXPECT_GT(unrecorded, 0) << "a run whose recording did not fit was not given back";
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(agree(all_of(run(static_cast<std::int64_t>(i), false)), expected[i], kExact));
  }
}

// Generations whose steps are computed, recorded and replayed, in rooms that stay.
TEST_F(MemoryRunsOut, WhileStepsAreRecorded) {
  const auto generated = [&](bool eager) {
    const auto made =
        model_.generate(golden_.tokens.narrow(1, 0, 3), {.max_new_tokens = 4,
                                                         .sampling = {.greedy = true},
                                                         .stop = {.tokens = std::vector<std::int64_t>()},
                                                         .capture = act::resid_post,
                                                         .eager = eager});
    NamedTensors all = by_name(made.cache);
    all["log_probs"] = made.log_probs;
    return all;
  };
  const NamedTensors expected = generated(true);
  const std::int64_t before = bytes_in_use();
  for (const RunsOut runs_out : {RunsOut::once, RunsOut::for_good}) {
    bool all = false;
    int errors = 0;
    for (std::int64_t k = 1; !all; k += some_allocations()) {
      SCOPED_TRACE(testing::Message() << "allocation " << k);
      for (int time = 0; time < 2; ++time) {
        const FailingAllocation failing(time == 0 ? k : 1 + k / 2, runs_out);
        try {
          ASSERT_TRUE(agree(generated(false), expected, kExact));
          if (time == 0) all = !failing.failed();
        } catch (const MemoryError&) {
          ++errors;
        }
      }
      ASSERT_TRUE(agree(generated(false), expected, kExact)) << "the next one";
      let_recordings_go();
      ASSERT_TRUE(holds_again(before));
    }
    EXPECT_GT(errors, 0);
  }
}

TEST_F(MemoryRunsOut, RecordedRunsMakeRoom) {
  const auto recorded = [&] { model_.run(s_.input(), {.capture = act::defaults}); };
  const auto other = [&] { return model_.run(s_.input(), {.capture = act::resid_post, .eager = true}); };
  const NamedTensors expected = all_of(other());
  bool all = false;
  for (std::int64_t k = 1; !all; k += some_allocations()) {
    for (int time = 0; time < 2; ++time) recorded();
    const std::int64_t held = bytes_in_use();
    std::optional<RunResult> result;
    {
      const FailingAllocation failing(k, RunsOut::once);
      ASSERT_NO_THROW(result = other()) << "allocation " << k;
      all = !failing.failed();
    }
    ASSERT_TRUE(agree(all_of(*result), expected, kExact));
    result.reset();
    EXPECT_EQ(bytes_in_use() < held, !all) << "what was recorded is freed when memory runs out, not before";
  }
}

TEST_F(MemoryRunsOut, FunctionsSeeARunOnce) {
  int calls = 0;
  const auto run = [&] {
    model_.run(s_.input(), {.hooks = {Hook(act::resid_post(0), [&](const at::Tensor&) { ++calls; })}});
  };
  int seen = 0;
  bool all = false;
  for (std::int64_t k = 1; !all; k += some_allocations()) {
    for (int time = 0; time < 2; ++time) model_.run(s_.input());
    const std::int64_t held = bytes_in_use();
    calls = 0;
    const FailingAllocation failing(k, RunsOut::once);
    try {
      run();
    } catch (const MemoryError&) {
      EXPECT_LT(bytes_in_use(), held) << "the next run has what was recorded";
      seen += calls;
    }
    EXPECT_LE(calls, 1);
    all = !failing.failed();
  }
  EXPECT_GT(seen, 0) << "no run failed after its hook was called";
}

TEST_F(MemoryRunsOut, WhileAValueIsRead) {
  const auto cache_of = [&] { return model_.run_with_cache(s_.input(), act::everything).cache; };
  const ActivationCache expected = cache_of(), cache = cache_of();
  int errors = 0;
  for (const ActivationName& name : model_.names()) {
    const std::int64_t before = bytes_in_use();
    bool all = false;
    for (std::int64_t k = 1; !all; ++k) {
      const FailingAllocation failing(k, RunsOut::for_good);
      try {
        cache[Address(name)];
        all = true;
      } catch (const MemoryError& error) {
        ++errors;
        EXPECT_EQ(error.where(), name.to_string());
        ASSERT_EQ(bytes_in_use(), before);
      }
    }
    EXPECT_TRUE(cache[Address(name)].equal(expected[Address(name)])) << name.to_string();
  }
  EXPECT_GT(errors, 5) << "no value was made when it was read";
}

TEST_F(MemoryRunsOut, TheErrorSaysHowMuch) {
  const std::int64_t before = bytes_in_use();
  const strict::MemoryLimit limit(before + 8192);
  const auto error = thrown_by<MemoryError>([&] { model_.run(s_.input(), {.eager = true}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), "run");
  EXPECT_THAT(
      error->what(),
      testing::AllOf(testing::StartsWith("[run] the device's memory ran out; expected room for another "),
                     testing::HasSubstr("; with all of it freed, strict:0 has 8.0 KiB of "),
                     testing::EndsWith(" free; give fewer rows or columns, or keep fewer points")));
  EXPECT_EQ(limit.refusals(), 1);
}

TEST_F(MemoryRunsOut, WhileAModelIsLoaded) {
  const std::int64_t before = bytes_in_use();
  const std::string folder = golden_case("llama").folder().string();
  const LoadOptions options{.device = "strict", .threads = 1};
  const auto each = [&](const char* where, const std::function<void()>& make) {
    SCOPED_TRACE(where);
    bool all = false;
    std::int64_t k = 0;
    while (!all) {
      const FailingAllocation failing(++k, RunsOut::for_good);
      try {
        make();
        all = !failing.failed();
        EXPECT_TRUE(all);
      } catch (const MemoryError& error) {
        EXPECT_EQ(error.where(), where);
      }
      ASSERT_TRUE(holds_again(before)) << "allocation " << k;
    }
    EXPECT_GT(k, 5);
  };
  each("load", [&] { HookedTransformer::load(folder, options); });
  each("load", [&] { HookedTransformer::from_state_dict(model_.state_dict(), model_.config(), options); });
  each("create", [&] { HookedTransformer::create(model_.config(), {.device = "strict"}); });
  each("train", [&] { TrainableTransformer::from(model_); });
  const auto again = HookedTransformer::load(folder, {.device = "strict", .dtype = at::kDouble});
  EXPECT_TRUE(agree(all_of(again.run(s_.input())), all_of(model_.run(s_.input())), kExact));
}

TEST_F(MemoryRunsOut, WhileAModelIsTrained) {
  const auto model = TrainableTransformer::from(model_);
  const double expected = model.loss(s_.input()).item<double>();
  const std::int64_t before = bytes_in_use();
  bool all = false;
  for (std::int64_t k = 1; !all; k += some_allocations()) {
    {
      const FailingAllocation failing(k, RunsOut::for_good);
      try {
        model.loss(s_.input());
        all = !failing.failed();
        EXPECT_TRUE(all);
      } catch (const MemoryError& error) {
        EXPECT_EQ(error.where(), "train");
      }
    }
    ASSERT_TRUE(holds_again(before)) << "allocation " << k;
    ASSERT_EQ(model.loss(s_.input()).item<double>(), expected);
  }
}

/// Patches and attribution, which choose how much they compute together.
class MemoryRunsOutInAnalysis : public MemoryRunsOut {
 protected:
  MemoryRunsOutInAnalysis() : MemoryRunsOut("gpt2"), other_(s_.input()) {
    other_.tokens = other_.tokens.flip(1);
    from_ = model_.run_with_cache(other_, act::everything).cache;
    cache_ = model_.run_with_cache(s_.input(), act::everything).cache;
    let_recordings_go();
    before_ = bytes_in_use();
  }

  SweepOptions options() const {
    return {.site = act::resid_pre,
            .over = {Axis::layer, Axis::pos},
            .from = from_,
            .into = s_.input(),
            .metric = {logit_difference(1, 2), log_probability(3)}};
  }

  /// Calls with less and less memory give the same, until it is too little for the smallest step. Returns in
  /// how many memory ran out meanwhile.
  int with_less_and_less(const std::function<at::Tensor()>& values) {
    constexpr double kNoNumber = 12345.0;
    const at::Tensor expected = values().nan_to_num(kNoNumber);
    let_recordings_go();
    before_ = bytes_in_use();  // caches keep what was computed on reading
    std::int64_t peak = 0;
    {
      const strict::MemoryLimit watched(std::int64_t{1} << 40);
      values();
      peak = watched.peak();
    }
    int ran_out = 0;
    for (int percent = 95; percent > 0; percent -= 5) {
      SCOPED_TRACE(testing::Message() << percent << " % of the memory");
      let_recordings_go();
      EXPECT_TRUE(holds_again(before_));
      const strict::MemoryLimit limit(before_ + (peak - before_) * percent / 100);
      try {
        const at::Tensor got = values().nan_to_num(kNoNumber);
        EXPECT_LT((got - expected).abs().max().item<double>(), 1e-12);
        ran_out += limit.refusals() > 0 ? 1 : 0;
      } catch (const MemoryError&) {
        break;
      }
    }
    let_recordings_go();
    EXPECT_TRUE(holds_again(before_));
    return ran_out;
  }

  Input other_;
  ActivationCache from_, cache_;
  std::int64_t before_ = 0;
};

TEST_F(MemoryRunsOutInAnalysis, SweepsComeToTheSame) {
  EXPECT_GT(with_less_and_less([&] { return sweep(model_, options()).values(); }), 1);
  EXPECT_GT(with_less_and_less([&] {
              SweepOptions heads = options();
              heads.site = act::z;
              heads.over = {Axis::layer, Axis::head, Axis::pos};
              return sweep(model_, heads).values();
            }),
            1);
}

TEST_F(MemoryRunsOutInAnalysis, DirectPathsComeToTheSame) {
  EXPECT_GT(with_less_and_less([&] {
              SweepOptions sweep = options();
              sweep.site.reset();
              sweep.over.clear();
              return direct_path(model_, {.sweep = sweep}).values();
            }),
            1);
}

TEST_F(MemoryRunsOutInAnalysis, ScoreAttributionComesToTheSame) {
  EXPECT_GT(with_less_and_less([&] {
              return score_attribution(model_, cache_,
                                       {.scores = act::attn_scores(1).head(1), .grain = Grain::neuron})
                  .values();
            }),
            1);
}

TEST_F(MemoryRunsOutInAnalysis, ASweepCountsEachPatchOnce) {
  std::vector<std::int64_t> told;
  SweepOptions swept = options();
  swept.progress = [&](const SweepProgress& progress) {
    told.push_back(progress.done);
    return true;
  };
  const SweepReport whole = sweep_report(model_, swept);
  const std::size_t whole_batches = told.size();
  bool fewer = false;
  for (std::int64_t k = 1;; k += 5 * some_allocations()) {
    SCOPED_TRACE(testing::Message() << "allocation " << k);
    told.clear();
    let_recordings_go();
    const FailingAllocation failing(k, RunsOut::once);
    try {
      const SweepReport report = sweep_report(model_, swept);
      EXPECT_LT((report.grid.values() - whole.grid.values()).nan_to_num(0).abs().max().item<double>(), 1e-12);
      EXPECT_EQ(report.runs, whole.runs);
      EXPECT_TRUE(report.failed.empty()) << "a metric for which there was no memory has failed";
      ASSERT_FALSE(told.empty());
      EXPECT_EQ(std::adjacent_find(told.begin(), told.end(), std::greater_equal<>()), told.end());
      EXPECT_EQ(told.back(), report.grid.values().numel() / 2) << "cells, of two metrics";
      fewer = fewer || told.size() > whole_batches;
    } catch (const MemoryError&) {  // in the run without patches, which is one row
    }
    if (!failing.failed()) break;
  }
  EXPECT_TRUE(fewer) << "no batch was halved";
  let_recordings_go();
  EXPECT_TRUE(holds_again(before_));
}

}  // namespace
}  // namespace hooked::device_tests::memory_test
