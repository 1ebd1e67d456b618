// Activations that a run skips and the cache computes when they are first read.

#include <thread>

#include "hooked/engine/continuation.h"
#include "tests/engine/continued_runs.h"
#include "tests/support/temp_folder.h"

namespace hooked::late_values_test {
namespace {

using List = std::vector<std::int64_t>;
using Values = std::map<std::string, at::Tensor>;

// What a hook that only looks sees at every point: it makes the run compute all of them.
Values seen_by_hooks(const HookedTransformer& model, const Input& input) {
  Values seen;
  model.run_with_hooks(input, {{act::everything, [&](const at::Tensor& value, const ActivationName& name) {
                                  seen[name.to_string()] = value.clone();
                                }}});
  return seen;
}

std::size_t late_ones(const ActivationCache& cache) {
  std::size_t count = 0;
  for (const auto& entry : cache) count += entry.held.made() ? 0 : 1;
  return count;
}

void expect_near(const ActivationCache& cache, const Values& expected, double tolerance) {
  ASSERT_EQ(cache.size(), expected.size());
  for (const auto& entry : cache) {
    const at::Tensor& value = expected.at(entry.name.to_string());
    EXPECT_EQ(at::IntArrayRef(entry.held.sizes()), value.sizes()) << entry.name.to_string();
    EXPECT_EQ(entry.held.scalar_type(), value.scalar_type()) << entry.name.to_string();
    EXPECT_EQ(entry.held.nbytes(), value.nbytes()) << entry.name.to_string();
    EXPECT_LT(relative_difference(entry.value(), value), tolerance) << entry.name.to_string();
    EXPECT_TRUE(entry.held.made());
  }
}

// All indices of one axis, and some of several, that the site has.
std::vector<AxisIndices> blocks_of(const ActivationName& name) {
  const AxisIndex last{AxisIndex::Last{}};
  const std::vector<std::vector<std::pair<Axis, AxisIndex>>> wanted{
      {{Axis::batch, 1}},
      {{Axis::batch, List{1, 0, 1}}},
      {{Axis::pos, 2}},
      {{Axis::pos, -1}},
      {{Axis::pos, AxisIndex::Range{1, 4}}},
      {{Axis::pos, List{4, 1}}},
      {{Axis::pos, last}},
      {{Axis::head, 1}},
      {{Axis::head, List{1, 0}}},
      {{Axis::key, 2}},
      {{Axis::d_model, 3}},
      {{Axis::pos, List{0, 3}}, {Axis::key, AxisIndex::Range{0, 3}}},
      {{Axis::head, 1}, {Axis::pos, last}},
      {{Axis::batch, 1}, {Axis::pos, last}},
      {{Axis::batch, 0}, {Axis::pos, AxisIndex::Range{2, 5}}, {Axis::head, 1}}};
  std::vector<AxisIndices> blocks;
  for (const auto& one : wanted) {
    AxisIndices indices;
    bool fits = true;
    for (const auto& [axis, index] : one) {
      fits &= axis_on(name.site, axis).has_value();
      if (fits) indices.add(axis, index);
    }
    if (fits) blocks.push_back(indices);
  }
  return blocks;
}

Address with(Address address, const AxisIndices& indices) {
  for (const auto& [axis, index] : indices.entries()) address = address.at(axis, index);
  return address;
}

void expect_equal_blocks(const ActivationCache& cache, const ActivationCache& whole,
                         const ActivationName& name, double tolerance) {
  for (const AxisIndices& indices : blocks_of(name)) {
    const Address address = with(name, indices);
    std::optional<at::Tensor> expected;
    try {
      expected = whole[address];
    } catch (const HookError&) {  // out of range there and here
      EXPECT_THROW(cache[address], HookError) << address.to_string();
      continue;
    }
    EXPECT_LT(relative_difference(cache[address], *expected), tolerance) << address.to_string();
  }
}

struct Random {
  ModelConfig config;
  at::Tensor tokens;
  Input input;
  double tolerance;
};

// Every other model in float32, where our kernels serve, every third batch with padding on the left or right.
Random random_case(std::uint64_t seed) {
  ModelConfig config = random_config(seed);
  // The closest choice of an expert must not depend on rounding.
  config.dtype = seed % 2 == 0 || config.experts ? at::kDouble : at::kFloat;
  const at::Tensor tokens = random_tokens(config, {2, 6}, seed);
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  if (seed % 3 == 1) mask[0].narrow(0, 0, 2).zero_();
  if (seed % 3 == 2) mask[1].narrow(0, 4, 2).zero_();
  return {config, tokens, Input(tokens, {.attention_mask = mask}),
          config.dtype == at::kDouble ? 1e-11 : 1e-4};
}

TEST(LateValues, AreWhatAHookSeesInEveryConfiguration) {
  std::map<std::string, int> late;  // by site
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Random given = random_case(seed);
    const HookedTransformer model = random_model(given.config);
    const RunResult run = model.run_with_cache(given.input, act::everything);
    for (const auto& entry : run.cache) late[std::string(row(entry.name.site).word)] += !entry.held.made();
    expect_near(run.cache, seen_by_hooks(model, given.input), given.tolerance);
  }
  for (const char* site : {"attn_scores", "pattern", "result", "post", "shared_post", "expert_post",
                           "ln1_normalized", "ln2_normalized", "ln1_post_normalized", "q_norm_normalized",
                           "ln_final_normalized", "mlp_ln_normalized", "kv_latent_norm_normalized"}) {
    EXPECT_GT(late[site], 0) << site;
  }
  for (const char* site : {"resid_pre", "q", "k", "v", "z", "pre", "ln1_scale", "unembed_out"})
    EXPECT_EQ(late[site], 0) << site;
}

TEST(LateValues, BlocksAreThoseOfTheWhole) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Random given = random_case(seed);
    const HookedTransformer model = random_model(given.config);
    const RunResult run = model.run_with_cache(given.input, act::everything);
    const RunResult other = model.run_with_cache(given.input, act::everything);
    for (const auto& entry : run.cache) {
      if (entry.held.made()) continue;
      const at::Tensor whole = other.cache[entry.name];
      ASSERT_TRUE(other.cache.entry(entry.name).held.made());
      expect_equal_blocks(run.cache, other.cache, entry.name, given.tolerance);
      EXPECT_FALSE(entry.held.made()) << "blocks are not kept";
    }
    const ActivationCache row = run.cache.row(1);
    EXPECT_EQ(late_ones(row) > 0, late_ones(run.cache) > 0);
    for (const auto& entry : row) {
      EXPECT_LT(relative_difference(entry.value(), other.cache[entry.name].narrow(0, 1, 1)), given.tolerance)
          << entry.name.to_string();
    }
  }
}

