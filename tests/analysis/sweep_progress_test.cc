// Sweeps that are watched, stopped, resumed, and whose metric throws.

#include <atomic>
#include <fstream>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "hooked/analysis/sweep.h"
#include "hooked/io/safetensors.h"
#include "tests/support/process_memory.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::sweep_progress_test {
namespace {

/// With runs one after another, and in parallel.
class SweepProgressed : public testing::TestWithParam<int> {
 protected:
  SweepOptions options() const {
    return {.site = act::pattern,
            .over = {Axis::layer, Axis::head, Axis::query, Axis::key},
            .from = model_.run_with_cache(at::cat({clean_, corrupted_}), act::everything).cache,
            .into = at::cat({corrupted_, clean_}),
            .metric = {logit(3), probability(4)},
            .tokens_per_run = 16,
            .threads = GetParam()};
  }

  HookedTransformer model_ = random_model(two_layer_config());
  at::Tensor clean_ = random_row(6, 11, 1), corrupted_ = random_row(6, 11, 2);
  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Threads, SweepProgressed, testing::Values(1, 3),
                         [](const auto& info) { return std::to_string(info.param); });

bool same_bits(const Grid& a, const Grid& b) {
  return a.values().isnan().equal(b.values().isnan()) &&
         a.values().nan_to_num().equal(b.values().nan_to_num());
}

/// A partial file records what was patched in: another tensor, seed or run is another sweep, even of the same
/// size.
TEST_P(SweepProgressed, APartialFileKnowsItsSource) {
  const at::Tensor vector = at::ones({6}, at::kDouble);
  const ActivationCache one = model_.run_with_cache(clean_, act::z).cache;
  const ActivationCache negative = one.in_form([](const at::Tensor& z) { return -z; });
  const ActivationCache both = model_.run_with_cache(at::cat({clean_, corrupted_}), act::z).cache;
  const std::vector<std::pair<PatchSource, PatchSource>> others{
      {PatchSource::value(vector), PatchSource::value(-vector)},
      {PatchSource::value(0.5), PatchSource::value(-0.5)},
      {one, negative},
      {PatchSource::mean(one, MeanOver::rows), PatchSource::mean(negative, MeanOver::rows)},
      {PatchSource::mean(both, MeanOver::rows_and_positions), PatchSource::mean(both, MeanOver::rows)},
      {PatchSource::resampled(both, 1), PatchSource::resampled(both, 2)},
      {PatchSource::mixture(one, PatchSource::zero(), 0.5),
       PatchSource::mixture(negative, PatchSource::zero(), 0.5)}};
  for (std::size_t i = 0; i < others.size(); ++i) {
    for (const bool finished : {false, true}) {
      SweepOptions swept{.site = act::z,
                         .over = {Axis::layer, Axis::head},
                         .from = others[i].first,
                         .into = at::cat({corrupted_, clean_}),
                         .metric = logit(3),
                         .tokens_per_run = 16,
                         .threads = GetParam()};
      swept.partial = folder_ / ("source" + std::to_string(i) + (finished ? "f" : "") + ".safetensors");
      if (!finished) swept.progress = [](const SweepProgress& progress) { return progress.done < 3; };
      EXPECT_EQ(sweep_report(model_, swept).complete, finished);
      swept.progress = nullptr;
      SweepOptions other = swept;
      other.from = others[i].second;
      EXPECT_THAT(text_thrown_by<CheckpointError>([&] { sweep(model_, other); }),
                  HasSubstr("its source differ"))
          << i;
      EXPECT_TRUE(sweep_report(model_, swept).complete) << "its own source continues";
    }
  }
}

TEST_P(SweepProgressed, SaysHowManyRowsAreThere) {
  auto ended = options();
  const std::int64_t of_a_row = 2 * 4 * 36;
  ended.progress = [&](const SweepProgress& progress) { return progress.done <= of_a_row; };
  const auto report = sweep_report(model_, ended);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.rows, 1);
  EXPECT_EQ(sweep_report(model_, options()).rows, 2);
}

TEST_P(SweepProgressed, SaysHowFarItIs) {
  auto watched = options();
  std::vector<SweepProgress> told;
  watched.progress = [&](const SweepProgress& progress) {
    told.push_back(progress);
    return true;
  };
  const auto report = sweep_report(model_, watched);
  ASSERT_GT(told.size(), 10U);
  for (std::size_t i = 1; i < told.size(); ++i) {
    EXPECT_GT(told[i].done, told[i - 1].done);
    EXPECT_EQ(told[i].total, 2 * 2 * 4 * 36);
    EXPECT_TRUE(told[i].seconds_left.has_value());
  }
  EXPECT_EQ(told.back().done, told.back().total);
  EXPECT_TRUE(report.complete);
  EXPECT_GT(report.runs, 100);
  EXPECT_LT(report.runs, told.back().total) << "keys that a query cannot see need no run";
  EXPECT_EQ(report.unpatched.values().sizes(), at::IntArrayRef({2, 2}));
  EXPECT_NEAR(report.unpatched.at({0, 1}), logit(3).score(model_, clean_).item<double>(), 1e-12);
}

