#include "hooked/engine/continuation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "engine/loss.h"
#include "engine/run_input.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"

namespace hooked {

at::Tensor continuation_log_probs(const HookedTransformer& model, const PromptAndContinuation& tokens,
                                  RunOptions options) {
  const auto& [prompt, continuation] = tokens;
  if (!prompt.defined() || !continuation.defined() || prompt.dim() != 2 || continuation.dim() != 2 ||
      prompt.size(0) != continuation.size(0) || continuation.size(1) == 0) {
    const auto shape = [](const at::Tensor& x) { return x.defined() ? shape_text(x.sizes()) : "nothing"; };
    throw ShapeError(
        "continuation",
        fmt::format("expected a prompt [batch, pos] and a continuation [batch, pos] of as many rows "
                    "and at least one token, got {} and {}",
                    shape(prompt), shape(continuation)));
  }
  if (options.attention_mask.defined()) {
    if (options.attention_mask.sizes() != prompt.sizes()) {
      throw ShapeError("attention_mask",
                       fmt::format("the mask does not fit the prompt; expected {}, got {}",
                                   shape_text(prompt.sizes()), shape_text(options.attention_mask.sizes())));
    }
    const at::Tensor real = options.attention_mask.to(at::kBool);
    if (!real.select(1, -1).all().item<bool>()) {
      throw ShapeError("attention_mask",
                       "the continuation would follow padding; expected padding on the left only");
    }
    options.attention_mask = at::cat({real, at::ones_like(continuation, real.options())}, 1);
  }
  // The logits at each token before one of the continuation.
  const std::int64_t past = columns_before(options.prefix);
  std::vector<std::int64_t> before(static_cast<std::size_t>(continuation.size(1)));
  std::iota(before.begin(), before.end(), past + prompt.size(1) - 1);
  options.logit_positions = before;
  options.output = Output::logits;
  const at::Tensor logits = model.run(at::cat({prompt, continuation}, 1), options).logits;
  return token_log_probs(logits, continuation.to(logits.device()));
}

}  // namespace hooked
