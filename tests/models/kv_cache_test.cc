#include "models/kv_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/models/random_graph.h"

namespace hooked::kv_cache_test {
namespace {

class Cached : public testing::Test {
 protected:
  // [batch, kv_head, pos, d_head]
  static at::Tensor random(std::int64_t columns) {
    return at::rand({2, 3, columns, 6}, at::TensorOptions(at::kDouble));
  }
  // Latents of 4 numbers and shared parts of 2.
  static KeysAndValues latents(std::int64_t columns) {
    const at::Tensor keys = at::rand({2, 1, columns, 6}, at::TensorOptions(at::kDouble));
    return {keys, keys.narrow(3, 0, 4), KeyForm::latents};
  }
  void append(const KeysAndValues& own) {
    cache_.append(1, own);
    cache_.advance(own.keys.size(2), {});
  }

  KvCache cache_{2, {.batch = 2, .capacity = 5}};
};

TEST_F(Cached, ColumnsFollowEachOther) {
  const at::Tensor first = random(3), second = random(1);
  cache_.append(1, {first, first + 1});
  EXPECT_EQ(cache_.length(), 0) << "other layers have not appended theirs yet";
  cache_.advance(3, {});
  append({second, second + 1});
  const KeysAndValues all = cache_.layer(1, 4);
  const at::Tensor expected = at::cat({first, second}, 2);
  EXPECT_TRUE(at::equal(all.keys, expected));
  EXPECT_TRUE(at::equal(all.values, expected + 1));
  EXPECT_EQ(all.form, KeyForm::heads);
  EXPECT_EQ(cache_.length(), 4);
  EXPECT_FALSE(cache_.real().defined());
}

TEST_F(Cached, LatentsLieOnceAndAreReadAsKeysAndValues) {
  const KeysAndValues first = latents(3), second = latents(2);
  append(first);
  append(second);
  const KeysAndValues all = cache_.layer(1, 5);
  EXPECT_EQ(all.form, KeyForm::latents);
  EXPECT_TRUE(at::equal(all.keys, at::cat({first.keys, second.keys}, 2)));
  EXPECT_TRUE(at::equal(all.values, all.keys.narrow(3, 0, 4)));
  EXPECT_TRUE(all.values.is_alias_of(all.keys));
  EXPECT_EQ(cache_.bytes(), 2 * 5 * 6 * 8) << "batch, columns, numbers, bytes of each";
  const KvCache cut = cache_.first(2);
  EXPECT_EQ(cut.bytes(), 2 * 2 * 6 * 8);
  EXPECT_EQ(cut.layer(1, 2).form, KeyForm::latents);
  EXPECT_TRUE(cut.layer(1, 2).values.equal(first.values.narrow(2, 0, 2)));
}

TEST_F(Cached, ALayerTakesAnotherForm) {
  append(latents(3));
  const at::Tensor keys = random(3), next = random(1);
  cache_.replace(1, {keys, keys + 1});
  append({next, next + 1});
  const KeysAndValues all = cache_.layer(1, 4);
  EXPECT_EQ(all.form, KeyForm::heads);
  EXPECT_TRUE(at::equal(all.keys, at::cat({keys, next}, 2)));
  EXPECT_TRUE(at::equal(all.values, at::cat({keys, next}, 2) + 1));
  EXPECT_EQ(cache_.bytes(), 2 * 2 * 3 * 4 * 6 * 8) << "keys and values";
}

TEST_F(Cached, PaddingIsKnownOfEveryColumn) {
  const at::Tensor mask = at::tensor({1, 0, 1, 1}, at::kLong).view({2, 2}).to(at::kBool);
  cache_.advance(1, {});
  cache_.advance(2, mask);
  cache_.advance(1, {});
  EXPECT_TRUE(
      at::equal(cache_.real().to(at::kLong), at::tensor({1, 1, 0, 1, 1, 1, 1, 1}, at::kLong).view({2, 4})));
}

}  // namespace
}  // namespace hooked::kv_cache_test
