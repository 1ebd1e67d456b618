#include "models/attention/tiled_attention.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>

#include "hooked/core/kernel_set.h"
#include "hooked/hooks/edit.h"
#include "tests/models/random_graph.h"

namespace hooked::tiled_attention_test {
namespace {

struct Kind {
  const char* name;
  void (*make)(ModelConfig&);
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

// Every way in which scores are not plain causal ones.
constexpr Kind kKinds[] = {
    {"causal", [](ModelConfig&) {}},
    {"bidirectional", [](ModelConfig& c) { c.direction = AttentionDirection::bidirectional; }},
    {"window",
     [](ModelConfig& c) {
       c.window = Window{.size = 37, .layers = {true, false}};
     }},
    {"bidirectional_window",
     [](ModelConfig& c) {
       c.direction = AttentionDirection::bidirectional;
       c.window = Window{.size = 37, .layers = {true, true}};
     }},
    {"chunks",
     [](ModelConfig& c) {
       c.window = Window{.kind = Window::chunks, .size = 37, .layers = {true, false}};
     }},
    {"bidirectional_chunks",
     [](ModelConfig& c) {
       c.direction = AttentionDirection::bidirectional;
       c.window = Window{.kind = Window::chunks, .size = 37, .layers = {true, true}};
     }},
    {"soft_cap", [](ModelConfig& c) { c.score_soft_cap = 0.5; }},
    {"sinks",
     [](ModelConfig& c) {
       c.attention_sinks = true;
       c.window = Window{.size = 5, .layers = {true, false}};
     }},
    {"alibi",
     [](ModelConfig& c) {
       c.positions = AlibiPositions{.slopes = {0.5, 0.25, 0.125, 0.0625}};
     }},
    {"alibi_in_bfloat16",
     [](ModelConfig& c) {
       c.positions =
           AlibiPositions{.slopes = {0.5, 0.25, 0.125, 0.0625}, .in_bfloat16 = true, .scaled = true};
     }},
    {"relative", [](ModelConfig& c) { c.positions = RelativePositions{.buckets = 8, .max_distance = 20}; }},
    {"bidirectional_relative",
     [](ModelConfig& c) {
       c.direction = AttentionDirection::bidirectional;
       c.positions = RelativePositions{.buckets = 8, .max_distance = 20};
     }},
    {"grouped", [](ModelConfig& c) { c.n_kv_heads = 2; }},
    {"multi_query_capped_window",
     [](ModelConfig& c) {
       c.n_kv_heads = 1;
       c.score_soft_cap = 0.5;
       c.window = Window{.size = 40, .layers = {false, true}};
     }},
    {"latent",
     [](ModelConfig& c) {
       c.latent = Latents{.d_kv = 5, .d_shared_key = 2, .d_value = 3};
       c.positions = RotaryPositions{.dim = 2, .at_end = true};
       c.qkv_bias = false;
     }},
};

constexpr std::int64_t kLongest = 330;

ModelConfig config_of(const Kind& kind, at::ScalarType dtype) {
  ModelConfig config = graph_config();
  config.positions = NoPositions{};
  kind.make(config);
  config.n_ctx = kLongest;
  config.dtype = dtype;
  config.validate();
  return config;
}

/// What a run computes, after columns of a prefix and then columns of a cache.
struct Columns {
  const char* name;
  std::int64_t batch;
  std::int64_t own;
  std::int64_t prefix = 0;
  std::int64_t prefix_rows = 0;
  std::int64_t cached = 0;
};

void PrintTo(const Columns& columns, std::ostream* out) { *out << columns.name; }

constexpr Columns kColumns[] = {
    {"one_query", 2, 1},
    {"odd_sizes", 2, 67},
    {"several_tiles", 1, 301},
    {"after_a_cache", 3, 70, 0, 0, 130},
    {"newest_after_a_cache", 3, 1, 0, 0, 130},
    {"after_a_shared_prefix", 3, 70, 130, 1},
    {"newest_after_a_shared_prefix", 3, 1, 130, 1},
    {"after_prefix_and_cache", 2, 33, 100, 2, 57},
    {"newest_after_shared_prefix_and_cache", 3, 1, 100, 1, 57},
};

enum class Padding : std::uint8_t { none, left, right, between };

// Row 0 is whole.
at::Tensor mask_of(std::int64_t batch, std::int64_t length, Padding padding) {
  if (padding == Padding::none) return {};
  at::Tensor mask = at::ones({batch, length}, at::kLong);
  for (std::int64_t row = 1; row < batch; ++row) {
    const std::int64_t count = std::min(length, 3 * row + length / 5);
    const std::int64_t first = padding == Padding::left    ? 0
                               : padding == Padding::right ? length - count
                                                           : (length - count) / 2;
    mask[row].narrow(0, first, count).zero_();
  }
  return mask;
}

/// A run of a graph's own columns after those of earlier runs.
class Runs {
 public:
  Runs(const RandomGraph& graph, const Columns& columns, Padding padding)
      : graph_(graph), columns_(columns), mask_(mask_of(columns.batch, columns.own, padding)) {}

