#include "analysis/reading/scored_patterns.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/places/cache_reading.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {

void require_no_prefix(const std::optional<TokenColumns>& columns, std::string_view where) {
  if (!columns || columns->first == 0) return;
  throw HookError(where,
                  fmt::format("the run went on from a prefix of {} tokens, and the cache does not have their "
                              "attention; expected that of a run from its first token on",
                              columns->first));
}

namespace {

/// Bool [row, column]: which tokens of a run are real.
at::Tensor real_tokens(const std::optional<TokenColumns>& columns, at::IntArrayRef sizes) {
  if (columns && columns->mask.defined()) return columns->mask.to(at::kCPU, at::kBool);
  return at::ones(sizes, at::kBool);
}

}  // namespace

ScoredPatterns::ScoredPatterns(const ActivationCache& cache, const HeadScoreOptions& options,
                               std::string_view where)
    : crosses(options.site.site == Site::cross_pattern),
      excludes_bos_(options.exclude_bos),
      excludes_current_(options.exclude_current_token),
      where_(where),
      stack_(options.stack) {
  if (!crosses && options.site.site != Site::pattern)
    throw HookError(where, "heads are scored by their patterns; expected `pattern` or `cross_pattern`");
  if (crosses && options.exclude_current_token) {
    throw HookError(
        where,
        "in cross-attention no key is the query's own token; expected exclude_current_token to be "
        "false there");
  }
  require_no_prefix(cache.tokens(stack_), where);
  const Stack main = cache.n_layers(Stack::encoder) > 0 ? Stack::decoder : Stack::blocks;
  std::optional<LateTensor> shown;  // whose tensor need not be computed
  for (std::int32_t layer = 0; layer < cache.n_layers(stack_); ++layer) {
    const auto name = options.site.in(stack_ == Stack::none ? main : stack_, layer).name();
    layers.push_back({name, cache.contains(name)});
    if (!layers.back().kept) continue;
    require_all_positions(cache, name, "scores of heads");
    if (!shown) shown = cache.entry(name).held;
  }
  if (!shown) {
    throw HookError(where,
                    fmt::format("the cache has no layer's pattern; expected that of a run which keeps {}",
                                crosses ? "`cross_pattern`" : "`pattern`"));
  }
  const std::vector<std::int64_t> sizes = shown->sizes();  // [row, head, query, key]
  heads = sizes[1];
  device = shown->device();
  dtype = shown->scalar_type();
  queries = real_tokens(cache.tokens(stack_), {sizes[0], sizes[2]});
  keys = crosses ? real_tokens(cache.tokens(Stack::encoder), {sizes[0], sizes[3]}) : queries;
}

at::Tensor QueryRange::places() const { return at::arange(begin, end, at::kLong).unsqueeze(1); }

at::Tensor ScoredPatterns::key_places() const { return at::arange(keys.size(1), at::kLong).unsqueeze(0); }

at::Tensor ScoredPatterns::real(const QueryRange& some) const {
  return queries.slice(1, some.begin, some.end).unsqueeze(2).logical_and(keys.unsqueeze(1));
}

at::Tensor ScoredPatterns::excluded(const QueryRange& some) const {
  at::Tensor left_out;
  if (excludes_bos_) left_out = first_keys().unsqueeze(1);
  if (excludes_current_) {
    const at::Tensor own = some.places().eq(key_places());
    left_out = left_out.defined() ? left_out.logical_or(own) : own;
  }
  return left_out.defined() ? real(some).logical_and(left_out) : at::Tensor();
}

at::Tensor ScoredPatterns::counted(const QueryRange& some) const {
  const at::Tensor left_out = excluded(some);
  return left_out.defined() ? real(some).logical_and(left_out.logical_not()) : real(some);
}

at::Tensor ScoredPatterns::first_keys() const { return keys.cumsum(1).eq(1).logical_and(keys); }

at::Tensor ScoredPatterns::tokens(const ActivationCache& cache, const at::Tensor& given) const {
  const auto& columns = cache.tokens(stack_ == Stack::encoder ? Stack::encoder : Stack::none);
  at::Tensor known = columns ? columns->ids : at::Tensor();
  // In an encoder-decoder, hook_tokens is what the encoder reads. Its ids are those after edits.
  const bool encodes = cache.n_layers(Stack::encoder) > 0;
  if (const auto name = Address(act::tokens).name();
      (!encodes || stack_ == Stack::encoder) && cache.contains(name)) {
    require_all_positions(cache, name, "scores of heads");
    known = cache[Address(name)];
  }
  if (!given.defined() && !known.defined()) {
    throw ShapeError(
        where_,
        "the tokens are missing; expected what the cached run read, as the option `tokens`, or a "
        "cache that has kept `tokens`");
  }
  const auto of_rows = [&](const at::Tensor& ids) {
    const at::Tensor rows = (ids.dim() == 1 ? ids.unsqueeze(0) : ids).to(at::kCPU);
    if (rows.sizes() != queries.sizes()) {
      throw ShapeError(where_,
                       fmt::format("the tokens are not those of the patterns; expected shape {}, got {}",
                                   shape_text(queries.sizes()), shape_text(rows.sizes())));
    }
    return rows.masked_fill(queries.logical_not(), -1);
  };
  const at::Tensor read = of_rows(given.defined() ? given : known);
  if (!given.defined() || !known.defined()) return read;
  const at::Tensor differs = read.ne(of_rows(known));
  if (!differs.any().item<bool>()) return read;
  const auto first = differs.flatten().to(at::kLong).argmax().item<std::int64_t>();
  const auto row = first / read.size(1), position = first % read.size(1);
  throw ShapeError(where_,
                   fmt::format("the tokens are of another prompt than the cache; expected id {} in row {} at "
                               "position {}, got {}; leave `tokens` out, for the cache knows its own",
                               of_rows(known)[row][position].item<std::int64_t>(), row, position,
                               read[row][position].item<std::int64_t>()));
}

}  // namespace hooked
