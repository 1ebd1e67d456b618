#include "hooked/analysis/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <numeric>
#include <random>

#include "analysis/cache_reading.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/act.h"

namespace hooked {
namespace {

/// Which keys each query of a run should look at, and what is padding.
struct Wanted {
  at::Tensor keys;  ///< bool [row, query, key] on the CPU
  Stack stack;
};

/// The average, over the queries that have a key to look at, of the attention given to those keys.
Grid attention_to(const ActivationCache& cache, const Wanted& wanted, HeadRows rows, std::string title) {
  const auto mask = wanted.keys.unsqueeze(1);                  // [row, 1, query, key]
  auto queries = wanted.keys.any(-1).sum(1).view({1, -1, 1});  // [1, row, 1] that have a key to look at
  if (queries.sum().item<std::int64_t>() == 0) {
    throw ShapeError(title,
                     "no position has a token to look back to; expected tokens that occur more than once "
                     "(repeated_random_tokens makes some)");
  }
  std::vector<at::Tensor> layers;
  GridAxis layer_axis = numbered_axis("layer", cache.n_layers(wanted.stack));
  for (std::int32_t layer = 0; layer < cache.n_layers(wanted.stack); ++layer) {
    const auto pattern = cache[act::pattern.in(wanted.stack, layer)];  // [row, head, query, key]
    layers.push_back((pattern.to(at::kCPU, at::kDouble) * mask).sum({2, 3}));
    layer_axis.places.emplace_back(cache.entry(act::pattern.in(wanted.stack, layer).name()).name);
  }
  auto given = at::stack(layers);  // [layer, row, head]
  GridAxis head_axis = numbered_axis("head", given.size(2));
  const Grid::Description description{.title = std::move(title), .unit = "mean attention"};
  if (rows == HeadRows::mean)
    return Grid(given.sum(1) / queries.sum(), {std::move(layer_axis), std::move(head_axis)}, description);
  return Grid((given / queries).movedim(1, 0),  // 0 / 0 is NaN: the row has no such query
              {numbered_axis("row", given.size(1)), std::move(layer_axis), std::move(head_axis)},
              description);
}

/// Every layer's pattern must hold all positions; returns [row, pos] bool: which tokens are real.
at::Tensor real_tokens(const ActivationCache& cache, Stack of, const char* what) {
  if (cache.n_layers(of) == 0) throw HookError(what, "the cache is empty; expected every layer's pattern");
  for (std::int32_t layer = 0; layer < cache.n_layers(of); ++layer)
    require_all_positions(cache, act::pattern.in(of, layer).name(), what);
  const auto first = cache[act::pattern.in(of, 0)];
  const auto& columns = cache.tokens(of);
  if (columns && columns->mask.defined()) return columns->mask.to(at::kCPU, at::kBool);
  return at::ones({first.size(0), first.size(2)}, at::kBool);
}

/// [row, query, key]: an earlier place with the query's token.
at::Tensor same_token_before(const ActivationCache& cache, Stack of, const at::Tensor& tokens,
                             const char* what) {
  const auto real = real_tokens(cache, of, what);
  if (!tokens.defined()) throw ShapeError(what, "the tokens are missing; expected what the cached run read");
  const auto rows = (tokens.dim() == 1 ? tokens.unsqueeze(0) : tokens).to(at::kCPU);
  if (rows.sizes() != real.sizes()) {
    throw ShapeError(what, fmt::format("the tokens are not those of the patterns; expected shape {}, got {}",
                                       shape_text(real.sizes()), shape_text(rows.sizes())));
  }
  return rows.unsqueeze(2).eq(rows.unsqueeze(1)).tril(-1) * real.unsqueeze(2) * real.unsqueeze(1);
}

}  // namespace

Grid previous_token_scores(const ActivationCache& cache, const HeadScoreOptions& options) {
  const auto real = real_tokens(cache, options.stack, "previous-token heads");
  const auto query = at::arange(real.size(1), at::kLong);
  const auto before = query.unsqueeze(1).eq(query.unsqueeze(0) + 1);  // [query, key]
  return attention_to(cache, {before * real.unsqueeze(2) * real.unsqueeze(1), options.stack}, options.rows,
                      "Attention to the previous token");
}

Grid duplicate_token_scores(const ActivationCache& cache, const at::Tensor& tokens,
                            const HeadScoreOptions& options) {
  const auto same = same_token_before(cache, options.stack, tokens, "duplicate-token heads");
  return attention_to(cache, {same, options.stack}, options.rows,
                      "Attention to earlier occurrences of the same token");
}

Grid induction_scores(const ActivationCache& cache, const at::Tensor& tokens,
                      const HeadScoreOptions& options) {
  const auto same = same_token_before(cache, options.stack, tokens, "induction heads");
  // The key after an occurrence: shifted right by one, and still not after the query. Rows are padded at
  // their ends only, so what stands between two real tokens is real.
  auto wanted = at::zeros_like(same);
  const auto positions = same.size(2);
  wanted.narrow(2, 1, positions - 1).copy_(same.narrow(2, 0, positions - 1));
  return attention_to(cache, {wanted.tril(), options.stack}, options.rows,
                      "Attention to what followed earlier occurrences of the same token");
}

at::Tensor repeated_random_tokens(const RepeatedTokensOptions& options) {
  const auto count = options.vocab_end - options.vocab_begin;
  if (options.rows < 1 || options.half < 1 || options.half > count) {
    throw ShapeError(
        "repeated_random_tokens",
        fmt::format("{} rows of {} different ids cannot be drawn from {} ids; expected rows and half of at "
                    "least 1 and half at most the number of ids",
                    options.rows, options.half, count));
  }
  const std::int64_t start = options.bos >= 0 ? 1 : 0;
  auto tokens = at::full({options.rows, start + 2 * options.half}, options.bos, at::kLong);
  // Fisher-Yates by hand: the standard's shuffle may differ between libraries, and a seed should mean one
  // thing.
  std::mt19937_64 random(options.seed);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), options.vocab_begin);
  for (std::int64_t row = 0; row < options.rows; ++row) {
    for (std::int64_t i = 0; i < options.half; ++i) {
      const auto left = static_cast<std::uint64_t>(count - i);
      std::swap(ids[static_cast<std::size_t>(i)], ids[static_cast<std::size_t>(i) + random() % left]);
      tokens[row][start + i] = ids[static_cast<std::size_t>(i)];
      tokens[row][start + options.half + i] = ids[static_cast<std::size_t>(i)];
    }
  }
  return tokens;
}

}  // namespace hooked
