#include "analysis/scored_patterns.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <optional>
#include <string>

#include "analysis/cache_reading.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {
namespace {

void require_no_prefix(const std::optional<TokenColumns>& columns, std::string_view where) {
  if (!columns || columns->first == 0) return;
  throw HookError(where,
                  fmt::format("the run went on from a prefix of {} tokens, and the cache does not have their "
                              "attention; expected that of a run from its first token on",
                              columns->first));
}

/// Bool [row, column]: which tokens of a run are real.
at::Tensor real_tokens(const std::optional<TokenColumns>& columns, at::IntArrayRef sizes) {
  if (columns && columns->mask.defined()) return columns->mask.to(at::kCPU, at::kBool);
  return at::ones(sizes, at::kBool);
}

}  // namespace

ScoredPatterns::ScoredPatterns(const ActivationCache& cache, const HeadScoreOptions& options,
                               std::string_view where)
    : crosses(options.site.site == Site::cross_pattern), where_(where), stack_(options.stack) {
  if (!crosses && options.site.site != Site::pattern)
    throw HookError(where, "heads are scored by their patterns; expected act::pattern or act::cross_pattern");
  if (crosses && options.exclude_current_token) {
    throw HookError(
        where,
        "in cross-attention no key is the query's own token; expected exclude_current_token to be "
        "false there");
  }
  require_no_prefix(cache.tokens(stack_), where);
  const Stack main = cache.n_layers(Stack::encoder) > 0 ? Stack::decoder : Stack::blocks;
  at::Tensor shown;
  for (std::int32_t layer = 0; layer < cache.n_layers(stack_); ++layer) {
    const auto name = options.site.in(stack_ == Stack::none ? main : stack_, layer).name();
    layers.push_back({name, cache.contains(name)});
    if (!layers.back().kept) continue;
    require_all_positions(cache, name, "scores of heads");
    if (!shown.defined()) shown = cache[Address(name)];
  }
  if (!shown.defined()) {
    throw HookError(where,
                    fmt::format("the cache has no layer's pattern; expected that of a run which keeps {}",
                                crosses ? "act::cross_pattern" : "act::pattern"));
  }
  heads = shown.size(1);
  device = shown.device();
  const auto rows_shown = shown.size(0);
  queries = real_tokens(cache.tokens(stack_), {rows_shown, shown.size(2)});
  keys = crosses ? real_tokens(cache.tokens(Stack::encoder), {rows_shown, shown.size(3)}) : queries;
  if (!options.exclude_bos && !options.exclude_current_token) return;
  auto left_out = at::zeros({rows_shown, shown.size(2), shown.size(3)}, at::kBool);
  if (options.exclude_bos) left_out = left_out.logical_or(first_keys().unsqueeze(1));
  if (options.exclude_current_token) left_out = left_out.logical_or(at::eye(shown.size(2), at::kBool));
  excluded = left_out.logical_and(queries.unsqueeze(2)).logical_and(keys.unsqueeze(1));
}

at::Tensor ScoredPatterns::counted() const {
  const auto real = queries.unsqueeze(2).logical_and(keys.unsqueeze(1));
  return excluded.defined() ? real.logical_and(excluded.logical_not()) : real;
}

at::Tensor ScoredPatterns::first_keys() const { return keys.cumsum(1).eq(1).logical_and(keys); }

at::Tensor ScoredPatterns::tokens(const ActivationCache& cache, const at::Tensor& given) const {
  const auto& columns = cache.tokens(stack_ == Stack::encoder ? Stack::encoder : Stack::none);
  at::Tensor known = columns ? columns->ids : at::Tensor();
  // In an encoder-decoder hook_tokens is what the encoder reads. Its ids are those after edits.
  const bool encodes = cache.n_layers(Stack::encoder) > 0;
  if (const auto name = Address(act::tokens).name();
      (!encodes || stack_ == Stack::encoder) && cache.contains(name)) {
    require_all_positions(cache, name, "scores of heads");
    known = cache[Address(name)];
  }
  if (!given.defined() && !known.defined()) {
    throw ShapeError(
        where_,
        "the tokens are missing; expected what the cached run read, as HeadScoreOptions::tokens, or a "
        "cache that has kept act::tokens");
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
