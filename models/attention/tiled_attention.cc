#include "models/attention/tiled_attention.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <utility>

#include "core/parallel.h"
#include "models/kernels/kernels.h"
#include "models/ops/ops.h"
#include "models/ops/recorded.h"
#include "models/storage/workspace.h"

namespace hooked {
namespace {

// Note [Tiles]
// A tile's scores are written by a product, read and written by the softmax and read by the second product,
// so they should fit into the second-level cache. Products also want many rows: below some 64 they read the
// keys more often than they compute with them. On other devices a tile only bounds memory.
constexpr std::int64_t kCacheBytes = std::int64_t{1} << 20;
constexpr std::int64_t kDeviceBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMostQueries = 128;
constexpr std::int64_t kFewestTiledQueries = 32;
// Multiplications below which a second thread costs more than it saves.
constexpr std::int64_t kSerialMultiplications = std::int64_t{1} << 20;

struct AttentionSizes {
  std::int64_t batch, queries, heads, kv_heads, keys;
  std::int64_t group() const { return heads / kv_heads; }
};

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// How a tile's products take the rows of a batch.
enum class BatchRows : std::uint8_t {
  one,       // one row at a time, whose keys are read in place
  together,  // keys of neighbouring rows are contiguous
  sharing,   // few queries of many rows read the same keys: one product for all
};

BatchRows batch_rows(const AttentionSizes& sizes, const std::vector<KeysAndValues>& attended) {
  if (sizes.batch == 1) return BatchRows::one;
  const auto any = [&](const auto& is) { return std::any_of(attended.begin(), attended.end(), is); };
  if (any([](const KeysAndValues& segment) { return segment.keys.size(0) == 1; })) {
    return sizes.queries < kFewestTiledQueries ? BatchRows::sharing : BatchRows::one;
  }
  if (!attended.front().keys.device().is_cpu())
    return BatchRows::together;  // a copy costs less than many launches
  const auto apart = [](const at::Tensor& x) {
    return x.defined() && x.stride(0) != x.size(1) * x.stride(1);
  };
  return any([&](const KeysAndValues& segment) { return apart(segment.keys) || apart(segment.values); })
             ? BatchRows::one
             : BatchRows::together;
}

// Tiles by rows and heads first, so that neighbouring tiles read the same keys. A tile has whole groups of
// heads that share keys.
std::vector<ScoreTile> tiles_of(const AttentionSizes& sizes, BatchRows taken, const at::Tensor& q,
                                const AttentionMask& mask) {
  const bool cpu = q.device().is_cpu();
  const std::int64_t budget =
      (cpu ? kCacheBytes : kDeviceBytes) / std::max<std::int64_t>(q.element_size(), sizeof(float));
  const std::int64_t most = std::min(cpu ? kMostQueries : sizes.queries, sizes.queries);
  const Span widest = mask.seen_by({sizes.queries - most, sizes.queries}, sizes.keys);
  const std::int64_t row = std::max<std::int64_t>(widest.size(), 1) * sizes.group();
  const std::int64_t queries = std::clamp(budget / row, std::min(kFewestTiledQueries, sizes.queries), most);

  const std::int64_t units = sizes.batch * sizes.kv_heads;
  std::int64_t units_at_a_time = std::max<std::int64_t>(budget / std::max<std::int64_t>(queries * row, 1), 1);
  const std::int64_t multiplications = units * sizes.queries * row * q.size(-1);
  if (cpu && multiplications > kSerialMultiplications) {
    const std::int64_t by_queries = divided_up(sizes.queries, std::max<std::int64_t>(queries, 1));
    units_at_a_time =
        std::min(units_at_a_time, std::max<std::int64_t>(units * by_queries / at::get_num_threads(), 1));
  }
  std::int64_t rows = 1, kv_heads = std::min(units_at_a_time, sizes.kv_heads);
  if (taken == BatchRows::together)
    rows = std::clamp<std::int64_t>(units_at_a_time / kv_heads, 1, sizes.batch);
  if (taken == BatchRows::sharing) {
    rows = std::min(units_at_a_time, sizes.batch);
    kv_heads = std::clamp<std::int64_t>(units_at_a_time / rows, 1, sizes.kv_heads);
  }
  const std::int64_t heads = kv_heads * sizes.group();

  std::vector<ScoreTile> tiles;
  for (std::int64_t r = 0; r < sizes.batch; r += rows) {
    for (std::int64_t h = 0; h < sizes.heads; h += heads) {
      for (std::int64_t i = 0; i < sizes.queries; i += queries) {
        const Span of_queries{i, std::min(i + queries, sizes.queries)};
        tiles.push_back({.rows = {r, std::min(r + rows, sizes.batch)},
                         .heads = {h, std::min(h + heads, sizes.heads)},
                         .queries = of_queries,
                         .keys = mask.seen_by(of_queries, sizes.keys)});
      }
    }
  }
  return tiles;
}

// One call: everything that its tiles read and write.
class Tiles {
 public:
  Tiles(const at::Tensor& q, const std::vector<KeysAndValues>& attended, const ScoreRules& rules,
        AttentionOutput& out, Memory memory)
      : q_(q),
        attended_(attended),
        rules_(rules),
        out_(out),
        memory_(memory),
        kernels_(q.device().is_cpu() && serves(q, out) ? kernels::own_kernels() : nullptr),
        dtype_(kernels_ != nullptr ? at::kFloat : q.scalar_type()),
        sinks_(converted(rules.sinks)) {
    // A bias as large as all scores is converted tile by tile.
    const ScoreBias& bias = rules.mask.score_bias();
    bias_by_tile_ = bias.whole.defined() && bias.whole.scalar_type() != dtype_;
    if (!bias_by_tile_) bias_ = {converted(bias.values), bias.starts, {}};
  }

