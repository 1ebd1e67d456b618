#include "hooked/engine/run_result.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/to_device.h"
#include "hooked/core/error.h"
#include "hooked/core/shared.h"
#include "hooked/hooks/site.h"

namespace hooked {

namespace {

const char* word(Output output) {
  constexpr const char* kWords[] = {"logits", "loss", "residual", "none"};
  return kWords[static_cast<std::size_t>(output)];
}

// Whether a real token follows a real one.
bool predicts(const TokenColumns& columns) {
  const std::int64_t predictions = columns.end - columns.first - 1;
  if (!columns.mask.defined() || predictions < 1) return predictions > 0;
  const at::Tensor& real = columns.mask;
  return real.narrow(1, 0, predictions).logical_and(real.narrow(1, 1, predictions)).any().item<bool>();
}

// The dimension of a row's tokens, of those that write: for a pattern, the queries.
std::optional<std::size_t> token_dimension(const SiteRow& site) {
  return site.axes.find(Axis::pos) ? site.axes.find(Axis::pos) : site.axes.find(Axis::query);
}

// The last kept value that is available and has an axis of the tokens of the stack that predicts; null if
// there is none.
const ActivationCache::Entry* last_kept(const ActivationCache& cache) {
  const ActivationCache::Entry* last = nullptr;
  for (const ActivationCache::Entry& entry : cache) {
    const SiteRow& site = row(entry.name.site);
    const bool of_source = entry.name.stack == Stack::encoder || counts_source(entry.name, Axis::pos);
    if (of_source || entry.row_positions.defined() || !token_dimension(site)) continue;
    // Scores are -inf at keys that are not seen.
    if (std::isfinite(site.unseen) && at::isFloatingType(entry.held.scalar_type()) && entry.held.made())
      last = &entry;
  }
  return last;
}

// [batch, pos]: where the logits [batch, pos, token] are not finite. -inf rules a token out, as heads do for
// padding of the vocabulary, and is an error only if it rules out the whole vocabulary.
at::Tensor without_answer(const at::Tensor& logits, bool whole_vocabulary) {
  const at::Tensor ruled_out = logits.isneginf();
  const at::Tensor wrong = logits.isfinite().logical_or(ruled_out).logical_not().any(-1);
  return whole_vocabulary ? wrong.logical_or(ruled_out.all(-1)) : wrong;
}

}  // namespace

at::Tensor RunResult::require(Output wanted) const {
  if (kind_ == wanted && !output_.defined()) refuse_moved_from("result");
  if (kind_ == wanted) return output_;
  const std::string made = kind_ == Output::none
                               ? fmt::format("this run made no {}; expected the output `{}` in its options",
                                             word(wanted), word(wanted))
                               : fmt::format(
                                     "this run made no {} but its {}; read `{}()`, or ask for "
                                     "the output `{}` and let the run go to its end",
                                     word(wanted), word(kind_), word(kind_), word(wanted));
  throw HookError(word(wanted), made);
}

std::string NotFinite::text() const {
  const std::string where = values == "loss"
                                ? std::string("the loss is")
                                : fmt::format("{} at {} of {} positions, first in row {} at position {}, are",
                                              values, positions, looked_at, row, position);
  const char* cure = dtype == at::kHalf
                         ? "float16 ends at 65504: load the model in bfloat16 or float32"
                         : "look at the checkpoint's weights and at what hooks and edits put in";
  return fmt::format("{}{} NaN or infinite, and so is what is computed from them; {}", kNotFinite, where,
                     cure);
}

std::optional<NotFinite> RunResult::not_finite() const {
  NotFinite found{.values = word(kind_), .dtype = model_dtype_};
  bool of_tokens = kind_ == Output::logits;          // whether the numbers are logits
  std::optional<std::vector<std::int64_t>> columns;  // of the numbers; absent: all of the run's
  at::Tensor numbers = output_;
  if (kind_ == Output::none) {
    const ActivationCache::Entry* last = last_kept(cache);
    if (last == nullptr) return std::nullopt;
    found.values = last->name.to_string();
    of_tokens = last->name.site == Site::unembed_out;
    try {
      numbers = last->value().movedim(static_cast<std::int64_t>(*token_dimension(row(last->name.site))), 1);
    } catch (const HookError&) {
      return std::nullopt;  // somebody has written into it; reading it reports that
    }
    if (!last->positions.empty()) columns = last->positions;
  } else if (kind_ == Output::logits) {
    columns = logit_positions_;
  } else if (kind_ == Output::loss && !predicts(columns_)) {
    return std::nullopt;  // a mean over nothing
  }
  // One pass and one number. A sum of finite numbers may be infinite, which the second look tells.
  if (!numbers.defined() || std::isfinite(numbers.sum().item<double>())) return std::nullopt;
  at::Tensor wrong = of_tokens ? without_answer(numbers, !logit_tokens_) : numbers.isfinite().logical_not();
  if (numbers.dim() < 2) return wrong.any().item<bool>() ? std::optional(found) : std::nullopt;
  if (wrong.dim() > 2) wrong = wrong.flatten(2).any(-1);
  at::Tensor real = columns_.mask.defined() ? to_device(columns_.mask, wrong.device()) : at::Tensor();
  if (real.defined() && columns) {
    real =
        real.index_select(1, to_device(at::tensor(*columns, at::kLong).sub(columns_.first), real.device()));
  }
  if (real.defined()) wrong = wrong.logical_and(real.narrow(1, 0, wrong.size(1)));
  found.looked_at = real.defined() ? real.sum().item<std::int64_t>() : wrong.numel();
  found.positions = wrong.sum().item<std::int64_t>();
  if (found.positions == 0) return std::nullopt;
  const auto first = wrong.flatten().to(at::kLong).argmax(0).item<std::int64_t>();
  found.row = first / wrong.size(1);
  found.position = first % wrong.size(1);
  found.position =
      columns ? (*columns)[static_cast<std::size_t>(found.position)] : columns_.first + found.position;
  return found;
}

RunResult RunResult::to(const c10::Device& device) const {
  RunResult there;
  there.columns_ = columns_;
  there.model_dtype_ = model_dtype_;
  there.cache = cache.to(device);
  there.gradients = gradients.to(device);
  there.notes = notes;
  there.kind_ = kind_;
  there.logit_positions_ = logit_positions_;
  there.logit_tokens_ = logit_tokens_;
  if (output_.defined()) there.output_ = output_.to(device);
  if (metric_.defined()) there.metric_ = metric_.to(device);
  return there;
}

const at::Tensor RunResult::metric() const {
  if (!metric_.defined())
    throw HookError("metric",
                    "this run took no gradients; expected `gradients` with a metric among its options");
  return metric_;
}

}  // namespace hooked
