#include "hooked/engine/continuation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <numeric>
#include <vector>

#include "engine/model_memory.h"
#include "engine/run_input.h"
#include "hooked/core/error.h"
#include "hooked/core/tensor_text.h"
#include "hooked/engine/loss.h"

namespace hooked {
namespace {

at::Tensor log_probs_of(const HookedTransformer& model, const Input& given, const at::Tensor& continuation,
                        RunOptions options) {
  Input input = check_input(*model.loaded(), given);
  at::Tensor& tokens = input.feeds_encoder() ? input.decoder.tokens : input.tokens;
  at::Tensor& mask = input.feeds_encoder() ? input.decoder.attention_mask : input.attention_mask;
  if (input.start) {
    throw ShapeError("start_at_layer",
                     "a continuation follows tokens; expected a prompt of tokens, not a residual");
  }
  if (!continuation.defined() || continuation.dim() != 2 || continuation.size(0) != tokens.size(0) ||
      continuation.size(1) == 0) {
    throw ShapeError("continuation",
                     fmt::format("expected [batch, pos] of as many rows as the prompt {} and at least one "
                                 "token, got {}",
                                 shape_text(tokens.sizes()),
                                 continuation.defined() ? shape_text(continuation.sizes()) : "nothing"));
  }
  const at::Tensor next = continuation.to(tokens.device());
  if (mask.defined()) {
    if (!mask.select(1, -1).all().item<bool>()) {
      throw ShapeError("attention_mask",
                       "the continuation would follow padding; expected padding on the left only");
    }
    mask = at::cat({mask, at::ones_like(next, mask.options())}, 1);
  }
  // The logits at the token before each token of the continuation.
  const std::int64_t past = input.first_column();
  std::vector<std::int64_t> before(static_cast<std::size_t>(next.size(1)));
  std::iota(before.begin(), before.end(), past + tokens.size(1) - 1);
  tokens = at::cat({tokens, next}, 1);
  options.logit_positions = before;
  options.logit_tokens.reset();
  options.output = Output::logits;
  return token_log_probs(model.run(input, options).logits(), next);
}

}  // namespace

at::Tensor continuation_log_probs(const HookedTransformer& model, const Input& prompt,
                                  const at::Tensor& continuation, RunOptions options) {
  const Again again = options.hooks.empty() && model.hooks().empty() ? Again::allowed : Again::refused;
  return with_memory(memory_of(*model.loaded(), kRunDoor, again),
                     [&] { return log_probs_of(model, prompt, continuation, options); });
}

}  // namespace hooked
