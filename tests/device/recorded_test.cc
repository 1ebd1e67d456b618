// Runs that are recorded and replayed give the same as the same runs kernel by kernel, to the last bit:
// with other numbers than those at recording time, and results that were returned earlier stay
// unchanged.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <string>
#include <thread>
#include <vector>

#include "hooked/core/error.h"
#include "tests/device/checks.h"
#include "tests/device/device_under_test.h"
#include "tests/device/suite_cases.h"
#include "tests/support/start_at_layer.h"
#include "tests/support/strict_device/counts.h"
#include "tests/support/strict_device/limits.h"

namespace hooked::device_tests {
namespace {

/// A kind of run that can be recorded, with other numbers for each `seed`.
struct Recordable {
  const char* name;
  bool (*applies)(const Subject& subject);
  RunResult (*run)(const Subject& subject, std::uint64_t seed, bool eager);
};

Input tokens(const Subject& s, std::uint64_t seed) {
  Input input = s.input();
  const auto shift = static_cast<std::int64_t>(seed);
  input.tokens = (input.tokens + shift) % s.config().d_vocab;
  if (input.decoder.tokens.defined()) {
    input.decoder.tokens = (input.decoder.tokens + shift) % s.config().d_vocab;
  }
  return input;
}

RunResult run(const Subject& s, const Input& input, RunOptions options, bool eager) {
  options.eager = eager;
  return s.model.run(input, s.options(std::move(options)));
}

RunResult plain(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {}, eager);
}
RunResult defaults(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {.capture = act::defaults}, eager);
}
RunResult everything(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {.capture = act::everything}, eager);
}
RunResult positions(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed),
             {.capture = act::defaults, .keep = {.positions = std::vector<std::int64_t>{0, 2}}}, eager);
}
RunResult asked_logits(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed),
             {.capture = act::resid_post, .logit_positions = std::vector<std::int64_t>{1, -1}}, eager);
}
RunResult asked_tokens(const Subject& s, std::uint64_t seed, bool eager) {
  const auto other = static_cast<std::int64_t>(seed % 2);
  return run(s, tokens(s, seed), {.logit_tokens = std::vector<std::int64_t>{2 + other, 0}}, eager);
}
RunResult stream_only(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {.capture = act::resid_pre, .stop_at_layer = 1}, eager);
}
RunResult last_point(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {.capture = act::resid_pre(0), .output = Output::none}, eager);
}
RunResult from_residual(const Subject& s, std::uint64_t seed, bool eager) {
  const at::Tensor residual =
      s.random({s.golden.tokens.size(0), s.golden.tokens.size(1), s.config().d_model}, seed);
  const auto layer = s.config().last_start(1, s.config().n_layers);
  return run(s, start_at_layer(s.config(), layer, residual, tokens(s, seed).tokens),
             {.capture = act::defaults}, eager);
}
RunResult steered(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed),
             {.edits = {add(act::resid_post(0), s.random({s.config().d_model}, seed)),
                        set(act::attn_out(0).pos(1), s.random({s.config().d_model}, seed + 10)),
                        scale(act::z(s.attending()).head(0), 0.5),
                        scale(act::pattern(s.attending()), s.random({1}, seed + 20)),
                        project_out(act::resid_pre(1), s.random({s.config().d_model}, seed + 30))},
              .capture = act::defaults},
             eager);
}
RunResult replaced(const Subject& s, std::uint64_t seed, bool eager) {
  const at::Tensor stream =
      s.random({s.golden.tokens.size(0), s.golden.tokens.size(1), s.config().d_model}, seed);
  return run(s, tokens(s, seed), {.edits = {set(act::attn_out(1), stream)}, .capture = act::attn_out}, eager);
}
// At other rows, columns and heads each time.
RunResult edited_elsewhere(const Subject& s, std::uint64_t seed, bool eager) {
  const auto i = static_cast<std::int64_t>(seed);
  const std::int64_t heads = s.config().n_heads;
  return run(
      s, tokens(s, seed),
      {.edits =
           {zero(act::z(s.attending()).head(i % heads)),
            set(act::resid_pre(0).pos(i % 3), s.random({s.config().d_model}, seed)),
            scale(act::z(s.attending()).pos(std::vector<std::int64_t>{i % 2, 3}).head((i + 1) % heads).row(0),
                  2.0),
            add(act::attn_out(1).pos(-1 - i % 3), 0.5),
            project_out(act::resid_post(0).pos(i % 3), s.random({s.config().d_model}, seed + 1))},
       .capture = act::z | act::resid_post},
      eager);
}
RunResult kept_on_the_host(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {.capture = act::everything, .keep = {.device = "cpu"}}, eager);
}
// With other tokens each time.
RunResult behind_prefix(const Subject& s, std::uint64_t seed, bool eager) {
  const at::Tensor read = tokens(s, seed).tokens;
  const auto before = s.model.run(read.narrow(1, 0, 3), {.keep_prefix = true});
  return run(s, {read.narrow(1, 3, 2), {.prefix = before.prefix}}, {.capture = act::defaults}, eager);
}
Input padded_tokens(const Subject& s, std::uint64_t seed) {
  Input input = tokens(s, seed);
  const at::Tensor mask = at::ones_like(input.tokens);
  mask[-1].narrow(0, 0, 2).zero_();
  input.attention_mask = mask;
  return input;
}
RunResult padded(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, padded_tokens(s, seed), {.capture = act::resid_post}, eager);
}
RunResult loss(const Subject& s, std::uint64_t seed, bool eager) {
  return run(s, tokens(s, seed), {.capture = act::resid_post, .output = Output::loss}, eager);
}
// For other tokens than were read, together with logits that somebody sees.
RunResult loss_of_targets(const Subject& s, std::uint64_t seed, bool eager) {
  return run(
      s, padded_tokens(s, seed),
      {.capture = act::ln_final_normalized,
       .output = Output::loss,
       .loss = {.reduction = LossReduction::per_token,
                .targets = (s.golden.tokens * 3 + static_cast<std::int64_t>(seed)) % s.config().d_vocab}},
      eager);
}
// What a run leaves to others, as seen by runs that continue from it.
RunResult leaves_prefix(const Subject& s, std::uint64_t seed, bool eager) {
  const at::Tensor read = tokens(s, seed).tokens;
  const RunResult first = run(s, read.narrow(1, 0, 2), {.keep_prefix = true}, eager);
  const RunResult second = run(s, {read.narrow(1, 2, 2), {.prefix = first.prefix}},
                               {.capture = act::resid_pre, .keep_prefix = true}, eager);
  RunResult behind = run(s, {read.narrow(1, 4, 1), {.prefix = second.prefix}},
                         {.capture = defaults_without_experts()}, /*eager=*/true);
  behind.notes = first.notes;
  behind.notes.insert(behind.notes.end(), second.notes.begin(), second.notes.end());
  return behind;
}
// Rows that begin after different columns of a prefix.
RunResult ragged(const Subject& s, std::uint64_t seed, bool eager) {
  const at::Tensor read = tokens(s, seed).tokens;
  const auto before =
      s.model.run(read.narrow(0, 0, 1).narrow(1, 0, 3), {.keep_prefix = true, .eager = eager});
  const at::Tensor rows = read.narrow(0, 0, 1).narrow(1, 1, 4).expand({2, -1}).clone();
  return run(s, {rows, {.prefix = before.prefix, .first_columns = {1, 2}}},
             {.capture = act::resid_post,
              .keep = {.positions = std::vector<std::int64_t>{3, 4}},  // that both have
              .logit_positions = std::vector<std::int64_t>{-1}},
             eager);
}

