#include "models/sequence/kv_cache.h"

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
  // With room of that form in every layer.
  void allot(KeyForm form = KeyForm::heads) {
    ModelConfig config = graph_config();
    config.n_kv_heads = 3;
    config.latent = Latents{.d_kv = 4, .d_shared_key = 2, .d_value = config.d_head};
    cache_.allot(config, {form, form}, at::kCPU);
    cache_.clear();
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

TEST_F(Cached, AColumnIsWrittenWhereANumberSays) {
  const at::Tensor first = random(3), second = random(1);
  allot();
  for (const std::int64_t layer : {0, 1}) cache_.append(layer, {first, first + 1});
  cache_.advance(3, {});
  cache_.mark(1, {});
  cache_.append_at(1, at::tensor({3}, at::kLong), {second, second + 1});
  cache_.advance(1);
  const KeysAndValues all = cache_.layer(1, cache_.capacity());
  const at::Tensor expected = at::cat({first, second}, 2);
  EXPECT_TRUE(at::equal(all.keys.narrow(2, 0, 4), expected));
  EXPECT_TRUE(at::equal(all.values.narrow(2, 0, 4), expected + 1));
  EXPECT_EQ(all.values.narrow(2, 4, 1).abs().sum().item<double>(), 0.0) << "what is masked is finite";
  EXPECT_EQ(cache_.length(), 4);
}

TEST_F(Cached, LatentsAreWrittenWhereANumberSays) {
  const KeysAndValues first = latents(3), second = latents(1);
  allot(KeyForm::latents);
  EXPECT_EQ(cache_.form(0), KeyForm::latents);
  EXPECT_EQ(cache_.room_bytes(), 2 * 2 * 5 * 6 * 8) << "layers, batch, columns, numbers, bytes of each";
  cache_.append(1, first);
  cache_.advance(3, {});
  cache_.append_at(1, at::tensor({3}, at::kLong), second);
  cache_.advance(1);
  const KeysAndValues all = cache_.layer(1, cache_.capacity());
  EXPECT_TRUE(at::equal(all.keys.narrow(2, 0, 4), at::cat({first.keys, second.keys}, 2)));
  EXPECT_TRUE(at::equal(all.values, all.keys.narrow(3, 0, 4)));
  EXPECT_EQ(all.keys.narrow(2, 4, 1).abs().sum().item<double>(), 0.0) << "what is masked is finite";
}

TEST_F(Cached, PaddingOfAllTheRoomStaysWhereItIs) {
  const at::Tensor mask = at::tensor({1, 0}, at::kLong).view({2, 1}).to(at::kBool);
  allot();
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
  KvCache before(2, {.batch = 1, .capacity = 2});
  const at::Tensor columns = random(2).narrow(0, 0, 1);
  for (const std::int64_t layer : {0, 1}) before.append(layer, {columns, columns + layer});
  before.advance(2, at::tensor({0, 1}, at::kLong).view({1, 2}).to(at::kBool));
  cache_.advance(1, {});
  cache_.take_over(before);
  EXPECT_EQ(cache_.length(), 3);
  for (const std::int64_t row : {0, 1}) {
    EXPECT_TRUE(at::equal(cache_.layer(1, 3).values[row].narrow(1, 1, 2), columns[0] + 1));
    EXPECT_TRUE(at::equal(cache_.real()[row].to(at::kLong), at::tensor({1, 0, 1}, at::kLong)));
  }
}

TEST_F(Cached, WhatIsKnownOfAnEncoderStaysWhereItIs) {
  allot();
  const auto read = [&](double number) {
    const at::Tensor heads = at::full({1, 3, 3, 6}, number, at::kDouble);
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
  cache_.append(0, latents(2));
  cache_.append(1, {columns, columns + 1});
  cache_.advance(2, at::ones({2, 2}, at::kBool));
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : cache_.tensors()) copies.push_back(tensor.clone());
  const KvCache other = cache_.with_tensors(copies);
  ASSERT_EQ(copies.size(), 4u) << "latents, keys, values, and which columns are real";
  for (const std::size_t i : {0, 2}) copies[i].add_(1.0);
  EXPECT_TRUE(at::equal(other.layer(0, 2).values, cache_.layer(0, 2).values + 1))
      << "they are among the keys";
  EXPECT_TRUE(at::equal(other.layer(1, 2).values, cache_.layer(1, 2).values + 1));
  EXPECT_TRUE(at::equal(other.layer(1, 2).keys, cache_.layer(1, 2).keys));
  EXPECT_TRUE(at::equal(other.real(), cache_.real()));
}

}  // namespace
}  // namespace hooked::kv_cache_test
