#include "hooked/engine/run_result.h"

#include <fmt/format.h>

#include "hooked/core/error.h"
#include "hooked/core/shared.h"

namespace hooked {

namespace {

const char* word(Output output) {
  switch (output) {
    case Output::logits:
      return "logits";
    case Output::loss:
      return "loss";
    case Output::residual:
      return "residual";
    case Output::none:
      break;
  }
  return "none";
}

}  // namespace

at::Tensor RunResult::require(Output wanted) const {
  if (kind_ == wanted && !output_.defined()) refuse_moved_from("result");
  if (kind_ == wanted) return output_;
  const std::string made =
      kind_ == Output::none
          ? fmt::format("this run made no {}; expected Output::{} in its options", word(wanted), word(wanted))
          : fmt::format(
                "this run made no {} but its {}; read `{}()`, or ask for "
                "Output::{} and let the run go to its end",
                word(wanted), word(kind_), word(kind_), word(wanted));
  throw HookError(word(wanted), made);
}

RunResult RunResult::to(const c10::Device& device) const {
  RunResult there;
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
    throw HookError("metric", "this run took no gradients; expected RunOptions::gradients with a metric");
  return metric_;
}

}  // namespace hooked