  void attend(const ScoreTile& tile) const {
    const at::Tensor queries = cut(cut(cut(q_, 0, tile.rows), 1, tile.queries), 2, tile.heads).to(dtype_);
    at::Tensor scores =
        memory_.workspace->empty({tile.rows.size(), tile.heads.size(), tile.queries.size(), tile.keys.size()},
                                 q_.options().dtype(dtype_));
    each_segment(tile, [&](const auto& part, const Span& keys) {
      ops::scores_into(cut(scores, 3, keys), queries.transpose(1, 2), part(&KeysAndValues::keys),
                       in_caps(tile) ? rules_.scale / rules_.soft_cap : rules_.scale);
    });
    const at::Tensor pattern = kernels_ != nullptr ? by_kernel(scores, tile) : by_operators(scores, tile);
    if (!out_.z.defined()) return;
    const at::Tensor z = cut(cut(cut(out_.z, 0, tile.rows), 1, tile.queries), 2, tile.heads);
    bool first = true;
    each_segment(tile, [&](const auto& part, const Span& keys) {
      ops::mix_into(z, cut(pattern, 3, keys), part(&KeysAndValues::values),
                    /*add=*/!std::exchange(first, false));
    });
    if (first) z.zero_();  // nobody sees any key
  }

 private:
  // The kernel is for float32. A tile of narrower numbers is widened, which loses nothing, if no scores are
  // kept.
  static bool serves(const at::Tensor& q, const AttentionOutput& out) {
    if (q.scalar_type() == at::kFloat) return true;
    const bool narrow = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
    return narrow && !out.scores.defined() && !out.pattern.defined();
  }

  at::Tensor converted(const at::Tensor& x) const {
    return kernels_ != nullptr && x.defined() ? x.to(dtype_).contiguous() : x;
  }

  // The part of each segment that the tile reads, and which of the tile's keys it is.
  template <typename Do>
  void each_segment(const ScoreTile& tile, const Do& act) const {
    const std::int64_t kv_heads = attended_.front().keys.size(1), group = q_.size(2) / kv_heads;
    const Span heads{tile.heads.first / group, tile.heads.end / group};
    std::int64_t begin = 0;  // the segment's first column
    for (const KeysAndValues& segment : attended_) {
      const std::int64_t end = begin + segment.keys.size(2);
      const Span columns{std::max(begin, tile.keys.first), std::min(end, tile.keys.end)};
      if (columns.size() > 0) {
        const auto part = [&](const at::Tensor& x) {
          const at::Tensor rows = x.size(0) == 1 ? x : cut(x, 0, tile.rows);
          return cut(cut(rows, 1, heads), 2, {columns.first - begin, columns.end - begin}).to(dtype_);
        };
        act([&](at::Tensor KeysAndValues::*of) { return part(segment.*of); },
            {columns.first - tile.keys.first, columns.end - tile.keys.first});
      }
      begin = end;
    }
  }

