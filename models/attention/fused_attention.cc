#include "models/attention/fused_attention.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/parallel.h"
#include "models/attention/tiled_attention.h"
#include "models/ops/recorded.h"

namespace hooked {
namespace {

// On the CPU the kernel takes queries in stretches whose mask has about kMaskBytes, or this number of
// queries: a mask of all queries and keys would be as large as many activations, and all keys would be
// multiplied, even those that nobody may see.
constexpr std::int64_t kMaskBytes = std::int64_t{1} << 20;
constexpr std::int64_t kFewestFusedQueries = 64;

// What masks of all heads may take.
constexpr std::int64_t kSinkMaskBytes = std::int64_t{256} << 20;

bool shares_heads(const at::Tensor& q, const KeysAndValues& attended) {
  return attended.keys.size(1) < q.size(2);
}

// On other devices LibTorch's fused kernels take keys shared by heads only in 16 bits without a mask.
bool fused_shares_keys(const at::Tensor& q, bool masked) {
  const bool narrow = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  return q.device().is_cpu() || (narrow && !masked);
}

// [batch, kv_head, key, width] repeated for every head.
at::Tensor for_each_head(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t group = heads / x.size(1);
  return x.unsqueeze(2).expand({-1, -1, group, -1, -1}).flatten(1, 2);
}

// `mask` is added to the scores; undefined: nothing is.
at::Tensor fused(const at::Tensor& q, const KeysAndValues& attended, const at::Tensor& mask, bool causal,
                 double scale) {
  const bool grouped = shares_heads(q, attended);
  // The other way would take 19 operators.
  const bool shares = !grouped || fused_shares_keys(q, mask.defined());
  const auto keys_of = [&](const at::Tensor& x) { return shares ? x : for_each_head(x, q.size(2)); };
  const SparingThreads sparing;  // each thread takes whole heads and stretches of queries
  const at::Tensor z = at::scaled_dot_product_attention(
      q.transpose(1, 2), keys_of(attended.keys), keys_of(attended.values),
      mask.defined() ? std::optional(mask) : std::nullopt, /*dropout_p=*/0.0, causal, scale,
      /*enable_gqa=*/shares && grouped);
  return z.transpose(1, 2);
}

}  // namespace

bool fused_is_faster(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind) {
  if (!q.device().is_cpu()) {
    // Products read keys that heads share in place; for one query that is less work than repeating
    // them.
    return q.size(1) > 1 || !shares_heads(q, attended) || fused_shares_keys(q, kind.mask.forbids());
  }
  // LibTorch computes all scores at once if values have a width of their own, and takes biases and windows as
  // masks of all queries and keys.
  if (q.size(3) != attended.values.size(3) || kind.mask.score_bias().defined() || kind.windowed) return false;
  return kind.plain_causal || !kind.mask.forbids() || !own_softmax(q);
}

at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale) {
  if (kind.plain_causal) return fused(q, attended, {}, /*causal=*/true, scale);
  const at::ScalarType dtype = q.scalar_type();
  const std::int64_t queries = q.size(1), keys = attended.keys.size(2);
  const std::int64_t bytes_of_query = q.size(0) * keys * static_cast<std::int64_t>(q.element_size());
  // All layers share the whole mask. A gradient run keeps each layer's for backward, so pieces take more.
  if (!q.device().is_cpu() || !kind.mask.forbids() || queries * bytes_of_query <= kMaskBytes || records(q)) {
    return fused(q, attended, kind.mask.summand(dtype), /*causal=*/false, scale);
  }
  const std::int64_t at_once =
      std::max(kMaskBytes / std::max<std::int64_t>(bytes_of_query, 1), kFewestFusedQueries);
  std::vector<at::Tensor> stretches;  // [batch, pos, head, d_value] each
  for (std::int64_t first = 0; first < queries; first += at_once) {
    const Span here{first, std::min(first + at_once, queries)};
    const ScoreTile tile{.rows = {0, q.size(0)},
                         .heads = {0, q.size(2)},
                         .queries = here,
                         .keys = kind.mask.seen_by(here, keys)};
    const KeysAndValues seen{cut(attended.keys, 2, tile.keys), cut(attended.values, 2, tile.keys)};
    stretches.push_back(
        fused(cut(q, 1, here), seen, kind.mask.summand(tile, dtype), /*causal=*/false, scale));
  }
  return stretches.size() == 1 ? stretches.front() : at::cat(stretches, 1);
}

bool fused_serves_sinks(const at::Tensor& q, const KeysAndValues& attended) {
  const std::int64_t numbers = q.size(0) * q.size(1) * q.size(2) * (attended.keys.size(2) + 1);
  // For one query all keys would be copied.
  return !q.device().is_cpu() && q.size(1) > 1 &&
         numbers * static_cast<std::int64_t>(q.element_size()) <= kSinkMaskBytes;
}

at::Tensor attend_fused(const at::Tensor& q, const KeysAndValues& attended, const LayerKind& kind,
                        double scale, const SinkColumn& sink) {
  const std::int64_t heads = q.size(2), queries = q.size(1), kv_heads = attended.keys.size(1);
  const auto with_zeros = [&](const at::Tensor& x) {  // [batch, kv_head, key, width], for every head
    const at::Tensor shared = x.unsqueeze(2).expand({-1, -1, heads / kv_heads, -1, -1});
    std::vector<std::int64_t> one = shared.sizes().vec();
    one[3] = 1;
    return at::cat({shared, sink.zero.view({1, 1, 1, 1, 1}).expand(one)}, 3).flatten(1, 2);
  };
  const at::Tensor& seen = kind.mask.summand(q.scalar_type());  // [1 or batch, 1 or head, query, key]
  const std::int64_t rows = seen.defined() ? seen.size(0) : 1, keys = attended.keys.size(2);
  const at::Tensor mask =
      at::cat({(seen.defined() ? seen : sink.zero.view({1, 1, 1, 1})).expand({rows, heads, queries, keys}),
               sink.sinks.view({1, heads, 1, 1}).expand({rows, heads, queries, 1})},
              3);
  return fused(q, {with_zeros(attended.keys), with_zeros(attended.values)}, mask, /*causal=*/false, scale);
}

}  // namespace hooked
