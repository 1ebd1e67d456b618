#include "models/transformer/layer_input.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/scalar_tensor.h>

#include <cmath>

#include "models/ops/activations.h"
#include "models/ops/ops.h"

namespace hooked {

LayerInputBranch::LayerInputBranch(const GraphContext& context) : activation_(context.config.activation) {
  const ModelConfig& c = context.config;
  const std::int64_t width = c.layer_input->width, d = c.d_model;
  embedding_scale_ = 1.0 / std::sqrt(static_cast<double>(d));
  row_scale_ = at::scalar_tensor(std::sqrt(static_cast<double>(width)), at::TensorOptions(c.dtype));
  W_token_ = add_parameter(*this, "W_token", {c.d_vocab, width}, context);
  W_embed_ = add_matrix(*this, "W_embed", width, d, {.out = width, .in = d}, context);
  W_gate_ = add_matrix(*this, "W_gate", width, d, {.out = width, .in = d}, context);
  W_out_ = add_matrix(*this, "W_out", d, width, {.out = d, .in = width}, context);
  ln_ = add_norm(*this, "ln",
                 {.kind = c.norm,
                  .normalized = Site::layer_input_ln_normalized,
                  .shape = {width},
                  .offset = c.norm_offset},
                 context);
  ln_post_ =
      add_norm(*this, "ln_post",
               stream_norm(c, c.norm, Site::layer_input_ln_post_normalized, /*weighted=*/true), context);
  hook_in_ = add_point(*this, Site::layer_input_in, context);
  hook_pre_ = add_point(*this, Site::layer_input_pre, context);
  hook_post_ = add_point(*this, Site::layer_input_post, context);
}

at::Tensor LayerInputBranch::read(const StackInputs& stack, Run& run) const {
  const at::Tensor mapped =
      ops::linear(stack.asked_of(stack.embedding), W_embed_, {}, run) * embedding_scale_;
  const at::Tensor rows = at::embedding(W_token_, stack.asked_of(stack.tokens)) * row_scale_;
  return hook_in_->forward((ln_->forward(mapped, run) + rows) * std::sqrt(0.5), run.watch);
}

at::Tensor LayerInputBranch::forward(const at::Tensor& stream, const StackInputs& stack, Run& run) const {
  const at::Tensor in = read(stack, run);
  const at::Tensor pre = hook_pre_->forward(ops::linear(stream, W_gate_, {}, run), run.watch);
  const at::Tensor post =
      hook_post_->forward(ops::multiply(ops::activate(activation_, pre, run), in, run), run.watch);
  return ln_post_->forward(ops::linear(post, W_out_, {}, run), run);
}

WeightSlots LayerInputBranch::slots(const std::string& path) const {
  WeightSlots slots{{path + ".W_token", W_token_},
                    {path + ".W_embed", W_embed_.as_in_out()},
                    {path + ".W_gate", W_gate_.as_in_out()},
                    {path + ".W_out", W_out_.as_in_out()}};
  add_slots(slots, ln_, path + ".ln");
  add_slots(slots, ln_post_, path + ".ln_post");
  return slots;
}

}  // namespace hooked
