// LibTorch's fused kernel, in pieces of queries and whole, compared with attention written out.
#include "models/attention/fused_attention.h"

#include <c10/core/GradMode.h>

#include <ostream>
#include <tuple>

#include "tests/models/random_graph.h"

namespace hooked::fused_attention_test {
namespace {

/// Queries and keys of one run; columns before the queries' own are those of earlier runs.
struct Shape {
  const char* name;
  std::int64_t batch, queries, past = 0;
  std::int64_t window = 0;  ///< columns that a query sees with its own, or of a chunk; 0: all
  Window::Kind kind = Window::sliding;
  bool padded = false;  ///< rows but the first begin with padding
  bool bidirectional = false;
  std::int64_t kv_heads = 4;
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

// A mask of more than 1 MiB is made in pieces: 2 rows of 520 queries take 2 or 4 of them.
constexpr Shape kShapes[] = {
    {.name = "causal", .batch = 2, .queries = 520},
    {.name = "one_query", .batch = 3, .queries = 1, .past = 40, .padded = true},
    {.name = "short_and_padded", .batch = 3, .queries = 17, .padded = true},
    {.name = "long_and_padded", .batch = 2, .queries = 520, .padded = true},
    {.name = "long_and_grouped", .batch = 2, .queries = 520, .padded = true, .kv_heads = 2},
    {.name = "behind_columns", .batch = 2, .queries = 400, .past = 130},
    {.name = "window", .batch = 2, .queries = 520, .window = 70},
    {.name = "chunks", .batch = 2, .queries = 520, .window = 70, .kind = Window::chunks},
    {.name = "window_and_padding", .batch = 2, .queries = 520, .window = 70, .padded = true},
    {.name = "bidirectional", .batch = 2, .queries = 100, .bidirectional = true},
    {.name = "bidirectional_and_padded", .batch = 2, .queries = 520, .padded = true, .bidirectional = true},
};

class Fused : public testing::TestWithParam<std::tuple<Shape, at::ScalarType>> {
 protected:
  static constexpr std::int64_t kHeads = 4, kWidth = 8, kPadding = 5;

  Fused()
      : shape_(std::get<0>(GetParam())),
        dtype_(std::get<1>(GetParam())),
        config_(config_of(shape_, dtype_)),
        keys_(shape_.past + shape_.queries),
        cache_(config_.n_layers, KvCache::Size{.batch = shape_.batch, .capacity = keys_}),
        q_(at::randn({shape_.batch, shape_.queries, kHeads, kWidth}, dtype_)),
        attended_{at::randn({shape_.batch, shape_.kv_heads, keys_, kWidth}, dtype_),
                  at::randn({shape_.batch, shape_.kv_heads, keys_, kWidth}, dtype_)} {
    at::Tensor mask;
    real_ = at::ones({shape_.batch, keys_}, at::kBool);
    if (shape_.padded) real_.slice(0, 1).slice(1, 0, kPadding).fill_(false);
    if (shape_.past > 0) {
      const KeysAndValues past{attended_.keys.slice(2, 0, shape_.past),
                               attended_.values.slice(2, 0, shape_.past)};
      for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) cache_.append(layer, past);
      cache_.advance(shape_.past,
                     shape_.padded ? real_.slice(1, 0, shape_.past).to(at::kLong) : at::Tensor());
    }
    if (shape_.padded) mask = real_.slice(1, shape_.past).to(at::kLong);
    sequence_.emplace(config_, config_.main_stack(),
                      Sequence::Input{.batch = shape_.batch,
                                      .length = shape_.queries,
                                      .attention_mask = mask,
                                      .device = at::kCPU,
                                      .cache = &cache_});
  }

  static ModelConfig config_of(const Shape& shape, at::ScalarType dtype) {
    ModelConfig config = graph_config();
    config.positions = NoPositions{};
    config.n_kv_heads = shape.kv_heads;
    config.n_ctx = shape.past + shape.queries;
    config.dtype = dtype;
    if (shape.window > 0)
      config.window = Window{.kind = shape.kind, .size = shape.window, .layers = {true, true}};
    if (shape.bidirectional) config.direction = AttentionDirection::bidirectional;
    config.validate();
    return config;
  }

  /// In float64, softmax over the keys that each query may see.
  at::Tensor written_out() const {
    const auto wide = [&](const at::Tensor& x) {
      return x.to(at::kDouble).repeat_interleave(kHeads / shape_.kv_heads, 1);
    };
    const at::Tensor query = at::arange(shape_.past, keys_).unsqueeze(1),
                     key = at::arange(keys_).unsqueeze(0);
    at::Tensor seen = shape_.bidirectional ? key.ge(0) : key.le(query);
    if (shape_.window > 0 && shape_.kind == Window::sliding) {
      seen = seen.logical_and((query - key).lt(shape_.window));
    } else if (shape_.window > 0) {
      const auto chunk = [&](const at::Tensor& column) { return column.div(shape_.window, "floor"); };
      seen = seen.logical_and(chunk(query).eq(chunk(key)));
    }
    seen = seen.logical_and(real_.unsqueeze(1).unsqueeze(1));  // [batch, 1, query, key]
    const at::Tensor scores =
        q_.to(at::kDouble).transpose(1, 2).matmul(wide(attended_.keys).transpose(2, 3)) * kScale;
    return scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity())
        .softmax(-1)
        .matmul(wide(attended_.values))
        .transpose(1, 2);
  }

  /// The largest difference at tokens that are not padding.
  double difference(const at::Tensor& z) const {
    const at::Tensor padding = real_.slice(1, shape_.past).logical_not().unsqueeze(2).unsqueeze(3);
    return (z.to(at::kDouble) - written_out()).masked_fill(padding, 0.0).abs().max().item<double>();
  }

  double tolerance() const { return dtype_ == at::kDouble ? 1e-12 : dtype_ == at::kFloat ? 1e-5 : 0.03; }

  static constexpr double kScale = 0.7;
  Shape shape_;
  at::ScalarType dtype_;
  ModelConfig config_;
  std::int64_t keys_;
  KvCache cache_;
  at::Tensor q_, real_;
  KeysAndValues attended_;
  std::optional<Sequence> sequence_;
};

TEST_P(Fused, EqualsAttentionWrittenOut) {
  const LayerKind kind = sequence_->layer_kind(shape_.window > 0);
  const at::NoGradGuard no_grad;
  EXPECT_LT(difference(attend_fused(q_, attended_, kind, kScale)), tolerance());
}

// A run with gradients gets one mask for all layers, not pieces.
TEST_P(Fused, EqualsAttentionWrittenOutWhereGradientsAreTaken) {
  const LayerKind kind = sequence_->layer_kind(shape_.window > 0);
  q_.requires_grad_();
  const at::Tensor z = attend_fused(q_, attended_, kind, kScale);
  EXPECT_LT(difference(z.detach()), tolerance());
  EXPECT_TRUE(z.requires_grad());
}

std::string name_of(const testing::TestParamInfo<std::tuple<Shape, at::ScalarType>>& info) {
  return std::string(std::get<0>(info.param).name) + '_' + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Fused,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(at::kDouble, at::kFloat, at::kBFloat16)),
                         name_of);

}  // namespace
}  // namespace hooked::fused_attention_test