bool unpadded(const Subject& s) { return !s.golden.attention_mask.defined(); }
bool predicts_unpadded(const Subject& s) { return s.predicts() && unpadded(s); }
bool resumes(const Subject& s) {
  return s.one_stack() && !s.golden.token_types.defined() && s.config().n_layers > 1;
}
bool goes_on(const Subject& s) { return resumes(s) && s.causal() && unpadded(s); }
bool edits(const Subject& s) { return s.one_stack() && s.config().n_layers > 1 && unpadded(s); }

bool goes_on_far(const Subject& s) { return goes_on(s) && s.golden.tokens.size(1) >= 5; }
bool has_loss(const Subject& s) { return s.predicts() && s.causal(); }
bool has_loss_of_tokens(const Subject& s) {
  return has_loss(s) && s.one_stack() && unpadded(s) && s.config().final_norm != NormKind::none &&
         s.config().d_vocab_out() == s.config().d_vocab;
}
bool begins_anywhere(const Subject& s) {
  return goes_on_far(s) && s.predicts() && !s.config().delta_net &&
         !std::ranges::any_of(std::views::iota(std::int64_t{0}, s.config().n_layers),
                              [&](std::int64_t l) { return s.config().mixture(l); });
}

constexpr std::array<Recordable, 19> kRuns{{
    {"plain", always, plain},
    {"defaults", always, defaults},
    {"everything", always, everything},
    {"positions", unpadded, positions},
    {"asked_logits", predicts_unpadded, asked_logits},
    {"asked_tokens", predicts_unpadded, asked_tokens},
    {"stream_only", always, stream_only},
    {"last_point", always, last_point},
    {"from_residual", resumes, from_residual},
    {"steered", edits, steered},
    {"replaced", edits, replaced},
    {"edited_elsewhere", edits, edited_elsewhere},
    {"kept_on_the_host", always, kept_on_the_host},
    {"behind_prefix", goes_on, behind_prefix},
    {"padded", unpadded, padded},
    {"loss", has_loss, loss},
    {"loss_of_targets", has_loss_of_tokens, loss_of_targets},
    {"leaves_prefix", goes_on_far, leaves_prefix},
    {"ragged", begins_anywhere, ragged},
}};

