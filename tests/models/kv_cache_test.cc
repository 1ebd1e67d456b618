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
  at::Tensor random(std::int64_t columns) const {
    return at::rand({2, columns, config_.n_kv_heads, config_.d_head}).to(config_.dtype);
  }
  ModelConfig config_ = graph_config();
  KvCache cache_{config_, {.batch = 2, .capacity = 5}, c10::Device(at::kCPU)};
};

TEST_F(Cached, ColumnsFollowEachOther) {
  const at::Tensor first = random(3), second = random(1);
  cache_.append(1, first, first + 1);
  EXPECT_EQ(cache_.length(), 0) << "other layers have not appended theirs yet";
  cache_.advance(3, {});
  cache_.append(1, second, second + 1);
  cache_.advance(1, {});
  const KeysAndValues all = cache_.layer(1, 4);
  const at::Tensor expected = at::cat({first, second}, 1).transpose(1, 2);
  EXPECT_TRUE(at::equal(all.keys, expected));
  EXPECT_TRUE(at::equal(all.values, expected + 1));
  EXPECT_EQ(cache_.length(), 4);
  EXPECT_FALSE(cache_.real().defined());
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
