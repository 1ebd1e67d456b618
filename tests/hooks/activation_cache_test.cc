#include "hooked/hooks/activation_cache.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "hooked/core/error.h"
#include "hooked/io/file.h"
#include "hooked/io/safetensors.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_by.h"

namespace hooked::activation_cache_test {
namespace {

using Range = AxisIndex::Range;
using testing::AllOf, testing::HasSubstr, testing::StartsWith;

at::Tensor random(at::IntArrayRef sizes, std::uint64_t seed, at::ScalarType dtype = at::kDouble) {
  return at::rand(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble)).to(dtype);
}

class Cache : public testing::Test {
 protected:
  Cache() {
    add("hook_tokens", at::arange(10, at::kLong).view({2, 5}));
    add("hook_embed", random({2, 5, 6}, 1));
    for (int layer = 0; layer < 3; ++layer) {
      const std::string block = "blocks." + std::to_string(layer);
      add(block + ".hook_resid_post", random({2, 5, 6}, 20 + layer));
      add(block + ".attn.hook_pattern", random({2, 4, 5, 5}, 30 + layer, at::kFloat));
    }
    add("blocks.1.hook_resid_pre", random({2, 5, 6}, 40, at::kBFloat16));  // not in the table's order
    add("ln_final.hook_scale", random({2, 2, 1}, 50), {1, 4});
    cache_.set_tokens({.end = 5});
  }

  void add(const std::string& name, at::Tensor value, std::vector<std::int64_t> positions = {}) {
    cache_.insert({ActivationName::parse(name), std::move(value), std::move(positions)});
  }