TEST(LateValues, OfKeptPositionsAreThoseOfTheWhole) {
  const std::vector<AxisIndex> kept{2, -1, AxisIndex::Range{1, 5}, List{4, 0}, AxisIndex::Last{}};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Random given = random_case(seed);
    const HookedTransformer model = random_model(given.config);
    const RunResult whole = model.run_with_cache(given.input, act::everything);
    const AxisIndex& index = kept[seed % kept.size()];
    const at::Tensor mask = given.input.main_mask();
    if (index == AxisIndex(-1) && mask.defined() && !mask.select(1, -1).all().item<bool>()) {
      EXPECT_THROW(model.run_with_cache(given.input, act::everything, {.keep = {.positions = index}}),
                   HookError);
      continue;  // which is padding in some row
    }
    const RunResult run = model.run_with_cache(given.input, act::everything, {.keep = {.positions = index}});
    EXPECT_TRUE(at::equal(run.logits(), whole.logits()));
    for (const auto& entry : run.cache) {
      if (!axis_on(entry.name.site, Axis::pos)) continue;  // experts' tokens
      AxisIndices indices;
      const auto* one = std::get_if<std::int64_t>(&index.value);
      indices.add(*axis_on(entry.name.site, Axis::pos), one == nullptr ? index : AxisIndex(List{*one}));
      at::Tensor expected = whole.cache[with(entry.name, indices)];
      if (expected.dim() < static_cast<std::int64_t>(entry.held.sizes().size()))
        expected = expected.unsqueeze(sequence_dimension(entry.name.site));
      for (const at::Tensor& held : entry.held.held())
        EXPECT_LE(held.storage().nbytes(), 2 * held.nbytes()) << entry.name.to_string();
      EXPECT_LT(relative_difference(entry.value(), expected), given.tolerance) << entry.name.to_string();
    }
  }
}

TEST(LateValues, ARunThatKeepsTheDefaultsIsThePlainRun) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Random given = random_case(seed);
    const HookedTransformer model = random_model(given.config);
    EXPECT_TRUE(at::equal(model.run_with_cache(given.input).logits(), model.run(given.input).logits()));
  }
}