TEST_P(SweepProgressed, AResumedSweepHasTheBitsOfAnUnbrokenOne) {
  const auto unbroken = sweep(model_, options());
  std::mt19937 random(5);
  for (int moment = 0; moment < 20; ++moment) {
    auto broken = options();
    broken.partial = folder_ / ("partial" + std::to_string(moment) + ".safetensors");
    std::int64_t calls = static_cast<std::int64_t>(random() % 25);
    bool complete = false;
    int pieces = 0;
    std::int64_t runs = 0;
    std::optional<Grid> last;
    while (!complete) {
      std::int64_t left = calls;
      broken.progress = [&](const SweepProgress&) { return left-- > 0; };
      const auto report = sweep_report(model_, broken);
      complete = report.complete;
      runs += report.runs;
      last = report.grid;
      calls += static_cast<std::int64_t>(random() % 40) + 1;
      ++pieces;
    }
    EXPECT_GT(pieces, 1);
    EXPECT_TRUE(same_bits(*last, unbroken)) << "moment " << moment;
    EXPECT_EQ(runs, sweep_report(model_, options()).runs) << "nothing is computed twice";
  }
}

TEST_P(SweepProgressed, AStoppedSweepGivesWhatItHas) {
  auto stopped = options();
  int calls = 0;
  stopped.progress = [&](const SweepProgress&) { return ++calls < 5; };
  const auto report = sweep_report(model_, stopped);
  EXPECT_FALSE(report.complete);
  const auto all = sweep(model_, options()).values(), some = report.grid.values();
  const auto there = some.isnan().logical_not();
  EXPECT_GT(there.sum().item<std::int64_t>(), 0);
  EXPECT_LT(there.sum().item<std::int64_t>(), all.numel());
  EXPECT_TRUE(some.masked_select(there).equal(all.masked_select(there)));
}

TEST_P(SweepProgressed, WhatIsDoneSurvivesAHookThatThrows) {
  auto failing = options();
  failing.partial = folder_ / "partial.safetensors";
  int calls = 0;
  failing.progress = [&](const SweepProgress&) -> bool {
    if (++calls == 6) throw std::runtime_error("the disk is full");
    return true;
  };
  EXPECT_THROW(sweep(model_, failing), std::runtime_error);
  failing.progress = nullptr;
  const auto rest = sweep_report(model_, failing);
  EXPECT_LT(rest.runs, sweep_report(model_, options()).runs);
  EXPECT_TRUE(same_bits(rest.grid, sweep(model_, options())));
}