  ActivationCache cache_{3};
};

TEST_F(Cache, IsReadByAddressNameAndShorthand) {
  const at::Tensor pattern = cache_[act::pattern(1)];
  EXPECT_EQ(pattern.sizes(), (at::IntArrayRef{2, 4, 5, 5}));
  for (const char* text : {"blocks.1.attn.hook_pattern", "pattern1", "attn1"}) {
    EXPECT_TRUE(cache_[text].is_same(pattern)) << text;
  }
  EXPECT_TRUE(cache_["embed"].is_same(cache_[act::embed]));
  EXPECT_TRUE(cache_["hook_embed"].is_same(cache_[act::embed]));
  EXPECT_TRUE(cache_["scale"].is_same(cache_[act::ln_final_scale]));
  EXPECT_TRUE(cache_["resid_post2"].is_same(cache_[act::resid_post(2)]));
}

TEST_F(Cache, NegativeLayersCountFromTheLast) {
  EXPECT_TRUE(cache_[act::resid_post(-1)].is_same(cache_[act::resid_post(2)]));
  EXPECT_TRUE(cache_[act::resid_post(-3)].is_same(cache_[act::resid_post(0)]));
  EXPECT_THROW(cache_[act::resid_post(-4)], HookError);
  EXPECT_THROW(cache_[act::resid_post(3)], HookError);
}

TEST_F(Cache, IndicesPickABlock) {
  const at::Tensor pattern = cache_[act::pattern(1)];
  EXPECT_TRUE(at::equal(cache_[act::pattern(1).head(3)], pattern.select(1, 3)));
  EXPECT_TRUE(at::equal(cache_[act::pattern(1).head(3).pos(-1).row(0)], pattern[0][3][4]));
  EXPECT_TRUE(at::equal(cache_[act::pattern(1).key(Range{1, 3})], pattern.slice(3, 1, 3)));
  EXPECT_TRUE(
      at::equal(cache_["blocks.1.attn.hook_pattern[head=0+2,query=4]"],
                at::stack({pattern.select(1, 0).select(1, 4), pattern.select(1, 2).select(1, 4)}, 1)));
  EXPECT_TRUE(at::equal(cache_["hook_embed[pos=last]"], cache_["hook_embed"].select(1, 4)));
  EXPECT_TRUE(cache_[act::pattern(1).head(Range{0, 2})].is_alias_of(pattern)) << "a range should be a view";
}

TEST_F(Cache, IndexOutOfRangeIsRefused) {
  EXPECT_THROW(cache_[act::pattern(1).head(4)], HookError);
  EXPECT_THROW(cache_["hook_embed[pos=5]"], HookError);
  EXPECT_THROW(cache_["hook_embed[head=0]"], HookError);
}

TEST_F(Cache, MissSaysWhatIsNearest) {
  EXPECT_THAT(text_thrown_by<HookError>([&] { cache_[act::resid_mid(1)]; }),
              AllOf(StartsWith("[blocks.1.hook_resid_mid]"), HasSubstr("'blocks.1.hook_resid_p")));
  EXPECT_THAT(text_thrown_by<HookError>([] { ActivationCache()["embed"]; }), HasSubstr("empty"));
  EXPECT_THROW(cache_["pattern-1"], HookError);
  EXPECT_THROW(cache_["nonsense"], HookError);
}

TEST_F(Cache, ContainsAndSize) {
  EXPECT_TRUE(cache_.contains(ActivationName::parse("hook_embed")));
  EXPECT_FALSE(cache_.contains(ActivationName::parse("hook_pos_embed")));
  EXPECT_EQ(cache_.size(), 10u);
  EXPECT_FALSE(cache_.empty());
  EXPECT_TRUE(ActivationCache(3).empty());
}

TEST_F(Cache, InsertReplacesWithoutMoving) {
  const auto before = cache_.names();
  add("hook_embed", random({2, 5, 6}, 99));
  EXPECT_EQ(cache_.names(), before);
  EXPECT_TRUE(at::equal(cache_["embed"], random({2, 5, 6}, 99)));
}

TEST_F(Cache, StackIsOneLayerAfterTheOther) {
  const at::Tensor stacked = cache_.stack(act::resid_post);
  ASSERT_EQ(stacked.sizes(), (at::IntArrayRef{3, 2, 5, 6}));
  for (int layer = 0; layer < 3; ++layer)
    EXPECT_TRUE(at::equal(stacked[layer], cache_[act::resid_post(layer)]));
  EXPECT_THAT(text_thrown_by<HookError>([&] { cache_.stack(act::resid_pre); }),
              StartsWith("[blocks.0.hook_resid_pre]"));
  EXPECT_THROW(ActivationCache().stack(act::resid_pre), HookError);
}

TEST_F(Cache, RowKeepsTheBatchAxis) {
  const ActivationCache row = cache_.row(1);
  EXPECT_EQ(row.names(), cache_.names());
  EXPECT_EQ(row.n_layers(), 3);
  for (const auto& entry : row) {
    EXPECT_TRUE(at::equal(entry.value(), cache_[Address(entry.name)].narrow(0, 1, 1)))
        << entry.name.to_string();
  }
  EXPECT_EQ((cache_.end() - 1)->positions, (row.end() - 1)->positions);
  EXPECT_TRUE(at::equal(cache_.row(-1)["embed"], row["embed"]));
  EXPECT_THROW(cache_.row(2), HookError);
  EXPECT_THROW(cache_.row(-3), HookError);
}

TEST_F(Cache, BytesCountsEachStorageOnce) {
  ActivationCache cache(1);
  const at::Tensor fused = random({2, 5, 12}, 1);  // 960 bytes
  cache.insert({ActivationName::parse("blocks.0.hook_resid_pre"), fused.narrow(2, 0, 6), {}});
  EXPECT_EQ(cache.bytes(), 960u);
  cache.insert({ActivationName::parse("blocks.0.hook_resid_post"), fused.narrow(2, 6, 6), {}});
  EXPECT_EQ(cache.bytes(), 960u);
  cache.insert({ActivationName::parse("hook_embed"), random({2, 5, 6}, 1), {}});
  EXPECT_EQ(cache.bytes(), 960u + 480u);
}

TEST(JoinedCache, IsOfOneSequence) {
  const at::Tensor resid = random({2, 5, 6}, 1), pattern = random({2, 4, 5, 5}, 2).tril();
  const at::Tensor scores = pattern.masked_fill(pattern == 0, -std::numeric_limits<double>::infinity());
  std::vector<ActivationCache> stretches;
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 4}, {4, 5}}) {
    ActivationCache& stretch = stretches.emplace_back(1);
    std::vector<std::int64_t> positions;
    for (std::int64_t i = begin; i < end; ++i) positions.push_back(i);
    stretch.insert({act::resid_post(0).name(), resid.narrow(1, begin, end - begin), positions});
    // What no part could see yet is missing.
    stretch.insert(
        {act::pattern(0).name(), pattern.narrow(2, begin, end - begin).narrow(3, 0, end), positions});
    stretch.insert(
        {act::attn_scores(0).name(), scores.narrow(2, begin, end - begin).narrow(3, 0, end), positions});
  }
  const ActivationCache joined = ActivationCache::join(stretches);
  EXPECT_TRUE(at::equal(joined[act::resid_post(0)], resid));
  EXPECT_TRUE(at::equal(joined[act::pattern(0)], pattern));
  EXPECT_TRUE(at::equal(joined[act::attn_scores(0)], scores));
  for (const auto& entry : joined) EXPECT_TRUE(entry.positions.empty()) << "all positions need no selection";
}