TEST(LateValues, BehindAPrefix) {
  int late = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const ModelConfig config = random_double_config(seed);
    if (!can_continue(config)) continue;
    const HookedTransformer model = random_model(config);
    const at::Tensor tokens = random_tokens(config, {2, 7}, seed);
    const Prefix prefix = prefix_of(model, tokens.narrow(1, 0, 3));
    const Input rest(tokens.narrow(1, 3, 4), {.prefix = prefix});
    // Keys and values of a run that keeps a prefix are in the prefix.
    const RunResult run = model.run(rest, {.capture = act::everything, .keep_prefix = seed % 2 == 0});
    late += static_cast<int>(late_ones(run.cache));
    expect_near(run.cache, seen_by_hooks(model, rest), 1e-11);
  }
  EXPECT_GT(late, 0);
}

class TwoStacks : public testing::Test {
 protected:
  HookedTransformer model_ = random_model(two_stack_config());
};

TEST_F(TwoStacks, BothHaveLateValues) {
  at::Tensor mask = at::ones({2, 6}, at::kLong);
  mask[0].narrow(0, 4, 2).zero_();
  const Input input(
      random_tokens(two_stack_config(), {2, 6}, 1),
      {.attention_mask = mask, .decoder = {.tokens = random_tokens(two_stack_config(), {2, 4}, 2)}});
  const RunResult run = model_.run_with_cache(input, act::everything);
  const RunResult other = model_.run_with_cache(input, act::everything);
  for (const char* name : {"encoder.0.attn.hook_pattern", "decoder.2.attn.hook_attn_scores",
                           "decoder.1.cross_attn.hook_pattern", "decoder.1.cross_attn.hook_result",
                           "encoder.1.ln1.hook_normalized", "decoder.0.ln3.hook_normalized"}) {
    ASSERT_TRUE(run.cache.contains(ActivationName::parse(name))) << name;
    EXPECT_FALSE(run.cache.entry(ActivationName::parse(name)).held.made()) << name;
  }
  expect_near(other.cache, seen_by_hooks(model_, input), 1e-11);
  for (const auto& entry : run.cache) {
    expect_equal_blocks(run.cache, other.cache, entry.name, 1e-11);
  }
}

class SmallModel : public testing::Test {
 protected:
  static ModelConfig wide_config() {
    ModelConfig config = small_config();
    config.n_ctx = 64;
    config.d_model = 32;
    config.d_mlp = 64;
    config.dtype = at::kFloat;
    return config;
  }
  RunResult run(const Selection& capture = act::everything) const {
    return model_.run_with_cache(tokens_, capture);
  }

  HookedTransformer model_ = random_model(wide_config());
  at::Tensor tokens_ = random_tokens(wide_config(), {2, 64});
};

