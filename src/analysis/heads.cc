#include "hooked/analysis/heads.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
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

/// The average, over the queries that have a key to look at, of the attention given to those keys.
/// `wanted` bool [1 or batch, query, key].
Grid attention_to(const ActivationCache& cache, Stack of, const at::Tensor& wanted, std::string title) {
  const auto mask = wanted.unsqueeze(1);                           // [batch, 1, query, key]
  const auto queries = wanted.any(-1).sum().item<std::int64_t>();  // of one batch, or of all rows
  if (queries == 0) {
    throw ShapeError(title,
                     "no position has a token to look back to; expected tokens that occur more than once "
                     "(repeated_random_tokens makes some)");
  }
  std::vector<at::Tensor> layers;
  GridAxis layer_axis{"layer", {}};
  for (std::int32_t layer = 0; layer < cache.n_layers(of); ++layer) {
    const auto pattern = cache[act::pattern.in(of, layer)];       // [batch, head, query, key]
    const auto rows = wanted.size(0) == 1 ? pattern.size(0) : 1;  // rows that share one mask
    const auto given = (pattern.to(at::kCPU, at::kDouble) * mask).sum({0, 2, 3});
    layers.push_back(given / static_cast<double>(queries * rows));
    layer_axis.labels.push_back(std::to_string(layer));
  }
  GridAxis head_axis{"head", {}};
  for (std::int64_t head = 0; head < layers.at(0).size(0); ++head)
    head_axis.labels.push_back(std::to_string(head));
  return Grid(at::stack(layers), {std::move(layer_axis), std::move(head_axis)},
              {.title = std::move(title), .unit = "mean attention"});
}

/// Every layer's pattern must hold all positions; returns [batch, positions].
std::pair<std::int64_t, std::int64_t> require_patterns(const ActivationCache& cache, Stack of,
                                                       const char* what) {
  if (cache.n_layers(of) == 0) throw HookError(what, "the cache is empty; expected every layer's pattern");
  for (std::int32_t layer = 0; layer < cache.n_layers(of); ++layer)
    require_all_positions(cache, act::pattern.in(of, layer).name(), what);
  const auto first = cache[act::pattern.in(of, 0)];
  return {first.size(0), first.size(2)};
}

/// [batch, query, key]: an earlier place with the query's token.
at::Tensor same_token_before(const ActivationCache& cache, Stack of, const at::Tensor& tokens,
                             const char* what) {
  const auto [batch, positions] = require_patterns(cache, of, what);
  const auto rows = (tokens.defined() && tokens.dim() == 1 ? tokens.unsqueeze(0) : tokens).to(at::kCPU);
  if (rows.dim() != 2 || rows.size(0) != batch || rows.size(1) != positions) {
    throw ShapeError(what, fmt::format("the tokens are not those of the patterns; expected shape {}, got {}",
                                       shape_text({batch, positions}), shape_text(rows.sizes())));
  }
  return rows.unsqueeze(2).eq(rows.unsqueeze(1)).tril(-1);
}

}  // namespace

Grid previous_token_scores(const ActivationCache& cache, Stack of) {
  const auto [batch, positions] = require_patterns(cache, of, "previous-token heads");
  const auto query = at::arange(positions, at::kLong);
  const auto wanted = query.unsqueeze(1).eq(query.unsqueeze(0) + 1).unsqueeze(0);  // [1, query, key]
  return attention_to(cache, of, wanted, "Attention to the previous token");
}

Grid duplicate_token_scores(const ActivationCache& cache, const at::Tensor& tokens, Stack of) {
  return attention_to(cache, of, same_token_before(cache, of, tokens, "duplicate-token heads"),
                      "Attention to earlier occurrences of the same token");
}

Grid induction_scores(const ActivationCache& cache, const at::Tensor& tokens, Stack of) {
  const auto same = same_token_before(cache, of, tokens, "induction heads");
  // The key after an occurrence: shifted right by one, and still not after the query.
  auto wanted = at::zeros_like(same);
  const auto positions = same.size(2);
  wanted.narrow(2, 1, positions - 1).copy_(same.narrow(2, 0, positions - 1));
  return attention_to(cache, of, wanted.tril(),
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