TEST(JoinedCache, KeepsPositionsThatAreNotAll) {
  std::vector<ActivationCache> stretches(3, ActivationCache(1));
  stretches[1].insert({act::resid_post(0).name(), random({1, 2, 6}, 1), {3, 5}});
  stretches[2].insert({act::resid_post(0).name(), random({1, 1, 6}, 2), {6}});
  const ActivationCache joined = ActivationCache::join(stretches);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(joined.begin()->positions, (std::vector<std::int64_t>{3, 5, 6}));
  EXPECT_EQ(joined[act::resid_post(0)].size(1), 3);
  EXPECT_TRUE(ActivationCache::join({}).empty());
}

TEST(JoinedCache, KnowsItsTokensWhereTheStretchesFollowOneAnother) {
  const auto stretch = [](std::int64_t first, std::int64_t end) {
    ActivationCache made(1);
    made.set_tokens({.first = first, .end = end});
    std::vector<std::int64_t> positions;
    for (std::int64_t i = first; i < end; ++i) positions.push_back(i);
    made.insert({act::resid_post(0).name(), random({2, end - first, 6}, 1), positions});
    return made;
  };
  const ActivationCache whole = ActivationCache::join({stretch(0, 3), stretch(3, 5)});
  ASSERT_TRUE(whole.tokens());
  EXPECT_EQ(whole.tokens()->end, 5);
  EXPECT_EQ(whole[act::resid_post(0).pos(AxisIndex::Last{})].sizes(), (at::IntArrayRef{2, 6}));
  const ActivationCache gap = ActivationCache::join({stretch(0, 3), stretch(4, 5)});
  EXPECT_FALSE(gap.tokens());
  EXPECT_THROW(gap[act::resid_post(0).pos(AxisIndex::Last{})], HookError);
  EXPECT_FALSE(ActivationCache::join({stretch(0, 3), stretch(0, 3)}).tokens());
}

TEST(JoinedCache, RefusesStretchesThatDoNotFitTogether) {
  const auto stretch = [](const at::Tensor& value) {
    ActivationCache made(1);
    made.insert({act::resid_post(0).name(), value});
    return made;
  };
  const ActivationCache first = stretch(random({2, 3, 6}, 1));
  EXPECT_THROW(ActivationCache::join({first, stretch(random({1, 3, 6}, 2))}), HookError) << "other rows";
  EXPECT_THROW(ActivationCache::join({first, stretch(random({2, 3, 5}, 2))}), HookError) << "another width";
  EXPECT_THROW(ActivationCache::join({first, stretch(random({2, 3, 6}, 2).to(at::kFloat))}), HookError);
  const at::Tensor written = random({2, 3, 6}, 2);
  const ActivationCache changed = stretch(written);
  written.add_(1);
  EXPECT_THROW(ActivationCache::join({first, changed}), HookError);
}