TEST_P(SweepProgressed, ThePartialFileOfAnotherSweepIsRefused) {
  auto first = options();
  first.partial = folder_ / "partial.safetensors";
  first.progress = [](const SweepProgress&) { return false; };
  sweep(model_, first);
  const auto refusal = [&](const HookedTransformer& model, const auto& change) {
    SweepOptions other = first;
    change(other);
    return text_thrown_by<CheckpointError>([&] { sweep(model, other); });
  };
  EXPECT_THAT(refusal(model_,
                      [&](SweepOptions& o) {
                        o.into = at::cat({corrupted_, corrupted_});
                      }),
              AllOf(HasSubstr("partial.safetensors"), HasSubstr("its tokens differ")));
  EXPECT_THAT(refusal(model_, [](SweepOptions& o) { o.site = act::attn_scores; }),
              HasSubstr("its places differ"));
  EXPECT_THAT(refusal(model_,
                      [](SweepOptions& o) {
                        o.over[1] = {Axis::head, {0, 1, 2, 2}};
                      }),
              HasSubstr("its places differ"));
  EXPECT_THAT(refusal(model_, [](SweepOptions& o) { o.tokens_per_run = 17; }), HasSubstr("tokens_per_run"));
  EXPECT_THAT(refusal(model_,
                      [](SweepOptions& o) {
                        o.over[2] = {Axis::query, {Position("end", {5, 4})}};
                      }),
              HasSubstr("its places differ"));
  // Groups that are done are compared as well.
  SweepOptions further = first;
  int calls = 0;
  further.progress = [&](const SweepProgress&) { return ++calls < 30; };
  sweep(model_, further);
  EXPECT_THAT(refusal(model_,
                      [&](SweepOptions& o) {
                        o.from = model_.run_with_cache(at::cat({corrupted_, clean_}), act::everything).cache;
                        o.progress = nullptr;
                      }),
              HasSubstr("its source differ"));
  EXPECT_THAT(refusal(model_,
                      [](SweepOptions& o) {
                        o.metric = {logit(3), logit(4)};
                      }),
              HasSubstr("its metrics differ"));
  EXPECT_THAT(refusal(model_,
                      [](SweepOptions& o) {
                        o.metric = {logit(5), probability(4)};
                      }),
              HasSubstr("its metrics differ"));
  EXPECT_THAT(refusal(model_,
                      [](SweepOptions& o) {
                        o.over[2] = {Axis::query, {Position("end", {5, 4})}};
                      }),
              HasSubstr("its places differ"));
  EXPECT_THAT(refusal(model_, [](SweepOptions& o) { o.edits = {zero(act::z(0))}; }),
              HasSubstr("its edits differ"));
  EXPECT_THAT(refusal(model_, [](SweepOptions& o) { o.from = PatchSource::zero(); }),
              HasSubstr("its source differ"));
  EXPECT_THAT(refusal(model_,
                      [&](SweepOptions& o) {
                        o.from = model_.run_with_cache(at::cat({corrupted_, clean_}), act::everything).cache;
                      }),
              HasSubstr("its source differ"));
  ModelConfig wider = two_layer_config();
  wider.d_mlp = 24;
  const auto with_run_of = [&](const HookedTransformer& model) {
    return [this, &model](SweepOptions& o) {
      o.from = model.run_with_cache(at::cat({clean_, corrupted_}), act::everything).cache;
    };
  };
  const auto other_config = random_model(wider);
  EXPECT_THAT(refusal(other_config, with_run_of(other_config)), HasSubstr("its config differ"));
  const auto weights = HookedTransformer::create(two_layer_config(), {.seed = 3});
  EXPECT_THAT(refusal(weights, with_run_of(weights)), HasSubstr("its source differ"));
}

TEST_P(SweepProgressed, OnlyAPartialFileIsWrittenTo) {
  auto begun = options();
  begun.partial = folder_ / "partial.safetensors";
  const auto refused = [&] {
    EXPECT_THROW(require_can_keep(begun.partial), IoError);
    return text_thrown_by<IoError>([&] { sweep(model_, begun); });
  };
  std::ofstream(begun.partial) << "nothing of the kind";
  EXPECT_THAT(refused(), HasSubstr("not the partial file of a sweep written by hooked"));
  save_safetensors(begun.partial, {{"scores", at::ones({2})}}, {.metadata = {{"sweep", "mine"}}});
  EXPECT_THAT(refused(), HasSubstr("not the partial file of a sweep written by hooked"));
  Grid(at::ones({1}, at::kDouble), {{"a", {"0"}}}, {}).save(begun.partial, Overwrite::any);
  EXPECT_THAT(refused(), HasSubstr("not the partial file of a sweep written by hooked"));
  begun.partial = folder_ / "partial.bin";
  EXPECT_THAT(refused(), HasSubstr("expected a name that ends in .safetensors"));
}

TEST(SweepMemory, DoesNotGrowWithTheNumberOfCells) {
  if (const std::string why = why_no_peaks(); !why.empty()) GTEST_SKIP() << why;
  ModelConfig config = two_layer_config();
  config.n_layers = 4;
  config.n_ctx = 45;
  config.dtype = at::kFloat;
  const auto model = HookedTransformer::create(config, {.seed = 1});
  const at::Tensor clean = random_row(45, 11, 1), corrupted = random_row(45, 11, 2);
  const std::vector<SweptPlace> some = {Position(11), Position(22), Position(33), Position(44)};
  SweepOptions options{.site = act::pattern,
                       .over = {{Axis::layer, {0}}, {Axis::head, {0}}, {Axis::query, some}, Axis::key},
                       .from = model.run_with_cache(clean, act::everything).cache,
                       .into = corrupted,
                       .metric = logit(3)};
  EXPECT_EQ(sweep(model, options).values().numel(), 180);
  const PeakMemory held;
  options.over = {{Axis::layer, {0}}, Axis::head, Axis::query, Axis::key};
  EXPECT_EQ(sweep(model, options).values().numel(), 8100);
  const std::int64_t of_a_layer = held.bytes();
  options.over = {Axis::layer, Axis::head, Axis::query, Axis::key};
  EXPECT_EQ(sweep(model, options).values().numel(), 32400);
  // The largest runs take 70 to 95 MB, in the workspace and on the heaps of two threads, and reach
  // that by the hundredth run. Patches take about 15 KB a cell, so a layer's would be 120 MB in addition.
  EXPECT_LT(of_a_layer, std::int64_t{144} << 20);
  EXPECT_LT(held.bytes() - of_a_layer, std::int64_t{64} << 20);
}