  // On other devices there is usually only one tile, and its masks are those of the other layers.
  bool is_all(const ScoreTile& tile) const {
    return !q_.device().is_cpu() && tile.rows.size() == q_.size(0) && tile.heads.size() == q_.size(2) &&
           tile.queries.size() == q_.size(1);
  }

  // Whether the tile's products are divided by the cap: that costs no launch.
  bool in_caps(const ScoreTile& tile) const { return rules_.soft_cap > 0 && is_all(tile); }

  // For all products: cap, bias and mask in as few launches as possible.
  at::Tensor finished_at_once(at::Tensor products) const {
    const bool capped = rules_.soft_cap > 0;
    if (capped) products = products.tanh_();
    const bool added = rules_.mask.bias().defined() || (capped && rules_.mask.blocked().defined());
    const double factor = capped ? rules_.soft_cap : 1.0;
    if (added) return at::add(rules_.mask.summand(dtype_), products, factor);
    if (capped) products = products.mul_(factor);
    return rules_.mask.blocked().defined() ? products.masked_fill_(rules_.mask.blocked(), kMasked) : products;
  }

  at::Tensor by_operators(const at::Tensor& products, const ScoreTile& tile) const {
    const bool all = is_all(tile);
    const TileRules here{.bias = all ? rules_.mask.bias() : rules_.mask.bias(tile),
                         .blocked = all ? rules_.mask.blocked() : rules_.mask.blocked(tile),
                         .sinks = rules_.sinks.defined() ? cut(rules_.sinks, 0, tile.heads) : at::Tensor()};
    const at::Tensor scores =
        all ? finished_at_once(products) : finished_scores(products, rules_, here, memory_);
    keep(out_.scores, scores, tile, kMasked);
    const at::Tensor pattern = probabilities(scores, rules_, here, memory_);
    keep(out_.pattern, pattern, tile, 0.0);
    return pattern;
  }

  // Keys that no query of the tile sees get `elsewhere`.
  static void keep(const at::Tensor& kept, const at::Tensor& part, const ScoreTile& tile, double elsewhere) {
    if (!kept.defined()) return;
    const at::Tensor rows = cut(cut(cut(kept, 0, tile.rows), 1, tile.heads), 2, tile.queries);
    cut(rows, 3, {0, tile.keys.first}).fill_(elsewhere);
    cut(rows, 3, tile.keys).copy_(part);
    cut(rows, 3, {tile.keys.end, kept.size(3)}).fill_(elsewhere);
  }

  at::Tensor by_kernel(const at::Tensor& scores, const ScoreTile& tile) const {
    const VisibleKeys& visible = rules_.mask.visible();
    const ScoreBias bias = bias_by_tile_ ? ScoreBias::of(rules_.mask.bias(tile).to(dtype_)) : bias_;
    // The row, head, query and column of its first number.
    const ScoreTile origin = bias_by_tile_ ? tile : ScoreTile{};
    float* block = scores.mutable_data_ptr<float>();
    for (std::int64_t row = tile.rows.first; row < tile.rows.end; ++row) {
      for (std::int64_t head = tile.heads.first; head < tile.heads.end; ++head) {
        const auto of_queries = [&](const at::Tensor& x) {
          return x.defined() ? numbers<std::int64_t>(x, row) + tile.queries.first : nullptr;
        };
        const auto bias_of_head = [&]() -> const float* {
          if (!bias.defined()) return nullptr;
          return numbers<float>(bias.values, row - origin.rows.first) +
                 (head - origin.heads.first) * bias.values.stride(1) - origin.keys.first;
        };
        const auto kept = [&](const at::Tensor& x) {
          return x.defined() ? x.mutable_data_ptr<float>() + row * x.stride(0) + head * x.stride(1) +
                                   tile.queries.first * x.stride(2)
                             : nullptr;
        };
        kernels_->attend_rows({.scores = block,
                               .stride = tile.keys.size(),
                               .rows = tile.queries.size(),
                               .first_key = tile.keys.first,
                               .end_key = tile.keys.end,
                               .first = of_queries(visible.first),
                               .end = of_queries(visible.end),
                               .real = visible.real.defined() ? numbers<bool>(visible.real, row) : nullptr,
                               .bias = bias_of_head(),
                               .bias_starts = bias.defined() ? numbers<std::int64_t>(bias.starts, row) +
                                                                   tile.queries.first - origin.queries.first
                                                             : nullptr,
                               .soft_cap = static_cast<float>(rules_.soft_cap),
                               .sink = sinks_.defined() ? sinks_.const_data_ptr<float>() + head : nullptr,
                               .kept_scores = kept(out_.scores),
                               .kept_pattern = kept(out_.pattern),
                               .columns = out_.scores.defined()    ? out_.scores.size(3)
                                          : out_.pattern.defined() ? out_.pattern.size(3)
                                                                   : 0});
        block += tile.queries.size() * tile.keys.size();
      }
    }
    return scores;
  }

