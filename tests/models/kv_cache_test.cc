#include "models/kv_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
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
  KvCache cache_{config_, {.batch = 2, .capacity = 5}, at::kCPU};
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

TEST_F(Cached, AColumnIsWrittenWhereANumberSays) {
  const at::Tensor first = random(3), second = random(1);
  cache_.clear();
  for (const std::int64_t layer : {0, 1}) cache_.append(layer, first, first + 1);
  cache_.advance(3, {});
  cache_.mark(1, {});
  cache_.append_at(1, at::tensor({3}, at::kLong), second, second + 1);
  cache_.advance(1);
  const KeysAndValues all = cache_.layer(1, cache_.capacity());
  const at::Tensor expected = at::cat({first, second}, 1).transpose(1, 2);
  EXPECT_TRUE(at::equal(all.keys.narrow(2, 0, 4), expected));
  EXPECT_TRUE(at::equal(all.values.narrow(2, 0, 4), expected + 1));
  EXPECT_EQ(all.values.narrow(2, 4, 1).abs().sum().item<double>(), 0.0) << "what is masked is finite";
  EXPECT_EQ(cache_.length(), 4);
}

TEST_F(Cached, PaddingOfAllTheRoomStaysWhereItIs) {
  const at::Tensor mask = at::tensor({1, 0}, at::kLong).view({2, 1}).to(at::kBool);
  cache_.advance(2, {});
  EXPECT_FALSE(cache_.real_room().defined());
  cache_.mark(1, mask);
  const at::Tensor room = cache_.real_room();
  cache_.advance(1);
  cache_.mark(1, {});
  cache_.advance(1);
  EXPECT_TRUE(room.is_same(cache_.real_room()));
  EXPECT_TRUE(at::equal(room.narrow(1, 0, 4).to(at::kLong),
                        at::tensor({1, 1, 1, 1, 1, 1, 0, 1}, at::kLong).view({2, 4})));
  cache_.clear();
  EXPECT_FALSE(cache_.real().defined());
  cache_.mark(1, mask);
  EXPECT_TRUE(room.is_same(cache_.real_room())) << "also for the next that are cached here";
}

TEST_F(Cached, TakesOverTheColumnsOfOneRowForEach) {
  KvCache before(config_, {.batch = 1, .capacity = 2}, at::kCPU);
  const at::Tensor columns = random(2).narrow(0, 0, 1);
  for (const std::int64_t layer : {0, 1}) before.append(layer, columns, columns + layer);
  before.advance(2, at::tensor({0, 1}, at::kLong).view({1, 2}).to(at::kBool));
  cache_.advance(1, {});
  cache_.take_over(before);
  EXPECT_EQ(cache_.length(), 3);
  for (const std::int64_t row : {0, 1}) {
    EXPECT_TRUE(at::equal(cache_.layer(1, 3).values[row].narrow(1, 1, 2), columns[0].transpose(0, 1) + 1));
    EXPECT_TRUE(at::equal(cache_.real()[row].to(at::kLong), at::tensor({1, 0, 1}, at::kLong)));
  }
}

TEST_F(Cached, WhatIsKnownOfAnEncoderStaysWhereItIs) {
  const auto read = [&](double number) {
    const at::Tensor heads = at::full({1, config_.n_kv_heads, 3, config_.d_head}, number, at::kDouble);
    cache_.encoder() = {.layers = {{heads, heads + 1}}, .real = {}};
    cache_.settle_encoder();
  };
  read(2.0);
  const at::Tensor keys = cache_.encoder().layers[0].keys;
  EXPECT_EQ(keys.size(0), 2) << "each row has its own";
  cache_.clear();
  EXPECT_TRUE(cache_.encoder().empty());
  read(5.0);
  EXPECT_TRUE(keys.is_same(cache_.encoder().layers[0].keys));
  EXPECT_EQ(keys.mean().item<double>(), 5.0);
  EXPECT_EQ(cache_.encoder().layers[0].values.mean().item<double>(), 6.0);
}

TEST_F(Cached, TheSameColumnsInOtherMemory) {
  const at::Tensor columns = random(2);
  for (const std::int64_t layer : {0, 1}) cache_.append(layer, columns, columns + layer);
  cache_.advance(2, at::ones({2, 2}, at::kBool));
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : cache_.tensors()) copies.push_back(tensor.clone());
  const KvCache other = cache_.with_tensors(copies);
  copies[1].add_(1.0);
  EXPECT_TRUE(at::equal(other.layer(1, 2).values, cache_.layer(1, 2).values + 1));
  EXPECT_TRUE(at::equal(other.layer(1, 2).keys, cache_.layer(1, 2).keys));
  EXPECT_TRUE(at::equal(other.real(), cache_.real()));
}

}  // namespace
}  // namespace hooked::kv_cache_test