// Callers' functions need not be thread-safe.
TEST_P(SweepProgressed, MetricsAndProgressAreCalledByOneThreadAtATime) {
  std::atomic<int> inside = 0, most = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto enter = [&] {
    most = std::max<int>(most, ++inside);
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    std::this_thread::yield();
    --inside;
  };
  auto watched = options();
  watched.metric = Metric(
      [&](const at::Tensor& logits) {
        enter();
        return logits.select(1, 0).select(1, 3);
      },
      {Position::last()}, "watched");
  watched.progress = [&](const SweepProgress&) {
    enter();
    return true;
  };
  const Grid made = sweep(model_, watched);
  auto plain = options();
  plain.metric = logit(3);
  plain.threads = 1;
  EXPECT_LT((made.values() - sweep(model_, plain).values()).nan_to_num().abs().max().item<double>(), 1e-12);
  EXPECT_EQ(most, 1);
  EXPECT_LE(threads.size(), static_cast<std::size_t>(GetParam()));
}

TEST_P(SweepProgressed, HooksAreCalledByTheCallersThread) {
  std::set<std::thread::id> threads;
  auto hooked = options();
  hooked.hooks = {{act::resid_post, [&](const at::Tensor&) { threads.insert(std::this_thread::get_id()); }}};
  sweep(model_, hooked);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

// A partial file records answers as ids, whichever way they were given.
TEST(PartialSweep, AnswersMayBeTexts) {
  const auto model = HookedTransformer::load(std::string(HOOKED_SOURCE_DIR) + "/examples/toy_model");
  const TempFolder folder;
  SweepOptions options{.site = act::resid_pre,
                       .over = {Axis::layer},
                       .from = PatchSource::zero(),
                       .into = "When John and Mary",
                       .metric = logit_difference(" Mary", " John"),
                       .partial = folder / "partial.safetensors"};
  options.progress = [](const SweepProgress&) { return false; };
  EXPECT_FALSE(sweep_report(model, options).complete);
  options.progress = nullptr;
  options.metric = logit_difference(model.to_token(" Mary"), model.to_token(" John"));
  EXPECT_TRUE(sweep_report(model, options).complete) << "the same answers";
}

TEST_P(SweepProgressed, CellsWhoseMetricThrowsAreListedAndTheOthersStand) {
  auto options = this->options();
  options.over = {Axis::layer, Axis::head};
  options.into = corrupted_;
  options.from = model_.run_with_cache(clean_, act::everything).cache;
  options.metric = logit(3);
  const auto all = sweep(model_, options);
  // The unpatched run is below it, half of the patched ones above it or so.
  const double limit =
      std::max(all.values().median().item<double>(), logit(3).score(model_, corrupted_).item<double>()) +
      1e-9;
  const Metric picky(
      [limit](const at::Tensor& logits) {
        const at::Tensor scores = logits.select(1, 0).select(1, 3);
        if (scores.gt(limit).any().item<bool>()) throw std::runtime_error("too large");
        return scores;
      },
      {Position::last()}, "picky");
  options.metric = {logit(3), picky};
  const auto report = sweep_report(model_, options);
  EXPECT_TRUE(report.complete);
  std::int64_t over = 0;
  for (const auto& cell : all.largest(100)) {
    const double made = report.grid.at({1, cell.index[0], cell.index[1]});
    // The picky metric reads the whole vocabulary, whose product rounds differently from that of one token.
    EXPECT_NEAR(report.grid.at({0, cell.index[0], cell.index[1]}), cell.value, 1e-12);
    over += cell.value > limit ? 1 : 0;
    EXPECT_EQ(std::isnan(made), cell.value > limit);
  }
  EXPECT_GT(over, 0);
  ASSERT_EQ(static_cast<std::int64_t>(report.failed.size()), over);
  EXPECT_EQ(report.failed[0].labels[0], "picky");
  EXPECT_THAT(report.failed[0].error, HasSubstr("too large"));
  EXPECT_THROW(sweep(model_, options), std::runtime_error);
}

}  // namespace
}  // namespace hooked::sweep_progress_test