// Such runs wait for how many tokens each expert gets.
bool shows_experts(const RunResult& result) {
  return std::ranges::any_of(result.cache.names(),
                             [](const ActivationName& name) { return per_expert(row(name.site)); });
}

class RecordedOnTheDevice : public testing::TestWithParam<GoldenCase> {};

TEST_P(RecordedOnTheDevice, EqualsKernelByKernel) {
  const GoldenRun golden = read_golden(GetParam());
  const auto model = HookedTransformer::load(GetParam().folder().string(), {.device = device_under_test()});
  const Subject s{model, golden};
  for (const Recordable& kind : kRuns) {
    if (!kind.applies(s)) continue;
    SCOPED_TRACE(kind.name);
    const auto eager = [&](std::uint64_t seed) { return all_of(kind.run(s, seed, true)); };
    const NamedTensors first = eager(1), second = eager(2), third = eager(3);
    const Comparison kExact{.tolerance = 0};
    EXPECT_TRUE(agree(all_of(kind.run(s, 1, false)), first, kExact)) << "before it is recorded";
    EXPECT_TRUE(agree(all_of(kind.run(s, 2, false)), second, kExact)) << "while it is recorded";
    const RunResult replayed = kind.run(s, 3, false);
    EXPECT_TRUE(agree(all_of(kind.run(s, 1, false)), first, kExact)) << "the second replay";
    EXPECT_TRUE(agree(all_of(replayed), third, kExact)) << "the first replay, after the second";
    if (shows_experts(replayed)) {
      EXPECT_THAT(replayed.notes, testing::ElementsAre(testing::HasSubstr("experts")));
    } else {
      EXPECT_THAT(replayed.notes, testing::ElementsAre());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, RecordedOnTheDevice, testing::ValuesIn(suite_cases()), golden_test_name);

class RecordedModel : public testing::Test {
 protected:
  const GoldenRun golden_ = read_golden(golden_case("llama"));
  const HookedTransformer model_ =
      HookedTransformer::load(golden_case("llama").folder().string(), {.device = device_under_test()});
  const Subject s_{model_, golden_};
};

TEST_F(RecordedModel, IsReplayedInAFewLaunches) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  for (std::uint64_t seed = 0; seed < 2; ++seed) defaults(s_, seed, false);
  // The ids, into the recording, the recording, out of it.
  EXPECT_EQ(strict::counts_of([&] { defaults(s_, 2, false); }), (strict::Counts{.launches = 4, .waits = 0}));
}

TEST_F(RecordedModel, ReplaysEditsAtPlacesThatItHasNotSeen) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  const auto zeroed = [&](std::int64_t head) {
    return model_.run(s_.input(), {.edits = {zero(act::z(1).head(head))}}).logits();
  };
  zeroed(0);
  zeroed(1);
  at::Tensor third;
  // The ids and the place, both into the recording, the recording, out of it.
  EXPECT_EQ(strict::counts_of([&] { third = zeroed(2); }), (strict::Counts{.launches = 6, .waits = 0}));
  const auto eager = model_.run(s_.input(), {.edits = {zero(act::z(1).head(2))}, .eager = true});
  EXPECT_TRUE(third.cpu().equal(eager.logits().cpu()));
  EXPECT_THROW(zeroed(s_.config().n_heads), HookError);
}

