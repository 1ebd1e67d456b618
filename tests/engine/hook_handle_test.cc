#include "hooked/engine/hook_handle.h"

#include <memory>
#include <stdexcept>
#include <thread>

#include "tests/support/tiny_model.h"

namespace hooked::hook_handle_test {
namespace {

class ScopedHook : public testing::Test {
 protected:
  static at::Tensor halved(const at::Tensor& x) { return x * 0.5; }

  HookedTransformer model_ = random_model();
  at::Tensor tokens_ = random_tokens(model_.config(), {2, 6});
  at::Tensor plain_ = model_(tokens_);
};

TEST_F(ScopedHook, IsAttachedUntilItsScopeEnds) {
  {
    const auto handle = model_.hook(act::resid_pre(1), halved);
    EXPECT_FALSE(at::equal(model_(tokens_), plain_));
    EXPECT_FALSE(at::equal(model_(tokens_), plain_)) << "it was gone after one run";
  }
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(ScopedHook, RemoveDetachesNowAndTwiceIsHarmless) {
  auto handle = model_.hook(act::resid_pre(1), halved);
  handle.remove();
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  handle.remove();
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(ScopedHook, MovesWithItsHandle) {
  std::optional<HookHandle> outer;
  {
    auto inner = model_.hook(act::resid_pre(1), halved);
    outer.emplace(std::move(inner));
  }
  EXPECT_FALSE(at::equal(model_(tokens_), plain_));
  auto other = model_.hook(act::resid_pre(2), halved);
  *outer = std::move(other);  // detaches the first
  const at::Tensor with_second = model_(tokens_);
  outer.reset();
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  EXPECT_TRUE(at::equal(with_second, model_.run_with_hooks(tokens_, {{act::resid_pre(2), halved}}).logits()));
}

TEST_F(ScopedHook, MayOutliveItsModel) {
  std::optional<HookHandle> handle;
  {
    HookedTransformer copy = model_;
    handle.emplace(copy.hook(act::resid_pre(1), halved));
  }
  handle->remove();
  handle.reset();
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(ScopedHook, BelongsToItsHandleNotToCopies) {
  const auto handle = model_.hook(act::resid_pre(1), halved);
  const HookedTransformer copy = model_;
  EXPECT_TRUE(at::equal(copy(tokens_), plain_));
  EXPECT_EQ(copy.loaded(), model_.loaded());
  HookedTransformer assigned = random_model();
  assigned = model_;
  EXPECT_TRUE(at::equal(assigned(tokens_), plain_));
  const HookedTransformer moved = std::move(model_);
  EXPECT_FALSE(at::equal(moved(tokens_), plain_)) << "a moved handle keeps its hooks";
}

TEST_F(ScopedHook, OutlivesRunsWithHooksOfTheirOwn) {
  const auto handle = model_.hook(act::resid_pre(1), halved);
  const at::Tensor halved_logits = model_(tokens_);
  model_.run_with_hooks(tokens_, {{act::resid_pre(1), [](const at::Tensor& x) { return x + 1.0; }}});
  model_.run_with_cache(tokens_);
  EXPECT_THROW(model_.run_with_hooks(tokens_, {{act::z(0), [](const at::Tensor&) { throw 1; }}}), int);
  EXPECT_TRUE(at::equal(model_(tokens_), halved_logits));
}

TEST_F(ScopedHook, ComesBeforeTheRunsHooksAndInOrderOfAttachment) {
  const auto first = model_.hook(act::resid_pre(1), [](const at::Tensor& x) { return x + 1.0; });
  const auto second = model_.hook(act::resid_pre(1), [](const at::Tensor& x) { return x * 2.0; });
  at::Tensor before;
  const auto run =
      model_.run_with_hooks(tokens_, {{act::resid_pre(1), [&](const at::Tensor& x) { before = x; }}});
  const auto plain = random_model().run_with_cache(tokens_, act::resid_pre(1));
  EXPECT_TRUE(at::equal(before, (plain.cache[act::resid_pre(1)] + 1.0) * 2.0));
}

TEST_F(ScopedHook, MayRemoveItselfWhileItRuns) {
  std::optional<HookHandle> handle;
  int calls = 0;
  handle.emplace(model_.hook(act::resid_pre, [&](const at::Tensor& x) {
    ++calls;
    handle.reset();
    return x * 0.5;
  }));
  EXPECT_FALSE(at::equal(model_(tokens_), plain_));
  EXPECT_EQ(calls, 3) << "a run keeps the hooks it started with";
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  EXPECT_EQ(calls, 3);
}

TEST_F(ScopedHook, MayRemoveAnotherWhileItRuns) {
  std::optional<HookHandle> other;
  other.emplace(model_.hook(act::resid_pre(2), halved));
  const auto handle = model_.hook(act::resid_pre(0), [&](const at::Tensor&) { other.reset(); });
  EXPECT_FALSE(at::equal(model_(tokens_), plain_)) << "the run under way keeps both";
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(ScopedHook, AddedWhileARunIsUnderWayTakesEffectInTheNext) {
  std::vector<HookHandle> added;
  const auto adding = model_.hook(act::resid_pre(0), [&](const at::Tensor&) {
    if (added.empty()) added.push_back(model_.hook(act::resid_pre(2), halved));
  });
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
  EXPECT_FALSE(at::equal(model_(tokens_), plain_));
}

// The last owner of a hook's callable may itself own handles.
TEST_F(ScopedHook, HookThatOwnsAnotherHandleDetachesBoth) {
  auto owned = std::make_shared<HookHandle>(model_.hook(act::resid_pre(2), halved));
  auto handle = model_.hook(act::resid_pre(1), [owned](const at::Tensor&) {});
  owned.reset();
  EXPECT_FALSE(at::equal(model_(tokens_), plain_));
  handle.remove();
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(ScopedHook, UnknownPointIsAnErrorAtOnce) {
  EXPECT_THROW((void)model_.hook(act::rot_q(0), halved), HookError);
  EXPECT_THROW((void)model_.hook(act::resid_pre(3), halved), HookError);
  EXPECT_TRUE(at::equal(model_(tokens_), plain_));
}

TEST_F(ScopedHook, PointThatARunDoesNotReachIsAnErrorInThatRun) {
  const auto handle = model_.hook(act::resid_pre(2), halved);
  EXPECT_THROW(model_.run(tokens_, {.stop_at_layer = 1}), HookError);
  EXPECT_NO_THROW(model_.run(tokens_, {.stop_at_layer = 3}));
}

/// A hook would run in the other thread's runs. Hooks attached before threads start apply in all of them.
TEST_F(ScopedHook, OfTwoThreadsIsRefusedOnOneHandle) {
  const auto own = model_.hook(act::resid_pre(1), halved);
  const at::Tensor hooked = model_(tokens_);
  std::string text;
  at::Tensor there, copied;
  std::thread([&] {
    there = model_(tokens_);
    text = text_thrown_by<HookError>([&] { const auto second = model_.hook(act::resid_pre(2), halved); });
    HookedTransformer mine = model_;
    const auto handle = mine.hook(act::resid_pre(2), halved);
    copied = mine(tokens_);
  }).join();
  EXPECT_NE(text.find("another thread"), std::string::npos) << text;
  EXPECT_NE(text.find("auto own = model;"), std::string::npos) << text;
  EXPECT_TRUE(at::equal(there, hooked));
  const HookedTransformer bare = model_;
  EXPECT_TRUE(at::equal(copied, bare.run_with_hooks(tokens_, {{act::resid_pre(2), halved}}).logits()));
  const auto more = model_.hook(act::resid_pre(2), halved);  // one thread attaches as many as it likes
  EXPECT_FALSE(at::equal(model_(tokens_), hooked));
}

TEST_F(ScopedHook, OfAThreadMayFollowThatOfAnother) {
  std::thread([&] { const auto handle = model_.hook(act::resid_pre(1), halved); }).join();
  const auto handle = model_.hook(act::resid_pre(1), halved);
  EXPECT_FALSE(at::equal(model_(tokens_), plain_));
}

}  // namespace
}  // namespace hooked::hook_handle_test