TEST_F(SmallModel, SeveralThreadsReadOneCache) {
  const Values expected = seen_by_hooks(model_, tokens_);
  const RunResult shared = run();
  ASSERT_GT(late_ones(shared.cache), 0U);
  constexpr int kThreads = 4;
  std::vector<std::vector<at::Tensor>> read(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const ActivationCache copy = shared.cache;
      for (const auto& entry : t % 2 == 0 ? shared.cache : copy) {
        if (t == 3) copy[Address(act::pattern(1)).head(1).pos(-1)];
        read[static_cast<std::size_t>(t)].push_back(entry.value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::size_t number = 0;
  for (const auto& entry : shared.cache) {
    for (const auto& by_thread : read) EXPECT_TRUE(by_thread[number].is_same(read[0][number])) << "made once";
    EXPECT_LT(relative_difference(read[0][number], expected.at(entry.name.to_string())), 1e-4);
    ++number;
  }
}

TEST_F(SmallModel, AreSaved) {
  const TempFolder folder;
  const RunResult late = run();
  late.cache.save(folder.path() / "cache.safetensors");
  const ActivationCache loaded = ActivationCache::load(folder.path() / "cache.safetensors");
  EXPECT_EQ(loaded.names(), late.cache.names());
  for (const auto& entry : loaded)
    EXPECT_TRUE(at::equal(entry.value(), late.cache[entry.name])) << entry.name.to_string();
}

TEST_F(SmallModel, OutliveTheModel) {
  std::optional<HookedTransformer> model = random_model(wide_config());
  const Values expected = seen_by_hooks(*model, tokens_);
  const ActivationCache cache = model->run_with_cache(tokens_, act::everything).cache;
  model.reset();
  ASSERT_GT(late_ones(cache), 0U);
  ASSERT_FALSE(cache.entry(act::result(1).name()).held.made());
  expect_near(cache, expected, 1e-4);
}

TEST_F(SmallModel, DoNotChangeWithLaterRuns) {
  const Values expected = seen_by_hooks(model_, tokens_);
  const RunResult late = run();
  for (int i = 0; i < 3; ++i) {
    model_.run(random_tokens(wide_config(), {2, 64}, 50 + i),
               {.edits = {zero(act::z), scale(act::resid_pre, 3.0)}, .capture = act::everything});
  }
  expect_near(late.cache, expected, 1e-4);
}

TEST_F(SmallModel, AreRefusedWhereSomebodyWroteIntoWhatTheyAreMadeOf) {
  const RunResult late = run();
  late.cache[act::pattern(0)];  // computed in time
  late.cache[act::q(0)].mul_(2.0);
  late.cache[act::q(1)].mul_(2.0);
  EXPECT_NO_THROW(late.cache[act::pattern(0)]);
  EXPECT_TRUE(throws<HookError>([&] { late.cache[act::pattern(1)]; }, "blocks.1.attn.hook_pattern",
                                {"the queries were written into"}));
  EXPECT_THROW(late.cache[Address(act::pattern(1)).head(0).pos(1)], HookError) << "blocks as well";
  EXPECT_THROW(late.cache.row(0), HookError);
  EXPECT_THROW(late.cache[act::attn_scores(0)], HookError) << "nobody had read it";
  EXPECT_NO_THROW(late.cache[act::pattern(2)]);
  late.cache[act::pattern(2)].mul_(0.5);
  EXPECT_THROW(late.cache[act::pattern(2)], HookError) << "what was made is guarded like the others";
  late.cache[act::z(2)].mul_(0.5);
  EXPECT_THROW(late.cache[act::result(2)], HookError);
}

TEST_F(SmallModel, TakeNoMoreMemoryThanTheValues) {
  for (const Selection& capture :
       {Selection(act::defaults), Selection(act::everything), Selection(act::pattern), Selection(act::post),
        Selection(act::result), act::q | act::pattern, act::v | act::attn_scores}) {
    const RunResult late = run(capture), read = run(capture);
    std::size_t values = 0;
    for (const auto& entry : read.cache) values += entry.value().nbytes();
    EXPECT_LE(late.cache.bytes(), values * 5 / 4) << "heads of one product lie side by side";
  }
  const RunResult late = run(act::defaults);
  const std::size_t before = late.cache.bytes();
  const at::Tensor pattern = late.cache[act::pattern(1)];
  EXPECT_GE(late.cache.bytes(), before + pattern.nbytes());
  std::size_t values = 0;
  for (const auto& entry : late.cache) values += entry.held.nbytes();
  EXPECT_LT(before, values / 2);
}

TEST_F(SmallModel, WhoeverWantsTheValueNowGetsIt) {
  int calls = 0;
  const Hook hook{act::pattern(1), [&](const at::Tensor&) { ++calls; }};
  const RunResult hooked = model_.run_with_hooks(tokens_, {hook}, {.capture = act::pattern});
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(hooked.cache.entry(act::pattern(1).name()).held.made());
  EXPECT_FALSE(hooked.cache.entry(act::pattern(2).name()).held.made()) << "only that layer's";
  const RunResult edited =
      model_.run(tokens_, {.edits = {zero(Address(act::pattern(1)).head(2))}, .capture = act::pattern});
  EXPECT_EQ(edited.cache[act::pattern(1)].select(1, 2).abs().max().item<double>(), 0.0);
  const RunResult with_gradients = model_.run(
      tokens_,
      {.capture = act::everything,
       .gradients = GradientRequest{act::z(0), [](const at::Tensor& logits) { return logits.sum(); }}});
  EXPECT_EQ(late_ones(with_gradients.cache), 0U);
  const RunResult elsewhere = model_.run(tokens_, {.capture = act::defaults, .keep = {.device = "cpu"}});
  EXPECT_EQ(late_ones(elsewhere.cache), 0U);
}

}  // namespace
}  // namespace hooked::late_values_test