TEST_F(RecordedModel, ReplaysLossesAndPrefixesInAFewLaunches) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  for (const RunOptions& options : {RunOptions{.output = Output::loss}, RunOptions{.keep_prefix = true}}) {
    for (int time = 0; time < 2; ++time) model_.run(golden_.tokens, options);
    // The ids, they or the prefix once more, into the recording, the recording, out of it.
    const strict::Counts replayed = strict::counts_of([&] { model_.run(golden_.tokens, options); });
    EXPECT_LE(replayed.launches, 5);
    EXPECT_EQ(replayed.waits, 0);
  }
}

TEST_F(RecordedModel, APrefixLivesOnWithoutTheRestOfItsRun) {
  if (!on_strict_device()) GTEST_SKIP() << "memory is counted on the strict device only";
  const auto kept = [&] {
    return *model_.run(golden_.tokens, {.capture = act::everything, .keep_prefix = true}).prefix;
  };
  for (int time = 0; time < 3; ++time) kept();
  const std::int64_t before = strict::bytes_in_use();
  const Prefix prefix = kept();
  EXPECT_LE(strict::bytes_in_use() - before, 2 * prefix.bytes() + 8192);
}

TEST_F(RecordedModel, CopiesAPrefixOnce) {
  if (!on_strict_device()) GTEST_SKIP() << "launches are counted on the strict device only";
  const auto prefix = model_.run(golden_.tokens.narrow(1, 0, 3), {.keep_prefix = true}).prefix;
  const Input input(golden_.tokens.narrow(1, 3, 2), {.prefix = prefix});
  for (int time = 0; time < 2; ++time) model_.run(input);
  EXPECT_EQ(strict::counts_of([&] { model_.run(input); }), (strict::Counts{.launches = 4, .waits = 0}));
}

TEST_F(RecordedModel, IsSharedByThreads) {
  std::vector<NamedTensors> expected(6), got(6);
  for (std::uint64_t seed = 0; seed < 6; ++seed) expected[seed] = all_of(steered(s_, seed, true));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      threads.emplace_back([&, seed] { got[seed] = all_of(steered(s_, seed, false)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      EXPECT_TRUE(agree(got[seed], expected[seed], {.tolerance = 0})) << seed;
    }
  }
}

TEST_F(RecordedModel, OutlivesAnException) {
  const auto wrong = [&] { model_.run(s_.input(), {.edits = {add(act::resid_post(0), s_.random({3}, 1))}}); };
  for (int time = 0; time < 3; ++time) EXPECT_THROW(wrong(), HookError);
  const NamedTensors expected = all_of(steered(s_, 5, true));
  for (int time = 0; time < 3; ++time) {
    EXPECT_TRUE(agree(all_of(steered(s_, 5, false)), expected, {.tolerance = 0}));
    EXPECT_THROW(wrong(), HookError);
  }
}

TEST_F(RecordedModel, SeesWeightsThatWereChanged) {
  const auto logits = [&](bool eager) { return plain(s_, 1, eager).logits().cpu(); };
  for (int time = 0; time < 3; ++time) logits(false);
  model_.weights()["blocks.0.mlp.W_out"].mul_(2.0);
  EXPECT_TRUE(logits(false).equal(logits(true)));
}

TEST_F(RecordedModel, SaysWhatIsNotRecorded) {
  const auto note = [&](const RunOptions& options) {
    const RunResult result = model_.run(s_.input(), options);
    return result.notes.empty() ? std::string() : result.notes.front();
  };
  EXPECT_THAT(note({.hooks = {Hook(act::z, [](const at::Tensor& z) { return z * 0.5; })}}),
              testing::HasSubstr("hooks"));
  const LogitMetric metric([](const at::Tensor& logits) { return logits.square().mean(); });
  EXPECT_THAT(note({.gradients = GradientRequest{act::resid_pre, metric}}),
              testing::HasSubstr("gradients are not recorded: their metric is a function"));
  EXPECT_EQ(note({.output = Output::loss}), "");
  EXPECT_EQ(note({.keep_prefix = true}), "");
  EXPECT_EQ(note({}), "");
  EXPECT_EQ(note({.hooks = {Hook(act::z, [](const at::Tensor& z) { return z * 0.5; })}, .eager = true}), "");
}

TEST(Recorded, NothingOnTheCpu) {
  const auto model = HookedTransformer::load(golden_case("gpt2").folder().string());
  const GoldenRun golden = read_golden(golden_case("gpt2"));
  EXPECT_TRUE(model.run(golden.tokens, {.output = Output::loss}).notes.empty());
}

}  // namespace
}  // namespace hooked::device_tests
