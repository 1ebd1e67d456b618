// A moved-from object says so when it is used.

#include "hooked/engine/replicate.h"
#include "hooked/engine/trainable_transformer.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tiny_model.h"

namespace hooked::moved_from_test {
namespace {

class MovedFrom : public testing::Test {
 protected:
  RunResult run() const { return model_.run(tokens_, {.capture = act::z, .keep_prefix = true}); }

  HookedTransformer model_ = random_model();
  const at::Tensor tokens_ = random_tokens(model_.config(), {1, 4});
};

TEST_F(MovedFrom, Model) {
  const TempFolder folder;
  HookedTransformer from = model_;
  const HookedTransformer to = std::move(from);
  expect_moved_from("model", {[&] { from.config(); },
                              [&] { from.names(); },
                              [&] { from.device(); },
                              [&] { from.dtype(); },
                              [&] { from.provenance(); },
                              [&] { from.run(tokens_); },
                              [&] { from(tokens_); },
                              [&] { from.run_with_cache(tokens_); },
                              [&] { from.generate(tokens_); },
                              [&] { (void)from.hook(act::z(0), [](const at::Tensor&) {}); },
                              [&] { from.hooks(); },
                              [&] { from.weights(); },
                              [&] { from.state_dict(); },
                              [&] { from.save(folder.path()); },
                              [&] { from.has_tokenizer(); },
                              [&] { from.to_tokens("text"); },
                              [&] { from.trim(); },
                              [&] { from.loaded(); },
                              [&] { HookedTransformer copy(from); },
                              [&] { replicate(from, "cpu"); },
                              [&] { TrainableTransformer::from(from); }});
  EXPECT_TRUE(at::equal(to(tokens_), model_(tokens_)));
  from = to;  // and it is a model again
  EXPECT_TRUE(at::equal(from(tokens_), model_(tokens_)));
}

TEST_F(MovedFrom, TrainableModel) {
  TrainableTransformer from = TrainableTransformer::from(model_);
  const TrainableTransformer to = std::move(from);
  expect_moved_from("model",
                    {[&] { from.config(); }, [&] { from.parameters(); }, [&] { from.named_parameters(); },
                     [&] { from.forward(tokens_); }, [&] { from.loss(tokens_); }, [&] { from.freeze(); }});
  EXPECT_TRUE(to.forward(tokens_).defined());
}

TEST_F(MovedFrom, Result) {
  RunResult from = run();
  const RunResult to = std::move(from);
  expect_moved_from("result", {[&] { from.logits(); }});
  EXPECT_THROW(from.cache[act::z(0)], HookError);
  EXPECT_THROW(from.cache.entry(act::z(0).name()), HookError);
  EXPECT_TRUE(from.cache.empty());
  EXPECT_TRUE(at::equal(to.logits(), run().logits()));
}

TEST_F(MovedFrom, Prefix) {
  Prefix from = *run().prefix;
  const Prefix to = std::move(from);
  expect_moved_from(
      "prefix", {[&] { from.batch(); }, [&] { from.length(); }, [&] { from.bytes(); }, [&] { from.first(2); },
                 [&] {
                   model_.run({tokens_, {.prefix = from}});
                 }});
  EXPECT_EQ(to.length(), 4);
}

TEST_F(MovedFrom, Weights) {
  WeightView from = model_.weights();
  const WeightView to = std::move(from);
  expect_moved_from("weight view", {[&] { from.W_E(); }, [&] { from.W_Q(0); }, [&] { from["embed.W_E"]; }});
  EXPECT_TRUE(to.W_E().defined());
}

TEST_F(MovedFrom, HookHandleLeavesTheHookWithTheOther) {
  int calls = 0;
  std::optional<HookHandle> to;
  {
    HookHandle from = model_.hook(act::z(0), [&](const at::Tensor&) { ++calls; });
    to.emplace(std::move(from));
    from.remove();
  }
  model_(tokens_);
  EXPECT_EQ(calls, 1);
  to.reset();
  model_(tokens_);
  EXPECT_EQ(calls, 1);
}

TEST_F(MovedFrom, InputIsRefusedByTheRun) {
  Input from = tokens_;
  const Input to = std::move(from);
  EXPECT_THROW(model_.run(from), Error);
  EXPECT_TRUE(at::equal(model_(to), model_(tokens_)));
}

}  // namespace
}  // namespace hooked::moved_from_test