  RandomGraph::Outcome run(const Selection& capture, const std::vector<Edit>& edits) const {
    const std::shared_ptr<KvCache> prefix = filled(columns_.prefix_rows, columns_.prefix, nullptr);
    const std::shared_ptr<KvCache> cache = filled(columns_.batch, columns_.cached, prefix);
    return graph_.run(tokens(columns_.batch, columns_.own), {capture, edits, mask_, prefix, cache.get()});
  }

 private:
  /// The cache of `length` columns after `prefix`; null for none.
  std::shared_ptr<KvCache> filled(std::int64_t rows, std::int64_t length,
                                  const std::shared_ptr<const KvCache>& prefix) const {
    if (length == 0) return nullptr;
    auto cache = std::make_shared<KvCache>(graph_.config.n_layers,
                                           KvCache::Size{.batch = rows, .capacity = length + columns_.own});
    graph_.run(tokens(rows, length), {.prefix = prefix, .cache = cache.get()});
    cache->advance(length, {});
    return cache;
  }

  at::Tensor tokens(std::int64_t rows, std::int64_t length) const {
    return at::randint(graph_.config.d_vocab, {rows, length}, at::detail::createCPUGenerator(7),
                       at::TensorOptions(at::kLong));
  }

  const RandomGraph& graph_;
  Columns columns_;
  at::Tensor mask_;
};

class Tiled : public testing::TestWithParam<std::tuple<Kind, Columns, at::ScalarType>> {};

INSTANTIATE_TEST_SUITE_P(Kinds, Tiled,
                         testing::Combine(testing::ValuesIn(kKinds), testing::ValuesIn(kColumns),
                                          testing::Values(at::kFloat, at::kDouble)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::get<1>(info.param).name +
                                  (std::get<2>(info.param) == at::kDouble ? "_float64" : "_float32");
                         });

// An edit that changes nothing sees whole scores and patterns, which are then computed by one operator after
// another.
TEST_P(Tiled, EqualsTheExplicitPath) {
  const auto& [kind, columns, dtype] = GetParam();
  const ModelConfig config = config_of(kind, dtype);
  const RandomGraph graph(config);
  const double tolerance = dtype == at::kDouble ? kDoubleTolerance : kFloatTolerance;
  const std::vector<Edit> unchanged = {scale(act::attn_scores, 1.0), scale(act::pattern, 1.0)};
  for (const Padding padding : {Padding::none, Padding::left, Padding::right, Padding::between}) {
    if (padding != Padding::none && columns.own == 1) continue;
    SCOPED_TRACE(static_cast<int>(padding));
    const Runs runs(graph, columns, padding);
    const Selection all = act::attn_scores | act::pattern | act::z;
    const RandomGraph::Outcome explicitly = runs.run(all, unchanged), watched = runs.run(all, {}),
                               unwatched = runs.run(act::z, {});
    for (int layer = 0; layer < config.n_layers; ++layer) {
      SCOPED_TRACE(layer);
      for (const Address& point : {act::attn_scores(layer), act::pattern(layer), act::z(layer)}) {
        EXPECT_LT(relative_difference(watched.cache[point], explicitly.cache[point]), tolerance);
      }
      EXPECT_LT(relative_difference(unwatched.cache[act::z(layer)], explicitly.cache[act::z(layer)]),
                tolerance);
    }
    EXPECT_LT(relative_difference(unwatched.logits, explicitly.logits), tolerance);
  }
}

// A tile of narrow numbers is computed in float32, so that only the result is rounded.
TEST(TiledTypes, OfBfloat16IsRoundedOnce) {
  const Workspace workspace;
  auto generator = at::detail::createCPUGenerator(5);
  const auto random = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::TensorOptions(at::kFloat)).to(at::kBFloat16);
  };
  const at::Tensor q = random({2, 150, 4, 6}), k = random({2, 2, 150, 6}), v = random({2, 2, 150, 3}),
                   sinks = random({4});
  const at::Tensor places = at::arange(150, at::TensorOptions(at::kLong)).unsqueeze(0);
  const at::Tensor whole_bias = random({2, 4, 150, 150});
  const auto z_in = [&](at::ScalarType dtype, bool whole) {
    const ScoreBias table{.values = whole_bias.flatten(2).narrow(2, 0, 299).to(dtype).contiguous(),
                          .starts = 149 - places,
                          .whole = {}};
    const AttentionMask mask({.queries = 150, .keys = 150},
                             {.first = at::zeros_like(places), .end = places + 1, .real = {}},
                             whole ? ScoreBias::of(whole_bias.to(dtype)) : table);
    const at::Tensor sinks_here = sinks.to(dtype);
    const ScoreRules rules{
        .scale = 0.4, .soft_cap = 2.0, .sinks = sinks_here, .mask = mask, .has_empty_rows = false};
    return attend_in_tiles(q.to(dtype), {{k.to(dtype), v.to(dtype)}}, rules, {}, {&workspace}).z;
  };
  for (const bool whole : {false, true}) {
    const at::Tensor narrow = z_in(at::kBFloat16, whole), wide = z_in(at::kFloat, whole);
    EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
    if (kernel_set() == KernelSet::plain) {
      EXPECT_LT(relative_difference(narrow, wide), 0.03);
    } else {
      EXPECT_TRUE(at::equal(narrow, wide.to(at::kBFloat16))) << whole;
    }
  }
}

/// The largest piece of memory that LibTorch's own allocator was asked for on this thread.
class LargestAllocation : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*at*/, std::int64_t bytes, std::size_t /*allocated*/,
                         std::size_t /*reserved*/, c10::Device /*device*/) override {
    largest_ = std::max(largest_, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return largest_; }

 private:
  std::int64_t largest_ = 0;
};

class TiledMemory : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, TiledMemory, testing::ValuesIn(kKinds), named);

TEST_P(TiledMemory, OfALongRunHoldsNoScoresOfAllQueries) {
  constexpr std::int64_t kLength = 2048;
  ModelConfig config = config_of(GetParam(), at::kFloat);
  if (config.alibi() != nullptr && config.alibi()->in_bfloat16) GTEST_SKIP() << "its bias is made whole";
  config.n_ctx = kLength;
  const RandomGraph graph(config);
  const auto largest = std::make_shared<LargestAllocation>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, largest);
    graph.run(at::zeros({1, kLength}, at::kLong), {});
  }
  EXPECT_GT(largest->bytes(), 0) << "the count is of nothing";
  EXPECT_LT(largest->bytes(), kLength * kLength) << "as much as a mask of queries by keys";
  EXPECT_LT(graph.workspace.mapped_bytes(), config.n_heads * kLength * kLength * sizeof(float) / 2);
}

}  // namespace
}  // namespace hooked::tiled_attention_test