  // A tensor of one row is used for every row.
  template <typename Number>
  static const Number* numbers(const at::Tensor& x, std::int64_t row) {
    return x.const_data_ptr<Number>() + (x.size(0) == 1 ? 0 : row * x.stride(0));
  }

  const at::Tensor& q_;
  const std::vector<KeysAndValues>& attended_;
  const ScoreRules& rules_;
  const AttentionOutput& out_;
  Memory memory_;
  const kernels::Kernels* kernels_;  // null: LibTorch's operators
  at::ScalarType dtype_;             // of a tile
  at::Tensor sinks_;                 // in that dtype
  ScoreBias bias_;
  bool bias_by_tile_ = false;
};

}  // namespace

bool own_softmax(const at::Tensor& q) {
  return q.device().is_cpu() && q.scalar_type() == at::kFloat && kernels::own_kernels() != nullptr;
}

AttentionOutput attend_in_tiles(const at::Tensor& q, const std::vector<KeysAndValues>& attended,
                                const ScoreRules& rules, ScoresToKeep kept, Memory memory) {
  std::int64_t keys = 0;
  for (const KeysAndValues& segment : attended) keys += segment.keys.size(2);
  const AttentionSizes sizes{.batch = q.size(0),
                             .queries = q.size(1),
                             .heads = q.size(2),
                             .kv_heads = attended.front().keys.size(1),
                             .keys = keys};
  const auto all_scores = [&](bool wanted) {
    return wanted
               ? memory.workspace->empty({sizes.batch, sizes.heads, sizes.queries, sizes.keys}, q.options())
               : at::Tensor();
  };
  const auto z_of = [&](const at::Tensor& values) {
    return values.defined() ? memory.workspace->empty(
                                  {sizes.batch, sizes.queries, sizes.heads, values.size(3)}, q.options())
                            : at::Tensor();
  };
  AttentionOutput out{.z = z_of(attended.front().values),
                      .scores = all_scores(kept.scores),
                      .pattern = all_scores(kept.pattern)};
  const Tiles work(q, attended, rules, out, memory);
  const std::vector<ScoreTile> tiles = tiles_of(sizes, batch_rows(sizes, attended), q, rules.mask);
  if (!q.device().is_cpu()) {
    for (const ScoreTile& tile : tiles) work.attend(tile);
    return out;
  }
  share_among_threads(static_cast<std::int64_t>(tiles.size()),
                      [&](std::int64_t i) { work.attend(tiles[static_cast<std::size_t>(i)]); });
  return out;
}

at::Tensor finished_scores(at::Tensor scores, const ScoreRules& rules, const TileRules& here, Memory memory) {
  if (rules.soft_cap > 0) scores = ops::soft_cap(scores, rules.soft_cap);
  if (here.bias.defined()) scores = scores + here.bias;
  if (!here.blocked.defined()) return scores;
  return memory.workspace != nullptr && !records(scores) ? scores.masked_fill_(here.blocked, kMasked)
                                                         : scores.masked_fill(here.blocked, kMasked);
}

at::Tensor probabilities(const at::Tensor& scores, const ScoreRules& rules, const TileRules& here,
                         Memory memory) {
  if (here.sinks.defined()) {
    // One more column, so that every row has a finite score, and rows over keys sum to less than 1.
    const at::Tensor column = here.sinks.view({1, -1, 1, 1}).expand({scores.size(0), -1, scores.size(2), 1});
    return ops::softmax(at::cat({scores, column}, -1), memory).narrow(-1, 0, scores.size(-1));
  }
  if (!rules.has_empty_rows) return ops::softmax(scores, memory);
  // The softmax of a row that sees nothing is 0/0; its pattern is set to zero.
  const at::Tensor empty = (scores == kMasked).all(-1, /*keepdim=*/true);
  return ops::softmax(scores.masked_fill(empty, 0.0), memory).masked_fill(empty, 0.0);
}

}  // namespace hooked
