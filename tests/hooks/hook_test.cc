#include "hooked/hooks/hook.h"

#include <c10/util/Exception.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/hooks/watching.h"

namespace hooked::hook_test {
namespace {

const std::string kResid = "blocks.1.hook_resid_pre";

at::Tensor resid() { return at::ones({2, 5, 6}, at::kDouble); }

at::Tensor hooked_value(const Hook& hook) {
  Watching watching;
  watching->add_hook(hook);
  return watching.fire(kResid, resid());
}

TEST(Hook, ReturnedTensorReplacesTheActivation) {
  EXPECT_TRUE(at::equal(hooked_value({act::resid_pre(1), [](const at::Tensor& x) { return x * 2.0; }}),
                        resid() * 2.0));
  EXPECT_TRUE(at::equal(
      hooked_value({act::resid_pre(1), [](const at::Tensor& x, const ActivationName&) { return x * 2.0; }}),
      resid() * 2.0));
}

TEST(Hook, NothingReturnedKeepsTheActivation) {
  int calls = 0;
  const at::Tensor value = resid();
  Watching watching;
  watching->add_hook({act::resid_pre(1), [&](const at::Tensor& x) {
                        EXPECT_TRUE(x.is_same(value));
                        ++calls;
                      }});
  watching->add_hook({act::resid_pre(1), [&](const at::Tensor&) -> std::optional<at::Tensor> {
                        ++calls;
                        return std::nullopt;
                      }});
  EXPECT_TRUE(watching.fire(kResid, value).is_same(value));
  EXPECT_EQ(calls, 2);
}

TEST(Hook, IsToldTheName) {
  std::string told;
  hooked_value(
      {act::resid_pre(1), [&](const at::Tensor&, const ActivationName& name) { told = name.to_string(); }});
  EXPECT_EQ(told, kResid);
}

TEST(Hook, ListsAreMadeFromOneOrSeveral) {
  const auto half = [](const at::Tensor& x) { return x * 0.5; };
  const auto sizes = [](const Hooks& hooks) { return hooks.size(); };
  EXPECT_EQ(sizes({}), 0u);
  EXPECT_EQ(sizes(Hook(act::z(1), half)), 1u);
  EXPECT_EQ(sizes({act::z(1), half}), 1u);
  EXPECT_EQ(sizes({{act::z(1), half}}), 1u);
  EXPECT_EQ(sizes({{act::z(1), half}, {"blocks.0.hook_resid_pre", half}}), 2u);
  EXPECT_EQ(sizes(std::vector<Hook>(3, Hook(act::z(1), half))), 3u);
  const auto edits = [](const Edits& edits) { return edits.size(); };
  EXPECT_EQ(edits({}), 0u);
  EXPECT_EQ(edits(zero(act::z(1))), 1u);
  EXPECT_EQ(edits({zero(act::z(1))}), 1u);
  EXPECT_EQ(edits({zero(act::z(1)), add(act::z(0), 1.0)}), 2u);
  EXPECT_EQ(edits(std::vector<Edit>(3, zero(act::z(1)))), 3u);
}

TEST(Hook, MutableCallablesKeepTheirState) {
  std::vector<int> counts;
  Watching watching;
  watching->add_hook(
      {act::resid_pre, [count = 0, &counts](const at::Tensor&) mutable { counts.push_back(++count); }});
  for (const char* name : {"blocks.0.hook_resid_pre", "blocks.0.hook_resid_pre"})
    watching.fire(name, resid());
  EXPECT_EQ(counts, (std::vector<int>{1, 2}));
}

TEST(Hook, HooksThenEditsThenCaptures) {
  Watching watching;
  watching->add_capture(act::resid_pre(1));
  watching->add_edit(add(act::resid_pre(1), 10.0));
  watching->add_hook({act::resid_pre(1), [](const at::Tensor& x) { return x * 3.0; }});
  watching->add_hook({act::resid_pre(1), [](const at::Tensor& x) { return x + 1.0; }});
  const at::Tensor seen = watching.fire(kResid, resid());
  EXPECT_TRUE(at::equal(seen, at::ones({2, 5, 6}, at::kDouble) * 14.0));
  EXPECT_TRUE(at::equal(watching.take_cache()[act::resid_pre(1)], seen));
}

TEST(Hook, ResultOfAnotherKindIsRefusedNamingThePoint) {
  const auto text_of = [](auto function) {
    const auto error = thrown_by<HookError>([&] { hooked_value({act::resid_pre(1), function}); });
    EXPECT_EQ(error ? error->where() : "", kResid);
    return std::string(error ? error->what() : "");
  };
  const std::string shape =
      text_of([](const at::Tensor& x, const ActivationName&) { return x.select(0, 0); });
  EXPECT_NE(shape.find("[2, 5, 6]"), std::string::npos) << shape;
  EXPECT_NE(shape.find("[5, 6]"), std::string::npos) << shape;
  const std::string broadcast =
      text_of([](const at::Tensor& x, const ActivationName&) { return x.narrow(0, 0, 1); });
  EXPECT_NE(broadcast.find("[1, 5, 6]"), std::string::npos) << broadcast;
  const std::string dtype =
      text_of([](const at::Tensor& x, const ActivationName&) { return x.to(at::kFloat); });
  EXPECT_NE(dtype.find("float64"), std::string::npos) << dtype;
  EXPECT_NE(dtype.find("float32"), std::string::npos) << dtype;
  const std::string device =
      text_of([](const at::Tensor& x, const ActivationName&) { return x.to(at::kMeta); });
  EXPECT_NE(device.find("meta"), std::string::npos) << device;
  const std::string undefined =
      text_of([](const at::Tensor&, const ActivationName&) { return at::Tensor(); });
  EXPECT_NE(undefined.find("undefined"), std::string::npos) << undefined;
}

TEST(Hook, WritingInPlaceIsRefusedAlsoThroughAView) {
  for (const Hook& hook :
       Hooks{{act::resid_pre(1), [](const at::Tensor& x) { x.mul_(2.0); }},
             {act::resid_pre(1), [](const at::Tensor& x) { return at::Tensor(x).add_(1.0); }},
             {act::resid_pre(1), [](const at::Tensor& x) { x.select(0, 1).zero_(); }}}) {
    EXPECT_TRUE(throws<HookError>([&] { hooked_value(hook); }, kResid, {"in place"}));
  }
}

TEST(Hook, MayReturnAViewOfWhatItWasGiven) {
  const at::Tensor value = resid();
  Watching watching;
  watching->add_hook({act::resid_pre(1), [](const at::Tensor& x) { return x.flip(0).flip(0); }});
  watching->add_hook({act::resid_pre(1), [](const at::Tensor& x) { return x.view_as(x); }});
  EXPECT_TRUE(at::equal(watching.fire(kResid, value), value));
}

TEST(Watch, NobodyWatchesUntilAskedTo) {
  Watching watching;
  EXPECT_TRUE(watching->watched_points().empty());
  watching->add_capture(act::z(1));
  EXPECT_EQ(watching->watched_points(),
            (std::vector<std::size_t>{watching.points().require(act::z(1).name())}));
  EXPECT_FALSE(watching->find(watching.points().require(act::z(1).name()))->may_change());
}

// A view that pins far more memory than it shows is compacted; views that together fill their storage are
// not.
TEST(Watch, CacheDoesNotPinMoreThanTwiceItsBytes) {
  const at::Tensor fused = at::ones({2, 5, 3 * 4, 7}, at::kDouble);
  Watching one, all;
  one->add_capture(act::q(0));
  all->add_capture(act::q(0) | Selection(act::k(0)) | Selection(act::v(0)));
  int part = 0;
  for (const char* name : {"blocks.0.attn.hook_q", "blocks.0.attn.hook_k", "blocks.0.attn.hook_v"}) {
    const at::Tensor view = fused.narrow(2, 4 * part++, 4);
    one.fire(name, view);
    all.fire(name, view);
  }
  EXPECT_EQ(one.take_cache().bytes(), fused.nbytes() / 3);
  const ActivationCache cache = all.take_cache();
  EXPECT_EQ(cache.bytes(), fused.nbytes());
  EXPECT_TRUE(cache[act::q(0)].is_alias_of(fused));
}

// What a hook throws keeps its type, and says at which point.
TEST(Hook, AnExceptionNamesThePoint) {
  const auto thrown = [](const auto& function) {
    hooked_value({act::resid_pre(1), [&](const at::Tensor& x) { function(x); }});
  };
  try {
    thrown([](const at::Tensor&) { throw std::out_of_range("mine"); });
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_EQ(std::string(error.what()), "[" + kResid + "] a hook failed: mine");
    try {
      std::rethrow_if_nested(error);
      FAIL() << "the one that was thrown is nested";
    } catch (const std::out_of_range& own) {
      EXPECT_EQ(std::string(own.what()), "mine");
    }
  }
  try {
    thrown([](const at::Tensor& x) { x.view({7}); });
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find("in a hook at " + kResid), std::string::npos)
        << error.what_without_backtrace();
  }
  const auto ours = text_thrown_by<ShapeError>(
      [&] { thrown([](const at::Tensor&) { throw ShapeError("probe", "too long"); }); });
  EXPECT_EQ(ours, "[probe] too long; in a hook at " + kResid);
}

struct OwnError : std::runtime_error {
  explicit OwnError(int code) : std::runtime_error("own"), code(code) {}
  int code;
};

TEST(Hook, AnExceptionOfATypeOfItsOwnIsPassedOn) {
  try {
    hooked_value({act::resid_pre(1), [](const at::Tensor&) { throw OwnError(7); }});
    FAIL();
  } catch (const OwnError& error) {
    EXPECT_EQ(error.code, 7);
    EXPECT_EQ(std::string(error.what()), "own");
  }
}

}  // namespace
}  // namespace hooked::hook_test