TEST_F(Cache, SavedAndLoadedIsTheSame) {
  const TempFolder folder;
  cache_.save(folder / "cache.safetensors");
  const ActivationCache loaded = ActivationCache::load(folder / "cache.safetensors");
  EXPECT_EQ(loaded.names(), cache_.names()) << "the firing order is lost";
  EXPECT_EQ(loaded.n_layers(), 3);
  auto expected = cache_.begin();
  for (const auto& entry : loaded) {
    const std::string name = expected->name.to_string();
    EXPECT_EQ(entry.name, expected->name);
    EXPECT_EQ(entry.value().scalar_type(), expected->value().scalar_type()) << name;
    EXPECT_TRUE(at::equal(entry.value(), expected->value())) << name;
    EXPECT_EQ(entry.positions, expected->positions) << name;
    ++expected;
  }
}

TEST_F(Cache, AFileSaysWhereItComesFromAndHasMoreTensors) {
  const TempFolder folder;
  const auto path = folder / "cache.safetensors";
  std::uint64_t written = 0;
  cache_.save(path, {.provenance = {.model = "gpt2", .more = {{"experiment", "7"}}},
                     .beside = {{"logits", random({2, 5, 9}, 1), {Axis::batch, Axis::pos, Axis::vocab_out}},
                                {"mine", random({3}, 2)}},
                     .progress = [&](std::uint64_t done, std::uint64_t) { written = done; }});
  EXPECT_EQ(ActivationCache::load(path).names(), cache_.names());
  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(read_provenance(file).model, "gpt2");
  EXPECT_EQ(read_provenance(file).more, (std::map<std::string, std::string>{{"experiment", "7"}}))
      << "nothing of what the cache writes for itself";
  const TensorAxes axes = read_axes(file);
  EXPECT_EQ(axes.at("logits"), (std::vector<std::string>{"batch", "pos", "vocab"}));
  EXPECT_FALSE(axes.contains("mine"));
  for (const auto& entry : cache_) {
    const auto& row = hooked::row(entry.name.site);
    const auto& names = axes.at(entry.name.to_string());
    ASSERT_EQ(names.size(), row.axes.size());
    for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], axis_name(row.axes[i]));
  }
  std::uint64_t bytes = 0;
  for (const auto& tensor : file.tensors()) bytes += tensor.bytes();
  EXPECT_EQ(written, bytes);
  EXPECT_THROW(
      cache_.save(path, {.beside = {{"hook_embed", random({1}, 1)}, {"hook_embed", random({1}, 1)}}}),
      CheckpointError);
  EXPECT_THROW(cache_.save(path, {.provenance = {.more = {{"cache.order", "x"}}}}), CheckpointError);
}

TEST_F(Cache, ReplacesCachesAndNothingOfOthers) {
  const TempFolder folder;
  const auto path = folder / "cache.safetensors";
  for (int i = 0; i < 2; ++i) cache_.save(path);
  const auto refused = [&] {
    EXPECT_THROW(ActivationCache::require_can_save(path), IoError);
    const auto text = text_thrown_by<IoError>([&] { cache_.save(path); });
    return text.find("not a file of activations written by hooked") != std::string::npos;
  };
  save_safetensors(path, {{"W_E", random({2}, 1)}}, {.metadata = {{"format", "pt"}}});  // a model's weights
  EXPECT_TRUE(refused());
  EXPECT_TRUE(SafetensorsFile::open(path).find("W_E"));
  save_safetensors(path, {{"x", random({2}, 1)}}, {.metadata = to_metadata({}, {})});  // ours, but no cache
  EXPECT_TRUE(refused());
  write_file(path, "text");
  EXPECT_TRUE(refused());
  cache_.save(path, {.overwrite = Overwrite::any});
  EXPECT_EQ(ActivationCache::load(path).names(), cache_.names());
  EXPECT_THAT(text_thrown_by<IoError>([&] { cache_.save(folder / "c.npz", {.overwrite = Overwrite::any}); }),
              HasSubstr("expected a name that ends in .safetensors"));
}

