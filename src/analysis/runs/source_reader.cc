#include "analysis/runs/source_reader.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <c10/util/hash.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "analysis/places/cache_reading.h"
#include "analysis/places/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/act.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/site.h"
#include "hooks/held_columns.h"

namespace hooked {

namespace {

/// Values that do not come from a run, as large as the activation that they replace. Throws HookError.
at::Tensor spread(at::Tensor values, const ActivationName& name, const at::Tensor& unpatched, SweptRow row) {
  const AxisList& axes = hooked::row(name.site).axes;
  const std::string given = shape_text(values.sizes());
  bool fits = values.dim() <= unpatched.dim();
  for (std::int64_t back = 1; fits && back <= values.dim(); ++back) {
    const std::int64_t here = unpatched.size(-back), there = values.size(-back);
    const Axis axis = axes[axes.size() - static_cast<std::size_t>(back)];
    if (counts_tokens(axis) && there == here + row.without) values = values.narrow(-back, 0, here);
    fits = there == 1 || values.size(-back) == here;
  }
  if (fits) return values.expand_as(unpatched);
  throw HookError(
      name.to_string(),
      fmt::format("the value that is patched in does not fit; expected a shape that broadcasts to "
                  "{}, got {}",
                  shape_text(unpatched.sizes()), given));
}

void require_row(const ActivationName& name, SweptRow row, std::int64_t rows, std::int64_t own) {
  if (own < rows) return;
  throw HookError(name.to_string(),
                  fmt::format("`from` does not fit `into`; expected a run of 1 row or of {}, got {} (one row "
                              "of a batch is cache.row(i))",
                              row.of, rows));
}

bool same_row(const SourceReader::RowOfRun& one, const SourceReader::RowOfRun& other) {
  if (one.columns.first != other.columns.first || one.columns.end != other.columns.end) return false;
  for (std::int64_t column = one.columns.first; column < one.columns.end; ++column) {
    if (one.columns.is_padding(one.row, column) != other.columns.is_padding(other.row, column)) return false;
  }
  return true;
}

}  // namespace

std::optional<ActivationName> scores_behind(const ActivationName& name) {
  ActivationName scores = name;
  if (name.site == Site::pattern) {
    scores.site = Site::attn_scores;
  } else if (name.site == Site::cross_pattern) {
    scores.site = Site::cross_attn_scores;
  } else {
    return std::nullopt;
  }
  return scores;
}

SourceReader::SourceReader(const PatchSource& source, const ActivationName& name, at::Tensor unpatched,
                           SweptRow row, at::Tensor masked)
    : name_(name), unpatched_(std::move(unpatched)), masked_(std::move(masked)) {
  // Keys that may not be attended to, including padding, have no score, whatever is put in.
  const double unseen = hooked::row(name.site).unseen;
  if (std::isinf(unseen)) masked_ = unpatched_.eq(unseen);
  for (const PatchSource::Term& term : source.terms()) {
    const bool of_a_run = term.kind->run() != nullptr;
    at::Tensor values = term.kind->values(name, unpatched_, row);
    if (!values.defined()) {
      values_.clear();
      return;
    }
    values = values.to(unpatched_.options());
    values_.push_back({of_a_run ? values : spread(values, name, unpatched_, row), of_a_run, term.share});
  }
}

at::Tensor SourceReader::block(const PatchedPlace& place) const {
  const std::string where = name_.to_string();
  const AxisContext context{name_.site, where, {}};
  const at::Tensor target = take_block(unpatched_, place.into, context);
  at::Tensor sum;
  for (const Values& values : values_) {
    AxisIndices places = values.of_a_run ? place.from : place.into;
    if (values.of_a_run) {
      // A run's row may have padding after the last token, which the patched run omits.
      const AxisList& axes = row(name_.site).axes;
      for (std::size_t dim = 1; dim < axes.size(); ++dim) {
        const std::int64_t here = unpatched_.size(static_cast<std::int64_t>(dim));
        const bool of_tokens = counts_tokens(axes[dim]);
        if (!of_tokens || values.tensor.size(static_cast<std::int64_t>(dim)) <= here) continue;
        if (places.find(axes[dim]) == nullptr) places.add(axes[dim], AxisIndex::Range{0, here});
      }
    }
    const at::Tensor block = take_block(values.tensor, places, context);
    if (block.sizes() != target.sizes()) {
      throw HookError(where,
                      fmt::format("`from` does not fit `into`; expected shape {}, got {}; both need the same "
                                  "number of tokens, or places of their own on the axes of positions",
                                  shape_text(unpatched_.sizes()), shape_text(values.tensor.sizes())));
    }
    const at::Tensor share = values.share == 1 ? block : block * values.share;
    sum = sum.defined() ? sum + share : share;
  }
  return masked_.defined() ? at::where(take_block(masked_, place.into, context), target, sum) : sum;
}

at::Tensor SourceReader::not_zero() const {
  at::Tensor all;
  for (const Values& values : values_) {
    const at::Tensor own = values.tensor.ne(0).flatten(0, -2).any(0);
    all = all.defined() ? all.logical_or(own) : own;
  }
  return all;
}

std::vector<const ActivationCache*> SourceReader::caches(const PatchSource& source) {
  std::vector<const ActivationCache*> caches;
  for (const PatchSource::Term& term : source.terms()) {
    if (term.kind->data() != nullptr) caches.push_back(term.kind->data());
  }
  return caches;
}

void require_source(const PatchSource& source, const HookedTransformer& model) {
  for (const ActivationCache* cache : SourceReader::caches(source)) require_cache_of(model, *cache, "from");
}

std::string titled(std::string_view what, const PatchSource& source) {
  return fmt::format("{} with {}", what, source.description());
}

std::optional<SourceReader::RowOfRun> SourceReader::columns(const PatchSource& source, const TokenAxis& axis,
                                                            SweptRow row) {
  std::optional<RowOfRun> found;
  for (const PatchSource::Term& term : source.terms()) {
    const ActivationCache* run = term.kind->run();
    if (run == nullptr) continue;
    require_all_positions(*run, axis.name, "patching");
    const at::Tensor value = (*run)[Address(axis.name)];
    const std::int64_t rows = value.size(0), dim = *hooked::row(axis.name.site).axes.find(axis.axis);
    const auto& tokens = tokens_along(*run, axis.name, axis.axis);
    RowOfRun own{.columns = tokens.value_or(TokenColumns{.first = 0, .end = value.size(dim)}),
                 .rows = rows,
                 .row = term.kind->row_of(row, rows)};
    require_row(axis.name, row, rows, own.row);
    if (found && !same_row(*found, own)) {
      throw HookError(axis.name.to_string(),
                      "the runs of a mixture have their tokens in different columns; expected the same ones");
    }
    if (!found) found = std::move(own);
  }
  return found;
}

std::string SourceReader::record(const PatchSource& source, const std::vector<ActivationName>& names) {
  std::string terms;
  for (const PatchSource::Term& term : source.terms())
    terms += fmt::format("{} {};", term.share, term.kind->fingerprint(names));
  return fmt::format("{} (SHA-1 {})", source.description(), c10::sha1(terms).str());
}

std::optional<std::vector<RoutedToken>> SourceReader::routed(const PatchSource& source,
                                                             const ActivationName& expert, SweptRow row) {
  std::optional<std::vector<RoutedToken>> found;
  const ActivationName chosen = act::expert_indices.in(expert.stack, expert.layer).name();
  for (const PatchSource::Term& term : source.terms()) {
    if (term.kind->run() == nullptr) continue;
    if (found) {
      throw HookError(expert.to_string(),
                      "runs send other tokens to an expert; expected a mixture of one run and of values");
    }
    const auto own = columns(PatchSource(term.kind, {}), {chosen, Axis::pos}, row);
    found = tokens_of_expert((*term.kind->run())[Address(chosen)], own->columns, own->row, expert.expert);
  }
  return found;
}

std::vector<RoutedToken> tokens_of_expert(const at::Tensor& indices, const TokenColumns& columns,
                                          std::int64_t row, std::int32_t expert) {
  const at::Tensor ids = indices.to(at::kCPU, at::kLong).contiguous();  // [row, pos, rank]
  const auto id = ids.accessor<std::int64_t, 3>();
  at::Tensor real;
  if (columns.mask.defined()) real = columns.mask.to(at::kCPU);
  std::vector<RoutedToken> tokens;
  std::int64_t number = 0;
  for (std::int64_t rank = 0; rank < ids.size(2); ++rank) {
    for (std::int64_t r = 0; r < ids.size(0); ++r) {
      for (std::int64_t pos = 0; pos < ids.size(1); ++pos) {
        if (id[r][pos][rank] != expert || (real.defined() && !real[r][pos].item<bool>())) continue;
        if (r == row) tokens.push_back({columns.first + pos, number});
        ++number;
      }
    }
  }
  return tokens;
}

at::Tensor whole_values(const PatchSource& source, const ActivationName& name, const at::Tensor& unpatched,
                        const std::vector<SweptRow>& rows) {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const at::Tensor own = unpatched.narrow(0, static_cast<std::int64_t>(i), 1);
    const SourceReader reader(source, name, own, rows[i]);
    all.push_back(reader.has_values() ? reader.block({}) : own);
  }
  return at::cat(all);
}

}  // namespace hooked
