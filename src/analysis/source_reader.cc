#include "analysis/source_reader.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <utility>

#include "analysis/cache_reading.h"
#include "analysis/row_columns.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/hooks/axis_block.h"
#include "hooked/hooks/site.h"

namespace hooked {

namespace {

/// Values that are no run's, as large as the activation that they stand in for. Throws HookError.
at::Tensor spread(at::Tensor values, const ActivationName& name, const at::Tensor& unpatched) {
  const AxisList& axes = row(name.site).axes;
  const std::string given = shape_text(values.sizes());
  bool fits = values.dim() <= unpatched.dim();
  for (std::int64_t back = 1; fits && back <= values.dim(); ++back) {
    const std::int64_t here = unpatched.size(-back), there = values.size(-back);
    // The patched run does without padding behind its last token.
    const Axis axis = axes[axes.size() - static_cast<std::size_t>(back)];
    if (counts_tokens(axis) && there > here) values = values.narrow(-back, 0, here);
    fits = there == 1 || values.size(-back) == here;
  }
  if (fits) return values.expand_as(unpatched);
  throw HookError(
      name.to_string(),
      fmt::format("the value that is patched in does not fit; expected a shape that broadcasts to "
                  "{}, got {}",
                  shape_text(unpatched.sizes()), given));
}

}  // namespace

SourceReader::SourceReader(const PatchSource& source, const ActivationName& name, at::Tensor unpatched,
                           SweptRow row)
    : name_(name), unpatched_(std::move(unpatched)) {
  for (const PatchSource::Term& term : source.terms_) {
    const bool of_a_run = term.kind->run() != nullptr;
    at::Tensor values = term.kind->values(name, unpatched_, row).to(unpatched_.options());
    values_.push_back({of_a_run ? values : spread(values, name, unpatched_), of_a_run, term.share});
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
      // A run's row may have padding behind the last token, which the patched run does without.
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
  return sum;
}

std::optional<TokenColumns> SourceReader::columns(const PatchSource& source, const TokenAxis& axis,
                                                  SweptRow row) {
  for (const PatchSource::Term& term : source.terms_) {
    const ActivationCache* run = term.kind->run();
    if (run == nullptr) continue;
    require_all_positions(*run, axis.name, "patching");
    const bool of_encoder = counts_source(axis.name, axis.axis);
    const auto& tokens = run->tokens(of_encoder ? Stack::encoder : Stack::none);
    if (!tokens) {
      const std::int64_t dim = *hooked::row(axis.name.site).axes.find(axis.axis);
      return TokenColumns{.first = 0, .end = (*run)[Address(axis.name)].size(dim)};
    }
    TokenColumns own = *tokens;
    if (own.mask.defined()) own.mask = own.mask.narrow(0, term.kind->row_of(row, own.mask.size(0)), 1);
    return own;
  }
  return std::nullopt;
}

at::Tensor SourceReader::of_run(const PatchSource& source, const ActivationName& name, SweptRow row) {
  for (const PatchSource::Term& term : source.terms_) {
    if (term.kind->run() != nullptr) return term.kind->values(name, {}, row);
  }
  return {};
}

}  // namespace hooked