TEST_F(Cache, AxesThatDoNotFitAreNotRecorded) {
  ActivationCache odd(1);
  odd.insert({ActivationName::parse("hook_embed"), random({4}, 1)});
  const TempFolder folder;
  odd.save(folder / "odd.safetensors");
  EXPECT_TRUE(read_axes(SafetensorsFile::open(folder / "odd.safetensors")).empty());
  EXPECT_EQ(ActivationCache::load(folder / "odd.safetensors")["embed"].dim(), 1);
}

TEST_F(Cache, AMaskThatTheCallerWritesIsTheCaches) {
  ActivationCache made(1);
  made.insert({ActivationName::parse("hook_embed"), random({2, 3, 4}, 1)});
  const at::Tensor mask = at::tensor({1, 1, 1, 1, 0, 0}, at::kLong).view({2, 3});
  made.set_tokens({.first = 0, .end = 3, .mask = mask.to(at::kBool)});
  const TempFolder folder;
  made.save(folder / "m.safetensors", {.beside = {{"attention_mask", mask}}});
  EXPECT_EQ(SafetensorsFile::open(folder / "m.safetensors").read("attention_mask").scalar_type(), at::kLong);
  const auto loaded = ActivationCache::load(folder / "m.safetensors");
  EXPECT_TRUE(at::equal(loaded.tokens()->mask, mask.to(at::kBool)));
  EXPECT_TRUE(at::equal(loaded["embed[pos=last]"], made["embed[pos=last]"]));
}

TEST_F(Cache, SavesViewsContiguously) {
  ActivationCache views(1);
  const at::Tensor turned = random({6, 5, 2}, 3).permute({2, 1, 0});
  views.insert({ActivationName::parse("hook_embed"), turned, {}});
  const TempFolder folder;
  views.save(folder / "views.safetensors");
  EXPECT_TRUE(at::equal(ActivationCache::load(folder / "views.safetensors")["embed"], turned));
}

TEST_F(Cache, LoadRefusesOtherFiles) {
  const TempFolder folder;
  save_safetensors(folder / "weights.safetensors", {{"hook_embed", random({1, 2, 3}, 1)}}, {});
  const auto error =
      thrown_by<CheckpointError>([&] { ActivationCache::load(folder / "weights.safetensors"); });
  ASSERT_TRUE(error);
  EXPECT_NE(error->where().find("weights.safetensors"), std::string::npos);
  save_safetensors(folder / "names.safetensors", {{"no.activation", random({1, 2, 3}, 1)}},
                   {.metadata = {{"cache.n_layers", "3"}, {"cache.order", "no.activation"}}});
  EXPECT_THROW(ActivationCache::load(folder / "names.safetensors"), HookError);
  for (const char* layers : {"", "x", "3x", "1,2"}) {
    save_safetensors(folder / "layers.safetensors", {{"hook_embed", random({1, 2, 3}, 1)}},
                     {.metadata = {{"cache.n_layers", layers}, {"cache.order", "hook_embed"}}});
    EXPECT_THROW(ActivationCache::load(folder / "layers.safetensors"), CheckpointError)
        << '"' << layers << '"';
  }
  save_safetensors(
      folder / "positions.safetensors", {{"hook_embed", random({1, 2, 3}, 1)}},
      {.metadata = {
           {"cache.n_layers", "3"}, {"cache.order", "hook_embed"}, {"cache.positions.hook_embed", "1,two"}}});
  EXPECT_THROW(ActivationCache::load(folder / "positions.safetensors"), CheckpointError);
  EXPECT_THROW(ActivationCache::load(folder / "absent.safetensors"), Error);
}

TEST_F(Cache, ToAnotherDeviceKeepsEverything) {
  const ActivationCache moved = cache_.to(c10::Device("cpu"));
  EXPECT_EQ(moved.names(), cache_.names());
  EXPECT_EQ(moved.n_layers(), 3);
}

}  // namespace
}  // namespace hooked::activation_cache_test
